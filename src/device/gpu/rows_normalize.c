/* Rows that bring values to length 1. */
#include <inttypes.h>

#include "core/fail.h"
#include "device/gpu/kernels/device_functions.h"
#include "device/gpu/rows.h"

static bool takes_samples(const cr_op_desc *desc) {
  return desc->u.normalize.across || cr_op_split(desc, 0, 1).inner == 1;
}

static int64_t rows_of(const cr_op_desc *desc) {
  const cr_split s = cr_op_split(desc, 0, 1);
  return takes_samples(desc) ? s.outer : s.outer * s.inner;
}

static crema_status normalize_plan(cr_plan *plan) {
  const bool forward = plan->desc->kind == CR_OP_NORMALIZE_FWD;
  const cr_split s = cr_op_split(plan->desc, 0, 1);
  const int64_t scales = cr_op_arg_count(plan->desc, 1);
  const int norm = forward ? 3 : 2; /* the argument with the rows' lengths */
  if (!forward) plan->workspace_bytes = cr_gpu_channel_scratchpad(s);
  if ((scales == 1 || scales == s.channels) &&
      cr_op_arg_count(plan->desc, norm) == rows_of(plan->desc)) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE, "%s: %" PRId64 " scales for %" PRId64 " channels",
                 cr_op_kind_name(plan->desc->kind), scales, s.channels);
}

static cr_normalize_args normalize_args(const cr_call *call) {
  return (cr_normalize_args){.x = cr_gpu_values(call, 0),
                             .scale = cr_gpu_values(call, 1),
                             .planes = cr_gpu_planes(cr_op_split(call->desc, 0, 1)),
                             .whole = takes_samples(call->desc),
                             .shared = cr_op_arg_count(call->desc, 1) == 1,
                             .eps = call->desc->u.normalize.eps};
}

/* Rows of neighbouring positions are read fastest by one thread each, other rows by a thread block.
 */
static crema_status each_row(const cr_call *call, cr_device_function function,
                             const cr_normalize_args *args) {
  const int64_t length = args->planes.channels.by * (args->whole ? args->planes.inner.by : 1);
  const bool side_by_side = !args->whole && args->planes.inner.by >= 32;
  return cr_gpu_blocks_in(call, function, args, rows_of(call->desc), side_by_side ? 1 : length);
}

/* src, scale, dst, norm. */
static crema_status normalize_fwd(const cr_call *call) {
  cr_normalize_args args = normalize_args(call);
  args.out = cr_gpu_values(call, 2);
  args.norm = cr_gpu_f32(call, 3);
  return each_row(call, CR_DEVICE_FUNCTION_normalize_fwd, &args);
}

/* src, scale, norm, diff_dst, diff_src, diff_scale. */
static crema_status normalize_bwd(const cr_call *call) {
  cr_normalize_args args = normalize_args(call);
  const cr_split s = cr_op_split(call->desc, 0, 1);
  args.norm = cr_gpu_f32(call, 2);
  args.dy = cr_gpu_values(call, 3);
  args.out = cr_gpu_values(call, 4);
  args.part = cr_gpu_scratchpad(call, 0);
  args.parts = cr_gpu_channel_parts(s);
  args.add = call->accumulate[5];
  if (call->desc->args > 5) args.diff_scale = cr_gpu_values(call, 5);
  if (args.diff_scale.at != NULL) {
    CR_TRY(cr_gpu_blocks_in(call, CR_DEVICE_FUNCTION_normalize_scale_parts, &args,
                            args.parts * s.channels, cr_gpu_part_length(s)));
    CR_TRY(cr_gpu_each_of(call, 1, CR_DEVICE_FUNCTION_normalize_scale_total, &args));
  }
  if (args.out.at == NULL) return CREMA_OK;
  return each_row(call, CR_DEVICE_FUNCTION_normalize_bwd, &args);
}

CR_GPU_ROW(normalize_fwd, NORMALIZE_FWD, normalize_fwd, .plan = normalize_plan);
CR_GPU_ROW(normalize_bwd, NORMALIZE_BWD, normalize_bwd, .plan = normalize_plan,
           .can_accumulate = true);
