/* Inner product: dst = src W^T + bias, or src W with the weights stored transposed. */
#ifndef CR_DEVICE_CPU_KERNELS_INNER_PRODUCT_H
#define CR_DEVICE_CPU_KERNELS_INNER_PRODUCT_H

#include "core/fail.h"
#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/gemm.h"
#include "device/cpu/kernels/plan_state.h"
#include "device/cpu/kernels/post_ops.h"

typedef void cr_ip_multiply(const cr_gemm *gemm);

/* m rows of k values in, of n values out. */
typedef struct cr_ip_state {
  int64_t m, n, k;
} cr_ip_state;

static inline crema_status cr_ip_plan(cr_plan *plan, int src, int weights, int dst) {
  const cr_split in = cr_op_split(plan->desc, src, 0), out = cr_op_split(plan->desc, dst, 0);
  const cr_ip_state state = {.m = in.channels, .n = out.inner, .k = in.inner};
  if (out.channels != state.m || cr_op_arg_count(plan->desc, weights) != state.n * state.k) {
    const cr_op_arg *arg = plan->desc->arg;
    char text[3][128];
    return cr_fail(CREMA_E_SHAPE, "inner product of %s with weights %s to %s",
                   crema_shape_text(&arg[src].shape, text[0], sizeof text[0]),
                   crema_shape_text(&arg[weights].shape, text[1], sizeof text[1]),
                   crema_shape_text(&arg[dst].shape, text[2], sizeof text[2]));
  }
  if (cr_posts_add(cr_op_posts(plan->desc))) {
    plan->workspace_bytes = (size_t)(state.m * state.n) * sizeof(cr_real);
  }
  return cr_plan_keep(plan, &state, sizeof state);
}

static inline crema_status cr_ip_fwd_plan(cr_plan *plan) {
  return cr_ip_plan(plan, 0, 1, 3);
}
static inline crema_status cr_ip_bwd_data_plan(cr_plan *plan) {
  return cr_ip_plan(plan, 2, 1, 0);
}
static inline crema_status cr_ip_bwd_weights_plan(cr_plan *plan) {
  return cr_ip_plan(plan, 0, 2, 1);
}

/* src (M,K), weights (N,K) or (K,N), bias (N), dst (M,N). */
static inline crema_status cr_ip_forward(const cr_call *call, cr_ip_multiply *multiply) {
  const cr_ip_state *s = call->plan->state;
  const bool transpose = call->desc->u.ip.transpose;
  const cr_real *bias = cr_as_reals(call->buffer, 2);
  cr_real *dst = cr_as_reals(call->buffer, 3);
  const cr_posts *posts = cr_op_posts(call->desc);
  const cr_real *addend = cr_posts_add(posts) ? cr_as_reals(call->buffer, CR_ARG_ADDEND) : NULL;
  /* dst may be the addend. */
  cr_real *made = addend != NULL ? cr_as_reals(&call->workspace, 0) : dst;
  const cr_gemm gemm = {.m = s->m,
                        .n = s->n,
                        .k = s->k,
                        .a = cr_as_reals(call->buffer, 0),
                        .a_row = s->k,
                        .a_column = 1,
                        .b = cr_as_reals(call->buffer, 1),
                        .b_row = transpose ? s->n : s->k,
                        .b_transposed = !transpose,
                        .c = made,
                        .c_row = s->n};
  multiply(&gemm);
  for (int64_t i = 0; bias && i < s->m; ++i) {
#pragma omp simd
    for (int64_t j = 0; j < s->n; ++j) made[i * s->n + j] += bias[j];
  }
  if (cr_posts_count(posts) > 0) cr_ref_posts(posts, s->m * s->n, 0, made, addend, dst);
  return CREMA_OK;
}

/* diff_dst, weights, diff_src: diff_src = diff_dst W. */
static inline crema_status cr_ip_backward_data(const cr_call *call, cr_ip_multiply *multiply) {
  const cr_ip_state *s = call->plan->state;
  const bool transpose = call->desc->u.ip.transpose;
  const cr_gemm gemm = {.m = s->m,
                        .n = s->k,
                        .k = s->n,
                        .a = cr_as_reals(call->buffer, 0),
                        .a_row = s->n,
                        .a_column = 1,
                        .b = cr_as_reals(call->buffer, 1),
                        .b_row = transpose ? s->n : s->k,
                        .b_transposed = transpose,
                        .c = cr_as_reals(call->buffer, 2),
                        .c_row = s->k};
  multiply(&gemm);
  return CREMA_OK;
}

/* src, diff_dst, diff_weights, diff_bias: diff_weights (+)= diff_dst^T src, or src^T diff_dst. */
static inline crema_status cr_ip_backward_weights(const cr_call *call, cr_ip_multiply *multiply) {
  const cr_ip_state *s = call->plan->state;
  const bool transpose = call->desc->u.ip.transpose;
  const cr_real *src = cr_as_reals(call->buffer, 0), *diff_dst = cr_as_reals(call->buffer, 1);
  cr_real *diff_bias = cr_as_reals(call->buffer, 3);
  const cr_gemm gemm = {.m = transpose ? s->k : s->n,
                        .n = transpose ? s->n : s->k,
                        .k = s->m,
                        .a = transpose ? src : diff_dst,
                        .a_row = 1,
                        .a_column = transpose ? s->k : s->n,
                        .b = transpose ? diff_dst : src,
                        .b_row = transpose ? s->n : s->k,
                        .c = cr_as_reals(call->buffer, 2),
                        .c_row = transpose ? s->n : s->k,
                        .accumulate = call->accumulate[2]};
  multiply(&gemm);
  if (!diff_bias) return CREMA_OK;
    /* Each sum is rounded before it is added, so opposite gradients of a shared bias cancel. */
#pragma omp parallel for schedule(static) if (s->m * s->n >= CR_REF_PARALLEL_MIN)
  for (int64_t j = 0; j < s->n; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < s->m; ++i) sum += (double)diff_dst[i * s->n + j];
    diff_bias[j] = (call->accumulate[3] ? diff_bias[j] : 0) + (cr_real)sum;
  }
  return CREMA_OK;
}

#endif
