#include "device/cpu/kernels/label.h"

#include "core/fail.h"

crema_status cr_label_fail(double value, int64_t position, int64_t count, int64_t classes,
                           bool ignores) {
  if (classes == 0) return cr_fail(CREMA_E_RANGE, "label %g, but there are no classes", value);
  return cr_fail(CREMA_E_RANGE, "label %g at position %lld of %lld is outside 0..%lld%s", value,
                 (long long)position, (long long)count, (long long)classes - 1,
                 ignores ? "" : "; ignore_label leaves labels out");
}
