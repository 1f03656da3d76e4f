/* Frames of a video or a camera, read from a pipe of the program ffmpeg, which runs as a child
 * process. */
#ifndef CR_DATA_VIDEO_PIPE_H
#define CR_DATA_VIDEO_PIPE_H

#include "core/child.h"
#include "data/image/image.h"

/* Zero-initialise. */
typedef struct cr_video_pipe {
  char *program; /* the path of ffmpeg */
  char *input;   /* its argument after -i */
  bool camera;
  cr_child child;
  bool running;
  bool any;        /* a frame has come since the start */
  bool before_5_1; /* ffmpeg's version */
  uint64_t ahead;  /* frames that were read since the beginning of the stream */
} cr_video_pipe;

/* Looks for ffmpeg: the file that the environment's CREMA_FFMPEG names, or else on the PATH. `file`
 * is the video; NULL: camera number `device`. No process is started yet. Free with
 * cr_video_pipe_close, also after a failure. Errors: CREMA_E_NOT_FOUND (ffmpeg or the video). */
crema_status cr_video_pipe_open(const char *file, int device, cr_video_pipe *out) CREMA_MUST_USE;
/* Ends the process and frees the memory. */
void cr_video_pipe_close(cr_video_pipe *pipe);

/* The video's file or the camera's device. Lives as long as the pipe. */
const char *cr_video_pipe_name(const cr_video_pipe *pipe);

/* Ends the process; the next frame that is read is the first again. */
void cr_video_pipe_stop(cr_video_pipe *pipe);

/* Reads frame `number` of the stream into `out`, blue, green, red; those before it are left out.
 * Frames are those that the video holds, however long each is shown. A video begins anew behind its
 * last frame. Numbers must not fall without cr_video_pipe_stop. Used
 * by one thread at a time, which the process ends with. Errors: CREMA_E_IO (no process, or no
 * frame), CREMA_E_CORRUPT (something other than frames), those of cr_image_reserve. */
crema_status cr_video_pipe_read(cr_video_pipe *pipe, uint64_t number, cr_image *out) CREMA_MUST_USE;

#endif
