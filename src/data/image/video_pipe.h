/* Frames of a video or a camera, from the program ffmpeg in a child process. */
#ifndef CR_DATA_VIDEO_PIPE_H
#define CR_DATA_VIDEO_PIPE_H

#include "core/child.h"
#include "data/image/image.h"

/* Zero-initialise. */
typedef struct cr_video_pipe {
  char *program; /* the path of ffmpeg */
  char *input;   /* its argument after -i */
  bool camera;
  bool once; /* no frame follows the last; set it after cr_video_pipe_open */
  cr_child child;
  bool running;
  bool any;        /* this process has delivered a frame */
  bool before_5_1; /* ffmpeg's version */
  uint64_t ahead;  /* frames read from the stream */
} cr_video_pipe;

/* Finds ffmpeg: the file in the environment variable CREMA_FFMPEG, or else on the PATH. `file`: the
 * video; NULL: camera number `device`. Starts no process. Free with cr_video_pipe_close, also after
 * a failure. Errors: CREMA_E_NOT_FOUND (ffmpeg or the video). */
crema_status cr_video_pipe_open(const char *file, int device, cr_video_pipe *out) CREMA_MUST_USE;
/* Ends the process and frees the memory. */
void cr_video_pipe_close(cr_video_pipe *pipe);

/* The video's file or the camera's device. Lives as long as the pipe. */
const char *cr_video_pipe_name(const cr_video_pipe *pipe);

/* Ends the process; the next frame is the first. */
void cr_video_pipe_stop(cr_video_pipe *pipe);

/* Reads frame `number` of the stream into `out`, blue, green, red, and skips earlier frames. Each
 * frame of the video counts once, for any display time. The first frame follows the last, unless
 * `once` is set. Numbers must not fall without cr_video_pipe_stop. One thread uses a pipe; the
 * process ends with it. Errors: CREMA_E_IO (no process, or no frame), CREMA_E_CORRUPT (no frames in
 * the stream), errors of cr_image_reserve. */
crema_status cr_video_pipe_read(cr_video_pipe *pipe, uint64_t number, cr_image *out) CREMA_MUST_USE;

#endif
