/* Rows that move values: dropout, concat, slice, crop, permute, tile, gather; and rows over rows of
 * a matrix. */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/gpu/kernels/device_functions.h"
#include "device/gpu/rows.h"

static float keep_scale(float ratio) {
  return ratio < 1 ? 1 / (1 - ratio) : 0;
}

/* The device function only scales the kept values. */
static crema_status dropout_plan(cr_plan *plan) {
  if (!plan->desc->u.dropout.line) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "dropout along a line");
}

/* src, dst, mask. */
static crema_status dropout_fwd(const cr_call *call) {
  const float ratio = call->desc->u.dropout.ratio;
  const cr_dropout_args args = {
      .x = cr_gpu_values(call, 0),
      .out = cr_gpu_values(call, 1),
      .mask = (uint8_t *)call->buffer[2].address, /* NOLINT */
      .seed = call->scalars->seed,
      .counter = call->scalars->counter,
      .passes = cr_gpu_passes(call->context),
      .threshold = ratio > 0 ? (uint64_t)((double)ratio * 4294967296.0) : 0,
      .scale = keep_scale(ratio)};
  return cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_dropout_fwd, &args);
}

/* diff_dst, mask, diff_src. */
static crema_status dropout_bwd(const cr_call *call) {
  const cr_dropout_args args = {.x = cr_gpu_values(call, 0),
                                .out = cr_gpu_values(call, 2),
                                .mask = (uint8_t *)call->buffer[1].address, /* NOLINT */
                                .scale = keep_scale(call->desc->u.dropout.ratio)};
  return cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_dropout_bwd, &args);
}

/* Channels-last parts of the channels are parts of the innermost axis. */
static crema_status parts_plan(cr_plan *plan) {
  CR_TRY(plan->desc->kind == CR_OP_CONCAT ? cr_check_concat(plan) : cr_check_slice(plan));
  return plan->desc->u.axis == 1 ? cr_gpu_follow(plan, ~0u) : CREMA_OK;
}

static cr_split split_of(const cr_call *call, int arg) {
  const int axis = call->desc->u.axis;
  return axis == 1 ? cr_gpu_split(call->plan, arg) : cr_op_split(call->desc, arg, axis);
}

/* Whether no pack of any element type has elements of several parts. */
static bool moves_packs(const cr_parts_args *args) {
  enum { MOST = CR_PACK_BYTES / 2 };
  int64_t rest = args->step % MOST;
  for (int k = 0; k <= args->parts; ++k) rest |= args->begin[k] % MOST;
  return rest == 0;
}

/* Copies between the parts, arguments first to last - 1, and the whole: CR_GPU_PARTS a launch. */
static crema_status move_parts(const cr_call *call) {
  const bool joins = call->desc->kind == CR_OP_CONCAT;
  const int args = call->desc->args;
  const int whole = joins ? args - 1 : 0, first = joins ? 0 : 1, last = joins ? args - 1 : args;
  const cr_split all = split_of(call, whole);
  cr_parts_args moved = {
      .whole = cr_gpu_values(call, whole), .step = all.channels * all.inner, .joins = joins};
  for (int k = first; k < last; ++k) {
    const int64_t length = split_of(call, k).channels * all.inner;
    moved.part[moved.parts++] = cr_gpu_values(call, k);
    moved.begin[moved.parts] = moved.begin[moved.parts - 1] + length;
    if (moved.parts < CR_GPU_PARTS && k + 1 < last) continue;
    const int64_t width = moved.begin[moved.parts] - moved.begin[0];
    moved.length = cr_divisor_of(width);
    CR_TRY(cr_gpu_each_packed(call, CR_DEVICE_FUNCTION_move_parts, &moved, all.outer * width,
                              moves_packs(&moved)));
    moved.begin[0] = moved.begin[moved.parts];
    moved.parts = 0;
  }
  return CREMA_OK;
}

static void strides_of(const crema_shape *shape, int64_t *stride) {
  int64_t step = 1;
  for (int a = shape->axes - 1; a >= 0; --a) {
    stride[a] = step;
    step *= shape->dim[a];
  }
}

/* src, dst: walks over dst. */
static crema_status crop_fwd(const cr_call *call) {
  const crema_shape *part = &call->desc->arg[1].shape;
  cr_walk_args args = {
      .from = cr_gpu_values(call, 0), .out = cr_gpu_values(call, 1), .axes = part->axes};
  strides_of(&call->desc->arg[0].shape, args.stride);
  for (int a = 0; a < part->axes; ++a) {
    args.dim[a] = part->dim[a];
    args.base += call->desc->u.offset[a] * args.stride[a];
  }
  return cr_gpu_each_of(call, 1, CR_DEVICE_FUNCTION_walk_read, &args);
}

/* diff_dst, diff_src: walks over diff_src. */
static crema_status crop_bwd(const cr_call *call) {
  const crema_shape *part = &call->desc->arg[0].shape, *whole = &call->desc->arg[1].shape;
  cr_walk_args args = {
      .from = cr_gpu_values(call, 0), .out = cr_gpu_values(call, 1), .axes = whole->axes};
  strides_of(part, args.stride);
  for (int a = 0; a < whole->axes; ++a) {
    args.dim[a] = whole->dim[a];
    args.low[a] = call->desc->u.offset[a];
    args.high[a] = args.low[a] + part->dim[a];
  }
  return cr_gpu_each_of(call, 1, CR_DEVICE_FUNCTION_walk_window, &args);
}

static crema_status permute(const cr_call *call) {
  const crema_shape *to = &call->desc->arg[1].shape;
  int64_t stride[CREMA_MAX_AXES];
  cr_walk_args args = {
      .from = cr_gpu_values(call, 0), .out = cr_gpu_values(call, 1), .axes = to->axes};
  strides_of(&call->desc->arg[0].shape, stride);
  for (int a = 0; a < to->axes; ++a) {
    args.dim[a] = to->dim[a];
    args.stride[a] = stride[call->desc->u.order[a]];
  }
  return cr_gpu_each_of(call, 1, CR_DEVICE_FUNCTION_walk_read, &args);
}

/* src (outer, inner), dst (outer, tiles, inner); or the reverse. */
static crema_status tile(const cr_call *call) {
  const bool forward = call->desc->kind == CR_OP_TILE_FWD;
  const cr_split s = cr_op_split(call->desc, forward ? 1 : 0, 1);
  const cr_tile_args args = {.from = cr_gpu_values(call, 0),
                             .to = cr_gpu_values(call, 1),
                             .tiles = s.channels,
                             .inner = s.inner};
  return cr_gpu_each_of(call, 1,
                        forward ? CR_DEVICE_FUNCTION_tile_fwd : CR_DEVICE_FUNCTION_tile_bwd, &args);
}

/* `table` is the argument of shape (R, K). */
static cr_gather_args gather_args(const cr_call *call, int table) {
  const cr_split s = cr_op_split(call->desc, table, 0);
  return (cr_gather_args){.from = cr_gpu_values(call, 0),
                          .index = cr_gpu_f32(call, 1),
                          .to = cr_gpu_values(call, 2),
                          .rows = s.channels,
                          .width = s.inner,
                          .count = cr_op_arg_count(call->desc, 1),
                          .fault = cr_gpu_fault_of(call->context)};
}

/* src (R, K), index (N), dst (N, K), bias (K). */
static crema_status gather_fwd(const cr_call *call) {
  cr_gather_args args = gather_args(call, 0);
  if (call->desc->args > 3) args.bias = cr_gpu_values(call, 3);
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_gather_fwd, &args, args.count * args.width);
}

/* diff_dst (N, K), index, diff_src (R, K). */
static crema_status gather_bwd(const cr_call *call) {
  const cr_gather_args args = gather_args(call, 2);
  if (!call->accumulate[2]) CR_TRY(cr_gpu_clear(call, 2));
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_gather_bwd, &args, args.width);
}

static cr_row_args row_args(const cr_call *call) {
  return (cr_row_args){.width = cr_op_split(call->desc, 0, 1).channels};
}

/* src (rows, width), dst, divisor (rows). */
static crema_status mvn_fwd(const cr_call *call) {
  cr_row_args args = row_args(call);
  args.x = cr_gpu_values(call, 0);
  args.out = cr_gpu_values(call, 1);
  args.divisor = cr_gpu_f32(call, 2);
  args.variance = call->desc->u.mvn.variance;
  args.eps = call->desc->u.mvn.eps;
  return cr_gpu_blocks_in(call, CR_DEVICE_FUNCTION_mvn_fwd, &args,
                          cr_op_split(call->desc, 0, 1).outer, args.width);
}

/* dst, divisor, diff_dst, diff_src. */
static crema_status mvn_bwd(const cr_call *call) {
  cr_row_args args = row_args(call);
  args.y = cr_gpu_values(call, 0);
  args.divisor = cr_gpu_f32(call, 1);
  args.dy = cr_gpu_values(call, 2);
  args.out = cr_gpu_values(call, 3);
  args.variance = call->desc->u.mvn.variance;
  return cr_gpu_blocks_in(call, CR_DEVICE_FUNCTION_mvn_bwd, &args,
                          cr_op_split(call->desc, 0, 1).outer, args.width);
}

/* src (rows, width), dst (rows). */
static crema_status row_reduce_fwd(const cr_call *call) {
  cr_row_args args = row_args(call);
  args.x = cr_gpu_values(call, 0);
  args.out = cr_gpu_values(call, 1);
  args.reduction = (int)call->desc->u.rows.reduction;
  args.coeff = (float)call->desc->u.rows.coeff;
  return cr_gpu_blocks_in(call, CR_DEVICE_FUNCTION_row_reduce_fwd, &args,
                          cr_op_split(call->desc, 0, 1).outer, args.width);
}

/* src, diff_dst (rows), diff_src. */
static crema_status row_reduce_bwd(const cr_call *call) {
  cr_row_args args = row_args(call);
  args.x = cr_gpu_values(call, 0);
  args.dy = cr_gpu_values(call, 1);
  args.out = cr_gpu_values(call, 2);
  args.reduction = (int)call->desc->u.rows.reduction;
  args.coeff = (float)call->desc->u.rows.coeff;
  return cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_row_reduce_bwd, &args);
}

/* src (outer, C, inner), indices, values (outer, K, inner). */
static crema_status arg_max(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  cr_row_args args = row_args(call);
  args.x = cr_gpu_values(call, 0);
  args.out = cr_gpu_values(call, 1);
  args.y = cr_gpu_values(call, 2);
  args.inner = s.inner;
  args.ranks = call->desc->arg[1].shape.dim[1];
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_arg_max, &args, s.outer * s.inner);
}

CR_GPU_SCALARS_ROW(dropout_fwd, DROPOUT_FWD, dropout_fwd, .plan = dropout_plan);
CR_GPU_ROW(dropout_bwd, DROPOUT_BWD, dropout_bwd, .plan = dropout_plan);
CR_GPU_FOLLOWING_ROW(concat, CONCAT, move_parts, .plan = parts_plan);
CR_GPU_FOLLOWING_ROW(slice, SLICE, move_parts, .plan = parts_plan);
CR_GPU_ROW(crop_fwd, CROP_FWD, crop_fwd, .plan = cr_check_crop);
CR_GPU_ROW(crop_bwd, CROP_BWD, crop_bwd, .plan = cr_check_crop);
CR_GPU_ROW(permute, PERMUTE, permute, .plan = cr_check_permute);
CR_GPU_ROW(tile_fwd, TILE_FWD, tile, .plan = NULL);
CR_GPU_ROW(tile_bwd, TILE_BWD, tile, .plan = NULL);
CR_GPU_ROW(gather_fwd, GATHER_FWD, gather_fwd, .plan = cr_check_gather);
CR_GPU_ROW_OF(gather_bwd_f32_gpu, GATHER_BWD, F32, gather_bwd, false, .can_accumulate = true);
CR_GPU_ROW(mvn_fwd, MVN_FWD, mvn_fwd, .plan = NULL);
CR_GPU_ROW(mvn_bwd, MVN_BWD, mvn_bwd, .plan = NULL);
CR_GPU_ROW(row_reduce_fwd, ROW_REDUCE_FWD, row_reduce_fwd, .plan = NULL);
CR_GPU_ROW(row_reduce_bwd, ROW_REDUCE_BWD, row_reduce_bwd, .plan = NULL);
CR_GPU_ROW(arg_max, ARG_MAX, arg_max, .plan = cr_check_arg_max);
