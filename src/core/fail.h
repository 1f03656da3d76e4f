/* The failure that each thread remembers: its text, layer, blob, file and line. */
#ifndef CR_CORE_FAIL_H
#define CR_CORE_FAIL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "crema/status.h"

/* Where a failure happened; NULL or 0: unknown. */
typedef struct cr_where {
  const char *layer, *type; /* the layer's name and its type */
  const char *blob;         /* not part of the text */
  const char *field;        /* likewise: the field of a solver file that is to blame */
  const char *file;         /* the file to blame, or the name that messages give to a text */
  size_t line, column;      /* in `file`, from 1 on */
  bool told;                /* the text says it all; only the crema_error_... answers change */
} cr_where;

/* Sets the calling thread's error text and returns `code`. */
crema_status cr_fail(crema_status code, const char *fmt, ...) CREMA_PRINTF(2, 3);

/* As cr_fail, with the place before the text: "<file>:<line>:<column>: layer '<layer>' (<type>): ".
 */
crema_status cr_fail_at(crema_status code, const cr_where *where, const char *fmt, ...)
    CREMA_PRINTF(3, 4);
crema_status cr_fail_at_list(crema_status code, const cr_where *where, const char *fmt,
                             va_list args) CREMA_PRINTF(3, 0);

/* Prepends "<text>: " to the error text of the failure being passed on and
 * returns `code`. Does nothing when `code` is CREMA_OK. */
crema_status cr_fail_in(crema_status code, const char *fmt, ...) CREMA_PRINTF(2, 3);

/* Appends to the error text of the failure being passed on and returns `code`. Does nothing when
 * `code` is CREMA_OK. */
crema_status cr_fail_more(crema_status code, const char *fmt, ...) CREMA_PRINTF(2, 3);

/* Adds a place to the failure being passed on and returns `code`. A known layer or blob stays, as
 * it is nearer to the cause; a file is put in front of the text. Does nothing when `code` is
 * CREMA_OK. */
crema_status cr_fail_where(crema_status code, const cr_where *where);

/* Replaces the text of the failure being passed on, whose place stays, and returns `code`. */
crema_status cr_fail_instead(crema_status code, const char *text);

/* Whether the calling thread's failure is in a layer, which may have no name. */
bool cr_error_in_layer(void);

/* The type of the layer that the calling thread's failure is in; "" when it names none. Valid until
 * the next failure. */
const char *cr_error_type(void);

/* The field that the calling thread's failure is blamed on; "" when it names none. Valid until the
 * next failure. */
const char *cr_error_field(void);

/* As cr_fail(CREMA_E_IO, ...), with strerror(err) appended after ": ". */
crema_status cr_fail_errno(int err, const char *fmt, ...) CREMA_PRINTF(2, 3);

/* Sets the error text of this thread verbatim. */
crema_status cr_fail_text(crema_status code, const char *text);

/* Out of memory for `bytes` bytes of `what`. */
crema_status cr_fail_memory(size_t bytes, const char *what);

/* Points at `count` zeroed elements that free() frees; a status. The arguments are used twice. */
#define CR_NEW(pointer, count, what)                                \
  (((pointer) = calloc((size_t)(count), sizeof *(pointer))) != NULL \
       ? CREMA_OK                                                   \
       : cr_fail_memory((size_t)(count) * sizeof *(pointer), what))

/* A failure that is kept for later or handed to another thread. */
typedef struct cr_error cr_error;

/* A copy of the calling thread's failure, to be freed with free(); NULL without memory for it. */
cr_error *cr_error_keep(void);

/* A failure with this text, which does not become the thread's own. */
cr_error *cr_error_of_text(const char *text);

/* Makes `error` the calling thread's failure; when it is NULL, the text is only the meaning of
 * `code`. */
crema_status cr_error_again(crema_status code, const cr_error *error);

/* For public functions: fails when the argument `pointer` is NULL, naming the function and the
 * argument. */
#define CR_REQUIRE(pointer)                                                                        \
  do {                                                                                             \
    if ((pointer) == NULL) return cr_fail(CREMA_E_ARGUMENT, "%s: %s is NULL", __func__, #pointer); \
  } while (0)

#define CR_TRY(call)                         \
  do {                                       \
    crema_status cr_try_ = (call);           \
    if (cr_try_ != CREMA_OK) return cr_try_; \
  } while (0)

/* For functions with a clean-up ladder: `status` is the local variable. */
#define CR_TRY_GOTO(call, label)        \
  do {                                  \
    status = (call);                    \
    if (status != CREMA_OK) goto label; \
  } while (0)

#endif
