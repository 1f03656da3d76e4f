/* A folder of a test program's own, made before its group of tests and removed after it. */
#ifndef TESTS_CORE_FOLDER_H
#define TESTS_CORE_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATH_SIZE = 600 };

static char folder[64];

static inline int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/crema_test_core_XXXXXX");
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

#endif
