/* A convolution with other weights at each position, on the columns that im2col makes.
 *
 *   dst[n][o][p] = sum over k of weights[o][k][p] columns[n][k][p] + bias[o][p]
 *
 * Positions are neighbours in memory, and neighbours are computed together. */
#include "core/fail.h"
#include "device/cpu/kernels/element_type.h"

typedef struct local_extents {
  int64_t samples, inner, outputs, positions; /* N, K, O, P */
} local_extents;

/* The arguments with the columns (N, K, P), the weights (O, K, P) and the results (N, O, P). */
static crema_status extents_of(const cr_op_desc *desc, int columns, int weights, int results,
                               local_extents *out) {
  const crema_shape *c = &desc->arg[columns].shape, *w = &desc->arg[weights].shape;
  const crema_shape *r = &desc->arg[results].shape;
  if (c->axes != 3 || w->axes != 3 || r->axes != 3 || c->dim[0] != r->dim[0] ||
      c->dim[1] != w->dim[1] || w->dim[0] != r->dim[1] || c->dim[2] != w->dim[2] ||
      r->dim[2] != w->dim[2]) {
    return cr_fail(CREMA_E_SHAPE, "columns, weights and results of a local convolution do not fit");
  }
  *out = (local_extents){c->dim[0], c->dim[1], r->dim[1], c->dim[2]};
  return CREMA_OK;
}

/* to[p] += a[p] b[p]. */
CR_REF_CLONES static void add_products(int64_t count, const cr_real *a, const cr_real *b,
                                       cr_real *to) {
#pragma omp simd
  for (int64_t p = 0; p < count; ++p) to[p] += a[p] * b[p];
}

static crema_status local_fwd_plan(cr_plan *plan) {
  local_extents e = {0};
  CR_TRY(extents_of(plan->desc, 0, 1, 3, &e));
  if (plan->desc->arg[2].shape.axes < 0 ||
      cr_op_arg_count(plan->desc, 2) == e.outputs * e.positions) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE, "the bias of a local convolution has %lld values, not %lld",
                 (long long)cr_op_arg_count(plan->desc, 2), (long long)(e.outputs * e.positions));
}

/* columns, weights, bias, dst. */
static crema_status local_fwd(const cr_call *call) {
  const cr_real *columns = cr_as_reals(call->buffer, 0), *weights = cr_as_reals(call->buffer, 1);
  const cr_real *bias = cr_as_reals(call->buffer, 2);
  cr_real *dst = cr_as_reals(call->buffer, 3);
  local_extents e = {0};
  CR_TRY(extents_of(call->desc, 0, 1, 3, &e));
  const int64_t rows = e.samples * e.outputs;
#pragma omp parallel for schedule(static) if (rows * e.positions >= CR_REF_PARALLEL_MIN / 16)
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t n = r / e.outputs, o = r % e.outputs;
    cr_real *to = dst + r * e.positions;
    if (bias) memcpy(to, bias + o * e.positions, (size_t)e.positions * sizeof *to);
    else memset(to, 0, (size_t)e.positions * sizeof *to);
    for (int64_t k = 0; k < e.inner; ++k) {
      add_products(e.positions, weights + (o * e.inner + k) * e.positions,
                   columns + (n * e.inner + k) * e.positions, to);
    }
  }
  return CREMA_OK;
}

static crema_status local_bwd_data_plan(cr_plan *plan) {
  local_extents e = {0};
  return extents_of(plan->desc, 2, 1, 0, &e);
}

/* diff_dst, weights, diff_columns. */
static crema_status local_bwd_data(const cr_call *call) {
  const cr_real *diff_dst = cr_as_reals(call->buffer, 0), *weights = cr_as_reals(call->buffer, 1);
  cr_real *diff = cr_as_reals(call->buffer, 2);
  local_extents e = {0};
  CR_TRY(extents_of(call->desc, 2, 1, 0, &e));
  const int64_t rows = e.samples * e.inner;
#pragma omp parallel for schedule(static) if (rows * e.positions >= CR_REF_PARALLEL_MIN / 16)
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t n = r / e.inner, k = r % e.inner;
    memset(diff + r * e.positions, 0, (size_t)e.positions * sizeof *diff);
    for (int64_t o = 0; o < e.outputs; ++o) {
      add_products(e.positions, weights + (o * e.inner + k) * e.positions,
                   diff_dst + (n * e.outputs + o) * e.positions, diff + r * e.positions);
    }
  }
  return CREMA_OK;
}

static crema_status local_bwd_weights_plan(cr_plan *plan) {
  local_extents e = {0};
  return extents_of(plan->desc, 0, 2, 1, &e);
}

/* columns, diff_dst, diff_weights. */
static crema_status local_bwd_weights(const cr_call *call) {
  const cr_real *columns = cr_as_reals(call->buffer, 0), *diff_dst = cr_as_reals(call->buffer, 1);
  cr_real *diff = cr_as_reals(call->buffer, 2);
  const bool adds = call->accumulate[2];
  local_extents e = {0};
  CR_TRY(extents_of(call->desc, 0, 2, 1, &e));
  const int64_t rows = e.outputs * e.inner;
#pragma omp parallel for schedule(static) if (rows * e.positions >= CR_REF_PARALLEL_MIN / 16)
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t o = r / e.inner, k = r % e.inner;
    if (!adds) memset(diff + r * e.positions, 0, (size_t)e.positions * sizeof *diff);
    for (int64_t n = 0; n < e.samples; ++n) {
      add_products(e.positions, columns + (n * e.inner + k) * e.positions,
                   diff_dst + (n * e.outputs + o) * e.positions, diff + r * e.positions);
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(local_fwd, LOCAL_FWD, .plan = local_fwd_plan, .run = local_fwd);
CR_REF_KERNEL(local_bwd_data, LOCAL_BWD_DATA, .plan = local_bwd_data_plan, .run = local_bwd_data);
CR_REF_KERNEL(local_bwd_weights, LOCAL_BWD_WEIGHTS, .plan = local_bwd_weights_plan,
              .run = local_bwd_weights, .can_accumulate = true);
