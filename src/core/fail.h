/* Setting and passing on the per-thread error text. */
#ifndef CR_CORE_FAIL_H
#define CR_CORE_FAIL_H

#include <stddef.h>

#include "crema/status.h"

/* Sets the calling thread's error text and returns `code`. */
crema_status cr_fail(crema_status code, const char *fmt, ...) CREMA_PRINTF(2, 3);

/* Prepends "<text>: " to the error text of the failure being passed on and
 * returns `code`. Does nothing when `code` is CREMA_OK. */
crema_status cr_fail_in(crema_status code, const char *fmt, ...) CREMA_PRINTF(2, 3);

/* As cr_fail(CREMA_E_IO, ...), with strerror(err) appended after ": ". */
crema_status cr_fail_errno(int err, const char *fmt, ...) CREMA_PRINTF(2, 3);

/* Sets the error text of this thread verbatim: hands a failure from one thread
 * to the thread that joins it. */
crema_status cr_fail_text(crema_status code, const char *text);

/* Out of memory for `bytes` bytes of `what`. */
crema_status cr_fail_memory(size_t bytes, const char *what);

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
