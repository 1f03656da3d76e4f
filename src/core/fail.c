#include "core/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CR_ERROR_TEXT_MAX = 2048 };

static _Thread_local char error_text[CR_ERROR_TEXT_MAX];

const char *crema_error_text(void) {
  return error_text;
}

const char *crema_status_name(crema_status status) {
  switch (status) {
#define CR_NAME(name, value, text) \
  case CREMA_##name: return #name;
    CREMA_STATUS_MAP(CR_NAME)
#undef CR_NAME
  }
  return "?";
}

const char *crema_status_message(crema_status status) {
  switch (status) {
#define CR_MESSAGE(name, value, text) \
  case CREMA_##name: return text;
    CREMA_STATUS_MAP(CR_MESSAGE)
#undef CR_MESSAGE
  }
  return "unknown status";
}

crema_status cr_fail(crema_status code, const char *fmt, ...) {
  /* The arguments may point into the old text, so format aside first. */
  char text[CR_ERROR_TEXT_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return cr_fail_text(code, text);
}

/* Appends at `end` what fits of `more`, with a NUL; returns the new end. */
static size_t append_text(char text[CR_ERROR_TEXT_MAX], size_t end, const char *more) {
  if (end > CR_ERROR_TEXT_MAX - 1) end = CR_ERROR_TEXT_MAX - 1;
  size_t size = strlen(more);
  if (size > CR_ERROR_TEXT_MAX - 1 - end) size = CR_ERROR_TEXT_MAX - 1 - end;
  memcpy(text + end, more, size);
  text[end + size] = '\0';
  return end + size;
}

crema_status cr_fail_in(crema_status code, const char *fmt, ...) {
  if (code == CREMA_OK) return code;
  char text[CR_ERROR_TEXT_MAX];
  va_list args;
  va_start(args, fmt);
  int used = vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  size_t end = used < 0 ? 0 : (size_t)used;
  end = append_text(text, end, ": ");
  append_text(text, end, error_text[0] != '\0' ? error_text : crema_status_message(code));
  return cr_fail_text(code, text);
}

crema_status cr_fail_errno(int err, const char *fmt, ...) {
  char text[CR_ERROR_TEXT_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  char reason[128];
  /* POSIX strerror_r: returns 0 and fills the buffer. */
  if (strerror_r(err, reason, sizeof reason) != 0) snprintf(reason, sizeof reason, "error %d", err);
  return cr_fail(CREMA_E_IO, "%s: %s", text, reason);
}

crema_status cr_fail_text(crema_status code, const char *text) {
  snprintf(error_text, sizeof error_text, "%s", text);
  return code;
}

crema_status cr_fail_memory(size_t bytes, const char *what) {
  return cr_fail(CREMA_E_NO_MEMORY, "cannot allocate %zu bytes for %s", bytes, what);
}
