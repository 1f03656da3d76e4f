#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fail.h"

static crema_status fail_open(const char *path, int err) {
  if (err == ENOENT) return cr_fail(CREMA_E_NOT_FOUND, "%s: no such file or directory", path);
  return cr_fail_errno(err, "%s: cannot open", path);
}

static crema_status read_all(int fd, const char *path, cr_buffer *out) {
  enum { CHUNK = 1 << 20 };
  for (;;) {
    CR_TRY(cr_buffer_reserve(out, out->size + CHUNK));
    ssize_t got = read(fd, out->data + out->size, out->capacity - out->size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cr_fail_errno(errno, "%s: cannot read", path);
    if (got == 0) break;
    out->size += (size_t)got;
  }
  out->data[out->size] = '\0';
  return CREMA_OK;
}

crema_status cr_file_read(const char *path, cr_buffer *out) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail_open(path, errno);
  struct stat info;
  crema_status status = CREMA_OK;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
    status = cr_buffer_reserve(out, out->size + (size_t)info.st_size + 1);
  }
  if (status == CREMA_OK) status = read_all(fd, path, out);
  close(fd);
  return status;
}

static crema_status write_all(int fd, const char *path, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t put = write(fd, bytes, size);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return cr_fail_errno(errno, "%s: cannot write", path);
    bytes += put;
    size -= (size_t)put;
  }
  return CREMA_OK;
}

static crema_status flush_path(const char *path, int flags) {
  int fd = open(path, flags | O_CLOEXEC);
  if (fd < 0) return fail_open(path, errno);
  int failed = fsync(fd) != 0 ? errno : 0;
  close(fd);
  /* Some file systems cannot flush a directory and say EINVAL. */
  if (failed != 0 && failed != EINVAL) return cr_fail_errno(failed, "%s: cannot flush", path);
  return CREMA_OK;
}

static crema_status flush_directory_of(const char *path) {
  char *dir = strdup(path);
  if (dir == NULL) return cr_fail_memory(strlen(path) + 1, "a path");
  char *slash = strrchr(dir, '/');
  if (slash == dir) slash[1] = '\0';
  else if (slash != NULL) *slash = '\0';
  crema_status status = flush_path(slash == NULL ? "." : dir, O_RDONLY | O_DIRECTORY);
  free(dir);
  return status;
}

crema_status cr_file_replace_begin(const char *path, char **temporary) {
  cr_buffer name = {0};
  CR_TRY(cr_buffer_print(&name, "%s.tmp.%ld", path, (long)getpid()));
  *temporary = cr_buffer_take(&name);
  return CREMA_OK;
}

crema_status cr_file_replace_end(const char *path, const char *temporary, bool ok) {
  crema_status status = CREMA_OK;
  if (!ok) {
    unlink(temporary);
    return CREMA_OK;
  }
  CR_TRY_GOTO(flush_path(temporary, O_RDONLY), remove);
  if (rename(temporary, path) != 0) {
    status = cr_fail_errno(errno, "%s: cannot rename to %s", temporary, path);
    goto remove;
  }
  return flush_directory_of(path);
remove:
  unlink(temporary);
  return status;
}

/* A device or a pipe (/dev/null, /dev/stdout) is written to and never replaced by a file. */
static crema_status write_special(const char *path, const void *bytes, size_t size) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return fail_open(path, errno);
  crema_status status = write_all(fd, path, bytes, size);
  if (close(fd) != 0 && status == CREMA_OK) status = cr_fail_errno(errno, "%s: cannot write", path);
  return status;
}

crema_status cr_file_write(const char *path, const void *bytes, size_t size) {
  struct stat info;
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) return cr_fail_errno(EISDIR, "%s: cannot write", path);
    return write_special(path, bytes, size);
  }
  char *temporary = NULL;
  CR_TRY(cr_file_replace_begin(path, &temporary));
  crema_status status = CREMA_OK;
  int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) {
    status = cr_fail_errno(errno, "%s: cannot write", path);
    goto out;
  }
  status = write_all(fd, path, bytes, size);
  if (close(fd) != 0 && status == CREMA_OK) status = cr_fail_errno(errno, "%s: cannot write", path);
  if (status == CREMA_OK) {
    status = cr_file_replace_end(path, temporary, true);
  } else {
    unlink(temporary);
  }
out:
  free(temporary);
  return status;
}

bool cr_file_exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
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
