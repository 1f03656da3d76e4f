/* Sum, copy and axpby of tensors that are all held in one private layout. The order of the values
 * does not matter, so the memory is one long vector. Its pads are zero and stay zero. Plain memory
 * is left to the plain kernels.
 *
 * Gain over the plain kernel and its conversions on Sapphire Rapids, one thread: 6.9x for the sums
 * of ResNet-50. Its forward pass takes 1.07x the time without this kernel. */
#include <string.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "device/backend/half_blocks.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/onednn/primitive.h"

enum {
  PARALLEL_MIN = 16384, /* values; below, one thread is faster */
  PIECE = 1024          /* values at a time; two pieces and the source values fit the L1 cache */
};

/* Asks for all arguments in `layout`. */
static crema_status plan_all(cr_plan *plan, const cr_layout *layout) {
  crema_dtype type = CREMA_F32;
  CR_TRY(cr_dnnl_one_type(plan, &type));
  if (layout == NULL || cr_dnnl_layout_is_opaque(layout)) {
    return cr_fail(CREMA_E_UNSUPPORTED, "held in plain memory");
  }
  if (layout->type != type) {
    return cr_fail(CREMA_E_UNSUPPORTED, "element type %s", crema_dtype_name(layout->type));
  }
  for (int i = 0; i < plan->desc->args; ++i) plan->format[i] = (cr_format){type, layout};
  return CREMA_OK;
}

static int64_t held_values(const cr_plan *plan) {
  return cr_dnnl_layout_values(plan->format[0].layout);
}

static void *memory_of(const cr_call *call, int arg) {
  return (void *)call->buffer[arg].address;
}

static crema_status plan_sum(cr_plan *plan) {
  const cr_layout *layout = NULL;
  for (int i = 0; i < plan->desc->args - 1 && layout == NULL; ++i) {
    const cr_layout *held = plan->hint[i].layout;
    if (held == NULL || held->type != plan->desc->arg[i].type) continue;
    if (!cr_dnnl_layout_is_opaque(held)) layout = held;
  }
  return plan_all(plan, layout);
}

/* sum = or += coeff * x */
CR_CLONES static void add_floats(const float *x, int64_t count, float coeff, bool first,
                                 float *sum) {
  if (first) {
    for (int64_t i = 0; i < count; ++i) sum[i] = coeff * x[i];
  } else {
    for (int64_t i = 0; i < count; ++i) sum[i] += coeff * x[i];
  }
}

/* sum = or += coeff * the `count` values of type `type` at element `at`. */
static void add_piece(crema_dtype type, const void *values, int64_t at, int64_t count, float coeff,
                      bool first, float *sum) {
  _Alignas(64) float block[PIECE];
  const float *src = (const float *)values + at;
  if (first && coeff == 1.0f) {
    cr_load_floats(type, values, at, count, sum);
    return;
  }
  if (type != CREMA_F32) {
    cr_load_floats(type, values, at, count, block);
    src = block;
  }
  add_floats(src, count, coeff, first, sum);
}

static crema_status run_sum(const cr_call *call) {
  const int sources = call->desc->args - 1;
  const int64_t count = held_values(call->plan);
  const crema_dtype type = call->plan->format[0].type;
#pragma omp parallel for schedule(static) if (count >= PARALLEL_MIN)
  for (int64_t from = 0; from < count; from += PIECE) {
    const int64_t n = count - from < PIECE ? count - from : PIECE;
    _Alignas(64) float sum[PIECE]; /* the result may be any of the sources */
    for (int s = 0; s < sources; ++s) {
      add_piece(type, memory_of(call, s), from, n, call->desc->arg[s].scale, s == 0, sum);
    }
    for (int64_t i = 0; call->desc->u.sum.rectify && i < n; ++i) sum[i] = sum[i] < 0 ? 0 : sum[i];
    cr_store_floats(type, memory_of(call, sources), from, n, sum);
  }
  return CREMA_OK;
}

static crema_status plan_copy(cr_plan *plan) {
  return plan_all(plan, plan->hint[0].layout);
}

static crema_status run_copy(const cr_call *call) {
  const char *src = memory_of(call, 0);
  char *dst = memory_of(call, 1);
  const int64_t bytes = (int64_t)call->plan->format[0].layout->bytes;
  enum { PART = PIECE * 4 };
  if (src == dst) return CREMA_OK;
#pragma omp parallel for schedule(static) if (held_values(call->plan) >= PARALLEL_MIN)
  for (int64_t from = 0; from < bytes; from += PART) {
    memcpy(dst + from, src + from, (size_t)(bytes - from < PART ? bytes - from : PART));
  }
  return CREMA_OK;
}

/* y keeps the layout that it has. */
static crema_status plan_axpby(cr_plan *plan) {
  return plan_all(plan, plan->hint[1].layout);
}

static crema_status run_axpby(const cr_call *call) {
  const float alpha = (float)call->scalars->alpha, beta = (float)call->scalars->beta;
  const int64_t count = held_values(call->plan);
  const crema_dtype type = call->plan->format[0].type;
  void *y = memory_of(call, 1);
#pragma omp parallel for schedule(static) if (count >= PARALLEL_MIN)
  for (int64_t from = 0; from < count; from += PIECE) {
    const int64_t n = count - from < PIECE ? count - from : PIECE;
    float sum[PIECE];
    add_piece(type, memory_of(call, 0), from, n, alpha, true, sum);
    if (beta != 0.0f) add_piece(type, y, from, n, beta, false, sum);
    cr_store_floats(type, y, from, n, sum);
  }
  return CREMA_OK;
}

CR_KERNEL(sum_fast, SUM, .types = CR_DNNL_TYPES, .library = true, .follows_hints = true,
          .plan = plan_sum, .run = run_sum);

CR_KERNEL(copy_fast, COPY, .types = CR_DNNL_TYPES, .library = true, .follows_hints = true,
          .plan = plan_copy, .run = run_copy);

CR_KERNEL(axpby_fast, AXPBY, .types = CR_DNNL_TYPES, .library = true, .follows_hints = true,
          .plan = plan_axpby, .run = run_axpby);
