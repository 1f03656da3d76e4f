/* Dropout (Srivastava et al., 2014). Element i is kept or not by word i % 4 of the counter-based
 * generator at (s.seed, s.counter, i / 4): the mask does not depend on threads. */
#include "core/fail.h"
#include "core/rng.h"
#include "device/cpu/ref_type.h"

static cr_real keep_scale(cr_real ratio) {
  return ratio < 1 ? 1 / (1 - ratio) : 0;
}

/* src, dst, mask (1: kept). */
static crema_status dropout_fwd(const cr_call *call) {
  if (!call->scalars) return cr_fail(CREMA_E_ARGUMENT, "dropout without a seed");
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_value *dst = cr_as_values(call->buffer, 1);
  uint8_t *mask = (uint8_t *)call->buffer[2].address;
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const float ratio = call->desc->u.dropout.ratio;
  const cr_real scale = keep_scale(ratio);
  /* The share `ratio` of all 2^32 words lies below. */
  const uint64_t threshold = ratio > 0 ? (uint64_t)((double)ratio * 4294967296.0) : 0;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 4)
  for (int64_t i = 0; i < count; i += 4) {
    uint32_t word[4];
    cr_philox(call->scalars->seed, call->scalars->counter, (uint64_t)i / 4, word);
    for (int64_t j = i; j < i + 4 && j < count; ++j) {
      const uint8_t kept = word[j - i] >= threshold;
      mask[j] = kept;
      cr_put(dst, j, kept ? cr_get(src, j) * scale : 0);
    }
  }
  return CREMA_OK;
}

/* diff_dst, mask, diff_src. */
static crema_status dropout_bwd(const cr_call *call) {
  const cr_value *diff_dst = cr_as_values(call->buffer, 0);
  const uint8_t *mask = (const uint8_t *)call->buffer[1].address;
  cr_value *diff_src = cr_as_values(call->buffer, 2);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const cr_real scale = keep_scale(call->desc->u.dropout.ratio);
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) {
    cr_put(diff_src, i, mask[i] ? cr_get(diff_dst, i) * scale : 0);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(dropout_fwd, DROPOUT_FWD, .run = dropout_fwd);
CR_REF_KERNEL(dropout_bwd, DROPOUT_BWD, .run = dropout_bwd);
