/* Files that are read within limits, and files that appear complete or not at all. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"
#include "core/io.h"
#include "core/mem_available.h"
#include "crema/log.h"
#include "folder.h"
#include "log_lines.h"

static void put(const char *name, const char *text) {
  int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
}

static bool exists(const char *name) {
  struct stat info;
  return lstat(path_of(name), &info) == 0;
}

static void assert_holds(const char *name, const char *text) {
  cr_buffer bytes = {0};
  ok(cr_file_read(path_of(name), &bytes));
  assert_string_equal(bytes.data, text);
  cr_buffer_free(&bytes);
}

/* The number of a process that has ended. */
static long dead_process(void) {
  pid_t child = fork();
  if (child == 0) _exit(0);
  assert_int_equal(waitpid(child, NULL, 0), child);
  return (long)child;
}

/* ---- limits ---- */

TEST(limits_are_chosen) {
  static const struct {
    const char *text;
    uint64_t bytes;
  } good[] = {{"", 7},
              {"1", 1},
              {"500M", UINT64_C(500) << 20},
              {"4g", UINT64_C(4) << 30},
              {"2T", UINT64_C(2) << 40},
              {"3k", 3072},
              {"99999999T", UINT64_MAX}};
  static const char *const bad[] = {
      "0", "-1", "much", "4GB", "4 G", "1e9", "99999999999999999999999"};
  uint64_t limit = 0;
  unsetenv("CREMA_MAX_FILE");
  ok(cr_file_limit(7, &limit));
  assert_true(limit == 7);
  for (size_t i = 0; i < sizeof good / sizeof *good; ++i) {
    setenv("CREMA_MAX_FILE", good[i].text, 1);
    ok(cr_file_limit(7, &limit));
    assert_true(limit == good[i].bytes);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    cr_buffer bytes = {0};
    setenv("CREMA_MAX_FILE", bad[i], 1);
    assert_fails(cr_file_read("/dev/null", &bytes), CREMA_E_ARGUMENT, "CREMA_MAX_FILE");
    assert_error_has(bad[i]);
    cr_buffer_free(&bytes);
  }
  unsetenv("CREMA_MAX_FILE");
}

static void assert_too_large(const char *path, uint64_t usual, const char *what) {
  cr_buffer bytes = {0};
  assert_fails(cr_file_read_up_to(path, usual, &bytes), CREMA_E_RANGE, path);
  assert_error_has(what);
  assert_error_has("CREMA_MAX_FILE");
  cr_buffer_free(&bytes);
}

TEST(limits_hold) {
  cr_buffer bytes = {0};
  put("a", "12345678");
  ok(cr_file_read_up_to(path_of("a"), 8, &bytes));
  assert_string_equal(bytes.data, "12345678");
  /* What the buffer held before does not count. */
  ok(cr_file_read_up_to(path_of("a"), 8, &bytes));
  assert_string_equal(bytes.data, "1234567812345678");
  cr_buffer_free(&bytes);
  assert_too_large(path_of("a"), 7, "8 bytes; at most 7 ");
  assert_too_large("/dev/zero", CR_FILE_MODEL, "bytes and more; at most 67108864 ");
  setenv("CREMA_MAX_FILE", "100K", 1);
  assert_too_large("/dev/zero", CR_FILE_USUAL, "at most 102400 ");
  unsetenv("CREMA_MAX_FILE");
  /* Holes cost nothing, but would have to be read. */
  assert_int_equal(truncate(path_of("a"), (off_t)1 << 40), 0);
  assert_too_large(path_of("a"), CR_FILE_MODEL, "1099511627776 bytes; at most 68719476736 ");
  unlink(path_of("a"));
}

/* A file larger than the free memory is an error, before the system has to kill a process. */
TEST(memory_is_left) {
  cr_buffer bytes = {0};
  uint64_t left = cr_mem_available();
  /* The file must be larger than memory, and file systems such as ext4 take at most 16 TB. */
  if (left > UINT64_C(1) << 42) skip();
  put("a", "");
  assert_int_equal(truncate(path_of("a"), (off_t)(2 * left)), 0);
  assert_fails(cr_file_read_up_to(path_of("a"), UINT64_MAX, &bytes), CREMA_E_NO_MEMORY,
               path_of("a"));
  assert_error_has("are free");
  assert_null(bytes.data);
  unlink(path_of("a"));
}

/* Files whose size is not known in advance, and things that are not files. */
TEST(unusual_files_are_read) {
  cr_buffer bytes = {0};
  ok(cr_file_read("/proc/self/status", &bytes));
  assert_non_null(strstr(bytes.data, "VmPeak"));
  cr_buffer_clear(&bytes);
  ok(cr_file_read("/dev/null", &bytes));
  assert_int_equal(bytes.size, 0);
  assert_fails(cr_file_read(folder, &bytes), CREMA_E_IO, folder);
  assert_error_has("Is a directory");
  assert_int_equal(cr_file_read(path_of("none"), &bytes), CREMA_E_NOT_FOUND);
  cr_buffer_free(&bytes);
}

/* ---- pipes ---- */

/* Opens the pipe, lets `delay` microseconds pass, then writes `text` in two pieces. */
static pid_t start_writer(const char *path, useconds_t delay, const char *text) {
  pid_t child = fork();
  if (child != 0) return child;
  int fd = open(path, O_WRONLY);
  size_t half = strlen(text) / 2;
  usleep(delay);
  bool good = write(fd, text, half) == (ssize_t)half;
  usleep(1000);
  _exit(good && write(fd, text + half, strlen(text) - half) > 0 ? 0 : 1);
}

/* Returns how often the library warned that it waits. */
static int read_pipe(useconds_t delay, const char *text) {
  static log_lines lines;
  int how = 0;
  assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
  listen_to(&lines, CREMA_LOG_WARNING);
  pid_t child = start_writer(path_of("pipe"), delay, text);
  assert_holds("pipe", text);
  stop_listening();
  /* The signals of one test interrupt this, too. */
  while (waitpid(child, &how, 0) != child) assert_int_equal(errno, EINTR);
  assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  unlink(path_of("pipe"));
  return count_lines(&lines, "Waiting for data from");
}

TEST(pipes_are_waited_for) {
  assert_int_equal(read_pipe(1100000, "what came late"), 1);
}

static void do_nothing(int number) {
  (void)number;
}

/* Signals that interrupt system calls lose nothing. */
TEST(signals_lose_nothing) {
  struct sigaction action = {0}, before;
  const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
  static char text[300000];
  memset(text, 'x', sizeof text - 1);
  action.sa_handler = do_nothing;
  assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
  assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
  read_pipe(30000, text);
  ok(cr_file_write(path_of("a"), text, sizeof text - 1));
  assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
  assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
  assert_holds("a", text);
  unlink(path_of("a"));
}

/* ---- drafts ---- */

/* Names that could be guessed for a draft exist as links to another user's file. */
TEST(planted_links_are_not_followed) {
  char name[64];
  cr_file_draft draft[2];
  put("victim", "precious");
  snprintf(name, sizeof name, "a.tmp.%ld", (long)getpid());
  assert_int_equal(symlink(path_of("victim"), path_of(name)), 0);
  for (int i = 0; i < 2; ++i) {
    ok(cr_file_draft_begin(path_of("a"), &draft[i]));
    assert_int_equal(strncmp(draft[i].temporary, path_of(name), strlen(path_of(name))), 0);
    assert_int_equal(strlen(draft[i].temporary), strlen(path_of(name)) + 7);
  }
  /* Two drafts of one process and path have different names, as a part of them is random. */
  assert_string_not_equal(draft[0].temporary, draft[1].temporary);
  for (int i = 0; i < 2; ++i) {
    ok(cr_file_draft_write(&draft[i], "new", 3));
    ok(cr_file_draft_end(&draft[i], CREMA_OK));
  }
  assert_holds("victim", "precious");
  assert_holds("a", "new");
  assert_true(exists(name));
  unlink(path_of(name));
  unlink(path_of("victim"));
  unlink(path_of("a"));
}

TEST(drafts_are_locked) {
  cr_file_draft draft;
  ok(cr_file_draft_begin(path_of("a"), &draft));
  int fd = open(draft.temporary, O_RDONLY);
  assert_true(fd >= 0);
  assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
  close(fd);
  assert_int_equal(cr_file_draft_end(&draft, CREMA_E_CLOSED), CREMA_E_CLOSED);
  assert_int_equal(count_names("a"), 0);
}

/* Larger and smaller than the buffer of a draft, which 64 KiB fill. */
TEST(pieces_of_all_sizes_arrive) {
  static const size_t sizes[] = {1, 65535, 1, 65536, 65537, 200000, 0, 3};
  cr_file_draft draft;
  cr_buffer wanted = {0}, found = {0};
  ok(cr_file_draft_begin(path_of("a"), &draft));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    char *bytes = malloc(sizes[i] + 1);
    assert_non_null(bytes);
    for (size_t k = 0; k < sizes[i]; ++k) bytes[k] = (char)(wanted.size + k * 7);
    ok(cr_file_draft_write(&draft, bytes, sizes[i]));
    ok(cr_buffer_append(&wanted, bytes, sizes[i]));
    free(bytes);
  }
  assert_false(exists("a"));
  ok(cr_file_draft_end(&draft, CREMA_OK));
  ok(cr_file_read(path_of("a"), &found));
  assert_int_equal(found.size, wanted.size);
  assert_memory_equal(found.data, wanted.data, wanted.size);
  cr_buffer_free(&found);
  cr_buffer_free(&wanted);
  unlink(path_of("a"));
}

/* A name has at most 255 bytes, so a draft's name is shortened, by whole characters. */
TEST(long_names_work) {
  char name[300];
  for (size_t size = 230; size <= 255; ++size) {
    memset(name, 'n', size);
    for (size_t i = 0; i + 1 < size - 200; i += 2) memcpy(name + 200 + i, "\xc3\xa9", 2);
    name[size] = '\0';
    cr_file_draft draft;
    ok(cr_file_draft_check(path_of(name)));
    ok(cr_file_draft_begin(path_of(name), &draft));
    const char *mark = strstr(draft.temporary, ".tmp.");
    assert_non_null(mark);
    assert_false((unsigned char)mark[-1] == 0xc3);
    ok(cr_file_draft_write(&draft, "x", 1));
    ok(cr_file_draft_end(&draft, CREMA_OK));
    assert_holds(name, "x");
    unlink(path_of(name));
  }
  memset(name, 'n', 256);
  name[256] = '\0';
  assert_fails(cr_file_draft_check(path_of(name)), CREMA_E_IO, "File name too long");
  assert_error_has(name);
}

/* An existing file stays as it is, and nothing is left where there was none. */
TEST(checks_change_nothing) {
  put("a", "old");
  ok(cr_file_draft_check(path_of("a")));
  assert_holds("a", "old");
  ok(cr_file_draft_check(path_of("b")));
  assert_false(exists("b"));
  assert_fails(cr_file_draft_check(path_of("none/b")), CREMA_E_IO, "none/b");
  assert_int_equal(cr_file_draft_check(folder), CREMA_E_IO);
  ok(cr_file_draft_check("/dev/null"));
  unlink(path_of("a"));
}

/* ---- sweeping ---- */

TEST(abandoned_drafts_are_swept) {
  char dead[96], locked[96], alive[96], other[96], longer[96];
  long gone = dead_process();
  snprintf(dead, sizeof dead, "run_iter_7.caffemodel.tmp.%ld.abcdef", gone);
  snprintf(locked, sizeof locked, "run_iter_8.caffemodel.tmp.%ld.abcde2", gone);
  snprintf(alive, sizeof alive, "run_iter_7.caffemodel.tmp.%ld.abcdef", (long)getpid());
  snprintf(other, sizeof other, "walk_iter_7.caffemodel.tmp.%ld.abcdef", gone);
  snprintf(longer, sizeof longer, "run_iter_7.tmp.%ld.abcdef.bak", gone);
  const char *const names[] = {dead,
                               locked,
                               alive,
                               other,
                               longer,
                               "run_iter_7.caffemodel",
                               "run_iter_7.tmp.note",
                               "run_iter_7.tmp.1",
                               "run_iter_7.tmp..abcdef"};
  size_t count = sizeof names / sizeof *names;
  for (size_t i = 0; i < count; ++i) put(names[i], "");
  /* As a process of another container holds it, whose number means nothing here. */
  int fd = open(path_of(locked), O_RDONLY);
  assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
  cr_file_sweep(path_of("run_iter_"));
  assert_false(exists(dead));
  for (size_t i = 1; i < count; ++i) assert_true(exists(names[i]));
  close(fd);
  cr_file_sweep(path_of("run_iter_"));
  assert_false(exists(locked));
  for (size_t i = 2; i < count; ++i) {
    assert_true(exists(names[i]));
    unlink(path_of(names[i]));
  }
  cr_file_sweep("/nowhere/run_iter_");
}

/* A link with the name of a draft is not ours, nor is its target. */
TEST(sweeping_follows_no_links) {
  char link[64];
  put("victim", "precious");
  snprintf(link, sizeof link, "a.tmp.%ld.abcdef", dead_process());
  assert_int_equal(symlink(path_of("victim"), path_of(link)), 0);
  cr_file_sweep(path_of("a"));
  assert_true(exists(link));
  assert_holds("victim", "precious");
  unlink(path_of(link));
  unlink(path_of("victim"));
}

/* Drafts of other users, even where one may remove them, and folders that hold folders. */
TEST(sweeping_removes_only_our_own) {
  char other[64], filled[64], inner[80];
  long gone = dead_process();
  snprintf(other, sizeof other, "a.tmp.%ld.abcdef", gone);
  snprintf(filled, sizeof filled, "a.tmp.%ld.bcdefg", gone);
  snprintf(inner, sizeof inner, "%s/folder", filled);
  put(other, "");
  assert_int_equal(mkdir(path_of(filled), 0755), 0);
  assert_int_equal(mkdir(path_of(inner), 0755), 0);
  bool root = chown(path_of(other), 65534, (gid_t)-1) == 0;
  cr_file_sweep(path_of("a"));
  assert_true(exists(other) == root);
  assert_true(exists(inner));
  unlink(path_of(other));
  assert_int_equal(rmdir(path_of(inner)), 0);
  cr_file_sweep(path_of("a"));
  assert_false(exists(filled));
}

/* Begins a file, kills itself; the draft of the same file goes with the next one, whatever the
 * length of its name. */
TEST(next_draft_removes_the_last_one) {
  char name[256];
  static const size_t sizes[] = {1, 255};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    memset(name, 'n', sizes[i]);
    name[sizes[i]] = '\0';
    pid_t child = fork();
    if (child == 0) {
      cr_file_draft draft;
      if (cr_file_draft_begin(path_of(name), &draft) != CREMA_OK) _exit(1);
      raise(SIGKILL);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
    assert_int_equal(count_names("n"), 1);
    assert_false(exists(name));
    ok(cr_file_write(path_of(name), "x", 1));
    assert_int_equal(count_names("n"), 1);
    unlink(path_of(name));
  }
}

/* ---- locations ---- */

static void fill(const cr_file_location *location) {
  char path[PATH_SIZE + 64];
  snprintf(path, sizeof path, "%s%s", location->path, location->folder ? "/data" : "");
  int fd = open(path, O_WRONLY | O_CREAT, 0644);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, "whole", 5), 5);
  close(fd);
}

TEST(files_and_folders_appear_whole) {
  for (int is_folder = 0; is_folder < 2; ++is_folder) {
    cr_file_location location, second;
    ok(cr_file_location_begin(path_of(is_folder ? "d//" : "d"), is_folder, &location));
    fill(&location);
    assert_false(exists("d"));
    /* Given up. */
    assert_int_equal(cr_file_location_end(&location, CREMA_E_CLOSED), CREMA_E_CLOSED);
    assert_int_equal(count_names("d"), 0);
    /* Two at a time: the first to finish gets the name. */
    ok(cr_file_location_begin(path_of("d"), is_folder, &location));
    ok(cr_file_location_begin(path_of("d"), is_folder, &second));
    fill(&location);
    fill(&second);
    ok(cr_file_location_end(&location, CREMA_OK));
    assert_holds(is_folder ? "d/data" : "d", "whole");
    assert_fails(cr_file_location_end(&second, CREMA_OK), CREMA_E_EXISTS, path_of("d"));
    assert_int_equal(count_names("d"), 1);
    assert_fails(cr_file_location_begin(path_of("d"), is_folder, &location), CREMA_E_EXISTS,
                 path_of("d"));
    unlink(path_of("d/data"));
    assert_int_equal(remove(path_of("d")), 0);
  }
  cr_file_location location;
  assert_fails(cr_file_location_begin(path_of("none/d"), true, &location), CREMA_E_IO,
               "none/d: cannot write: No such file");
}

TEST(files_of_killed_processes_are_removed) {
  for (int is_folder = 0; is_folder < 2; ++is_folder) {
    cr_file_location location;
    pid_t child = fork();
    if (child == 0) {
      if (cr_file_location_begin(path_of("d"), is_folder, &location) != CREMA_OK) _exit(1);
      fill(&location);
      raise(SIGKILL);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
    assert_false(exists("d"));
    assert_int_equal(count_names("d.tmp."), 1);
    /* A target whose name begins with the other's has a location of its own. */
    ok(cr_file_location_begin(path_of("d.tmp"), is_folder, &location));
    assert_int_equal(cr_file_location_end(&location, CREMA_E_CLOSED), CREMA_E_CLOSED);
    assert_int_equal(count_names("d.tmp."), 1);
    ok(cr_file_location_begin(path_of("d"), is_folder, &location));
    assert_int_equal(count_names("d.tmp."), 1);
    assert_int_equal(cr_file_location_end(&location, CREMA_E_CLOSED), CREMA_E_CLOSED);
    assert_int_equal(count_names("d"), 0);
  }
}

/* ---- looking ---- */

static void assert_resolved(const char *base, const char *path, const char *wanted) {
  char *found = NULL;
  ok(cr_file_resolve(base, path, &found));
  assert_string_equal(found, wanted);
  free(found);
}

/* From the working directory, else from the folder of the file that names it, if it is there. */
TEST(paths_are_resolved) {
  char before[PATH_SIZE];
  struct stat info;
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(mkdir(path_of("d"), 0755), 0);
  put("d/inner", "12");
  put("outer", "");
  assert_int_equal(chdir(folder), 0);
  assert_resolved("d/net", "outer", "outer");
  assert_resolved("d/net", "inner", "d/inner");
  assert_resolved("net", "inner", "inner");
  assert_resolved(NULL, "inner", "inner");
  assert_resolved("d/net", "nowhere", "nowhere");
  assert_resolved("d/net", "/inner", "/inner");
  put("inner", "");
  assert_resolved("d/net", "inner", "inner");
  unlink(path_of("inner"));
  assert_true(cr_file_exists("d"));
  assert_true(cr_file_exists("d/inner"));
  assert_false(cr_file_exists("inner"));
  assert_true(cr_file_is_in("d", "inner", &info));
  assert_int_equal(info.st_size, 2);
  assert_false(cr_file_is_in(".", "d", &info));
  assert_false(cr_file_is_in("d", "outer", &info));
  assert_false(cr_file_is_in("none", "inner", &info));
  assert_false(cr_file_is_in("outer", "inner", &info));
  assert_int_equal(chdir(before), 0);
  unlink(path_of("outer"));
  unlink(path_of("d/inner"));
  assert_int_equal(rmdir(path_of("d")), 0);
}

/* What `path` in `base` becomes, and from which folder it would have been found; "": no word. */
static void assert_warned(const char *base, const char *path, const char *wanted,
                          const char *from) {
  char *found = NULL, text[2 * PATH_SIZE];
  static log_lines heard;
  listen_to(&heard, CREMA_LOG_WARNING);
  ok(cr_file_resolve_input(base, path, &found));
  stop_listening();
  assert_string_equal(found, wanted);
  free(found);
  assert_int_equal(heard.count, from[0] != '\0');
  if (heard.count == 0) return;
  snprintf(text, sizeof text,
           "%s is not found from the working directory, but it would be from %s\n", path, from);
  assert_string_equal(heard.text, text);
}

/* The nearest folder above the naming file from which there is something at the path. */
TEST(inputs_are_looked_for_above) {
  char real[PATH_MAX], nearer[PATH_MAX + 8];
  assert_non_null(realpath(folder, real));
  snprintf(nearer, sizeof nearer, "%s/e", real);
  assert_int_equal(mkdir(path_of("e"), 0755), 0);
  assert_int_equal(mkdir(path_of("e/f"), 0755), 0);
  put("e/f/net", "");
  put("some.data", "");
  assert_warned(path_of("e/f/net"), "some.data", "some.data", real);
  put("e/some.data", "");
  assert_warned(path_of("e/f/net"), "some.data", "some.data", nearer);
  assert_warned(path_of("e/f/net"), "nowhere", "nowhere", "");
  assert_warned(path_of("e/f/net"), "net", path_of("e/f/net"), "");
  assert_warned(path_of("e/f/net"), "/nowhere/some.data", "/nowhere/some.data", "");
  assert_warned(path_of("e/f/none"), "some.data", "some.data", "");
  assert_warned(NULL, "some.data", "some.data", "");
  unlink(path_of("some.data"));
  unlink(path_of("e/some.data"));
  unlink(path_of("e/f/net"));
  assert_int_equal(rmdir(path_of("e/f")), 0);
  assert_int_equal(rmdir(path_of("e")), 0);
}

/* Files go, folders stay. */
TEST(folders_are_emptied_of_files) {
  assert_int_equal(mkdir(path_of("d"), 0755), 0);
  assert_int_equal(mkdir(path_of("d/inner"), 0755), 0);
  put("d/a", "");
  put("d/.b", "");
  int fd = open(path_of("d"), O_RDONLY | O_DIRECTORY);
  assert_true(cr_file_empty_folder(fd));
  assert_false(exists("d/a"));
  assert_false(exists("d/.b"));
  assert_true(exists("d/inner"));
  /* A second call reads the folder from its beginning. */
  put("d/a", "");
  assert_true(cr_file_empty_folder(fd));
  assert_false(exists("d/a"));
  close(fd);
  assert_false(cr_file_empty_folder(-1));
  fd = open("/dev/null", O_RDONLY);
  assert_false(cr_file_empty_folder(fd));
  close(fd);
  assert_int_equal(rmdir(path_of("d/inner")), 0);
  assert_int_equal(rmdir(path_of("d")), 0);
}

/* The warning names the kind of file, terminal or pipe; writing waits for a reader. */
TEST(pipes_are_written_to) {
  char text[8] = "";
  int how = 0;
  struct stat info;
  assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
  pid_t child = fork();
  if (child == 0) {
    usleep(150000);
    int fd = open(path_of("pipe"), O_RDONLY);
    ssize_t got = read(fd, text, sizeof text);
    _exit(got == 3 && memcmp(text, "abc", 3) == 0 ? 0 : 1);
  }
  ok(cr_file_write(path_of("pipe"), "abc", 3));
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  assert_int_equal(lstat(path_of("pipe"), &info), 0);
  assert_true(S_ISFIFO(info.st_mode));
  ok(cr_file_draft_check(path_of("pipe")));
  unlink(path_of("pipe"));
  assert_fails(cr_file_write("/dev/full", "abc", 3), CREMA_E_IO,
               "/dev/full: cannot write: No space left on device");
  assert_fails(cr_file_write(folder, "abc", 3), CREMA_E_IO, "cannot write: Is a directory");
  assert_fails(cr_file_write("/dev/null/x", "abc", 3), CREMA_E_IO,
               "/dev/null/x: cannot write: Not a directory");
}

/* The largest number of a process is one, what is larger is none. */
TEST(numbers_of_processes_are_checked) {
  static const char *const kept[] = {
      "a.tmp.0.abcdef",          "a.tmp.2147483648.abcdef", "a.tmp.99999999999.abcdef",
      "a.tmp.-5.abcdef",         "a.tmp.2147483647.abcde",  "a.tmp.2147483647.abcdefg",
      "a.tmp.2147483647.abcde1", "a.tmp.2147483647_abcdef", "a.TMP.2147483647.abcdef"};
  put("a.tmp.2147483647.abcdef", "");
  for (size_t i = 0; i < sizeof kept / sizeof *kept; ++i) put(kept[i], "");
  cr_file_sweep(path_of("a"));
  assert_false(exists("a.tmp.2147483647.abcdef"));
  for (size_t i = 0; i < sizeof kept / sizeof *kept; ++i) {
    assert_true(exists(kept[i]));
    unlink(path_of(kept[i]));
  }
}

/* All that opens files, in a process without a standard input: 0 is a descriptor like others. */
static bool works_from_descriptor_0(void) {
  cr_file_draft draft;
  cr_file_location location;
  cr_buffer bytes = {0};
  struct stat info;
  close(0);
  bool good = cr_file_write("/dev/null", "abc", 3) == CREMA_OK;
  good = good && cr_file_write(path_of("zero"), "abc", 3) == CREMA_OK;
  good = good && cr_file_read(path_of("zero"), &bytes) == CREMA_OK && bytes.size == 3;
  good = good && cr_file_is_in(folder, "zero", &info);
  good = good && cr_file_draft_begin(path_of("zero"), &draft) == CREMA_OK;
  good = good && cr_file_draft_end(&draft, CREMA_OK) == CREMA_OK;
  for (int is_folder = 0; is_folder < 2 && good; ++is_folder) {
    good = cr_file_location_begin(path_of("location"), is_folder, &location) == CREMA_OK &&
           cr_file_location_end(&location, CREMA_OK) == CREMA_OK &&
           remove(path_of("location")) == 0;
  }
  good = good && cr_mem_available() > 0 && fcntl(0, F_GETFD) == -1;
  cr_buffer_free(&bytes);
  return good;
}

TEST(descriptor_0_is_one) {
  int how = 0;
  pid_t child = fork();
  if (child == 0) _exit(works_from_descriptor_0() ? 0 : 1);
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how));
  assert_int_equal(WEXITSTATUS(how), 0);
  assert_int_equal(count_names("zero"), 1);
  unlink(path_of("zero"));
}

/* Reading a file of unknown size takes not much more memory than it has bytes. */
TEST(memory_grows_with_what_is_read) {
  enum { SIZE = 3000000 };
  cr_buffer bytes = {0};
  int how = 0;
  assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
  pid_t child = fork();
  if (child == 0) {
    static char text[SIZE];
    int fd = open(path_of("pipe"), O_WRONLY);
    memset(text, 'x', sizeof text);
    size_t done = 0;
    while (done < sizeof text) {
      ssize_t put_now = write(fd, text + done, sizeof text - done);
      if (put_now <= 0) _exit(1);
      done += (size_t)put_now;
    }
    _exit(0);
  }
  ok(cr_file_read(path_of("pipe"), &bytes));
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_int_equal(bytes.size, SIZE);
  assert_true(bytes.capacity < 2 * SIZE);
  for (int i = 0; i < SIZE; i += 997) assert_int_equal(bytes.data[i], 'x');
  cr_buffer_free(&bytes);
  unlink(path_of("pipe"));
}

/* Room for a file of known size is made once, with one byte more, by which its end is found. */
TEST(memory_is_what_a_file_needs) {
  char text[65];
  memset(text, 'x', sizeof text);
  for (size_t size = 62; size <= sizeof text; ++size) {
    cr_buffer bytes = {0}, whole = {0};
    ok(cr_file_write(path_of("f"), text, size));
    ok(cr_file_read(path_of("f"), &bytes));
    ok(cr_buffer_reserve(&whole, size + 1));
    assert_int_equal(bytes.size, size);
    assert_int_equal(bytes.capacity, whole.capacity);
    cr_buffer_free(&bytes);
    cr_buffer_free(&whole);
  }
  unlink(path_of("f"));
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
