/* Where modules are looked for, and the errors for those that are not found or cannot be opened. A
 * copy of this program, in folders made for it, opens them. */
#define _GNU_SOURCE /* dlinfo */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/module.h"
#include "folder.h"
#include "interpose.h"

#define NAME "libcrema-test-opened.so"
#define VARIABLE "CREMA_TEST_MODULE"

enum { TEXT = 2048 };

/* ---- the copy ---- */

/* Fills what it does not need, as the system may. With CREMA_TEST_NO_LINKS set it fails, and leaves
 * the path in memory nevertheless. */
INTERPOSED ssize_t readlink(const char *path, char *out, size_t size) {
  const bool own = from_program();
  ssize_t length = REAL(readlink)(path, out, size);
  if (!own) return length;
  if (length > 0) memset(out + length, '/', size - (size_t)length);
  if (getenv("CREMA_TEST_NO_LINKS") == NULL) return length;
  out[length] = '\0';
  errno = EACCES;
  return -1;
}

/* Prints "<status> <the file, or the error>". */
static int open_and_tell(const char *name) {
  void *library = NULL;
  struct link_map *map = NULL;
  crema_status status = cr_module_open(name, VARIABLE, &library);
  if (status != CREMA_OK) {
    printf("%s %s %s", crema_status_name(status), library == NULL ? "-" : "?", crema_error_text());
    return 0;
  }
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return 1;
  printf("OK %s", map->l_name);
  /* Its symbols are its own. */
  if (strcmp(name, NAME) == 0 && dlsym(library, "crema_test_opened") == NULL) printf(" (empty)");
  if (dlsym(RTLD_DEFAULT, "crema_test_opened") != NULL) printf(" (in sight)");
  return dlclose(library);
}

/* ---- the test ---- */

static void copy(const char *from, const char *name) {
  struct stat info;
  int in = open(from, O_RDONLY), out = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL, 0755);
  assert_true(in >= 0 && out >= 0 && fstat(in, &info) == 0);
  off_t left = info.st_size;
  while (left > 0) {
    ssize_t moved = sendfile(out, in, NULL, (size_t)left);
    assert_true(moved > 0);
    left -= moved;
  }
  close(in);
  close(out);
}

static void put(const char *name, const char *text) {
  int fd = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL, 0755);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
}

/* What the copy says, run from the test's folder. */
static const char *told(const char *name) {
  static char text[TEXT];
  int ends[2], how = 0;
  size_t size = 0;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    if (chdir(folder) == 0) execl(path_of("bin/program"), "program", "--open", name, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  for (ssize_t got; (got = read(ends[0], text + size, sizeof text - 1 - size)) > 0;) {
    size += (size_t)got;
  }
  text[size] = '\0';
  close(ends[0]);
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how));
  assert_int_equal(WEXITSTATUS(how), 0);
  return text;
}

/* The path may have "bin/.." in it. */
static void assert_opened(const char *name) {
  char path[TEXT], real[PATH_SIZE];
  const char *text = told(NAME);
  if (strncmp(text, "OK ", 3) != 0) fail_msg("%s", text);
  assert_non_null(realpath(text + 3, path));
  assert_non_null(realpath(path_of(name), real));
  assert_string_equal(path, real);
}

static void assert_not_opened(const char *name, const char *begin, const char *says) {
  const char *text = told(name);
  if (strncmp(text, begin, strlen(begin)) != 0 || strstr(text, says) == NULL) {
    fail_msg("\"%s\" is not \"%s ... %s\"", text, begin, says);
  }
}

static int make_folders(void **state) {
  char self[PATH_SIZE];
  (void)state;
  if (make_folder(state) != 0) return 1;
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length < 0) return 1;
  self[length] = '\0';
  if (mkdir(path_of("bin"), 0755) != 0 || mkdir(path_of("lib"), 0755) != 0) return 1;
  copy(self, "bin/program");
  unsetenv(VARIABLE);
  return 0;
}

static int remove_folders(void **state) {
  (void)state;
  unlink(path_of("bin/program"));
  return rmdir(path_of("bin")) != 0 || rmdir(path_of("lib")) != 0 || remove_folder(state) != 0;
}

TEST(the_variable_says_where) {
  copy(CREMA_TEST_OPENED, "lib/" NAME);
  copy(CREMA_TEST_OPENED, "elsewhere.so");
  setenv(VARIABLE, path_of("elsewhere.so"), 1);
  assert_opened("elsewhere.so");
  /* When the variable is wrong, no other folder is tried. */
  setenv(VARIABLE, path_of("nowhere.so"), 1);
  assert_not_opened(NAME, "E_NOT_FOUND - " VARIABLE ": ", "nowhere.so");
  setenv(VARIABLE, "", 1);
  assert_opened("lib/" NAME);
  unsetenv(VARIABLE);
  assert_opened("lib/" NAME);
  unlink(path_of("elsewhere.so"));
  unlink(path_of("lib/" NAME));
}

/* The program's own folder comes before the library folder. */
TEST(programs_find_their_neighbours) {
  copy(CREMA_TEST_OPENED, "lib/" NAME);
  copy(CREMA_TEST_OPENED, "bin/" NAME);
  assert_opened("bin/" NAME);
  unlink(path_of("bin/" NAME));
  assert_opened("lib/" NAME);
  unlink(path_of("lib/" NAME));
}

/* Where the program's own path cannot be told, only the loader is asked. */
TEST(programs_without_a_path_ask_the_loader) {
  copy(CREMA_TEST_OPENED, "bin/" NAME);
  setenv("CREMA_TEST_NO_LINKS", "1", 1);
  assert_string_equal(told(NAME), "E_NOT_FOUND - " NAME " was not found");
  setenv("LD_LIBRARY_PATH", path_of("bin"), 1);
  assert_opened("bin/" NAME);
  unsetenv("LD_LIBRARY_PATH");
  unsetenv("CREMA_TEST_NO_LINKS");
  assert_opened("bin/" NAME);
  unlink(path_of("bin/" NAME));
}

/* Never in the folder from which a program is started. */
TEST(working_directory_is_not_searched) {
  copy(CREMA_TEST_OPENED, NAME);
  assert_not_opened(NAME, "E_NOT_FOUND - ", NAME " was not found");
  assert_string_equal(told(NAME), "E_NOT_FOUND - " NAME " was not found");
  unlink(path_of(NAME));
}

/* A file that exists but cannot be opened is reported; the search does not go on. */
TEST(damaged_files_are_named) {
  put("bin/" NAME, "no library");
  copy(CREMA_TEST_OPENED, "lib/" NAME);
  assert_not_opened(NAME, "E_NOT_FOUND - ", path_of("bin/" NAME));
  assert_null(strstr(told(NAME), "was not found"));
  unlink(path_of("bin/" NAME));
  assert_opened("lib/" NAME);
  unlink(path_of("lib/" NAME));
  put("lib/" NAME, "");
  assert_not_opened(NAME, "E_NOT_FOUND - ", "bin/../lib/" NAME);
  unlink(path_of("lib/" NAME));
}

/* Where the loader looks. */
TEST(the_loader_is_asked) {
  const char *text = told("libm.so.6");
  assert_memory_equal(text, "OK ", 3);
  assert_non_null(strstr(text, "libm.so.6"));
  setenv("LD_LIBRARY_PATH", path_of("lib"), 1);
  put("lib/libcrema-test-damaged.so",
      "no library at all, in so many words, to be seen by the loader");
  assert_not_opened("libcrema-test-damaged.so", "E_NOT_FOUND - ", "lib/libcrema-test-damaged.so");
  assert_null(strstr(told("libcrema-test-damaged.so"), "was not found"));
  unlink(path_of("lib/libcrema-test-damaged.so"));
  unsetenv("LD_LIBRARY_PATH");
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--open") == 0) return open_and_tell(argv[2]);
  return run_all_tests(make_folders, remove_folders);
}
