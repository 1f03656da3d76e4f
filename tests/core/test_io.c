/* System calls on files: restarted after signals, repeated until all bytes are transferred. */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "core/io.h"
#include "core/refused_calls.h"
#include "folder.h"
#include "interpose.h"

static refused_call opening, reading, reading_at, writing, syncing, closing, renaming, making;

INTERPOSED int openat(int base, const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return refuses(&opening) ? -1 : REAL(openat)(base, path, flags, mode);
}

INTERPOSED ssize_t read(int fd, void *bytes, size_t size) {
  return refuses(&reading) ? -1 : REAL(read)(fd, bytes, bytes_allowed(&reading, size));
}

INTERPOSED ssize_t pread(int fd, void *bytes, size_t size, off_t at) {
  return refuses(&reading_at) ? -1 : REAL(pread)(fd, bytes, bytes_allowed(&reading_at, size), at);
}

INTERPOSED ssize_t write(int fd, const void *bytes, size_t size) {
  if (refuses(&writing)) return writing.error == 0 ? 0 : -1;
  return REAL(write)(fd, bytes, bytes_allowed(&writing, size));
}

INTERPOSED int fsync(int fd) {
  return refuses(&syncing) ? -1 : REAL(fsync)(fd);
}

/* The descriptor is free whatever the call says. */
INTERPOSED int close(int fd) {
  int done = REAL(close)(fd);
  return refuses(&closing) ? -1 : done;
}

INTERPOSED int rename(const char *from, const char *to) {
  return refuses(&renaming) ? -1 : REAL(rename)(from, to);
}

INTERPOSED int mkdir(const char *path, mode_t mode) {
  return refuses(&making) ? -1 : REAL(mkdir)(path, mode);
}

static const refused_call twice_interrupted = {.count = 2, .error = EINTR};

/* Opens the file "f", which is made and empty. */
static int open_new(void) {
  int fd = cr_io_open(path_of("f"), O_RDWR | O_CREAT | O_TRUNC, 0640);
  assert_true(fd >= 0);
  return fd;
}

TEST(opening_is_begun_again) {
  struct stat info;
  opening = twice_interrupted;
  int fd = open_new();
  assert_int_equal(opening.calls, 3);
  assert_int_equal(fstat(fd, &info), 0);
  assert_int_equal(info.st_mode & 0777 & ~0640u, 0);
  /* Programs that are started do not inherit it. */
  assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  assert_true(cr_io_close(fd));
  opening = (refused_call){.count = 1, .error = EMFILE};
  assert_int_equal(cr_io_open(path_of("f"), O_RDONLY, 0), -1);
  assert_int_equal(errno, EMFILE);
  assert_int_equal(opening.calls, 1);
  int folder_fd = cr_io_open(folder, O_RDONLY | O_DIRECTORY, 0);
  assert_true(folder_fd >= 0);
  fd = cr_io_open_at(folder_fd, "f", O_RDONLY, 0);
  assert_true(fd >= 0);
  assert_true(cr_io_close(fd));
  assert_int_equal(cr_io_open_at(folder_fd, "g", O_RDONLY, 0), -1);
  assert_int_equal(errno, ENOENT);
  assert_true(cr_io_close(folder_fd));
  unlink(path_of("f"));
}

TEST(writing_goes_on) {
  char text[8] = "";
  int fd = open_new();
  writing = (refused_call){.pass = 1, .count = 2, .error = EINTR, .most = 2};
  assert_true(cr_io_write(fd, "abcdefg", 7));
  assert_int_equal(writing.calls, 6);
  assert_true(cr_io_write(fd, "", 0));
  assert_int_equal(writing.calls, 6);
  assert_int_equal(pread(fd, text, sizeof text, 0), 7);
  assert_string_equal(text, "abcdefg");
  writing = (refused_call){.pass = 1, .count = 1, .error = EIO, .most = 2};
  assert_false(cr_io_write(fd, "hij", 3));
  assert_int_equal(errno, EIO);
  /* A call that neither writes nor fails. */
  writing = (refused_call){.pass = 1, .count = 1, .error = 0, .most = 2};
  assert_false(cr_io_write(fd, "hij", 3));
  assert_int_equal(errno, ENOSPC);
  writing = (refused_call){0};
  assert_true(cr_io_close(fd));
  unlink(path_of("f"));
}

TEST(reading_goes_on) {
  char text[8] = "";
  int fd = open_new();
  assert_true(cr_io_write(fd, "abcdefg", 7));
  assert_int_equal(lseek(fd, 1, SEEK_SET), 1);
  reading = twice_interrupted;
  assert_int_equal(cr_io_read(fd, text, 3), 3);
  assert_int_equal(reading.calls, 3);
  assert_string_equal(text, "bcd");
  /* No more than the call can tell that it did. */
  reading = (refused_call){.most = 3};
  assert_int_equal(cr_io_read(fd, text, SIZE_MAX), 3);
  assert_true(reading.asked == SSIZE_MAX);
  assert_int_equal(cr_io_read(fd, text, 3), 0);
  reading = (refused_call){.count = 1, .error = EIO};
  assert_int_equal(cr_io_read(fd, text, 3), -1);
  assert_int_equal(errno, EIO);
  assert_int_equal(reading.calls, 1);

  memset(text, 0, sizeof text);
  reading_at = (refused_call){.pass = 1, .count = 2, .error = EINTR, .most = 2};
  assert_int_equal(cr_io_read_at(fd, text, 5, 1), 5);
  assert_int_equal(reading_at.calls, 5);
  assert_string_equal(text, "bcdef");
  memset(text, 0, sizeof text);
  assert_int_equal(cr_io_read_at(fd, text, 7, 4), 3);
  assert_string_equal(text, "efg");
  assert_int_equal(cr_io_read_at(fd, text, 0, 0), 0);
  reading_at = (refused_call){.pass = 1, .count = 1, .error = EIO, .most = 2};
  assert_int_equal(cr_io_read_at(fd, text, 5, 0), -1);
  assert_int_equal(errno, EIO);
  reading_at = (refused_call){0};
  assert_true(cr_io_close(fd));
  unlink(path_of("f"));
}

TEST(flushing_is_begun_again) {
  static const int nothing_to_wait_for[] = {EINVAL, EOPNOTSUPP, ENOSYS};
  int fd = open_new();
  syncing = twice_interrupted;
  assert_true(cr_io_sync(fd));
  assert_int_equal(syncing.calls, 3);
  for (size_t i = 0; i < sizeof nothing_to_wait_for / sizeof *nothing_to_wait_for; ++i) {
    syncing = (refused_call){.count = 1, .error = nothing_to_wait_for[i]};
    assert_true(cr_io_sync(fd));
    assert_int_equal(syncing.calls, 1);
  }
  syncing = (refused_call){.count = 1, .error = EIO};
  assert_false(cr_io_sync(fd));
  assert_int_equal(errno, EIO);
  assert_true(cr_io_close(fd));
  unlink(path_of("f"));
}

/* Closed only once, as another thread may have got the descriptor meanwhile. */
TEST(closing_happens_once) {
  closing = twice_interrupted;
  assert_true(cr_io_close(open_new()));
  assert_int_equal(closing.calls, 1);
  closing = (refused_call){.count = 1, .error = EIO};
  assert_false(cr_io_close(open_new()));
  closing = (refused_call){0};
  unlink(path_of("f"));
}

TEST(names_are_changed) {
  struct stat info;
  making = twice_interrupted;
  assert_true(cr_io_make_folder(path_of("d"), 0700));
  assert_int_equal(making.calls, 3);
  assert_false(cr_io_make_folder(path_of("d"), 0700));
  assert_int_equal(errno, EEXIST);
  assert_int_equal(stat(path_of("d"), &info), 0);
  assert_int_equal(info.st_mode & 0777, 0700);
  renaming = twice_interrupted;
  assert_true(cr_io_rename(path_of("d"), path_of("e")));
  assert_int_equal(renaming.calls, 3);
  assert_false(cr_io_rename(path_of("d"), path_of("e")));
  assert_int_equal(errno, ENOENT);
  assert_int_equal(rmdir(path_of("e")), 0);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
