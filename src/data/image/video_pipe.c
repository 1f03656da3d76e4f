#define _GNU_SOURCE /* secure_getenv */
#include "data/image/video_pipe.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/system.h"

/* Makes ffmpeg take any name as a file name. */
#define FILE_PREFIX "file:"

/* A camera may be slow with its first frame. */
static const cr_child_limits limits = {.seconds = INT_MAX, .patience = 30};

/* The first folder of the PATH that has the program. */
static crema_status find_on_path(const char *name, char **out) {
  const char *at = secure_getenv("PATH");
  cr_buffer path = {0};
  crema_status status = CREMA_OK;
  while (at != NULL && *out == NULL && status == CREMA_OK) {
    const size_t size = strcspn(at, ":");
    cr_buffer_clear(&path);
    status = cr_buffer_print(&path, "%.*s/%s", (int)size, at, name);
    if (status == CREMA_OK && size > 0 && access(path.data, X_OK) == 0)
      *out = cr_buffer_take(&path);
    at = at[size] == ':' ? at + size + 1 : NULL;
  }
  cr_buffer_free(&path);
  CR_TRY(status);
  if (*out != NULL) return CREMA_OK;
  return cr_fail(
      CREMA_E_NOT_FOUND,
      "frames are read through the program ffmpeg, which is not on the PATH; install it, "
      "or name its file in CREMA_FFMPEG");
}

static crema_status find_program(char **out) {
  const char *named = secure_getenv("CREMA_FFMPEG");
  if (named == NULL || named[0] == '\0') return find_on_path("ffmpeg", out);
  if (access(named, X_OK) != 0) {
    return cr_fail(CREMA_E_NOT_FOUND, "CREMA_FFMPEG: %s: %s", named, strerror(errno));
  }
  *out = strdup(named);
  return *out != NULL ? CREMA_OK : cr_fail_memory(strlen(named) + 1, "a path");
}

crema_status cr_video_pipe_open(const char *file, int device, cr_video_pipe *out) {
  cr_buffer input = {0};
  if (file != NULL && !cr_file_exists(file)) {
    return cr_fail(CREMA_E_NOT_FOUND, "%s: there is no such video", file);
  }
  CR_TRY(find_program(&out->program));
  out->camera = file == NULL;
  CR_TRY(file != NULL ? cr_buffer_print(&input, FILE_PREFIX "%s", file)
                      : cr_buffer_print(&input, "/dev/video%d", device));
  out->input = cr_buffer_take(&input);
  return CREMA_OK;
}

const char *cr_video_pipe_name(const cr_video_pipe *pipe) {
  return pipe->camera ? pipe->input : pipe->input + strlen(FILE_PREFIX);
}

void cr_video_pipe_stop(cr_video_pipe *pipe) {
  if (pipe->running) (void)cr_child_end(&pipe->child);
  pipe->running = false;
  pipe->ahead = 0;
}

void cr_video_pipe_close(cr_video_pipe *pipe) {
  cr_video_pipe_stop(pipe);
  free(pipe->input);
  free(pipe->program);
  *pipe = (cr_video_pipe){0};
}

/* In the child: ffmpeg writes frames as PPM, each with its size, to the socket. The options keep it
 * from repeating and dropping frames for a constant rate, and from writing 16-bit channels. */
static void run_ffmpeg(int fd, void *user) {
  const cr_video_pipe *pipe = user;
  const char *const keep_frames = pipe->before_5_1 ? "-vsync" : "-fps_mode";
  const char *file[] = {"ffmpeg",    "-nostdin",    "-loglevel", "quiet", "-i", pipe->input,
                        keep_frames, "passthrough", "-pix_fmt",  "rgb24", "-f", "image2pipe",
                        "-c:v",      "ppm",         "-",         NULL};
  const char *camera[] = {"ffmpeg", "-nostdin",   "-loglevel", "quiet",       "-f",       "v4l2",
                          "-i",     pipe->input,  keep_frames, "passthrough", "-pix_fmt", "rgb24",
                          "-f",     "image2pipe", "-c:v",      "ppm",         "-",        NULL};
  if (dup2(fd, STDOUT_FILENO) < 0) return;
  (void)execv(pipe->program, (char *const *)(pipe->camera ? camera : file));
}

/* Reads a number and the following blank of a frame's header; false: there is none. */
static bool read_number(cr_video_pipe *pipe, int *out) {
  char c = '\0';
  int digits = 0;
  for (*out = 0; cr_child_receive(&pipe->child, &c, 1) && c >= '0' && c <= '9'; ++digits) {
    if (*out > CR_IMAGE_MAX_SIDE) return false;
    *out = 10 * *out + (c - '0');
  }
  return digits > 0 && (c == ' ' || c == '\n');
}

/* Reads the next frame in the order red, green, blue. *end: there is none. */
static crema_status receive(cr_video_pipe *pipe, cr_image *out, bool *end) {
  char magic[3];
  int width = 0, height = 0, most = 0;
  *end = !cr_child_receive(&pipe->child, magic, sizeof magic);
  if (*end) return CREMA_OK;
  if (memcmp(magic, "P6\n", 3) != 0 || !read_number(pipe, &width) || !read_number(pipe, &height) ||
      !read_number(pipe, &most) || width < 1 || height < 1 || most != 255) {
    return cr_fail(CREMA_E_CORRUPT, "%s gave something other than frames", pipe->program);
  }
  CR_TRY(cr_image_reserve(out, height, width, 3));
  const size_t bytes = (size_t)height * (size_t)width * 3;
  if (!cr_child_receive(&pipe->child, out->pixels, bytes)) {
    return cr_fail(CREMA_E_CORRUPT, "%s ended within a frame", pipe->program);
  }
  pipe->any = true;
  return CREMA_OK;
}

static crema_status receive_first(cr_video_pipe *pipe, cr_image *out, bool *end) {
  if (pipe->running) (void)cr_child_end(&pipe->child);
  pipe->running = false;
  if (!cr_child_start(&pipe->child, run_ffmpeg, pipe, limits)) {
    return cr_fail(CREMA_E_IO, "cannot start %s: %s", pipe->program, strerror(errno));
  }
  pipe->running = true;
  pipe->any = false;
  return receive(pipe, out, end);
}

/* Reads the next frame; after the last frame of a video, the first. An ffmpeg without output may be
 * too old for -fps_mode, which replaces -vsync. */
static crema_status receive_next(cr_video_pipe *pipe, cr_image *out) {
  bool end = false;
  if (pipe->running) CR_TRY(receive(pipe, out, &end));
  else CR_TRY(receive_first(pipe, out, &end));
  if (end && pipe->any && !pipe->camera && !pipe->once) CR_TRY(receive_first(pipe, out, &end));
  if (end && !pipe->any && !pipe->before_5_1) {
    pipe->before_5_1 = true;
    crema_status status = receive_first(pipe, out, &end);
    pipe->before_5_1 = status == CREMA_OK && !end;
    CR_TRY(status);
  }
  if (!end) return CREMA_OK;
  return cr_fail(CREMA_E_IO, "%s gave no %sframe", pipe->program, pipe->any ? "further " : "");
}

crema_status cr_video_pipe_read(cr_video_pipe *pipe, uint64_t number, cr_image *out) {
  do {
    CR_TRY(cr_fail_in(receive_next(pipe, out), "%s", cr_video_pipe_name(pipe)));
  } while (pipe->ahead++ < number);
  const size_t pixels = (size_t)out->height * (size_t)out->width;
  for (size_t i = 0; i < pixels; ++i) {
    const uint8_t red = out->pixels[3 * i];
    out->pixels[3 * i] = out->pixels[3 * i + 2];
    out->pixels[3 * i + 2] = red;
  }
  return CREMA_OK;
}
