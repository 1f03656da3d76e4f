/* Labels: numbers that name classes. */
#ifndef CR_DEVICE_CPU_KERNELS_LABEL_H
#define CR_DEVICE_CPU_KERNELS_LABEL_H

#include <stdbool.h>
#include <stdint.h>

#include "crema/status.h"

enum { CR_LABEL_IGNORED = -1, CR_LABEL_BAD = -2 };

/* The class that `value` names, its fraction cut off; CR_LABEL_IGNORED when that is `ignore` and
 * `has_ignore`; CR_LABEL_BAD outside 0 ... classes - 1. */
static inline int64_t cr_label_class(double value, int64_t classes, bool has_ignore, int ignore) {
  if (!(value > -2147483648.0 && value < 2147483648.0)) return CR_LABEL_BAD;
  const int64_t label = (int64_t)value;
  if (has_ignore && label == ignore) return CR_LABEL_IGNORED;
  return label >= 0 && label < classes ? label : CR_LABEL_BAD;
}

/* Returns CREMA_E_RANGE; the text names the label and its index among `count`. Unless `ignores` is
 * true, the text suggests ignore_label. It is true if a label is ignored already, or none can be.
 */
crema_status cr_label_fail(double value, int64_t position, int64_t count, int64_t classes,
                           bool ignores);

#endif
