#include "record/json_line.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/utf8.h"

static void append(cr_json_line *line, const char *text, size_t size) {
  if (line->status == CREMA_OK) line->status = cr_buffer_append(&line->text, text, size);
}

static void append_string(cr_json_line *line, const char *text) {
  append(line, "\"", 1);
  while (*text != '\0' && line->status == CREMA_OK) {
    const unsigned char letter = (unsigned char)*text;
    const size_t size = cr_utf8_size(text);
    if (letter == '"' || letter == '\\') {
      append(line, letter == '"' ? "\\\"" : "\\\\", 2);
    } else if (letter < 0x20 || letter == 0x7F) {
      line->status = cr_buffer_print(&line->text, "\\u%04x", letter);
    } else if (size == 0) {
      append(line, "\\ufffd", 6);
    } else {
      append(line, text, size);
    }
    text += size > 0 ? size : 1;
  }
  append(line, "\"", 1);
}

static void begin_value(cr_json_line *line, const char *key) {
  if (line->follows) append(line, ",", 1);
  line->follows = true;
  if (key == NULL) return;
  append_string(line, key);
  append(line, ":", 1);
}

void cr_json_open(cr_json_line *line, const char *key, char bracket) {
  begin_value(line, key);
  append(line, &bracket, 1);
  line->follows = false;
}

void cr_json_close(cr_json_line *line, char bracket) {
  append(line, bracket == '{' ? "}" : "]", 1);
  line->follows = true;
}

void cr_json_number(cr_json_line *line, const char *key, double value) {
  begin_value(line, key);
  if (line->status != CREMA_OK) return;
  line->status = isfinite(value) ? cr_buffer_print(&line->text, "%.9g", value)
                                 : cr_buffer_print(&line->text, "null");
}

void cr_json_integer(cr_json_line *line, const char *key, int64_t value) {
  begin_value(line, key);
  if (line->status == CREMA_OK) line->status = cr_buffer_print(&line->text, "%" PRId64, value);
}

void cr_json_text(cr_json_line *line, const char *key, const char *value) {
  begin_value(line, key);
  append_string(line, value);
}
