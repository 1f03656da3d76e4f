/* Pooling, concatenation, slicing and permutation of int8, and averages of int8 as floats. */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/int8.h"
#include "device/cpu/kernels/plain_rows.h"
#include "device/cpu/kernels/plan_state.h"
#include "device/cpu/kernels/pooling.h"
#include "device/cpu/kernels/ref.h"

crema_status cr_int8_check_average(const cr_plan *plan) {
  const crema_dtype from = plan->desc->arg[0].type, to = plan->desc->arg[1].type;
  if ((from == CREMA_U8 || from == CREMA_I8) && to == CREMA_F32 &&
      plan->desc->u.pool.method != CR_POOL_MAX) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_UNSUPPORTED, "averages of %s as %s", crema_dtype_name(from),
                 crema_dtype_name(to));
}

static crema_status plan_pool(cr_plan *plan) {
  if (plan->desc->arg[2].shape.axes >= 0) {
    return cr_fail(CREMA_E_UNSUPPORTED, "positions of maxima of integers");
  }
  return cr_pooling_plan(plan, &plan->desc->arg[0].shape, &plan->desc->arg[1].shape);
}

/* The largest value of a window, or its sum. */
static int64_t over_window(const cr_slide *s, const cr_span *span, crema_dtype type,
                           const void *plane, bool largest) {
  const int last = s->axes - 1;
  int64_t at[CR_MAX_SPATIAL], result = largest ? INT32_MIN : 0;
  memcpy(at, span->begin, sizeof at);
  do {
    const int64_t row = cr_slide_in_index(s, at) - at[last];
    for (int64_t x = span->begin[last]; x < span->end[last]; ++x) {
      const int32_t value = cr_int8_get(type, plane, row + x);
      if (!largest) result += value;
      else if (value > result) result = value;
    }
  } while (cr_span_next(s, span, at));
  return result;
}

/* src, dst. */
static crema_status pool(const cr_call *call) {
  const cr_pooling *p = call->plan->state;
  const cr_slide *s = &p->slide;
  const crema_dtype type = call->desc->arg[0].type, to = call->desc->arg[1].type;
  const float unit = to == CREMA_F32 ? call->desc->arg[0].scale : 1;
  const char *src = (const char *)call->buffer[0].address;
  const bool largest = call->desc->u.pool.method == CR_POOL_MAX;
#pragma omp parallel for schedule(static) if (p->planes * s->out_count >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < p->planes; ++c) {
    for (int64_t i = 0; i < s->out_count; ++i) {
      cr_span span;
      cr_slide_span(s, i, &span);
      float value = largest ? -INFINITY : 0;
      if (!span.empty) {
        const int64_t whole = over_window(s, &span, type, src + c * s->in_count, largest);
        value = (float)whole / (largest ? 1 : (float)cr_pooling_divisor(p, &span));
      }
      value *= unit;
      cr_int8_put(to, &value, 1, (void *)call->buffer[1].address, c * s->out_count + i);
    }
  }
  return CREMA_OK;
}

static crema_status plan_average(cr_plan *plan) {
  CR_TRY(cr_int8_check_average(plan));
  return cr_pooling_plan(plan, &plan->desc->arg[0].shape, &plan->desc->arg[1].shape);
}

/* src..., dst. */
static crema_status concat(const cr_call *call) {
  const int parts = call->desc->args - 1, axis = call->desc->u.axis;
  const cr_split all = cr_op_split(call->desc, parts, axis);
  char *dst = (char *)call->buffer[parts].address;
  for (int k = 0; k < parts; ++k) {
    const int64_t length = cr_op_split(call->desc, k, axis).channels * all.inner;
    const char *src = (const char *)call->buffer[k].address;
    if (length == 0) continue;
    for (int64_t row = 0; row < all.outer; ++row) {
      memcpy(dst + row * all.channels * all.inner, src + row * length, (size_t)length);
    }
    dst += length;
  }
  return CREMA_OK;
}

/* src, dst... */
static crema_status slice(const cr_call *call) {
  const int axis = call->desc->u.axis;
  const cr_split all = cr_op_split(call->desc, 0, axis);
  const char *src = (const char *)call->buffer[0].address;
  for (int k = 1; k < call->desc->args; ++k) {
    const int64_t length = cr_op_split(call->desc, k, axis).channels * all.inner;
    char *dst = (char *)call->buffer[k].address;
    for (int64_t row = 0; row < all.outer && length > 0 && dst != NULL; ++row) {
      memcpy(dst + row * length, src + row * all.channels * all.inner, (size_t)length);
    }
    src += length;
  }
  return CREMA_OK;
}

/* src, dst: axis a of dst is axis u.order[a] of src. */
static crema_status permute(const cr_call *call) {
  const crema_shape *from = &call->desc->arg[0].shape, *to = &call->desc->arg[1].shape;
  const char *src = (const char *)call->buffer[0].address;
  char *dst = (char *)call->buffer[1].address;
  int64_t step[CREMA_MAX_AXES];
  for (int a = 0; a < to->axes; ++a) {
    step[a] = crema_shape_count(from, call->desc->u.order[a] + 1, from->axes);
  }
  for (int64_t i = 0; i < cr_op_arg_count(call->desc, 1); ++i) {
    int64_t rest = i, at = 0;
    for (int a = to->axes - 1; a >= 0; --a) {
      at += rest % to->dim[a] * step[a];
      rest /= to->dim[a];
    }
    dst[i] = src[at];
  }
  return CREMA_OK;
}

#define INTEGERS(row, OP, of, ...) \
  const cr_kernel cr_##row = {.name = #row, .op = CR_OP_##OP, .type = CREMA_##of, __VA_ARGS__}

INTEGERS(pool_fwd_u8_ref, POOL_FWD, U8, .plan = plan_pool, .run = pool, .destroy = cr_plan_release);
INTEGERS(pool_fwd_i8_ref, POOL_FWD, I8, .plan = plan_pool, .run = pool, .destroy = cr_plan_release);
CR_KERNEL(average_int8_ref, AVERAGE_INT8, .plan = plan_average, .run = pool,
          .destroy = cr_plan_release);
INTEGERS(slice_u8_ref, SLICE, U8, .plan = cr_check_slice, .run = slice);
INTEGERS(slice_i8_ref, SLICE, I8, .plan = cr_check_slice, .run = slice);
INTEGERS(permute_u8_ref, PERMUTE, U8, .plan = cr_check_permute, .run = permute);
INTEGERS(permute_i8_ref, PERMUTE, I8, .plan = cr_check_permute, .run = permute);
INTEGERS(concat_u8_ref, CONCAT, U8, .plan = cr_check_concat, .run = concat);
INTEGERS(concat_i8_ref, CONCAT, I8, .plan = cr_check_concat, .run = concat);
