/* Writing to the log sink. */
#ifndef CR_CORE_LOG_H
#define CR_CORE_LOG_H

#include <stdbool.h>

#include "crema/log.h"

void cr_log_at(crema_log_level level, const char *file, int line, const char *fmt, ...)
    CREMA_PRINTF(4, 5);

/* From now on, until crema_log_set is called again, messages below `level` are not wanted. */
void cr_log_limit(crema_log_level level);

/* True when messages at `level` are wanted: to be asked before a costly message is prepared. */
bool cr_log_enabled(crema_log_level level);

#define cr_log_debug(...) cr_log_at(CREMA_LOG_DEBUG, __FILE__, __LINE__, __VA_ARGS__)
#define cr_log_info(...) cr_log_at(CREMA_LOG_INFO, __FILE__, __LINE__, __VA_ARGS__)
#define cr_log_warning(...) cr_log_at(CREMA_LOG_WARNING, __FILE__, __LINE__, __VA_ARGS__)
#define cr_log_error(...) cr_log_at(CREMA_LOG_ERROR, __FILE__, __LINE__, __VA_ARGS__)

#endif
