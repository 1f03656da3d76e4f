/* Files whose text a test gives, for programs that define openat (tests/interpose.h). */
#ifndef CR_TESTS_GIVEN_TEXT_H
#define CR_TESTS_GIVEN_TEXT_H

#include <string.h>
#include <unistd.h>

/* A descriptor that reads this text; -1 if there is none. */
static inline int open_text(const char *text) {
  int ends[2];
  const ssize_t size = (ssize_t)strlen(text);
  if (pipe(ends) != 0) return -1;
  const ssize_t put = write(ends[1], text, (size_t)size);
  close(ends[1]);
  if (put == size) return ends[0];
  close(ends[0]);
  return -1;
}

#endif
