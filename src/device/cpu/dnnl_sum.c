/* Sum, copy and axpby of tensors that are all held in one private layout: the order of the values
 * does not matter, so the memory is one long vector, pads (which are zero and stay zero)
 * included. Plain memory is left to the reference kernels. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/kernel.h"
#include "device/cpu/dnnl_layout.h"
#include "device/cpu/dnnl_rows.h"

enum {
  PARALLEL_MIN = 16384, /* values; below, one thread is faster */
  PIECE = 4096          /* values that one source contributes at a time; stays in the L1 cache */
};

static bool is_usable(const cr_layout *layout) {
  return layout != NULL && layout->type == CREMA_F32 && !cr_dnnl_layout_is_opaque(layout);
}

/* Asks for all arguments in `layout`. */
static crema_status plan_all(cr_plan *plan, const cr_layout *layout) {
  if (!is_usable(layout)) return cr_fail(CREMA_E_UNSUPPORTED, "held in plain memory");
  for (int i = 0; i < plan->desc->args; ++i) {
    if (plan->desc->arg[i].type != CREMA_F32) {
      return cr_fail(CREMA_E_UNSUPPORTED, "element type %s",
                     crema_dtype_name(plan->desc->arg[i].type));
    }
    plan->format[i] = (cr_format){CREMA_F32, layout};
  }
  return CREMA_OK;
}

static int64_t held_values(const cr_plan *plan) {
  return (int64_t)(plan->format[0].layout->bytes / sizeof(float));
}

static crema_status plan_sum(cr_plan *plan) {
  const cr_layout *layout = NULL;
  for (int i = 0; i < plan->desc->args - 1 && !is_usable(layout); ++i) {
    layout = plan->hint[i].layout;
  }
  return plan_all(plan, layout);
}

static crema_status run_sum(const cr_call *call) {
  const cr_op_arg *arg = call->desc->arg;
  int sources = call->desc->args - 1;
  int64_t count = held_values(call->plan);
  float *dst = cr_f32(call->buffer, sources);
#pragma omp parallel for schedule(static) if (count >= PARALLEL_MIN)
  for (int64_t from = 0; from < count; from += PIECE) {
    int64_t n = count - from < PIECE ? count - from : PIECE;
    float sum[PIECE]; /* dst may be any of the sources */
    const float *first = cr_f32(call->buffer, 0) + from;
    float c = arg[0].scale;
    for (int64_t i = 0; i < n; ++i) sum[i] = c * first[i];
    for (int s = 1; s < sources; ++s) {
      const float *src = cr_f32(call->buffer, s) + from;
      c = arg[s].scale;
      for (int64_t i = 0; i < n; ++i) sum[i] += c * src[i];
    }
    memcpy(dst + from, sum, (size_t)n * sizeof *dst);
  }
  return CREMA_OK;
}

static crema_status plan_copy(cr_plan *plan) {
  return plan_all(plan, plan->hint[0].layout);
}

static crema_status run_copy(const cr_call *call) {
  const float *src = cr_f32(call->buffer, 0);
  float *dst = cr_f32(call->buffer, 1);
  int64_t count = held_values(call->plan);
  if (src == dst) return CREMA_OK;
#pragma omp parallel for schedule(static) if (count >= PARALLEL_MIN)
  for (int64_t from = 0; from < count; from += PIECE) {
    int64_t n = count - from < PIECE ? count - from : PIECE;
    memcpy(dst + from, src + from, (size_t)n * sizeof *dst);
  }
  return CREMA_OK;
}

/* y keeps the layout that it has. */
static crema_status plan_axpby(cr_plan *plan) {
  return plan_all(plan, plan->hint[1].layout);
}

static crema_status run_axpby(const cr_call *call) {
  const float *x = cr_f32(call->buffer, 0);
  float *y = cr_f32(call->buffer, 1);
  float alpha = call->scalars->alpha, beta = call->scalars->beta;
  int64_t count = held_values(call->plan);
  if (beta == 0.0f) {
#pragma omp parallel for simd schedule(static) if (count >= PARALLEL_MIN)
    for (int64_t i = 0; i < count; ++i) y[i] = alpha * x[i];
  } else {
#pragma omp parallel for simd schedule(static) if (count >= PARALLEL_MIN)
    for (int64_t i = 0; i < count; ++i) y[i] = alpha * x[i] + beta * y[i];
  }
  return CREMA_OK;
}

CR_KERNEL(sum_f32_dnnl, SUM, .library = true, .follows_hints = true, .plan = plan_sum,
          .run = run_sum);

CR_KERNEL(copy_f32_dnnl, COPY, .library = true, .follows_hints = true, .plan = plan_copy,
          .run = run_copy);

CR_KERNEL(axpby_f32_dnnl, AXPBY, .library = true, .follows_hints = true, .plan = plan_axpby,
          .run = run_axpby);
