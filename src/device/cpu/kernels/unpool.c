/* The reverse of max pooling: each value is written to the position in the mask, or backward read
 * from it.
 *
 *   dst[p][mask[p][i]] = src[p][i], 0 elsewhere; diff_src[p][i] = diff_dst[p][mask[p][i]] */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"

static crema_status unpool_fwd_plan(cr_plan *plan) {
  return cr_check_maps(plan, 0, 2);
}

static crema_status unpool_bwd_plan(cr_plan *plan) {
  return cr_check_maps(plan, 2, 0);
}

static crema_status check_mask(const cr_real *mask, int64_t count, int64_t plane) {
  for (int64_t i = 0; i < count; ++i) {
    if (mask[i] >= 0 && mask[i] < (cr_real)plane) continue;
    return cr_fail(CREMA_E_RANGE, "value %lld of the mask is %g, and a plane has %lld values",
                   (long long)i, (double)mask[i], (long long)plane);
  }
  return CREMA_OK;
}

/* Small planes, whose values belong at positions of large ones. */
typedef struct unpooling {
  int64_t planes, small, large; /* values of a plane */
  const cr_real *mask;          /* argument 1, checked */
} unpooling;

/* The arguments that have the small and the large planes. */
static crema_status unpooling_of(const cr_call *call, int small, int large, unpooling *out) {
  const int64_t *s = call->desc->arg[small].shape.dim, *l = call->desc->arg[large].shape.dim;
  *out = (unpooling){.planes = s[0] * s[1],
                     .small = s[2] * s[3],
                     .large = l[2] * l[3],
                     .mask = cr_as_reals(call->buffer, 1)};
  return check_mask(out->mask, out->planes * out->small, out->large);
}

/* src, mask, dst. */
static crema_status unpool_fwd(const cr_call *call) {
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 2);
  unpooling u;
  CR_TRY(unpooling_of(call, 0, 2, &u));
  memset(dst, 0, (size_t)(u.planes * u.large) * sizeof *dst);
#pragma omp parallel for schedule(static) if (u.planes * u.large >= CR_REF_PARALLEL_MIN)
  for (int64_t p = 0; p < u.planes; ++p) {
    for (int64_t i = p * u.small; i < (p + 1) * u.small; ++i) {
      dst[p * u.large + (int64_t)u.mask[i]] = src[i];
    }
  }
  return CREMA_OK;
}

/* diff_dst, mask, diff_src. */
static crema_status unpool_bwd(const cr_call *call) {
  const cr_real *diff_dst = cr_as_reals(call->buffer, 0);
  cr_real *diff_src = cr_as_reals(call->buffer, 2);
  unpooling u;
  CR_TRY(unpooling_of(call, 2, 0, &u));
#pragma omp parallel for schedule(static) if (u.planes * u.small >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < u.planes * u.small; ++i) {
    diff_src[i] = diff_dst[i / u.small * u.large + (int64_t)u.mask[i]];
  }
  return CREMA_OK;
}

CR_REF_KERNEL(unpool_fwd, UNPOOL_FWD, .plan = unpool_fwd_plan, .run = unpool_fwd);
CR_REF_KERNEL(unpool_bwd, UNPOOL_BWD, .plan = unpool_bwd_plan, .run = unpool_bwd);
