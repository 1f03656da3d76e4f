/* A reader of JSON (RFC 8259) that hands values to functions, one by one. It builds no tree:
 * a file of COCO has millions of numbers that the tools skip. */
#ifndef CREMA_TOOLS_JSON_H
#define CREMA_TOOLS_JSON_H

#include <stddef.h>

#include "core/buffer.h"
#include "crema/status.h"

/* Start with .at = .end - size and .line = 1. The text must be followed by a NUL byte. */
typedef struct json {
  const char *at, *end;
  const char *path; /* for messages */
  size_t line;
  int depth; /* of the arrays and objects around the next value */
} json;

/* Reads or skips the next value. `key`: of a member, valid during the call; "" in an array. */
typedef crema_status json_visit(void *user, json *j, const char *key);

/* The first character of the next value: '{', '[', '"', a digit, '-', 't', 'f' or 'n'; 0 at the
 * end. */
char json_peek(json *j);

/* Each call reads the next value; errors name path and line: CREMA_E_PARSE. */

/* The members of an object, or with `open` '[' the elements of an array. */
crema_status json_each(json *j, char open, json_visit *visit, void *user) CREMA_MUST_USE;
/* A string in UTF-8, or the letters of any other single value. Replaces the content of `out`. */
crema_status json_text(json *j, cr_buffer *out) CREMA_MUST_USE;
crema_status json_number(json *j, double *out) CREMA_MUST_USE;
crema_status json_skip(json *j) CREMA_MUST_USE;

/* Nothing but blanks may follow. */
crema_status json_end(json *j) CREMA_MUST_USE;

#endif
