/* Files and folders that are written while system calls fail: the old content stays, nothing is
 * left behind, and the error names the path and the cause. */
#define _GNU_SOURCE /* RENAME_NOREPLACE */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"
#include "core/io.h"
#include "core/refused_calls.h"
#include "crema/log.h"
#include "folder.h"
#include "interpose.h"

static refused_call writing, syncing, closing, renaming, renaming_new, opening, reading, drawing;
static refused_call sleeping, listing, opening_at;

INTERPOSED ssize_t write(int fd, const void *bytes, size_t size) {
  return from_program() && refuses(&writing) ? -1 : REAL(write)(fd, bytes, size);
}

INTERPOSED int fsync(int fd) {
  return refuses(&syncing) ? -1 : REAL(fsync)(fd);
}

INTERPOSED int close(int fd) {
  const bool own = from_program();
  const int done = REAL(close)(fd);
  return own && refuses(&closing) ? -1 : done;
}

INTERPOSED int rename(const char *from, const char *to) {
  return refuses(&renaming) ? -1 : REAL(rename)(from, to);
}

/* By a path, or in an open folder; a file that is opened again to be flushed counts as the latter.
 */
INTERPOSED int openat(int base, const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  const bool again = (flags & O_NOFOLLOW) != 0 && (flags & O_NONBLOCK) != 0;
  return refuses(base != AT_FDCWD || again ? &opening_at : &opening)
             ? -1
             : REAL(openat)(base, path, flags, mode);
}

INTERPOSED ssize_t read(int fd, void *bytes, size_t size) {
  return from_program() && refuses(&reading) ? -1 : REAL(read)(fd, bytes, size);
}

INTERPOSED int renameat2(int from_folder, const char *from, int to_folder, const char *to,
                         unsigned flags) {
  if (refuses(&renaming_new)) return -1;
  return REAL(renameat2)(from_folder, from, to_folder, to, flags);
}

INTERPOSED ssize_t getrandom(void *bytes, size_t size, unsigned flags) {
  return refuses(&drawing) ? -1 : REAL(getrandom)(bytes, size, flags);
}

INTERPOSED DIR *fdopendir(int fd) {
  return refuses(&listing) ? NULL : REAL(fdopendir)(fd);
}

/* Sleeping takes no time in this program. */
INTERPOSED int nanosleep(const struct timespec *time, struct timespec *rest) {
  (void)time, (void)rest;
  (void)refuses(&sleeping);
  return 0;
}

/* What is logged, one line after the other. */
static char logged[1024];

static void hear(void *user, crema_log_level level, const char *file, int line, const char *text) {
  (void)user, (void)level, (void)file, (void)line;
  size_t end = strlen(logged);
  snprintf(logged + end, sizeof logged - end, "%s\n", text);
}

/* ---- helpers ---- */

static void assert_error_is(const char *path, const char *rest) {
  char wanted[2 * PATH_SIZE];
  snprintf(wanted, sizeof wanted, "%s: %s", path, rest);
  assert_string_equal(crema_error_text(), wanted);
}

static int lowest_descriptor(void) {
  int fd = open("/dev/null", O_RDONLY);
  assert_true(fd >= 0);
  close(fd);
  return fd;
}

static void assert_holds(const char *name, const char *text) {
  cr_buffer bytes = {0};
  ok(cr_file_read(path_of(name), &bytes));
  assert_string_equal(bytes.data, text);
  cr_buffer_free(&bytes);
}

/* ---- drafts ---- */

/* Whatever fails on the way, the old file stays. */
TEST(failures_leave_the_old_file) {
  static const struct {
    refused_call *call;
    const char *says;
  } rows[] = {{&writing, "cannot write: Input/output error"},
              {&syncing, "cannot write: Input/output error"},
              {&closing, "cannot write: Input/output error"},
              {&renaming, NULL}};
  int lowest = lowest_descriptor();
  ok(cr_file_write(path_of("a"), "old", 3));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    *rows[i].call = (refused_call){.count = 1, .error = EIO};
    assert_int_equal(cr_file_write(path_of("a"), "new", 3), CREMA_E_IO);
    if (rows[i].says != NULL) assert_error_is(path_of("a"), rows[i].says);
    *rows[i].call = (refused_call){0};
    assert_holds("a", "old");
    assert_int_equal(count_names(""), 1);
  }
  assert_error_has("cannot rename to ");
  /* The folder, after the file: the new one is there, but may be lost. */
  syncing = (refused_call){.pass = 1, .count = 1, .error = EIO};
  assert_int_equal(cr_file_write(path_of("a"), "new", 3), CREMA_E_IO);
  assert_error_is(path_of("a"), "cannot flush its folder: Input/output error");
  assert_holds("a", "new");
  assert_int_equal(count_names(""), 1);
  assert_int_equal(lowest_descriptor(), lowest);
  unlink(path_of("a"));
}

/* The file and its folder are flushed, in this order and once. */
TEST(content_and_name_reach_the_disk) {
  cr_file_draft draft;
  syncing = (refused_call){0};
  ok(cr_file_draft_begin(path_of("a"), &draft));
  ok(cr_file_draft_write(&draft, "new", 3));
  assert_int_equal(syncing.calls, 0);
  ok(cr_file_draft_flush(&draft));
  assert_int_equal(syncing.calls, 1);
  cr_buffer bytes = {0};
  ok(cr_file_read(draft.temporary, &bytes));
  assert_string_equal(bytes.data, "new");
  cr_buffer_free(&bytes);
  ok(cr_file_draft_end(&draft, CREMA_OK));
  assert_int_equal(syncing.calls, 3);
  assert_int_equal(draft.fd, -1);
  assert_null(draft.temporary);
  unlink(path_of("a"));
}

/* A folder that may be written to but not read cannot be flushed, which is not an error. */
TEST(folders_that_nobody_can_read) {
  opening = (refused_call){.pass = 1, .count = 1, .error = EACCES};
  ok(cr_file_write(path_of("a"), "new", 3));
  assert_int_equal(opening.calls, 2);
  opening = (refused_call){.pass = 1, .count = 1, .error = EMFILE};
  assert_int_equal(cr_file_write(path_of("a"), "new", 3), CREMA_E_IO);
  assert_error_is(path_of("a"), "cannot flush its folder: Too many open files");
  opening = (refused_call){0};
  unlink(path_of("a"));
}

/* Pieces larger than what is kept back are written at once, behind what was. */
TEST(failing_writes_are_told_at_once) {
  static char large[100000];
  cr_file_draft draft;
  for (int pass = 0; pass < 2; ++pass) {
    ok(cr_file_draft_begin(path_of("a"), &draft));
    ok(cr_file_draft_write(&draft, "x", 1));
    writing = (refused_call){.pass = pass, .count = 1, .error = ENOSPC};
    assert_int_equal(cr_file_draft_write(&draft, large, sizeof large), CREMA_E_IO);
    assert_error_is(path_of("a"), "cannot write: No space left on device");
    assert_int_equal(cr_file_draft_end(&draft, CREMA_E_IO), CREMA_E_IO);
    assert_int_equal(count_names(""), 0);
  }
  writing = (refused_call){0};
}

TEST(names_are_drawn_without_the_system) {
  cr_file_draft draft[2];
  drawing = (refused_call){.count = 2, .error = ENOSYS};
  for (int i = 0; i < 2; ++i) {
    ok(cr_file_draft_begin(path_of("a"), &draft[i]));
    const char *drawn = strrchr(draft[i].temporary, '.') + 1;
    assert_int_equal(strspn(drawn, "abcdefghijklmnopqrstuvwxyz234567"), 6);
    assert_int_equal(strlen(drawn), 6);
  }
  assert_int_equal(drawing.count, 0);
  assert_string_not_equal(draft[0].temporary, draft[1].temporary);
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(cr_file_draft_end(&draft[i], CREMA_E_CLOSED), CREMA_E_CLOSED);
  }
  assert_int_equal(count_names(""), 0);
}

/* When the random name belongs to somebody else's file, another one is drawn, a hundred times at
 * most. */
TEST(taken_names_are_drawn_again) {
  cr_file_draft draft;
  opening = (refused_call){.count = 99, .error = EEXIST};
  ok(cr_file_draft_begin(path_of("a"), &draft));
  assert_int_equal(cr_file_draft_end(&draft, CREMA_E_CLOSED), CREMA_E_CLOSED);
  opening = (refused_call){.count = 100, .error = EEXIST};
  assert_int_equal(cr_file_draft_begin(path_of("a"), &draft), CREMA_E_IO);
  assert_error_is(path_of("a"), "cannot write: File exists");
  assert_int_equal(opening.calls, 100);
  opening = (refused_call){.count = 1, .error = EROFS};
  assert_int_equal(cr_file_draft_begin(path_of("a"), &draft), CREMA_E_IO);
  assert_error_is(path_of("a"), "cannot write: Read-only file system");
  assert_int_equal(opening.calls, 1);
  opening = (refused_call){0};
}

TEST(drafts_keep_permissions) {
  struct stat info;
  mode_t before = umask(027);
  ok(cr_file_write(path_of("a"), "1", 1));
  assert_int_equal(stat(path_of("a"), &info), 0);
  assert_int_equal(info.st_mode & 07777, 0640);
  assert_int_equal(chmod(path_of("a"), 0666), 0);
  ok(cr_file_write(path_of("a"), "2", 1));
  assert_int_equal(stat(path_of("a"), &info), 0);
  assert_int_equal(info.st_mode & 07777, 0666);
  umask(before);
  /* A link stays one, and what it leads to is what is written. */
  assert_int_equal(symlink("a", path_of("link")), 0);
  ok(cr_file_write(path_of("link"), "3", 1));
  assert_int_equal(lstat(path_of("link"), &info), 0);
  assert_true(S_ISLNK(info.st_mode));
  assert_holds("a", "3");
  unlink(path_of("link"));
  unlink(path_of("a"));
}

/* ---- locations ---- */

/* Makes a location, with a file of five bytes in it. */
static void begin_filled(bool is_folder, cr_file_location *location) {
  char path[2 * PATH_SIZE];
  ok(cr_file_location_begin(path_of("d"), is_folder, location));
  snprintf(path, sizeof path, "%s%s", location->path, is_folder ? "/data" : "");
  int fd = open(path, O_WRONLY | O_CREAT, 0644);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, "whole", 5), 5);
  close(fd);
}

static void remove_filled(bool is_folder) {
  if (is_folder) assert_int_equal(unlink(path_of("d/data")), 0);
  assert_int_equal(remove(path_of("d")), 0);
  assert_int_equal(count_names(""), 0);
}

/* On file systems that cannot promise to overwrite nothing. */
TEST(locations_are_renamed_as_the_system_can) {
  static const int lacks[] = {EINVAL, ENOSYS};
  cr_file_location location;
  for (int i = 0; i < 4; ++i) {
    bool is_folder = i % 2 == 0;
    begin_filled(is_folder, &location);
    renaming_new = (refused_call){.count = 1, .error = lacks[i / 2]};
    renaming = (refused_call){0};
    ok(cr_file_location_end(&location, CREMA_OK));
    assert_int_equal(renaming_new.calls, 1);
    assert_int_equal(renaming.calls, 1);
    assert_holds(is_folder ? "d/data" : "d", "whole");
    remove_filled(is_folder);
    /* A file that has appeared meanwhile stays. */
    begin_filled(is_folder, &location);
    ok(cr_file_write(path_of("d"), "other", 5));
    renaming_new = (refused_call){.count = 1, .error = lacks[i / 2]};
    assert_int_equal(cr_file_location_end(&location, CREMA_OK), CREMA_E_EXISTS);
    assert_error_is(path_of("d"), "already exists; delete it or choose another name");
    assert_holds("d", "other");
    remove_filled(false);
  }
  begin_filled(true, &location);
  renaming_new = (refused_call){.count = 1, .error = EINVAL};
  renaming = (refused_call){.count = 1, .error = EPERM};
  assert_fails(cr_file_location_end(&location, CREMA_OK), CREMA_E_IO,
               "/d: Operation not permitted");
  assert_error_has("cannot rename to ");
  assert_int_equal(count_names(""), 0);
  renaming = (refused_call){0};
}

TEST(renaming_is_begun_again) {
  cr_file_location location;
  begin_filled(true, &location);
  renaming_new = (refused_call){.count = 2, .error = EINTR};
  ok(cr_file_location_end(&location, CREMA_OK));
  assert_int_equal(renaming_new.calls, 3);
  remove_filled(true);
  begin_filled(true, &location);
  renaming_new = (refused_call){.count = 1, .error = EXDEV};
  renaming = (refused_call){0};
  assert_int_equal(cr_file_location_end(&location, CREMA_OK), CREMA_E_IO);
  assert_int_equal(renaming.calls, 0);
  assert_error_has("cannot rename to ");
  assert_int_equal(count_names(""), 0);
}

/* Each file in the folder, the folder, and the one that it lies in. */
TEST(locations_reach_the_disk) {
  cr_file_location location;
  int lowest = lowest_descriptor();
  for (int is_folder = 0; is_folder < 2; ++is_folder) {
    int flushed = is_folder ? 3 : 2;
    for (int pass = 0; pass <= flushed; ++pass) {
      begin_filled(is_folder, &location);
      syncing = (refused_call){.pass = pass, .count = 1, .error = EIO};
      crema_status status = cr_file_location_end(&location, CREMA_OK);
      if (pass == flushed) {
        ok(status);
        assert_int_equal(syncing.calls, flushed);
      } else {
        assert_int_equal(status, CREMA_E_IO);
        assert_error_is(path_of("d"), pass == flushed - 1
                                          ? "cannot flush its folder: Input/output error"
                                          : "cannot be flushed to the disk: Input/output error");
      }
      syncing = (refused_call){0};
      if (pass >= flushed - 1) remove_filled(is_folder);
      assert_int_equal(count_names(""), 0);
    }
  }
  assert_int_equal(lowest_descriptor(), lowest);
}

/* A folder that is made but cannot be opened does not stay. */
TEST(folders_that_cannot_be_opened) {
  cr_file_location location;
  opening = (refused_call){.count = 1, .error = EMFILE};
  assert_int_equal(cr_file_location_begin(path_of("d"), true, &location), CREMA_E_IO);
  assert_error_is(path_of("d"), "cannot write: Too many open files");
  opening = (refused_call){0};
  assert_int_equal(count_names(""), 0);
}

/* What cannot be opened again is not flushed: of a folder itself and its file, or the file alone.
 */
TEST(locations_that_cannot_be_opened_again) {
  cr_file_location location;
  int lowest = lowest_descriptor();
  for (int is_folder = 0; is_folder < 2; ++is_folder) {
    for (int pass = 0; pass <= is_folder; ++pass) {
      begin_filled(is_folder, &location);
      opening_at = (refused_call){.pass = pass, .count = 1, .error = EMFILE};
      assert_int_equal(cr_file_location_end(&location, CREMA_OK), CREMA_E_IO);
      assert_error_is(path_of("d"), "cannot be flushed to the disk: Too many open files");
      assert_int_equal(opening_at.count, 0);
      assert_int_equal(count_names(""), 0);
    }
  }
  opening_at = (refused_call){0};
  assert_int_equal(lowest_descriptor(), lowest);
}

/* What cannot be removed is named. */
TEST(remains_are_named) {
  char path[PATH_SIZE], file[PATH_SIZE + 8], wanted[PATH_SIZE + 64];
  cr_file_location location;
  int lowest = lowest_descriptor();
  begin_filled(true, &location);
  snprintf(path, sizeof path, "%s", location.path);
  logged[0] = '\0';
  crema_log_set(hear, NULL, CREMA_LOG_WARNING);
  opening_at = (refused_call){.count = 1, .error = EMFILE};
  assert_int_equal(cr_file_location_end(&location, CREMA_E_CLOSED), CREMA_E_CLOSED);
  opening_at = (refused_call){0};
  crema_log_set(NULL, NULL, CREMA_LOG_ERROR);
  snprintf(wanted, sizeof wanted, "%s: half written, could not be removed\n", path);
  assert_string_equal(logged, wanted);
  snprintf(file, sizeof file, "%s/data", path);
  assert_int_equal(unlink(file), 0);
  assert_int_equal(rmdir(path), 0);
  assert_int_equal(lowest_descriptor(), lowest);
}

/* A folder whose files cannot be found is not flushed. */
TEST(folders_that_cannot_be_listed) {
  cr_file_location location;
  int lowest = lowest_descriptor();
  begin_filled(true, &location);
  listing = (refused_call){.count = 1, .error = ENOMEM};
  assert_int_equal(cr_file_location_end(&location, CREMA_OK), CREMA_E_IO);
  assert_error_is(path_of("d"), "cannot be flushed to the disk: Cannot allocate memory");
  listing = (refused_call){0};
  assert_int_equal(count_names(""), 0);
  assert_int_equal(lowest_descriptor(), lowest);
}

/* ---- reading ---- */

TEST(failing_reads_are_told) {
  cr_buffer bytes = {0};
  int lowest = lowest_descriptor();
  ok(cr_file_write(path_of("a"), "text", 4));
  reading = (refused_call){.count = 1, .error = EIO};
  assert_int_equal(cr_file_read(path_of("a"), &bytes), CREMA_E_IO);
  assert_error_is(path_of("a"), "cannot read: Input/output error");
  reading = (refused_call){0};
  opening = (refused_call){.count = 1, .error = EACCES};
  assert_int_equal(cr_file_read(path_of("a"), &bytes), CREMA_E_IO);
  assert_error_is(path_of("a"), "cannot open: Permission denied");
  opening = (refused_call){0};
  /* Nothing to read yet, as of a pipe that another program reads, too: waited for. */
  reading = (refused_call){.count = 1, .error = EAGAIN};
  ok(cr_file_read(path_of("a"), &bytes));
  assert_string_equal(bytes.data, "text");
  assert_int_equal(lowest_descriptor(), lowest);
  reading = (refused_call){0};
  cr_buffer_free(&bytes);
  unlink(path_of("a"));
}

/* A warning follows after waiting a second for a pipe's reader. */
TEST(readers_of_pipes_are_waited_for) {
  cr_file_draft draft;
  assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
  opening = (refused_call){.count = 5, .error = ENXIO};
  sleeping = (refused_call){0};
  int reader = open(path_of("pipe"), O_RDONLY | O_NONBLOCK);
  ok(cr_file_draft_begin(path_of("pipe"), &draft));
  assert_int_equal(opening.calls, 6);
  assert_int_equal(sleeping.calls, 5);
  assert_true((fcntl(draft.fd, F_GETFL) & O_NONBLOCK) == 0);
  assert_int_equal(cr_file_draft_end(&draft, CREMA_E_CLOSED), CREMA_E_CLOSED);
  /* The first look, twenty more, one that waits. */
  opening = (refused_call){.count = 21, .error = ENXIO};
  sleeping = (refused_call){0};
  ok(cr_file_draft_begin(path_of("pipe"), &draft));
  assert_int_equal(opening.calls, 22);
  assert_int_equal(sleeping.calls, 20);
  assert_true((fcntl(draft.fd, F_GETFL) & O_NONBLOCK) == 0);
  assert_int_equal(cr_file_draft_end(&draft, CREMA_E_CLOSED), CREMA_E_CLOSED);
  opening = (refused_call){.count = 1, .error = EACCES};
  assert_int_equal(cr_file_draft_begin(path_of("pipe"), &draft), CREMA_E_IO);
  assert_error_is(path_of("pipe"), "cannot write: Permission denied");
  assert_int_equal(opening.calls, 1);
  opening = (refused_call){0};
  close(reader);
  unlink(path_of("pipe"));
}

/* What cannot be removed is named in the log, and only that. */
TEST(emptying_a_folder) {
  int lowest = lowest_descriptor();
  assert_int_equal(mkdir(path_of("d"), 0755), 0);
  assert_int_equal(mkdir(path_of("d/inner"), 0755), 0);
  assert_int_equal(cr_file_write(path_of("d/file"), "x", 1), CREMA_OK);
  int fd = open(path_of("d"), O_RDONLY | O_DIRECTORY);
  listing = (refused_call){.count = 1, .error = ENOMEM};
  assert_false(cr_file_empty_folder(fd));
  listing = (refused_call){0};
  assert_int_equal(access(path_of("d/file"), F_OK), 0);
  logged[0] = '\0';
  crema_log_set(hear, NULL, CREMA_LOG_DEBUG);
  assert_true(cr_file_empty_folder(fd));
  crema_log_set(NULL, NULL, CREMA_LOG_ERROR);
  assert_string_equal(logged, "inner: cannot remove: Is a directory\n");
  close(fd);
  assert_int_equal(lowest_descriptor(), lowest);
  assert_int_equal(rmdir(path_of("d/inner")), 0);
  assert_int_equal(rmdir(path_of("d")), 0);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
