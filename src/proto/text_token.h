/* The tokens of protobuf text format. */
#ifndef CR_PROTO_TEXT_TOKEN_H
#define CR_PROTO_TEXT_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buffer.h"
#include "crema/status.h"

typedef enum cr_token_kind {
  CR_TOKEN_END,
  CR_TOKEN_NAME,    /* letters, digits, underscores, not starting with a digit */
  CR_TOKEN_INTEGER, /* decimal, 0x hexadecimal or 0 octal, without a sign */
  CR_TOKEN_FLOAT,   /* with a point, an exponent or a trailing f */
  CR_TOKEN_STRING,  /* with its quotes, escapes as written */
  CR_TOKEN_SYMBOL   /* one character */
} cr_token_kind;

typedef struct cr_token {
  cr_token_kind kind;
  const char *text; /* points into the source text, not NUL-terminated */
  size_t size;
  size_t line; /* from 1 */
  size_t column;
} cr_token;

/* Reads tokens from text; zero-copy. */
typedef struct cr_scanner {
  const char *at;
  const char *end;
  const char *source; /* names the text in messages */
  size_t line;
  const char *line_start;
} cr_scanner;

void cr_scanner_start(cr_scanner *scanner, const char *text, size_t size, const char *source);

/* The next token, comments and white space skipped. CREMA_E_PARSE for a malformed one. */
crema_status cr_scanner_next(cr_scanner *scanner, cr_token *token) CREMA_MUST_USE;

/* Sets "source:line:column: <text>" for the token and returns CREMA_E_PARSE. */
crema_status cr_token_fail(const cr_scanner *scanner, const cr_token *token, const char *fmt, ...)
    CREMA_PRINTF(3, 4);

/* The token as it is shown in messages: quoted, shortened, or "end of text". `out` holds at
 * least CR_TOKEN_SHOW bytes; it is returned. */
enum { CR_TOKEN_SHOW = 64 };
const char *cr_token_show(const cr_token *token, char *out);

bool cr_token_is(const cr_token *token, char symbol);

/* An integer token's value; false when it exceeds `max`. */
bool cr_token_integer(const cr_token *token, uint64_t max, uint64_t *out);

/* An integer or float token as a double. Hexadecimal and octal are refused (false). */
bool cr_token_double(const cr_token *token, double *out);

/* Appends the content of a string token, escapes resolved. */
crema_status cr_token_string(const cr_token *token, cr_buffer *out) CREMA_MUST_USE;

#endif
