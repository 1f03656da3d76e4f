/* Setting and passing on the failure that each thread remembers: what went wrong, in which layer
 * and blob, on which line of which file. */
#ifndef CR_CORE_FAIL_H
#define CR_CORE_FAIL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "crema/status.h"

/* Where something went wrong; NULL or 0 for what is not known. */
typedef struct cr_where {
  const char *layer, *type; /* the layer's name and its type */
  const char *blob;         /* never part of the text by itself */
  const char *file;         /* the text that says so, or what it is called in messages */
  size_t line, column;      /* in `file`, from 1 on */
  bool told;                /* the text itself says it: only the crema_error_... calls change */
} cr_where;

/* Sets the calling thread's error text and returns `code`. */
crema_status cr_fail(crema_status code, const char *fmt, ...) CREMA_PRINTF(2, 3);

/* The same, with where it happened, which comes in front of the text:
 * "<file>:<line>:<column>: layer '<layer>' (<type>): ". */
crema_status cr_fail_at(crema_status code, const cr_where *where, const char *fmt, ...)
    CREMA_PRINTF(3, 4);
crema_status cr_fail_at_list(crema_status code, const cr_where *where, const char *fmt,
                             va_list args) CREMA_PRINTF(3, 0);

/* Prepends "<text>: " to the error text of the failure being passed on and
 * returns `code`. Does nothing when `code` is CREMA_OK. */
crema_status cr_fail_in(crema_status code, const char *fmt, ...) CREMA_PRINTF(2, 3);

/* Adds to the failure being passed on where it happened, and returns `code`. The layer and the blob
 * that are known already stay, as they are the nearer ones; a file comes in front of what there is.
 * Does nothing when `code` is CREMA_OK. */
crema_status cr_fail_where(crema_status code, const cr_where *where);

/* As cr_fail(CREMA_E_IO, ...), with strerror(err) appended after ": ". */
crema_status cr_fail_errno(int err, const char *fmt, ...) CREMA_PRINTF(2, 3);

/* Sets the error text of this thread verbatim. */
crema_status cr_fail_text(crema_status code, const char *text);

/* Out of memory for `bytes` bytes of `what`. */
crema_status cr_fail_memory(size_t bytes, const char *what);

/* A failure that is kept for later, or on its way to another thread. */
typedef struct cr_error cr_error;

/* A copy of the calling thread's failure, to be freed with free(); NULL without memory for it. */
cr_error *cr_error_keep(void);

/* The same of a failure with this text, which does not become the thread's. */
cr_error *cr_error_of_text(const char *text);

/* Makes `error` the calling thread's failure; when it is NULL, only what `code` means is said. */
crema_status cr_error_again(crema_status code, const cr_error *error);

/* For public functions: fails when the argument `pointer` is NULL, with the function's and the
 * argument's name. */
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
