/* Gathers rows by their index, as Embed and BatchReindex do: dst[i] = src[index[i]] + bias.
 * Backward, each row is added to its source row. */
#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"

/* Every index names a row. */
static crema_status check_index(const cr_real *index, int64_t count, int64_t rows) {
  for (int64_t i = 0; i < count; ++i) {
    if (!(index[i] >= 0 && (double)index[i] < (double)rows)) {
      return cr_fail(CREMA_E_RANGE, "index %g at position %lld of %lld is outside 0..%lld",
                     (double)index[i], (long long)i, (long long)count, (long long)rows - 1);
    }
  }
  return CREMA_OK;
}

CR_CLONES static void add_bias(int64_t count, const cr_value *row, const cr_value *bias,
                               cr_value *to) {
#pragma omp simd
  for (int64_t k = 0; k < count; ++k) cr_put(to, k, cr_get(row, k) + cr_get(bias, k));
}

/* src (R, K), index (N), dst (N, K), bias (K). */
static crema_status gather_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 0);
  const cr_real *index = cr_as_reals(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 1);
  const cr_value *src = cr_as_values(call->buffer, 0);
  const cr_value *bias = call->desc->args > 3 ? cr_as_values(call->buffer, 3) : NULL;
  cr_value *dst = cr_as_values(call->buffer, 2);
  CR_TRY(check_index(index, count, s.channels));
#pragma omp parallel for schedule(static) if (count * s.inner >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) {
    const cr_value *row = src + (int64_t)index[i] * s.inner;
    if (bias) add_bias(s.inner, row, bias, dst + i * s.inner);
    else memcpy(dst + i * s.inner, row, (size_t)s.inner * sizeof *row);
  }
  return CREMA_OK;
}

CR_CLONES static void add_row(int64_t count, const cr_value *from, cr_real *to) {
#pragma omp simd
  for (int64_t k = 0; k < count; ++k) to[k] += cr_get(from, k);
}

/* The number of threads; each has some columns of all rows. */
static int64_t strips_of(const cr_call *call, int64_t columns) {
  enum { LEAST = 64 };
  const int64_t threads = call->plan->threads > 0 ? call->plan->threads : 1;
  const int64_t most = columns / LEAST > 0 ? columns / LEAST : 1;
  return threads < most ? threads : most;
}

/* diff_dst (N, K), index, diff_src (R, K): each row is added to its source row. */
static crema_status gather_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 2, 0);
  const cr_real *index = cr_as_reals(call->buffer, 1);
  const cr_value *diff_dst = cr_as_values(call->buffer, 0);
  cr_real *sums = cr_as_reals(call->buffer, 2);
  const int64_t count = cr_op_arg_count(call->desc, 1), values = cr_op_arg_count(call->desc, 2);
  const int64_t strips = strips_of(call, s.inner);
  CR_TRY(check_index(index, count, s.channels));
  if (!call->accumulate[2]) memset(sums, 0, (size_t)values * sizeof *sums);
#pragma omp parallel for schedule(static) if (count * s.inner >= CR_REF_PARALLEL_MIN)
  for (int64_t strip = 0; strip < strips; ++strip) {
    const int64_t from = s.inner * strip / strips, to = s.inner * (strip + 1) / strips;
    for (int64_t i = 0; i < count; ++i) {
      add_row(to - from, diff_dst + i * s.inner + from, sums + (int64_t)index[i] * s.inner + from);
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(gather_fwd, GATHER_FWD, .plan = cr_check_gather, .run = gather_fwd);
CR_REF_KERNEL(gather_bwd, GATHER_BWD, .can_accumulate = true, .run = gather_bwd);
