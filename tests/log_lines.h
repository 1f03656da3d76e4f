/* What the library logs during a test. */
#ifndef CR_TESTS_LOG_LINES_H
#define CR_TESTS_LOG_LINES_H

#include <stdio.h>
#include <string.h>

#include "crema/log.h"

/* The messages since listen_to, one per line. */
typedef struct log_lines {
  char text[1 << 16];
  size_t size, last; /* where the last message begins */
  int count;
  crema_log_level level; /* of the last message */
} log_lines;

static inline void keep_line(void *user, crema_log_level level, const char *file, int line,
                             const char *message) {
  log_lines *lines = user;
  (void)file, (void)line;
  ++lines->count;
  lines->level = level;
  lines->last = lines->size;
  int put = snprintf(lines->text + lines->size, sizeof lines->text - lines->size, "%s\n", message);
  if (put > 0) lines->size += (size_t)put;
  if (lines->size >= sizeof lines->text) lines->size = sizeof lines->text - 1;
}

static inline void stop_listening(void) {
  crema_log_set(NULL, NULL, CREMA_LOG_INFO);
}

/* Begins anew with the messages of at least this level. */
static inline void listen_to(log_lines *lines, crema_log_level level) {
  stop_listening(); /* threads of earlier tests may be logging still */
  *lines = (log_lines){.size = 0};
  crema_log_set(keep_line, lines, level);
}

/* How often `words` were logged. */
static inline int count_lines(const log_lines *lines, const char *words) {
  int count = 0;
  for (const char *at = strstr(lines->text, words); at != NULL; at = strstr(at + 1, words)) ++count;
  return count;
}

static inline const char *last_line(const log_lines *lines) {
  return lines->text + lines->last;
}

#endif
