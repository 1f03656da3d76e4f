#include "core/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int cr_io_open_at(int folder, const char *name, int flags, mode_t mode) {
  int fd;
  do fd = openat(folder, name, flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

int cr_io_open(const char *path, int flags, mode_t mode) {
  return cr_io_open_at(AT_FDCWD, path, flags, mode);
}

ssize_t cr_io_read(int fd, void *bytes, size_t size) {
  ssize_t got;
  if (size > SSIZE_MAX) size = SSIZE_MAX;
  do got = read(fd, bytes, size);
  while (got < 0 && errno == EINTR);
  return got;
}

ssize_t cr_io_read_at(int fd, void *bytes, size_t size, off_t at) {
  size_t done = 0;
  while (done < size) {
    ssize_t got = pread(fd, (char *)bytes + done, size - done, at + (off_t)done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += (size_t)got;
  }
  return (ssize_t)done;
}

bool cr_io_write(int fd, const void *bytes, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t put = write(fd, (const char *)bytes + done, size - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    /* Nothing was written without an error: trying again could last for ever. */
    if (put == 0) {
      errno = ENOSPC;
      return false;
    }
    done += (size_t)put;
  }
  return true;
}

bool cr_io_sync(int fd) {
  int failed;
  do failed = fsync(fd);
  while (failed != 0 && errno == EINTR);
  /* Pipes, and folders on some file systems, cannot be flushed. */
  return failed == 0 || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS;
}

bool cr_io_close(int fd) {
  /* Linux frees the descriptor before the call can be interrupted. */
  return close(fd) == 0 || errno == EINTR;
}

bool cr_io_rename(const char *from, const char *to) {
  int failed;
  do failed = rename(from, to);
  while (failed != 0 && errno == EINTR);
  return failed == 0;
}

bool cr_io_make_folder(const char *path, mode_t mode) {
  int failed;
  do failed = mkdir(path, mode);
  while (failed != 0 && errno == EINTR);
  return failed == 0;
}
