/* The rows of NORMALIZE and of its gradient. */
#ifndef CR_DEVICE_CPU_KERNELS_NORMALIZE_H
#define CR_DEVICE_CPU_KERNELS_NORMALIZE_H

#include "core/fail.h"
#include "device/cpu/kernels/element_type.h"

/* A source (N, C, inner): with `across` a row is a sample, else the channels of one position. */
typedef struct cr_norm {
  cr_split s;
  bool across;
  int64_t scales; /* one, or one per channel */
  int64_t norms;  /* of a sample */
} cr_norm;

static inline cr_norm cr_norm_of(const cr_op_desc *desc) {
  cr_norm n = {cr_op_split(desc, 0, 1), desc->u.normalize.across, cr_op_arg_count(desc, 1), 1};
  if (!n.across) n.norms = n.s.inner;
  return n;
}

static inline crema_status cr_norm_check(const cr_plan *plan, int norm) {
  const cr_op_desc *desc = plan->desc;
  const cr_norm n = cr_norm_of(desc);
  if ((n.scales == 1 || n.scales == n.s.channels) &&
      cr_op_arg_count(desc, norm) == n.s.outer * n.norms) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE, "%s: %lld scales for %lld channels", cr_op_kind_name(desc->kind),
                 (long long)n.scales, (long long)n.s.channels);
}

#endif
