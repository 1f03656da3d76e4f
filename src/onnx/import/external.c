/* Numbers in files next to the model. */
#include "onnx/import/external.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/fail.h"
#include "core/io.h"

static crema_status fail_place(const cr_import *import, const Onnx__TensorProto *tensor,
                               const char *location, const char *what) {
  return cr_fail(CREMA_E_CORRUPT, "%s: tensor '%s' is in the file '%.200s', %s",
                 import->model->path, tensor->name == NULL ? "" : tensor->name, location, what);
}

/* The entry of the tensor's external data; NULL: none. */
static const char *entry(const Onnx__TensorProto *tensor, const char *key) {
  for (size_t i = 0; i < tensor->n_external_data; ++i) {
    const Onnx__StringStringEntryProto *pair = tensor->external_data[i];
    if (pair->key != NULL && pair->value != NULL && strcmp(pair->key, key) == 0) {
      return pair->value;
    }
  }
  return NULL;
}

static bool read_size(const char *text, uint64_t *out) {
  char *end = NULL;
  if (text == NULL) return true;
  if (text[0] < '0' || text[0] > '9') return false;
  errno = 0;
  *out = strtoull(text, &end, 10);
  return errno == 0 && *end == '\0' && *out <= INT64_MAX;
}

/* Opens the folder of the model. */
static int open_folder(const char *model) {
  const char *slash = strrchr(model, '/');
  if (slash == NULL) return cr_io_open(".", O_RDONLY | O_DIRECTORY, 0);
  char *folder = strndup(model, (size_t)(slash - model) + 1);
  if (folder == NULL) return -1;
  const int fd = cr_io_open(folder, O_RDONLY | O_DIRECTORY, 0);
  free(folder);
  return fd;
}

/* Opens a path below a folder, and closes the folder. No part of the path may be a link or lead
 * upwards. -1: no such file. */
static int open_below(int folder, const char *location) {
  char *path = strdup(location), *part = path;
  while (path != NULL && folder >= 0) {
    char *slash = strchr(part, '/');
    if (slash != NULL) *slash = '\0';
    const bool valid = part[0] != '\0' && strcmp(part, "..") != 0;
    const int flags = O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
    const int next =
        valid ? cr_io_open_at(folder, part, flags | (slash != NULL ? O_DIRECTORY : 0), 0) : -1;
    (void)cr_io_close(folder);
    folder = next;
    if (slash == NULL) break;
    part = slash + 1;
  }
  free(path);
  return folder;
}

static crema_status read_part(const cr_import *import, const Onnx__TensorProto *tensor, int fd,
                              void *out, size_t size) {
  const char *location = entry(tensor, "location");
  uint64_t offset = 0, length = size;
  struct stat info;
  if (!read_size(entry(tensor, "offset"), &offset) ||
      !read_size(entry(tensor, "length"), &length)) {
    return fail_place(import, tensor, location, "and its offset or length is no number");
  }
  if (length != size) {
    return fail_place(import, tensor, location, "and its length does not fit its shape");
  }
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return fail_place(import, tensor, location, "which is no regular file");
  }
  if ((uint64_t)info.st_size < offset || (uint64_t)info.st_size - offset < length ||
      cr_io_read_at(fd, out, size, (off_t)offset) != (ssize_t)size) {
    return fail_place(import, tensor, location, "which is too short");
  }
  return CREMA_OK;
}

/* Checks the size of the file before memory of that size is allocated. */
static crema_status read_file(cr_import *import, const Onnx__TensorProto *tensor, int fd,
                              size_t size, void **out) {
  struct stat info;
  if (fstat(fd, &info) == 0 && (uint64_t)info.st_size < size) {
    return fail_place(import, tensor, entry(tensor, "location"), "which is too short");
  }
  CR_TRY(cr_arena_alloc(&import->arena, size, out));
  return read_part(import, tensor, fd, *out, size);
}

crema_status cr_import_read_external(cr_import *import, const Onnx__TensorProto *tensor,
                                     size_t size, void **out) {
  const char *location = entry(tensor, "location");
  if (location == NULL || location[0] == '\0') {
    return fail_place(import, tensor, "", "whose name is missing");
  }
  const int fd = open_below(open_folder(import->model->path), location);
  if (fd < 0) {
    return fail_place(import, tensor, location,
                      "which is no file in the folder of the model; links and '..' are not "
                      "followed");
  }
  crema_status status = read_file(import, tensor, fd, size, out);
  (void)cr_io_close(fd);
  return status;
}
