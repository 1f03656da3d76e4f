/* The rows of NORMALIZE and of its gradient. */
#ifndef CR_DEVICE_CPU_KERNELS_NORMALIZE_H
#define CR_DEVICE_CPU_KERNELS_NORMALIZE_H

#include "core/fail.h"
#include "device/cpu/kernels/element_type.h"

/* Rows that are computed together if a row is made of the channels of one position. */
enum { CR_NORM_WIDTH = 512 };

/* Rows of a source (N, C, inner): with `across` the values of a sample, else the channels of one
 * position. Blocks of rows are computed one by one. Block b begins at element *at, with row *row.
 */
typedef struct cr_norm_blocks {
  cr_split s;
  bool whole; /* a block is a sample, and a row */
  int64_t per_sample, count;
} cr_norm_blocks;

static inline cr_norm_blocks cr_norm_blocks_of(const cr_op_desc *desc) {
  cr_norm_blocks b = {.s = cr_op_split(desc, 0, 1), .per_sample = 1};
  b.whole = desc->u.normalize.across || b.s.inner == 1;
  if (!b.whole) b.per_sample = (b.s.inner + CR_NORM_WIDTH - 1) / CR_NORM_WIDTH;
  b.count = b.s.outer * b.per_sample;
  return b;
}

static inline int64_t cr_norm_block_at(const cr_norm_blocks *b, int64_t block, int64_t *at,
                                       int64_t *row) {
  const int64_t n = block / b->per_sample, i = block % b->per_sample * CR_NORM_WIDTH;
  *at = n * b->s.channels * b->s.inner + i;
  *row = b->whole ? n : n * b->s.inner + i;
  return b->s.inner - i < CR_NORM_WIDTH ? b->s.inner - i : CR_NORM_WIDTH;
}

/* A scale for each channel: `scale` has as many values, or one. */
static inline void cr_norm_scales(const cr_call *call, int64_t channels, cr_real *out) {
  const cr_real *scale = cr_as_reals(call->buffer, 1);
  const bool shared = cr_op_arg_count(call->desc, 1) == 1;
  for (int64_t c = 0; c < channels; ++c) out[c] = scale[shared ? 0 : c];
}

static inline crema_status cr_norm_check(const cr_plan *plan, int norm) {
  const cr_op_desc *desc = plan->desc;
  const cr_norm_blocks b = cr_norm_blocks_of(desc);
  const int64_t scales = cr_op_arg_count(desc, 1);
  const int64_t rows = b.whole ? b.s.outer : b.s.outer * b.s.inner;
  if ((scales == 1 || scales == b.s.channels) && cr_op_arg_count(desc, norm) == rows) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE, "%s: %lld scales for %lld channels", cr_op_kind_name(desc->kind),
                 (long long)scales, (long long)b.s.channels);
}

#endif
