/* Rounding to int8: y = round(f(x * scale[c] + bias[c]) / s), saturated, with the post operations f
 * and the scale s of the result. AFFINE_INT8 reads int8 and has s = 1. */
#include "core/fail.h"
#include "device/cpu/kernels/int8.h"
#define CR_REF_F32
#include "device/cpu/kernels/post_ops.h"

enum { PIECE = 256 };

crema_status cr_int8_check_quantize(const cr_plan *plan) {
  const cr_op_arg *to = &plan->desc->arg[3];
  if ((to->type == CREMA_U8 || to->type == CREMA_I8) && to->scale > 0) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "rounding to %s with scale %g", crema_dtype_name(to->type),
                 (double)to->scale);
}

crema_status cr_int8_check_affine(cr_plan *plan) {
  const cr_op_arg *from = &plan->desc->arg[0], *to = &plan->desc->arg[3];
  const bool rounds = to->type == CREMA_U8 || to->type == CREMA_I8;
  if ((from->type == CREMA_U8 || from->type == CREMA_I8) && (rounds || to->type == CREMA_F32)) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_UNSUPPORTED, "scaling %s to %s", crema_dtype_name(from->type),
                 crema_dtype_name(to->type));
}

/* True without scale, bias and post operations. */
static bool rounds_alone(const cr_op_desc *desc) {
  return desc->arg[1].shape.axes < 0 && desc->arg[2].shape.axes < 0 &&
         cr_posts_count(cr_op_posts(desc)) == 0;
}

/* Keeps the order of the source if channels do not matter; pads stay 0. */
static crema_status plan_quantize(cr_plan *plan) {
  CR_TRY(cr_int8_check_quantize(plan));
  const cr_layout *held = plan->hint[0].layout;
  const cr_layout *same =
      plan->hint[0].type == CREMA_F32 ? cr_layout_in(held, plan->desc->arg[3].type) : NULL;
  if (same == NULL || !rounds_alone(plan->desc)) return CREMA_OK;
  plan->format[0].layout = held;
  plan->format[3].layout = same;
  return CREMA_OK;
}

/* value[i] = f(value[i] * scale + bias), of elements `at` and on. */
static void scale_values(const cr_call *call, int64_t at, int64_t count, float *value) {
  const float *scale = cr_f32(call->buffer, 1), *bias = cr_f32(call->buffer, 2);
  const cr_split split = cr_op_split(call->desc, 0, 1);
  for (int64_t i = 0; i < count && (scale != NULL || bias != NULL); ++i) {
    const int64_t c = (at + i) / split.inner % split.channels;
    if (scale != NULL) value[i] *= scale[c];
    if (bias != NULL) value[i] += bias[c];
  }
  cr_ref_posts(cr_op_posts(call->desc), count, 0, value, NULL, value);
}

static crema_status run_round(const cr_call *call) {
  const cr_layout *layout = call->plan->format[0].layout;
  const int64_t count =
      layout != NULL ? (int64_t)(layout->bytes / sizeof(float)) : cr_op_arg_count(call->desc, 0);
  const void *from = (const void *)call->buffer[0].address;
  const crema_dtype type = call->desc->arg[0].type;
  const float factor = call->desc->kind == CR_OP_QUANTIZE ? 1 / call->desc->arg[3].scale : 1;
  const bool alone = rounds_alone(call->desc);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t at = 0; at < count; at += PIECE) {
    const int64_t n = count - at < PIECE ? count - at : PIECE;
    float value[PIECE];
    cr_int8_floats(type, from, at, n, value);
    if (!alone) scale_values(call, at, n, value);
    for (int64_t i = 0; i < n; ++i) value[i] *= factor;
    cr_int8_put(call->desc->arg[3].type, value, n, (void *)call->buffer[3].address, at);
  }
  return CREMA_OK;
}

CR_KERNEL(quantize_ref, QUANTIZE, .follows_hints = true, .plan = plan_quantize, .run = run_round);

CR_KERNEL(affine_int8_ref, AFFINE_INT8, .plan = cr_int8_check_affine, .run = run_round);
