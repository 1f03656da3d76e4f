/* What losses that are sums over positions share. Their gradients are s.alpha * diff_loss times the
 * derivative; CR_REF_PARTS parts of the sums are made in double. */
#ifndef CR_DEVICE_CPU_KERNELS_LOSS_H
#define CR_DEVICE_CPU_KERNELS_LOSS_H

#include "core/fail.h"
#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/label.h"

static inline crema_status cr_loss_factor(const cr_op_scalars *scalars, const cr_real *diff_loss,
                                          cr_real *out) {
  if (!scalars) return cr_fail(CREMA_E_ARGUMENT, "the loss gradient lacks its factor");
  *out = (cr_real)scalars->alpha * diff_loss[0];
  return CREMA_OK;
}

static inline double cr_loss_sum(const double *part) {
  double sum = 0;
  for (int p = 0; p < CR_REF_PARTS; ++p) sum += part[p];
  return sum;
}

/* Fails unless each row has a label of a class. */
static inline crema_status cr_loss_check_labels(const cr_real *label, int64_t rows,
                                                int64_t classes) {
  for (int64_t n = 0; n < rows; ++n) {
    if (cr_label_class(label[n], classes, false, 0) == CR_LABEL_BAD) {
      return cr_label_fail(label[n], n, rows, classes, true);
    }
  }
  return CREMA_OK;
}

#endif
