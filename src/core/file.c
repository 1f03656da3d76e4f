#define _GNU_SOURCE /* secure_getenv */

#include "core/file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/io.h"
#include "core/log.h"
#include "core/mem_available.h"
#include "core/system.h"

crema_status cr_file_limit(uint64_t usual, uint64_t *out) {
  static const char units[] = "KMGT";
  const char *text = secure_getenv("CREMA_MAX_FILE");
  *out = usual;
  if (text == NULL || text[0] == '\0') return CREMA_OK;
  char *end = NULL;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  const char *unit = *end == '\0' ? NULL : strchr(units, toupper((unsigned char)*end));
  int shift = unit == NULL ? 0 : 10 * (int)(unit - units + 1);
  bool good = isdigit((unsigned char)text[0]) && errno == 0 && value > 0 &&
              (*end == '\0' || (unit != NULL && end[1] == '\0'));
  if (!good) {
    return cr_fail(CREMA_E_ARGUMENT, "CREMA_MAX_FILE=\"%s\": expected a size such as 500M or 4G",
                   text);
  }
  *out = value > UINT64_MAX >> shift ? UINT64_MAX : (uint64_t)value << shift;
  return CREMA_OK;
}

crema_status cr_file_fail_size(const char *path, uint64_t bytes, bool more, uint64_t limit) {
  return cr_fail(CREMA_E_RANGE,
                 "%s: %" PRIu64 " bytes%s; at most %" PRIu64
                 " are read of such a file (the environment's CREMA_MAX_FILE sets another limit)",
                 path, bytes, more ? " and more" : "", limit);
}

/* Small files are read without asking how much memory is free. */
static crema_status check_memory(const char *path, uint64_t bytes) {
  enum { LITTLE = 1 << 28 };
  if (bytes <= LITTLE) return CREMA_OK;
  uint64_t left = cr_mem_available();
  if (bytes <= left) return CREMA_OK;
  return cr_fail(CREMA_E_NO_MEMORY,
                 "%s: cannot be read: %" PRIu64 " bytes are needed, %" PRIu64 " are free", path,
                 bytes, left);
}

typedef struct open_file {
  const char *path;
  int fd;
  uint64_t limit;
  struct stat info;
  bool warned; /* that it takes long */
} open_file;

/* Waits until data can be read or the writer has closed. Only pipes, terminals and other devices
 * make a reader wait. */
static crema_status wait_for(open_file *file) {
  enum { PATIENCE_MS = 1000 };
  struct pollfd one = {.fd = file->fd, .events = POLLIN};
  for (;;) {
    int ready = poll(&one, 1, file->warned ? -1 : PATIENCE_MS);
    if (ready > 0) return CREMA_OK;
    if (ready < 0 && errno != EINTR) return cr_fail_errno(errno, "%s: cannot read", file->path);
    if (ready < 0) continue;
    const char *kind = S_ISFIFO(file->info.st_mode) ? "pipe" : "device";
    cr_log_warning("Waiting for data from %s, which is a %s", file->path,
                   isatty(file->fd) == 1 ? "terminal" : kind);
    file->warned = true;
  }
}

static crema_status read_all(open_file *file, cr_buffer *out) {
  enum { LEAST = 1 << 16 };
  const size_t begin = out->size;
  const bool regular = S_ISREG(file->info.st_mode);
  const uint64_t size = regular ? (uint64_t)file->info.st_size : 0;
  if (size > file->limit) return cr_file_fail_size(file->path, size, false, file->limit);
  if (size > 0) {
    CR_TRY(check_memory(file->path, size));
    /* With one byte more the first read also finds the end. */
    CR_TRY(cr_fail_in(cr_buffer_reserve(out, begin + (size_t)size + 1), "%s", file->path));
  }
  for (;;) {
    if (out->size == out->capacity) {
      const size_t more = out->size / 2 < LEAST ? LEAST : out->size / 2;
      CR_TRY(check_memory(file->path, more));
      CR_TRY(cr_fail_in(cr_buffer_reserve(out, out->size + more), "%s", file->path));
    }
    if (!regular) CR_TRY(wait_for(file));
    ssize_t got = cr_io_read(file->fd, out->data + out->size, out->capacity - out->size);
    if (got < 0 && errno == EAGAIN) {
      CR_TRY(wait_for(file));
      continue;
    }
    if (got < 0) return cr_fail_errno(errno, "%s: cannot read", file->path);
    if (got == 0) break;
    out->size += (size_t)got;
    if (out->size - begin > file->limit) {
      return cr_file_fail_size(file->path, out->size - begin, true, file->limit);
    }
  }
  out->data[out->size] = '\0';
  return CREMA_OK;
}

crema_status cr_file_read_up_to(const char *path, uint64_t usual, cr_buffer *out) {
  open_file file = {.path = path};
  uint64_t chosen = 0;
  CR_TRY(cr_file_limit(0, &chosen));
  /* Opening does not wait for a pipe's writer; wait_for does, with a warning. */
  file.fd = cr_io_open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
  if (file.fd < 0 && errno == ENOENT) {
    return cr_fail(CREMA_E_NOT_FOUND, "%s: no such file or directory", path);
  }
  if (file.fd < 0) return cr_fail_errno(errno, "%s: cannot open", path);
  crema_status status = CREMA_OK;
  if (fstat(file.fd, &file.info) != 0) {
    status = cr_fail_errno(errno, "%s: cannot read", path);
    goto out;
  }
  file.limit = S_ISCHR(file.info.st_mode) && usual > CR_FILE_DEVICE ? CR_FILE_DEVICE : usual;
  if (chosen != 0) file.limit = chosen;
  status = read_all(&file, out);
out:
  cr_io_close(file.fd);
  return status;
}

crema_status cr_file_read(const char *path, cr_buffer *out) {
  return cr_file_read_up_to(path, CR_FILE_USUAL, out);
}

bool cr_file_exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}

bool cr_file_is_in(const char *folder, const char *name, struct stat *info) {
  int fd = cr_io_open(folder, O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0) return false;
  bool found = fstatat(fd, name, info, 0) == 0 && S_ISREG(info->st_mode);
  cr_io_close(fd);
  return found;
}

crema_status cr_file_resolve(const char *base_file, const char *path, char **out) {
  const char *slash = base_file == NULL ? NULL : strrchr(base_file, '/');
  cr_buffer text = {0};
  if (path[0] == '/' || slash == NULL || cr_file_exists(path)) {
    CR_TRY(cr_buffer_append(&text, path, strlen(path)));
  } else {
    CR_TRY(cr_buffer_print(&text, "%.*s%s", (int)(slash + 1 - base_file), base_file, path));
    if (!cr_file_exists(text.data)) {
      cr_buffer_clear(&text);
      CR_TRY(cr_buffer_append(&text, path, strlen(path)));
    }
  }
  *out = cr_buffer_take(&text);
  return CREMA_OK;
}

/* Warns if a folder above `base_file` has `path`: Caffe's own files name each other relative to
 * Caffe's top folder. */
static void look_above(const char *base_file, const char *path) {
  char folder[PATH_MAX];
  cr_buffer text = {0};
  if (path[0] == '/' || realpath(base_file, folder) == NULL) return;
  for (char *slash = strrchr(folder, '/'); slash != NULL && slash != folder;
       slash = strrchr(folder, '/')) {
    *slash = '\0';
    cr_buffer_clear(&text);
    if (cr_buffer_print(&text, "%s/%s", folder, path) != CREMA_OK) break;
    if (!cr_file_exists(text.data)) continue;
    cr_log_warning("%s is not found from the working directory, but it would be from %s", path,
                   folder);
    break;
  }
  cr_buffer_free(&text);
}

crema_status cr_file_resolve_input(const char *base_file, const char *path, char **out) {
  CR_TRY(cr_file_resolve(base_file, path, out));
  if (base_file != NULL && !cr_file_exists(*out)) look_above(base_file, path);
  return CREMA_OK;
}
