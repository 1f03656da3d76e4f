#include "json.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

enum { JSON_MAX_DEPTH = 100 };

static crema_status fail(const json *j, const char *expected) {
  return cr_fail(CREMA_E_PARSE, "%s:%zu: JSON: expected %s, found %s%.20s", j->path, j->line,
                 expected, j->at == j->end ? "the end" : "", j->at);
}

char json_peek(json *j) {
  for (; j->at < j->end && strchr(" \t\r\n", *j->at) != NULL; ++j->at) j->line += *j->at == '\n';
  return j->at < j->end ? *j->at : '\0';
}

/* Whether the next character is `wanted`, which is then read. */
static bool accept(json *j, char wanted) {
  if (json_peek(j) != wanted) return false;
  ++j->at;
  return true;
}

/* Strings: */

/* The four hexadecimal digits after \u, as a number; -1 if one is no such digit. */
static int read_code(json *j) {
  int code = 0;
  for (int i = 0; i < 4; ++i, ++j->at) {
    const char c = *j->at;
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    code = code * 16 + digit;
  }
  return code;
}

static crema_status append_utf8(unsigned code, cr_buffer *out) {
  char bytes[4];
  size_t count = 0;
  if (code < 0x80) {
    bytes[count++] = (char)code;
  } else if (code < 0x800) {
    bytes[count++] = (char)(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    bytes[count++] = (char)(0xE0 | code >> 12);
    bytes[count++] = (char)(0x80 | (code >> 6 & 0x3F));
  } else {
    bytes[count++] = (char)(0xF0 | code >> 18);
    bytes[count++] = (char)(0x80 | (code >> 12 & 0x3F));
    bytes[count++] = (char)(0x80 | (code >> 6 & 0x3F));
  }
  if (code >= 0x80) bytes[count++] = (char)(0x80 | (code & 0x3F));
  return cr_buffer_append(out, bytes, count);
}

/* Behind "\u": a character, or both halves of a pair of UTF-16. */
static crema_status read_unicode(json *j, cr_buffer *out) {
  int code = read_code(j);
  if (code >= 0xD800 && code < 0xDC00 && strncmp(j->at, "\\u", 2) == 0) {
    j->at += 2;
    const int low = read_code(j);
    code = low < 0xDC00 || low > 0xDFFF ? -1 : 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code >= 0xD800 && code <= 0xDFFF) {
    code = -1;
  }
  if (code <= 0) return fail(j, "a character of UTF-16 after \\u");
  return append_utf8((unsigned)code, out);
}

static crema_status read_string(json *j, cr_buffer *out) {
  static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  for (++j->at; j->at < j->end && *j->at != '"';) {
    const size_t plain = strcspn(j->at, "\"\\\n");
    CR_TRY(cr_buffer_append(out, j->at, plain));
    j->at += plain;
    if (*j->at != '\\') break;
    const char *letter = j->at[1] == '\0' ? NULL : strchr(letters, j->at[1]);
    if (letter == NULL && j->at[1] != 'u') return fail(j, "an escaped character");
    j->at += 2;
    if (letter == NULL) CR_TRY(read_unicode(j, out));
    else CR_TRY(cr_buffer_append(out, &values[letter - letters], 1));
  }
  if (*j->at != '"') return fail(j, "the end of a string");
  ++j->at;
  return CREMA_OK;
}

/* Values: */

crema_status json_text(json *j, cr_buffer *out) {
  const char first = json_peek(j);
  cr_buffer_clear(out);
  CR_TRY(cr_buffer_append(out, "", 0));
  if (first == '"') return read_string(j, out);
  const size_t size = strspn(j->at, "+-.0123456789abcdefghijklmnopqrstuvwxyzEINaN");
  if (size == 0) return fail(j, "a value");
  CR_TRY(cr_buffer_append(out, j->at, size));
  j->at += size;
  return CREMA_OK;
}

crema_status json_number(json *j, double *out) {
  char *end = NULL;
  if (json_peek(j) == '\0' || strchr("-0123456789", *j->at) == NULL) return fail(j, "a number");
  *out = strtod(j->at, &end);
  if (end == j->at || end > j->end) return fail(j, "a number");
  j->at = end;
  return CREMA_OK;
}

static crema_status visit_one(json *j, char open, json_visit *visit, void *user, cr_buffer *key) {
  cr_buffer_clear(key);
  CR_TRY(cr_buffer_append(key, "", 0));
  if (open == '{') {
    if (json_peek(j) != '"') return fail(j, "a name in quotes");
    CR_TRY(read_string(j, key));
    if (!accept(j, ':')) return fail(j, "\":\"");
  }
  json_peek(j); /* the visitor uses the line of the value */
  return visit(user, j, key->data);
}

crema_status json_each(json *j, char open, json_visit *visit, void *user) {
  const char close = open == '{' ? '}' : ']';
  cr_buffer key = {0};
  crema_status status = CREMA_OK;
  if (!accept(j, open)) return fail(j, open == '{' ? "an object" : "an array");
  if (j->depth == JSON_MAX_DEPTH) return fail(j, "fewer nested values");
  ++j->depth;
  if (json_peek(j) != close) {
    do {
      CR_TRY_GOTO(visit_one(j, open, visit, user, &key), out);
    } while (accept(j, ','));
  }
  --j->depth;
  if (!accept(j, close)) status = fail(j, open == '{' ? "\",\" or \"}\"" : "\",\" or \"]\"");
out:
  cr_buffer_free(&key);
  return status;
}

/* `user`: a buffer for strings. */
static crema_status skip_value(void *user, json *j, const char *key) {
  (void)key;
  double number;
  const char next = json_peek(j);
  if (next == '{' || next == '[') return json_each(j, next, skip_value, user);
  if (next == '-' || (next >= '0' && next <= '9')) return json_number(j, &number);
  return json_text(j, user);
}

crema_status json_skip(json *j) {
  cr_buffer text = {0};
  crema_status status = skip_value(&text, j, "");
  cr_buffer_free(&text);
  return status;
}

crema_status json_end(json *j) {
  return json_peek(j) == '\0' && j->at == j->end ? CREMA_OK : fail(j, "the end");
}
