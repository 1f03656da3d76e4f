#include "proto/text_token.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/utf8_bom.h"

/* The classes of <ctype.h> depend on the locale; text format does not. */
static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
static bool is_octal(char c) {
  return c >= '0' && c <= '7';
}
static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
static unsigned hex_value(char c) {
  if (is_digit(c)) return (unsigned)(c - '0');
  return (unsigned)((c | 0x20) - 'a') + 10;
}

void cr_scanner_start(cr_scanner *scanner, const char *text, size_t size, const char *source) {
  const char *begin = text + cr_utf8_bom(text, size);
  *scanner = (cr_scanner){begin, text + size, source, 1, begin};
}

crema_status cr_token_fail(const cr_scanner *scanner, const cr_token *token, const char *fmt, ...) {
  const cr_where where = {.file = scanner->source, .line = token->line, .column = token->column};
  va_list args;
  va_start(args, fmt);
  cr_fail_at_list(CREMA_E_PARSE, &where, fmt, args);
  va_end(args);
  return CREMA_E_PARSE;
}

const char *cr_token_show(const cr_token *token, char *out) {
  enum { KEEP = 44 };
  if (token->kind == CR_TOKEN_END) {
    snprintf(out, CR_TOKEN_SHOW, "end of text");
    return out;
  }
  bool quoted = token->kind == CR_TOKEN_STRING;
  size_t keep = token->size < KEEP ? token->size : KEEP;
  size_t n = (size_t)snprintf(out, CR_TOKEN_SHOW, "%s", quoted ? "the string " : "\"");
  for (size_t i = 0; i < keep; ++i) {
    unsigned char c = (unsigned char)token->text[i];
    out[n++] = c < 0x20 || c == 0x7F ? '?' : (char)c;
  }
  for (size_t i = 0; keep < token->size && i < 3; ++i) out[n++] = '.';
  if (!quoted) out[n++] = '"';
  out[n] = '\0';
  return out;
}

bool cr_token_is(const cr_token *token, char symbol) {
  return token->kind == CR_TOKEN_SYMBOL && token->text[0] == symbol;
}

static char peek(const cr_scanner *s) {
  return s->at < s->end ? *s->at : '\0';
}

static bool take(cr_scanner *s, char lower, char upper) {
  if (s->at < s->end && (*s->at == lower || *s->at == upper)) {
    ++s->at;
    return true;
  }
  return false;
}

static void skip_blank(cr_scanner *s) {
  while (s->at < s->end) {
    if (*s->at == '#') {
      while (s->at < s->end && *s->at != '\n') ++s->at;
    } else if (*s->at == ' ' || (*s->at >= '\t' && *s->at <= '\r')) {
      if (*s->at++ == '\n') {
        ++s->line;
        s->line_start = s->at;
      }
    } else {
      return;
    }
  }
}

static void skip_while(cr_scanner *s, bool (*is)(char)) {
  while (s->at < s->end && is(*s->at)) ++s->at;
}

/* What may follow the digits of a decimal number: fraction, exponent, f. */
static crema_status scan_decimal(cr_scanner *s, cr_token *token) {
  skip_while(s, is_digit);
  if (token->text[0] != '.' && take(s, '.', '.')) {
    token->kind = CR_TOKEN_FLOAT;
    skip_while(s, is_digit);
  }
  if (take(s, 'e', 'E')) {
    token->kind = CR_TOKEN_FLOAT;
    take(s, '-', '+');
    if (!is_digit(peek(s))) return cr_token_fail(s, token, "no digits in the exponent");
    skip_while(s, is_digit);
  }
  if (take(s, 'f', 'F')) token->kind = CR_TOKEN_FLOAT;
  return CREMA_OK;
}

static crema_status scan_number(cr_scanner *s, cr_token *token) {
  token->kind = token->text[0] == '.' ? CR_TOKEN_FLOAT : CR_TOKEN_INTEGER;
  ++s->at;
  if (token->text[0] == '0' && take(s, 'x', 'X')) {
    if (!is_hex(peek(s))) return cr_token_fail(s, token, "no digits after 0x");
    skip_while(s, is_hex);
  } else if (token->text[0] == '0' && is_digit(peek(s))) {
    skip_while(s, is_octal);
    if (is_digit(peek(s))) {
      return cr_token_fail(s, token, "a number that starts with 0 is octal and has digits 0 to 7");
    }
  } else {
    CR_TRY(scan_decimal(s, token));
  }
  token->size = (size_t)(s->at - token->text);
  char shown[CR_TOKEN_SHOW];
  if (is_letter(peek(s))) {
    return cr_token_fail(s, token, "a space is missing after the number %s",
                         cr_token_show(token, shown));
  }
  if (peek(s) == '.') {
    return cr_token_fail(s, token, "a second point after the number %s",
                         cr_token_show(token, shown));
  }
  return CREMA_OK;
}

/* Checks the escape whose backslash was just read; digits are read as part of the string. */
static crema_status scan_escape(cr_scanner *s, const cr_token *token) {
  cr_token here = *token;
  here.column = (size_t)(s->at - s->line_start);
  char c = peek(s);
  if (is_octal(c) || (c != '\0' && strchr("abfnrtv\\?'\"", c) != NULL)) {
    ++s->at;
    return CREMA_OK;
  }
  size_t digits = c == 'x' ? 1 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (digits == 0) return cr_token_fail(s, &here, "unknown escape in a string");
  ++s->at;
  for (size_t i = 0; i < digits; ++i, ++s->at) {
    if (!is_hex(peek(s))) {
      return cr_token_fail(s, &here, "\\%c needs %zu hexadecimal digit%s", c, digits,
                           digits == 1 ? "" : "s");
    }
    if (c == 'U' && (i < 2 ? *s->at != '0' : i == 2 && *s->at > '1')) {
      return cr_token_fail(s, &here, "\\U goes up to 0010FFFF");
    }
  }
  if (c == 'U' && s->at[-6] == '1' && s->at[-5] != '0') {
    return cr_token_fail(s, &here, "\\U goes up to 0010FFFF");
  }
  return CREMA_OK;
}

static crema_status scan_string(cr_scanner *s, cr_token *token) {
  char quote = *s->at++;
  token->kind = CR_TOKEN_STRING;
  for (;;) {
    if (s->at >= s->end) return cr_token_fail(s, token, "the string has no closing %c", quote);
    char c = *s->at;
    if (c == '\n') {
      return cr_token_fail(s, token, "the string has no closing %c on its line", quote);
    }
    if (c == '\0') return cr_token_fail(s, token, "a NUL byte in a string");
    ++s->at;
    if (c == quote) break;
    if (c == '\\') CR_TRY(scan_escape(s, token));
  }
  token->size = (size_t)(s->at - token->text);
  return CREMA_OK;
}

crema_status cr_scanner_next(cr_scanner *s, cr_token *token) {
  bool glued = token->kind == CR_TOKEN_NAME && token->text + token->size == s->at;
  skip_blank(s);
  *token = (cr_token){CR_TOKEN_END, s->at, 0, s->line, (size_t)(s->at - s->line_start) + 1};
  if (s->at >= s->end) return CREMA_OK;
  char c = *s->at;
  if (is_letter(c)) {
    token->kind = CR_TOKEN_NAME;
    while (s->at < s->end && (is_letter(*s->at) || is_digit(*s->at))) ++s->at;
    token->size = (size_t)(s->at - token->text);
    return CREMA_OK;
  }
  bool point = c == '.' && s->end - s->at > 1 && is_digit(s->at[1]);
  if (point && glued) return cr_token_fail(s, token, "a space is missing before the point");
  if (is_digit(c) || point) return scan_number(s, token);
  if (c == '"' || c == '\'') return scan_string(s, token);
  token->kind = CR_TOKEN_SYMBOL;
  token->size = 1;
  ++s->at;
  if ((unsigned char)c >= 0x80 || (unsigned char)c < 0x20 || c == 0x7F) {
    return cr_token_fail(s, token, "unexpected byte 0x%02X", (unsigned)(unsigned char)c);
  }
  return CREMA_OK;
}

bool cr_token_integer(const cr_token *token, uint64_t max, uint64_t *out) {
  const char *at = token->text;
  const char *end = at + token->size;
  unsigned base = 10;
  if (token->size > 1 && at[0] == '0') {
    bool hex = (at[1] | 0x20) == 'x';
    base = hex ? 16 : 8;
    at += hex ? 2 : 1;
  }
  uint64_t value = 0;
  for (; at < end; ++at) {
    unsigned digit = hex_value(*at);
    if (value > (UINT64_MAX - digit) / base) return false;
    value = value * base + digit;
  }
  *out = value;
  return value <= max;
}

bool cr_token_double(const cr_token *token, double *out) {
  if (token->kind == CR_TOKEN_INTEGER && token->size > 1 && token->text[0] == '0') return false;
  /* strtod would read on after the token, or read a trailing f or a hexadecimal float: it gets a
   * copy of the token. */
  char small[64];
  char *digits = token->size < sizeof small ? small : malloc(token->size + 1);
  if (digits == NULL) return false;
  memcpy(digits, token->text, token->size);
  digits[token->size] = '\0';
  *out = strtod(digits, NULL);
  if (digits != small) free(digits);
  return true;
}

static crema_status append_utf8(cr_buffer *out, uint32_t code) {
  char bytes[4];
  size_t n = 0;
  if (code < 0x80) {
    bytes[n++] = (char)code;
  } else if (code < 0x800) {
    bytes[n++] = (char)(0xC0 | (code >> 6));
    bytes[n++] = (char)(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    bytes[n++] = (char)(0xE0 | (code >> 12));
    bytes[n++] = (char)(0x80 | ((code >> 6) & 0x3F));
    bytes[n++] = (char)(0x80 | (code & 0x3F));
  } else {
    bytes[n++] = (char)(0xF0 | (code >> 18));
    bytes[n++] = (char)(0x80 | ((code >> 12) & 0x3F));
    bytes[n++] = (char)(0x80 | ((code >> 6) & 0x3F));
    bytes[n++] = (char)(0x80 | (code & 0x3F));
  }
  return cr_buffer_append(out, bytes, n);
}

static const char *read_hex(const char *at, size_t digits, uint32_t *code) {
  *code = 0;
  for (size_t i = 0; i < digits; ++i) *code = *code * 16 + hex_value(*at++);
  return at;
}

/* \uXXXX and \UXXXXXXXX. Two \u that are a surrogate pair make one character. */
static crema_status append_unicode(const char **at, const char *end, cr_buffer *out) {
  uint32_t code;
  const char *p = read_hex(*at + 1, **at == 'u' ? 4 : 8, &code);
  if (code >= 0xD800 && code < 0xDC00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
    uint32_t low;
    const char *after = read_hex(p + 2, 4, &low);
    if (low >= 0xDC00 && low < 0xE000) {
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      p = after;
    }
  }
  *at = p;
  return append_utf8(out, code);
}

/* One escape sequence. *at is the position after its backslash and moves to the end of the escape.
 */
static crema_status append_escape(const char **at, const char *end, cr_buffer *out) {
  static const char names[] = "abfnrtv\\?'\"";
  static const char values[] = "\a\b\f\n\r\t\v\\?'\"";
  char c = **at;
  if (c == 'u' || c == 'U') return append_unicode(at, end, out);
  unsigned code = 0;
  if (is_octal(c)) {
    for (int i = 0; i < 3 && is_octal(**at); ++i) code = code * 8 + (unsigned)(*(*at)++ - '0');
  } else if (c == 'x') {
    ++*at;
    for (int i = 0; i < 2 && is_hex(**at); ++i) code = code * 16 + hex_value(*(*at)++);
  } else {
    ++*at;
    code = (unsigned char)values[strchr(names, c) - names];
  }
  char byte = (char)(code & 0xFF);
  return cr_buffer_append(out, &byte, 1);
}

crema_status cr_token_string(const cr_token *token, cr_buffer *out) {
  /* The closing quote stops every run of digits, so reading ahead within the token is safe. */
  const char *at = token->text + 1;
  const char *end = token->text + token->size - 1;
  while (at < end) {
    const char *plain = at;
    while (at < end && *at != '\\') ++at;
    CR_TRY(cr_buffer_append(out, plain, (size_t)(at - plain)));
    if (at >= end) break;
    ++at;
    CR_TRY(append_escape(&at, end, out));
  }
  return CREMA_OK;
}
