/* A folder of a test program's own, made before its group of tests and removed after it. */
#ifndef CR_TESTS_FOLDER_H
#define CR_TESTS_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"

enum { PATH_SIZE = 600 };

static char folder[64];

static inline int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/crema_test_XXXXXX");
  return mkdtemp(folder) == NULL;
}

/* The group fails when a test leaves something behind. */
static inline int remove_folder(void **state) {
  (void)state;
  return rmdir(folder);
}

/* The path of a file in the folder; stays valid for the next three calls. */
static inline const char *path_of(const char *name) {
  static char path[4][PATH_SIZE];
  static int next;
  char *text = path[next++ % 4];
  snprintf(text, PATH_SIZE, "%s/%s", folder, name);
  return text;
}

static inline void write_text(const char *name, const char *text) {
  ok(cr_file_write(path_of(name), text, strlen(text)));
}

/* How many names in the folder at `path` begin with `begin`, "." and ".." aside. */
static inline int count_names_at(const char *path, const char *begin) {
  int count = 0;
  DIR *dir = opendir(path);
  assert_non_null(dir);
  for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    count += strncmp(entry->d_name, begin, strlen(begin)) == 0;
  }
  closedir(dir);
  return count;
}

static inline int count_names(const char *begin) {
  return count_names_at(folder, begin);
}

/* For tests of a solver file and its net. */
static inline int make_solver_folder(void **state, const char *net, const char *solver) {
  if (make_folder(state) != 0) return 1;
  write_text("net.prototxt", net);
  write_text("solver.prototxt", solver);
  return 0;
}

static inline int remove_solver_folder(void **state) {
  unlink(path_of("net.prototxt"));
  unlink(path_of("solver.prototxt"));
  return remove_folder(state);
}

#endif
