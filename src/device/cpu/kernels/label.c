#include "device/cpu/kernels/label.h"

#include "core/fail.h"

crema_status cr_label_fail(double value, int64_t position, int64_t count, int64_t classes,
                           bool ignores) {
  if (classes == 0) return cr_fail(CREMA_E_RANGE, "label %g, but there are no classes", value);
  return cr_fail(CREMA_E_RANGE,
                 "label %g at position %lld of %lld is outside 0..%lld: labels start at 0, and the "
                 "scores have %lld classes (num_output)%s",
                 value, (long long)position, (long long)count, (long long)classes - 1,
                 (long long)classes, ignores ? "" : "; ignore_label skips a label");
}
