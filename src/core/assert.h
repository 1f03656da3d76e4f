/* Checks of crema's own invariants. The presets debug, asan and tsan define CR_CHECKS: a condition
 * that does not hold is then logged with its file and line, and the process aborts. Without
 * CR_CHECKS nothing is evaluated. Mistakes of users are statuses, never assertions. */
#ifndef CR_CORE_ASSERT_H
#define CR_CORE_ASSERT_H

#ifdef CR_CHECKS
#include <stdlib.h>

#include "core/log.h"

#define CR_ASSERT(condition) \
  ((condition) ? (void)0 : (cr_log_error("assertion failed: %s", #condition), abort()))
#else
#define CR_ASSERT(condition) ((void)0)
#endif

#endif
