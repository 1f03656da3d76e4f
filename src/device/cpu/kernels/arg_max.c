/* The K largest values along an axis and where they are. */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"

/* The largest values: of equal ones the later is the larger, and nan is below everything. Each rank
 * is the largest below the one before, that is below (value, channel) in this order. */
enum { LANES = 32 /* of a row */, STRIP = 128 /* positions side by side */ };

/* At first below nothing: nan, which compares with nothing, is looked for when all else is taken.
 */
typedef struct rank {
  cr_real value;
  int64_t channel;
} rank;

/* Keeps the larger of value `v` of channel c and of what is best so far, if v is below `bound`. */
CR_INLINE void keep_larger(cr_real v, int64_t c, cr_real bound, int64_t bound_at, cr_real *best,
                           int64_t *at) {
  const bool below = (v < bound) | ((v == bound) & (c < bound_at));
  const bool more = below & (v >= *best);
  *best = more ? v : *best;
  *at = more ? c : *at;
}

/* The last nan below `before`; there is one where no number is left. */
static int64_t last_nan(int64_t channels, int64_t inner, const cr_real *x, const rank *before) {
  int64_t c = isnan(before->value) ? before->channel - 1 : channels - 1;
  while (c > 0 && !isnan(x[c * inner])) --c;
  return c;
}

/* The rank behind `before` in a row. */
CR_REF_CLONES static int64_t next_of_row(int64_t channels, const cr_real *x, const rank *before) {
  const rank bound = *before;
  cr_real best[LANES], top = -INFINITY;
  int64_t at[LANES], last = -1;
  for (int i = 0; i < LANES; ++i) best[i] = -INFINITY, at[i] = -1;
  int64_t done = 0;
  for (; done + LANES <= channels; done += LANES) {
#pragma omp simd
    for (int i = 0; i < LANES; ++i) {
      keep_larger(x[done + i], done + i, bound.value, bound.channel, &best[i], &at[i]);
    }
  }
  for (int i = 0; done + i < channels; ++i) {
    keep_larger(x[done + i], done + i, bound.value, bound.channel, &best[i], &at[i]);
  }
  for (int i = 0; i < LANES; ++i) {
    const bool more = best[i] > top || (best[i] == top && at[i] > last);
    top = more ? best[i] : top;
    last = more ? at[i] : last;
  }
  return last;
}

/* The ranks behind those before at `width` positions side by side. */
CR_REF_CLONES static void next_of_strip(int64_t channels, int64_t inner, int64_t width,
                                        const cr_real *x, const rank *before, int64_t *at) {
  cr_real best[STRIP], bound[STRIP];
  int64_t bound_at[STRIP];
  for (int64_t i = 0; i < width; ++i) {
    best[i] = -INFINITY, at[i] = -1;
    bound[i] = before[i].value, bound_at[i] = before[i].channel;
  }
  for (int64_t c = 0; c < channels; ++c) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      keep_larger(x[c * inner + i], c, bound[i], bound_at[i], &best[i], &at[i]);
    }
  }
}

/* All ranks at `width` positions, of which the first one's values begin at x and whose results
 * begin at `indices` and, unless NULL, `values`. */
static void rank_strip(const cr_split *s, int64_t ranks, int64_t width, const cr_real *x,
                       cr_real *indices, cr_real *values) {
  rank before[STRIP];
  int64_t at[STRIP];
  for (int64_t i = 0; i < width; ++i) before[i] = (rank){INFINITY, s->channels};
  for (int64_t k = 0; k < ranks; ++k) {
    if (s->inner == 1) at[0] = next_of_row(s->channels, x, before);
    else next_of_strip(s->channels, s->inner, width, x, before, at);
    for (int64_t i = 0; i < width; ++i) {
      const int64_t to = k * s->inner + i;
      if (at[i] < 0) at[i] = last_nan(s->channels, s->inner, x + i, &before[i]);
      indices[to] = (cr_real)at[i];
      if (values) values[to] = x[at[i] * s->inner + i];
      before[i] = (rank){x[at[i] * s->inner + i], at[i]};
    }
  }
}

/* src (outer, C, inner), indices (outer, K, inner), values (outer, K, inner): the K largest over C
 * in falling order. */
static crema_status arg_max(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const int64_t ranks = call->desc->arg[1].shape.dim[1], strips = (s.inner + STRIP - 1) / STRIP;
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *indices = cr_as_reals(call->buffer, 1);
  cr_real *values = cr_as_reals(call->buffer, 2);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t p = 0; p < s.outer * strips; ++p) {
    const int64_t n = p / strips, begin = p % strips * STRIP;
    const int64_t width = s.inner - begin < STRIP ? s.inner - begin : STRIP;
    const int64_t to = n * ranks * s.inner + begin;
    rank_strip(&s, ranks, width, src + n * s.channels * s.inner + begin, indices + to,
               values ? values + to : NULL);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(arg_max, ARG_MAX, .plan = cr_check_arg_max, .run = arg_max);
