/* The K largest values along an axis and their positions. */
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"

typedef struct rank {
  cr_real value;
  int64_t channel;
} rank;

/* Values fall. Among equal values the later comes first, and NaN comes last. */
static bool precedes(rank a, rank b) {
  if (isnan(a.value) || isnan(b.value)) {
    return isnan(a.value) && isnan(b.value) ? a.channel > b.channel : isnan(b.value);
  }
  return a.value > b.value || (a.value == b.value && a.channel > b.channel);
}

/* The first of x[0], x[inner], ... after `before`. */
static rank next_rank(int64_t channels, int64_t inner, const cr_real *x, rank before) {
  rank next = {0, -1};
  for (int64_t c = 0; c < channels; ++c) {
    const rank r = {x[c * inner], c};
    if (precedes(before, r) && (next.channel < 0 || precedes(r, next))) next = r;
  }
  return next;
}

/* src (outer, C, inner), indices (outer, K, inner), values (outer, K, inner): the K largest over C
 * in falling order. */
static crema_status arg_max(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const int64_t ranks = call->desc->arg[1].shape.dim[1];
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *indices = cr_as_reals(call->buffer, 1);
  cr_real *values = cr_as_reals(call->buffer, 2);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t p = 0; p < s.outer * s.inner; ++p) {
    const int64_t n = p / s.inner, i = p % s.inner;
    const cr_real *x = src + n * s.channels * s.inner + i;
    rank r = {INFINITY, s.channels}; /* precedes all */
    for (int64_t k = 0; k < ranks; ++k) {
      const int64_t to = (n * ranks + k) * s.inner + i;
      r = next_rank(s.channels, s.inner, x, r);
      indices[to] = (cr_real)r.channel;
      if (values) values[to] = r.value;
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(arg_max, ARG_MAX, .plan = cr_check_arg_max, .run = arg_max);
