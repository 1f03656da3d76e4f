/* Reads the prototypes of the public headers, so that a test with a table of all functions fails
 * when a new one has no row. To be included after cmocka.h. */
#ifndef CR_TESTS_PROTOTYPES_H
#define CR_TESTS_PROTOTYPES_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/buffer.h"
#include "core/file.h"

enum { MOST_POINTERS = 8, NAME_SIZE = 64 };

typedef struct prototype {
  char name[NAME_SIZE];
  char pointer[MOST_POINTERS][NAME_SIZE]; /* names of the parameters that are pointers */
  int pointers;
} prototype;

static inline void blank_comments(char *source) {
  for (char *at = source; (at = strstr(at, "/*")) != NULL;) {
    char *end = strstr(at, "*/");
    assert_non_null(end);
    memset(at, ' ', (size_t)(end + 2 - at));
  }
}

static inline bool is_word(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Copies the last word before `end`. */
static inline void last_word(const char *start, const char *end, char out[NAME_SIZE]) {
  while (end > start && !is_word(end[-1])) --end;
  const char *from = end;
  while (from > start && is_word(from[-1])) --from;
  assert_true(end - from < NAME_SIZE);
  snprintf(out, NAME_SIZE, "%.*s", (int)(end - from), from);
}

/* A parameter of a type of callbacks, named ..._fn, is a pointer too. */
static inline bool is_pointer(const char *start, const char *end) {
  if (memchr(start, '*', (size_t)(end - start)) != NULL) return true;
  for (const char *at = start; at + 3 < end; ++at) {
    if (strncmp(at, "_fn ", 4) == 0) return true;
  }
  return false;
}

/* Reads the prototype that begins at `at`. */
static inline void read_prototype(const char *at, prototype *out) {
  const char *open = strchr(at, '('), *close = strchr(at, ')');
  assert_true(open != NULL && close != NULL && open < close);
  memset(out, 0, sizeof *out);
  last_word(at, open, out->name);
  for (const char *start = open + 1; start < close;) {
    const char *end = start;
    while (end < close && *end != ',') ++end;
    if (is_pointer(start, end)) {
      assert_true(out->pointers < MOST_POINTERS);
      last_word(start, end, out->pointer[out->pointers++]);
    }
    start = end + 1;
  }
}

static inline int read_header(const char *path, void (*visit)(const prototype *, void *),
                              void *user) {
  cr_buffer source = {0};
  int functions = 0;
  assert_int_equal(cr_file_read(path, &source), CREMA_OK);
  blank_comments(source.data);
  for (const char *at = source.data; (at = strstr(at, "\nCREMA_API ")) != NULL; ++at) {
    prototype function;
    read_prototype(at, &function);
    visit(&function, user);
    ++functions;
  }
  cr_buffer_free(&source);
  return functions;
}

/* Calls visit(function, user) for every function of include/crema; returns how many there are. */
static inline int each_public_function(void (*visit)(const prototype *, void *), void *user) {
  int functions = 0;
  DIR *headers = opendir(CREMA_SOURCE_DIR "/include/crema");
  assert_non_null(headers);
  for (struct dirent *entry; (entry = readdir(headers)) != NULL;) {
    char path[512];
    if (strstr(entry->d_name, ".h") == NULL) continue;
    snprintf(path, sizeof path, "%s/%s", CREMA_SOURCE_DIR "/include/crema", entry->d_name);
    functions += read_header(path, visit, user);
  }
  closedir(headers);
  return functions;
}

#endif
