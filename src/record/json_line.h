/* One line of JSON, built field by field. */
#ifndef CR_RECORD_JSON_LINE_H
#define CR_RECORD_JSON_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buffer.h"

/* Zero-initialise. After the first failure, later calls do nothing. */
typedef struct cr_json_line {
  cr_buffer text;
  crema_status status;
  bool follows; /* a value precedes in the same object or list: a comma is due */
} cr_json_line;

/* An object or list: '{' or '[', and its end. `key` is NULL in a list and for the whole. */
void cr_json_open(cr_json_line *line, const char *key, char bracket);
void cr_json_close(cr_json_line *line, char bracket);

/* Members; `key` is NULL in a list. A double that is NaN or infinite becomes null. Each byte of
 * text that is not UTF-8 becomes U+FFFD. */
void cr_json_number(cr_json_line *line, const char *key, double value);
void cr_json_integer(cr_json_line *line, const char *key, int64_t value);
void cr_json_text(cr_json_line *line, const char *key, const char *value);

#endif
