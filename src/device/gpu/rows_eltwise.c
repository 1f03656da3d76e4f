/* Element-wise rows: functions of one argument, sums and products of several. */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/gpu/kernels/device_functions.h"
#include "device/gpu/rows.h"

/* The order of the values does not matter if all arguments have it, and thus the same channels. */
static crema_status follow_all(cr_plan *plan) {
  const cr_op_arg *arg = plan->desc->arg;
  const cr_split first = cr_op_split(plan->desc, 0, 1);
  for (int i = 1; i < plan->desc->args; ++i) {
    if (arg[i].shape.axes < 0) continue;
    const cr_split s = cr_op_split(plan->desc, i, 1);
    if (s.outer != first.outer || s.channels != first.channels || s.inner != first.inner) {
      return CREMA_OK;
    }
  }
  return cr_gpu_follow(plan, ~0u);
}

static crema_status unary_plan(cr_plan *plan) {
  const unsigned function = (unsigned)plan->desc->u.unary.function;
  if (function < CR_UNARY_FUNCTIONS) return follow_all(plan);
  return cr_fail(CREMA_E_UNSUPPORTED, "element-wise function %u", function);
}

static cr_unary_args unary_args(const cr_call *call) {
  return (cr_unary_args){.x = cr_gpu_values(call, 0),
                         .function = (int)call->desc->u.unary.function,
                         .alpha = (float)call->desc->u.unary.alpha,
                         .beta = (float)call->desc->u.unary.beta,
                         .gamma = (float)call->desc->u.unary.gamma};
}

/* src, dst. */
static crema_status unary_fwd(const cr_call *call) {
  cr_unary_args args = unary_args(call);
  args.out = cr_gpu_values(call, 1);
  const bool relu = args.function == CR_UNARY_RELU;
  return cr_gpu_each_of(call, 0, relu ? CR_DEVICE_FUNCTION_relu_fwd : CR_DEVICE_FUNCTION_unary_fwd,
                        &args);
}

/* src, dst, diff_dst, diff_src. */
static crema_status unary_bwd(const cr_call *call) {
  cr_unary_args args = unary_args(call);
  args.y = cr_gpu_values(call, 1);
  args.dy = cr_gpu_values(call, 2);
  args.out = cr_gpu_values(call, 3);
  const bool relu = args.function == CR_UNARY_RELU;
  return cr_gpu_each_of(call, 0, relu ? CR_DEVICE_FUNCTION_relu_bwd : CR_DEVICE_FUNCTION_unary_bwd,
                        &args);
}

/* How many arguments are sources: all but dst, and aux or diff_src. */
static int sources_of(const cr_op_desc *desc) {
  const bool two_others = desc->kind == CR_OP_PROD_BWD || desc->kind == CR_OP_MAX;
  return desc->args - (two_others ? 2 : 1);
}

static crema_status many_plan(cr_plan *plan) {
  const int sources = sources_of(plan->desc);
  if (sources <= CR_GPU_SOURCES) return follow_all(plan);
  return cr_fail(CREMA_E_UNSUPPORTED, "%d sources are more than the %d of one kernel", sources,
                 CR_GPU_SOURCES);
}

/* src..., then dst; for MAX also aux; for PROD_BWD diff_dst and diff_src. */
static crema_status many(const cr_call *call) {
  const int sources = sources_of(call->desc);
  cr_device_function function = CR_DEVICE_FUNCTION_prod;
  cr_many_args args = {.sources = sources, .skip = -1, .out = cr_gpu_values(call, sources)};
  for (int k = 0; k < sources; ++k) {
    args.x[k] = cr_gpu_values(call, k);
    args.coeff[k] = 1;
  }
  switch (call->desc->kind) {
    case CR_OP_SUM:
      for (int k = 0; k < sources; ++k) args.coeff[k] = call->desc->arg[k].scale;
      args.rectify = call->desc->u.sum.rectify;
      function = sources == 2 ? CR_DEVICE_FUNCTION_sum_of_two : CR_DEVICE_FUNCTION_sum;
      break;
    case CR_OP_MAX:
      args.which = cr_gpu_i32(call, sources + 1);
      function = CR_DEVICE_FUNCTION_max;
      break;
    case CR_OP_PROD_BWD:
      args.skip = call->desc->u.index;
      args.first = args.out;
      args.out = cr_gpu_values(call, sources + 1);
      break;
    default: break;
  }
  return cr_gpu_each_of(call, sources, function, &args);
}

/* diff_dst, aux, diff_src. */
static crema_status max_bwd(const cr_call *call) {
  const cr_max_bwd_args args = {.dy = cr_gpu_values(call, 0),
                                .which = cr_gpu_i32(call, 1),
                                .dx = cr_gpu_values(call, 2),
                                .index = call->desc->u.index};
  return cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_max_bwd, &args);
}

static crema_status axpby(const cr_call *call) {
  const cr_axpby_args args = {.x = cr_gpu_values(call, 0),
                              .out = cr_gpu_values(call, 1),
                              .alpha = (float)call->scalars->alpha,
                              .beta = (float)call->scalars->beta};
  return cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_axpby, &args);
}

static crema_status set(const cr_call *call) {
  const cr_set_args args = {.y = cr_gpu_values(call, 0), .value = (float)call->desc->u.value};
  return cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_set, &args);
}

static crema_status copy_plan(cr_plan *plan) {
  CR_TRY(cr_check_copy(plan));
  return follow_all(plan);
}

static crema_status copy(const cr_call *call) {
  const uintptr_t src = call->buffer[0].address, dst = call->buffer[1].address;
  const size_t bytes = cr_gpu_bytes(call, 0);
  return bytes == 0 || src == dst ? CREMA_OK : cr_gpu_copy_bytes(call, dst, src, bytes);
}

CR_GPU_FOLLOWING_ROW(unary_fwd, UNARY_FWD, unary_fwd, .plan = unary_plan);
CR_GPU_FOLLOWING_ROW(unary_bwd, UNARY_BWD, unary_bwd, .plan = unary_plan);
CR_GPU_FOLLOWING_ROW(sum, SUM, many, .plan = many_plan);
CR_GPU_FOLLOWING_ROW(prod, PROD, many, .plan = many_plan);
CR_GPU_FOLLOWING_ROW(prod_bwd, PROD_BWD, many, .plan = many_plan);
CR_GPU_FOLLOWING_ROW(max, MAX, many, .plan = many_plan);
CR_GPU_FOLLOWING_ROW(max_bwd, MAX_BWD, max_bwd, .plan = follow_all);
CR_GPU_SCALARS_ROW(axpby, AXPBY, axpby, .follows_hints = true, .plan = follow_all);
CR_GPU_ROW(set, SET, set, .plan = NULL);
CR_GPU_FOLLOWING_ROW(copy, COPY, copy, .plan = copy_plan);
CR_GPU_ROW_OF(copy_f64_gpu, COPY, F64, copy, false, .plan = cr_check_copy);
CR_GPU_ROW_OF(copy_i32_gpu, COPY, I32, copy, false, .plan = cr_check_copy);
CR_GPU_ROW_OF(copy_u8_gpu, COPY, U8, copy, false, .plan = cr_check_copy);
