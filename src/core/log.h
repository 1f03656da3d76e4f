/* Writing to the log sink. */
#ifndef CR_CORE_LOG_H
#define CR_CORE_LOG_H

#include <stdbool.h>

#include "crema/log.h"

void cr_log_at(crema_log_level level, const char *file, int line, const char *fmt, ...)
    CREMA_PRINTF(4, 5);

/* Drops messages below `level` until the next crema_log_set. */
void cr_log_limit(crema_log_level level);

/* Whether messages at `level` are enabled. Check it before preparing a costly message. */
bool cr_log_enabled(crema_log_level level);

#define cr_log_debug(...) cr_log_at(CREMA_LOG_DEBUG, __FILE__, __LINE__, __VA_ARGS__)
#define cr_log_info(...) cr_log_at(CREMA_LOG_INFO, __FILE__, __LINE__, __VA_ARGS__)
#define cr_log_warning(...) cr_log_at(CREMA_LOG_WARNING, __FILE__, __LINE__, __VA_ARGS__)
#define cr_log_error(...) cr_log_at(CREMA_LOG_ERROR, __FILE__, __LINE__, __VA_ARGS__)

#endif
