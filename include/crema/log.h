/* The log callback. The library reports through it and prints nothing itself. */
#ifndef CREMA_LOG_H
#define CREMA_LOG_H

#include "crema/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The severity of a message. */
typedef enum crema_log_level {
  CREMA_LOG_DEBUG = 0,   /* details for debugging */
  CREMA_LOG_INFO = 1,    /* progress and decisions */
  CREMA_LOG_WARNING = 2, /* something is wrong, but work continues */
  CREMA_LOG_ERROR = 3    /* an operation failed */
} crema_log_level;

/* Receives one message without a trailing newline. `file` and `line` are the place in the library's
 * source that logs it. Any thread may call it, but only one at a time. The function must not call
 * the library, which holds a lock during the call. */
typedef void (*crema_log_fn)(void *user, crema_log_level level, const char *file, int line,
                             const char *message);

/* Sends all messages of at least `level` to `fn`, for the whole process. A NULL `fn`, the default,
 * silences the library. `fn` receives `user`, which stays the caller's and must outlive the
 * setting. */
CREMA_API void crema_log_set(crema_log_fn fn, void *user, crema_log_level level);

#ifdef __cplusplus
}
#endif
#endif
