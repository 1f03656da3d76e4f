/* The log sink: the only way by which the library says anything by itself. */
#ifndef CREMA_LOG_H
#define CREMA_LOG_H

#include "crema/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How much a message matters. */
typedef enum crema_log_level {
  CREMA_LOG_DEBUG = 0,   /* for those who look for a fault */
  CREMA_LOG_INFO = 1,    /* what goes on */
  CREMA_LOG_WARNING = 2, /* something is not as it was meant, and goes on */
  CREMA_LOG_ERROR = 3    /* something was given up */
} crema_log_level;

/* Receives one message without a trailing newline. `file` and `line` name the
 * place in the library's source. May be called from any thread, never twice at
 * the same time; it must not call the library, which holds its lock meanwhile. */
typedef void (*crema_log_fn)(void *user, crema_log_level level, const char *file, int line,
                             const char *message);

/* Sends all messages of at least `level` to `fn`, process-wide. NULL for `fn`
 * silences the library, which is also how it starts. `user` is passed through
 * and stays the caller's; it must outlive the setting. */
CREMA_API void crema_log_set(crema_log_fn fn, void *user, crema_log_level level);

#ifdef __cplusplus
}
#endif
#endif
