/* Dropout (Srivastava et al., 2014). Element i is kept or not by word i % 4 of the counter-based
 * generator at (s.seed, s.counter, i / 4): the mask does not depend on threads. */
#include "core/fail.h"
#include "core/rng.h"
#include "device/cpu/ref.h"
#include "device/cpu/ref_rows.h"

static float keep_scale(float ratio) {
  return ratio < 1 ? 1 / (1 - ratio) : 0;
}

/* src, dst, mask (1: kept). */
static crema_status dropout_fwd(cr_plan *plan, crema_context *context, const crema_devptr *buffer,
                                const bool *accumulate, const cr_op_scalars *scalars,
                                crema_devptr workspace) {
  (void)context, (void)accumulate, (void)workspace;
  if (!scalars) return cr_fail(CREMA_E_ARGUMENT, "dropout without a seed");
  const float *src = cr_f32(buffer, 0);
  float *dst = cr_f32(buffer, 1);
  uint8_t *mask = (uint8_t *)buffer[2].address;
  const int64_t count = cr_ref_count(plan, 0);
  const float ratio = plan->desc->u.dropout.ratio, scale = keep_scale(ratio);
  /* The share `ratio` of all 2^32 words lies below. */
  const uint64_t threshold = ratio > 0 ? (uint64_t)((double)ratio * 4294967296.0) : 0;
#pragma omp parallel for schedule(static) if (count >= CR_PLAIN_PARALLEL_MIN / 4)
  for (int64_t i = 0; i < count; i += 4) {
    uint32_t word[4];
    cr_philox(scalars->seed, scalars->counter, (uint64_t)i / 4, word);
    for (int64_t j = i; j < i + 4 && j < count; ++j) {
      const uint8_t kept = word[j - i] >= threshold;
      mask[j] = kept;
      dst[j] = kept ? src[j] * scale : 0;
    }
  }
  return CREMA_OK;
}

/* diff_dst, mask, diff_src. */
static crema_status dropout_bwd(cr_plan *plan, crema_context *context, const crema_devptr *buffer,
                                const bool *accumulate, const cr_op_scalars *scalars,
                                crema_devptr workspace) {
  (void)context, (void)accumulate, (void)scalars, (void)workspace;
  const float *diff_dst = cr_f32(buffer, 0);
  const uint8_t *mask = (const uint8_t *)buffer[1].address;
  float *diff_src = cr_f32(buffer, 2);
  const int64_t count = cr_ref_count(plan, 0);
  const float scale = keep_scale(plan->desc->u.dropout.ratio);
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_PLAIN_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) diff_src[i] = mask[i] ? diff_dst[i] * scale : 0;
  return CREMA_OK;
}

const cr_kernel cr_dropout_fwd_f32_ref = {
    .name = "dropout_fwd_f32_ref", .op = CR_OP_DROPOUT_FWD, .type = CREMA_F32, .run = dropout_fwd};
const cr_kernel cr_dropout_bwd_f32_ref = {
    .name = "dropout_bwd_f32_ref", .op = CR_OP_DROPOUT_BWD, .type = CREMA_F32, .run = dropout_bwd};
