/* Sum, copy, axpby, and ReLU of halves, of tensors that are all held in one private layout: the
 * order of the values does not matter, so the memory is one long vector, pads (which are zero and
 * stay zero) included. Plain memory is left to the reference kernels.
 *
 * What sums and ReLUs read may also be views of that layout, or of plain memory: rows of the vector
 * that lie apart. */
#include <string.h>

#include "core/fail.h"
#include "device/backend/half_blocks.h"
#include "device/cpu/dnnl_prim.h"
#include "device/cpu/dnnl_rows.h"

enum {
  PARALLEL_MIN = 16384, /* values; below, one thread is faster */
  PIECE = 4096          /* values at a time; two pieces stay in the L1 cache */
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
  return (int64_t)(plan->format[0].layout->bytes / crema_dtype_size(plan->format[0].type));
}

static void *memory_of(const cr_call *call, int arg) {
  return (void *)call->buffer[arg].address;
}

/* The vector in pieces that lie in one row of all arguments. */
typedef struct pieces {
  int64_t rows, run; /* of run values */
  int64_t of_row;    /* pieces */
} pieces;

static bool is_view(const cr_plan *plan, int arg) {
  return plan->hint[arg].layout != NULL && plan->hint[arg].layout->gaps;
}

/* As plan_all, but arguments that are views of `layout` (NULL: plain memory) stay that, as long as
 * all have equal rows. The arguments from `results` on are written. */
static crema_status plan_views(cr_plan *plan, const cr_layout *layout, int results) {
  cr_dnnl_rows first = {0}, rows;
  crema_dtype type = CREMA_F32;
  bool views = false;
  for (int i = 0; i < results; ++i) views = views || is_view(plan, i);
  if (layout != NULL || !views) CR_TRY(plan_all(plan, layout));
  CR_TRY(cr_dnnl_one_type(plan, &type));
  for (int i = 0; i < results; ++i) {
    const cr_layout *held = plan->hint[i].layout;
    if (!is_view(plan, i) || held->packed != layout || held->type != type) continue;
    if (!cr_dnnl_view_rows(held, &rows)) continue;
    if (first.rows != 0 && first.rows != rows.rows) continue;
    first = rows;
    plan->format[i].layout = held;
  }
  if (layout == NULL && first.rows == 0) {
    return cr_fail(CREMA_E_UNSUPPORTED, "held in plain memory");
  }
  return CREMA_OK;
}

/* From one row of argument `arg` to the next. */
static int64_t step_of(const cr_plan *plan, int arg, int64_t run) {
  cr_dnnl_rows rows;
  return cr_dnnl_view_rows(plan->format[arg].layout, &rows) ? rows.step : run;
}

/* `result`: an argument without gaps. */
static pieces cut(const cr_plan *plan, int result) {
  const cr_layout *layout = plan->format[result].layout;
  const crema_shape *shape = &plan->desc->arg[result].shape;
  pieces p = {.rows = 1};
  cr_dnnl_rows rows;
  p.run = layout == NULL ? crema_shape_count(shape, 0, shape->axes)
                         : (int64_t)(layout->bytes / crema_dtype_size(plan->format[result].type));
  for (int i = 0; i < result; ++i) {
    if (!cr_dnnl_view_rows(plan->format[i].layout, &rows)) continue;
    p.rows = rows.rows;
    p.run = rows.run;
  }
  p.of_row = (p.run + PIECE - 1) / PIECE;
  return p;
}

static crema_status plan_sum(cr_plan *plan) {
  const int sources = plan->desc->args - 1;
  const cr_layout *layout = NULL;
  for (int i = 0; i < sources && layout == NULL; ++i) {
    const cr_layout *held = cr_format_packed(plan->hint[i]).layout;
    if (held == NULL || held->type != plan->desc->arg[i].type) continue;
    if (!cr_dnnl_layout_is_opaque(held)) layout = held;
  }
  return plan_views(plan, layout, sources);
}

/* sum = or += coeff * the `count` values of type `type` at element `at`. */
static void add_piece(crema_dtype type, const void *values, int64_t at, int64_t count, float coeff,
                      bool first, float *sum) {
  float block[PIECE];
  const float *src = (const float *)values + at;
  if (type != CREMA_F32) {
    cr_load_floats(type, values, at, count, block);
    src = block;
  }
  if (first) {
    for (int64_t i = 0; i < count; ++i) sum[i] = coeff * src[i];
  } else {
    for (int64_t i = 0; i < count; ++i) sum[i] += coeff * src[i];
  }
}

static crema_status run_sum(const cr_call *call) {
  const cr_plan *plan = call->plan;
  const int sources = call->desc->args - 1;
  const pieces p = cut(plan, sources);
  const crema_dtype type = plan->format[sources].type;
#pragma omp parallel for schedule(static) if (p.rows * p.run >= PARALLEL_MIN)
  for (int64_t i = 0; i < p.rows * p.of_row; ++i) {
    const int64_t row = i / p.of_row, from = i % p.of_row * PIECE;
    const int64_t n = p.run - from < PIECE ? p.run - from : PIECE;
    float sum[PIECE]; /* the result may be any of the sources */
    for (int s = 0; s < sources; ++s) {
      const int64_t at = row * step_of(plan, s, p.run) + from;
      add_piece(type, memory_of(call, s), at, n, call->desc->arg[s].scale, s == 0, sum);
    }
    cr_store_floats(type, memory_of(call, sources), row * p.run + from, n, sum);
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

/* ReLU in either direction of halves that the library has no code for on this processor, and of
 * views. */
static crema_status plan_relu(cr_plan *plan) {
  const bool backward = plan->desc->kind == CR_OP_UNARY_BWD;
  if (plan->desc->u.unary.function != CR_UNARY_RELU) {
    return cr_fail(CREMA_E_UNSUPPORTED, "function %d", (int)plan->desc->u.unary.function);
  }
  CR_TRY(plan_views(plan, cr_format_packed(plan->hint[0]).layout, backward ? 3 : 1));
  /* dst is neither read nor, like all that a kernel only reads, has to be held in the layout. */
  if (backward) plan->format[1] = plan->hint[1];
  return CREMA_OK;
}

/* Whether the op reads argument `arg` as the view that it is. */
static bool reads_view(const cr_plan *plan, int arg) {
  return plan->format[arg].layout != NULL && plan->format[arg].layout->gaps;
}

static crema_status plan_relu_views(cr_plan *plan) {
  const int given = plan->desc->kind == CR_OP_UNARY_BWD ? 2 : 0;
  CR_TRY(plan_relu(plan));
  if (reads_view(plan, 0) || reads_view(plan, given)) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "no views");
}

static crema_status run_relu_fwd(const cr_call *call) {
  const cr_plan *plan = call->plan;
  const pieces p = cut(plan, 1);
  const int64_t step = step_of(plan, 0, p.run);
  const crema_dtype type = plan->format[1].type;
  const float slope = (float)call->desc->u.unary.alpha;
#pragma omp parallel for schedule(static) if (p.rows * p.run >= PARALLEL_MIN)
  for (int64_t piece = 0; piece < p.rows * p.of_row; ++piece) {
    const int64_t row = piece / p.of_row, from = piece % p.of_row * PIECE;
    const int64_t n = p.run - from < PIECE ? p.run - from : PIECE;
    float x[PIECE];
    cr_load_floats(type, memory_of(call, 0), row * step + from, n, x);
    if (slope == 0.0f) {
      /* Not a product, so that -infinity gives 0. */
      for (int64_t i = 0; i < n; ++i) x[i] = x[i] < 0.0f ? 0.0f : x[i];
    } else {
      for (int64_t i = 0; i < n; ++i) x[i] = x[i] < 0.0f ? slope * x[i] : x[i];
    }
    cr_store_floats(type, memory_of(call, 1), row * p.run + from, n, x);
  }
  return CREMA_OK;
}

/* src, dst, diff_dst, diff_src. */
static crema_status run_relu_bwd(const cr_call *call) {
  const cr_plan *plan = call->plan;
  const pieces p = cut(plan, 3);
  const int64_t source = step_of(plan, 0, p.run), given = step_of(plan, 2, p.run);
  const crema_dtype type = plan->format[3].type;
  const float slope = (float)call->desc->u.unary.alpha;
#pragma omp parallel for schedule(static) if (p.rows * p.run >= PARALLEL_MIN)
  for (int64_t piece = 0; piece < p.rows * p.of_row; ++piece) {
    const int64_t row = piece / p.of_row, from = piece % p.of_row * PIECE;
    const int64_t n = p.run - from < PIECE ? p.run - from : PIECE;
    float x[PIECE], gradient[PIECE];
    cr_load_floats(type, memory_of(call, 0), row * source + from, n, x);
    cr_load_floats(type, memory_of(call, 2), row * given + from, n, gradient);
    for (int64_t i = 0; i < n; ++i) gradient[i] = x[i] > 0.0f ? gradient[i] : slope * gradient[i];
    cr_store_floats(type, memory_of(call, 3), row * p.run + from, n, gradient);
  }
  return CREMA_OK;
}

#define HALVES (CR_TYPE(F16) | CR_TYPE(BF16))

CR_KERNEL(relu_fwd_views, UNARY_FWD, .types = CR_DNNL_TYPES, .views = true, .follows_hints = true,
          .plan = plan_relu_views, .run = run_relu_fwd);

CR_KERNEL(relu_bwd_views, UNARY_BWD, .types = CR_DNNL_TYPES, .views = true, .follows_hints = true,
          .plan = plan_relu_views, .run = run_relu_bwd);

CR_KERNEL(relu_fwd_blocked, UNARY_FWD, .types = HALVES, .follows_hints = true, .plan = plan_relu,
          .run = run_relu_fwd);

CR_KERNEL(relu_bwd_blocked, UNARY_BWD, .types = HALVES, .follows_hints = true, .plan = plan_relu,
          .run = run_relu_bwd);

CR_KERNEL(sum_dnnl, SUM, .types = CR_DNNL_TYPES, .library = true, .views = true,
          .follows_hints = true, .plan = plan_sum, .run = run_sum);

CR_KERNEL(copy_dnnl, COPY, .types = CR_DNNL_TYPES, .library = true, .follows_hints = true,
          .plan = plan_copy, .run = run_copy);

CR_KERNEL(axpby_dnnl, AXPBY, .types = CR_DNNL_TYPES, .library = true, .follows_hints = true,
          .plan = plan_axpby, .run = run_axpby);
