/* Rows that work on one channel at a time: scale and bias, learned rectifiers, batch normalisation,
 * and softmax. */
#include "core/fail.h"
#include "device/gpu/kernels/device_functions.h"
#include "device/gpu/rows.h"

static cr_affine_args affine_args(const cr_call *call) {
  return (cr_affine_args){.x = cr_gpu_values(call, 0),
                          .planes = cr_gpu_planes(cr_gpu_split(call->plan, 0))};
}

/* Whether the post operations are only a rectifier without a slope. */
static bool only_rectifies(const cr_posts *posts) {
  return cr_posts_count(posts) == 1 && posts->post[0].kind != CR_POST_ADD &&
         posts->post[0].function == CR_UNARY_RELU && posts->post[0].alpha == 0;
}

static crema_status affine_fwd_plan(cr_plan *plan) {
  return cr_gpu_follow(plan, CR_ARG(0) | CR_ARG(CR_ARG_RESULT) | CR_ARG(CR_ARG_ADDEND));
}

/* x, scale, bias, y. */
static crema_status affine_fwd(const cr_call *call) {
  cr_affine_args args = affine_args(call);
  args.scale = cr_gpu_values(call, 1);
  args.bias = cr_gpu_values(call, 2);
  args.out = cr_gpu_values(call, 3);
  args.rectify = only_rectifies(cr_op_posts(call->desc));
  CR_TRY(cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_affine, &args));
  return args.rectify ? CREMA_OK : cr_gpu_posts(call, 0, true, 1, 1);
}

/* The arguments x and y of (x, numbers of the channels, y). */
static crema_status around_plan(cr_plan *plan) {
  return cr_gpu_follow(plan, CR_ARG(0) | CR_ARG(2));
}

/* diff_dst, scale, diff_src. */
static crema_status affine_bwd_data(const cr_call *call) {
  cr_affine_args args = affine_args(call);
  args.scale = cr_gpu_values(call, 1);
  args.out = cr_gpu_values(call, 2);
  return cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_affine, &args);
}

size_t cr_gpu_posts_bytes(const cr_op_desc *desc) {
  if (!cr_posts_add(cr_op_posts(desc))) return 0;
  return (size_t)cr_op_arg_count(desc, CR_ARG_RESULT) *
         crema_dtype_size(desc->arg[CR_ARG_ADDEND].type);
}

static bool is_over_addend(const cr_call *call) {
  return cr_posts_add(cr_op_posts(call->desc)) &&
         call->buffer[CR_ARG_ADDEND].address == call->buffer[CR_ARG_RESULT].address;
}

crema_status cr_gpu_posts_begin(const cr_call *call, size_t offset) {
  const size_t bytes = cr_gpu_posts_bytes(call->desc);
  if (bytes == 0 || !is_over_addend(call)) return CREMA_OK;
  return cr_gpu_copy_bytes(call, call->workspace.address + offset,
                           call->buffer[CR_ARG_ADDEND].address, bytes);
}

crema_status cr_gpu_posts(const cr_call *call, size_t offset, bool biased, int64_t channels,
                          int64_t inner) {
  const cr_posts *posts = cr_op_posts(call->desc);
  cr_posts_args args = {
      .out = cr_gpu_values(call, CR_ARG_RESULT),
      .planes = {.channels = cr_divisor_of(channels), .inner = cr_divisor_of(inner)},
      .count = cr_posts_count(posts)};
  if (!biased) args.bias = cr_gpu_values(call, 2);
  if (cr_posts_add(posts)) {
    args.addend = cr_gpu_values(call, CR_ARG_ADDEND);
    if (is_over_addend(call)) args.addend.at = cr_gpu_scratchpad(call, offset);
  }
  for (int k = 0; k < args.count; ++k) {
    const cr_post *post = &posts->post[k];
    const bool adds = post->kind == CR_POST_ADD;
    args.post[k] = (cr_unary_args){.function = (int)(adds ? CR_UNARY_FUNCTIONS : post->function),
                                   .alpha = (float)post->alpha,
                                   .beta = (float)post->beta,
                                   .gamma = (float)post->gamma};
  }
  if (args.bias.at == NULL && args.count == 0) return CREMA_OK;
  if (args.count == 0 || only_rectifies(posts)) {
    const cr_affine_args simple = {.x = args.out,
                                   .bias = args.bias,
                                   .out = args.out,
                                   .planes = args.planes,
                                   .rectify = args.count > 0};
    return cr_gpu_each_of(call, CR_ARG_RESULT, CR_DEVICE_FUNCTION_affine, &simple);
  }
  bool packed = true;
  for (int k = 0; k < args.count; ++k) {
    packed = packed && (args.post[k].function == CR_UNARY_RELU ||
                        args.post[k].function == (int)CR_UNARY_FUNCTIONS);
  }
  return cr_gpu_each_packed(call, CR_DEVICE_FUNCTION_posts, &args,
                            cr_op_arg_count(call->desc, CR_ARG_RESULT), packed);
}

/* Sums over the channels of argument 0. */
static crema_status sums_plan(cr_plan *plan) {
  unsigned images = CR_ARG(0);
  if (plan->desc->kind != CR_OP_AFFINE_BWD_BIAS) images |= CR_ARG(1);
  if (plan->desc->kind == CR_OP_RELU_BWD_BIAS) images |= CR_ARG(2);
  CR_TRY(cr_gpu_follow(plan, images));
  plan->workspace_bytes = cr_gpu_channel_scratchpad(cr_gpu_split(plan, 0));
  return CREMA_OK;
}

/* The gradients of scale (x, dy, out), bias (dy, out) and slope (x, dy, out). */
static crema_status sums(const cr_call *call) {
  const cr_op_kind kind = call->desc->kind;
  const bool bias = kind == CR_OP_AFFINE_BWD_BIAS;
  const int out = bias ? 1 : 2;
  const cr_gpu_channel_sum sum = {.split = cr_gpu_split(call->plan, 0),
                                  .dy = cr_gpu_values(call, bias ? 0 : 1),
                                  .x = bias ? (cr_hd_values){0} : cr_gpu_values(call, 0),
                                  .term = bias                             ? CR_TERM_VALUE
                                          : kind == CR_OP_AFFINE_BWD_SCALE ? CR_TERM_PRODUCT
                                                                           : CR_TERM_BELOW,
                                  .add = call->accumulate[out],
                                  .out = cr_gpu_values(call, out),
                                  .scratchpad = cr_gpu_scratchpad(call, 0)};
  return cr_gpu_channel_sums(call, &sum);
}

/* diff_dst, dst, diff_src, diff_bias. */
static crema_status relu_bwd_bias(const cr_call *call) {
  const cr_gpu_channel_sum sum = {.split = cr_gpu_split(call->plan, 0),
                                  .dy = cr_gpu_values(call, 0),
                                  .x = cr_gpu_values(call, 1),
                                  .dx = cr_gpu_values(call, 2),
                                  .alpha = (float)call->desc->u.unary.alpha,
                                  .add = call->accumulate[3],
                                  .out = cr_gpu_values(call, 3),
                                  .scratchpad = cr_gpu_scratchpad(call, 0)};
  return cr_gpu_channel_sums(call, &sum);
}

static cr_prelu_args prelu_args(const cr_call *call) {
  return (cr_prelu_args){.x = cr_gpu_values(call, 0),
                         .slope = cr_gpu_values(call, 1),
                         .planes = cr_gpu_planes(cr_gpu_split(call->plan, 0))};
}

static crema_status prelu_fwd(const cr_call *call) {
  cr_prelu_args args = prelu_args(call);
  args.out = cr_gpu_values(call, 2);
  return cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_prelu_fwd, &args);
}

static crema_status prelu_bwd_data_plan(cr_plan *plan) {
  return cr_gpu_follow(plan, CR_ARG(0) | CR_ARG(2) | CR_ARG(3));
}

/* src, slope, diff_dst, diff_src. */
static crema_status prelu_bwd_data(const cr_call *call) {
  cr_prelu_args args = prelu_args(call);
  args.dy = cr_gpu_values(call, 2);
  args.out = cr_gpu_values(call, 3);
  return cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_prelu_bwd, &args);
}

/* The scratchpad: the parts of two sums, then three numbers a channel. */
static crema_status bn_plan(cr_plan *plan) {
  const bool backward = plan->desc->kind == CR_OP_BN_BWD;
  unsigned images = CR_ARG(0) | CR_ARG(1);
  if (backward) images |= CR_ARG(4) | (plan->desc->args > 8 ? CR_ARG(8) : 0);
  CR_TRY(cr_gpu_follow(plan, images));
  const cr_split s = cr_gpu_split(plan, 0);
  plan->workspace_bytes = 2 * cr_gpu_channel_scratchpad(s) + 3 * (size_t)s.channels * sizeof(float);
  return CREMA_OK;
}

static cr_bn_args bn_args(const cr_call *call) {
  const cr_split s = cr_gpu_split(call->plan, 0);
  float *numbers = cr_gpu_scratchpad(call, 2 * cr_gpu_channel_scratchpad(s));
  return (cr_bn_args){.x = cr_gpu_values(call, 0),
                      .mean = cr_gpu_f32(call, 2),
                      .variance = cr_gpu_f32(call, 3),
                      .scale = numbers,
                      .flat = numbers + s.channels,
                      .slope = numbers + 2 * s.channels,
                      .part = cr_gpu_scratchpad(call, 0),
                      .parts = cr_gpu_channel_parts(s),
                      .planes = cr_gpu_planes(s),
                      .eps = call->desc->u.bn.eps,
                      .global = call->desc->u.bn.global,
                      .rectify = call->desc->u.bn.rectify};
}

/* Sums parts of the channels, then computes each channel's numbers from them, unless the first
 * launch has done so. */
static crema_status bn_sums(const cr_call *call, const cr_bn_args *args, cr_device_function parts,
                            cr_device_function numbers) {
  const cr_split s = cr_gpu_split(call->plan, 0);
  CR_TRY(cr_gpu_blocks_in(call, parts, args, args->parts * s.channels, cr_gpu_part_length(s)));
  if (args->parts == 1) return CREMA_OK;
  return cr_gpu_each_in(call, numbers, args, s.channels);
}

static crema_status bn_scales(const cr_call *call, const cr_bn_args *args) {
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_bn_scales, args, args->planes.channels.by);
}

/* src, dst, mean, variance: the statistics are given. */
static crema_status bn_fwd_global(const cr_call *call) {
  cr_bn_args args = bn_args(call);
  args.out = cr_gpu_values(call, 1);
  CR_TRY(bn_scales(call, &args));
  return cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_bn_normalise, &args);
}

/* Argument `arg`, which may be absent. */
static cr_hd_values values_if(const cr_call *call, int arg) {
  return arg < call->desc->args ? cr_gpu_values(call, arg) : (cr_hd_values){0};
}

/* src, dst, mean, variance, scale, shift, moving sums: the statistics are computed here. */
static crema_status bn_fwd_train(const cr_call *call) {
  cr_bn_args args = bn_args(call);
  const double count = (double)(args.planes.outer * args.planes.inner.by);
  args.out = cr_gpu_values(call, 1);
  args.new_mean = cr_gpu_f32(call, 2);
  args.new_variance = cr_gpu_f32(call, 3);
  args.gain = values_if(call, 4);
  args.shift = values_if(call, 5);
  if (call->desc->args > 8) {
    args.means = cr_gpu_f32(call, 6);
    args.variances = cr_gpu_f32(call, 7);
    args.weight = cr_gpu_f32(call, 8);
    args.fraction = call->desc->u.bn.fraction;
    args.unbiased = (float)(count > 1 ? count / (count - 1) : 1);
  }
  CR_TRY(bn_sums(call, &args, CR_DEVICE_FUNCTION_bn_statistics_parts,
                 CR_DEVICE_FUNCTION_bn_statistics));
  return cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_bn_normalise, &args);
}

/* src, diff_dst, mean, variance, diff_src, scale, diff_scale, diff_shift, dst. */
static crema_status bn_bwd(const cr_call *call) {
  cr_bn_args args = bn_args(call);
  args.dy = cr_gpu_values(call, 1);
  args.out = cr_gpu_values(call, 4);
  args.gain = values_if(call, 5);
  args.diff_gain = values_if(call, 6);
  args.diff_shift = values_if(call, 7);
  args.rectified = values_if(call, 8);
  args.add_to_gain = args.diff_gain.at != NULL && call->accumulate[6];
  args.add_to_shift = args.diff_shift.at != NULL && call->accumulate[7];
  if (args.global) {
    CR_TRY(bn_scales(call, &args));
  } else {
    CR_TRY(bn_sums(call, &args, CR_DEVICE_FUNCTION_bn_gradient_parts,
                   CR_DEVICE_FUNCTION_bn_gradient_sums));
  }
  return cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_bn_bwd, &args);
}

/* Lines that are adjacent in memory are read fastest by one thread per line, other lines by one
 * thread block per line. */
static int64_t line_length(cr_split s) {
  return s.inner >= 32 ? 1 : s.channels;
}

crema_status cr_gpu_softmax(const cr_call *call, cr_split s, cr_hd_values x, cr_hd_values y) {
  const cr_softmax_args args = {.x = x, .out = y, .channels = s.channels, .inner = s.inner};
  return cr_gpu_blocks_in(call, CR_DEVICE_FUNCTION_softmax_fwd, &args, s.outer * s.inner,
                          line_length(s));
}

static crema_status softmax_fwd(const cr_call *call) {
  return cr_gpu_softmax(call, cr_op_split(call->desc, 0, call->desc->u.axis),
                        cr_gpu_values(call, 0), cr_gpu_values(call, 1));
}

/* dst, diff_dst, diff_src. */
static crema_status softmax_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, call->desc->u.axis);
  const cr_softmax_args args = {.x = cr_gpu_values(call, 0),
                                .dy = cr_gpu_values(call, 1),
                                .out = cr_gpu_values(call, 2),
                                .channels = s.channels,
                                .inner = s.inner};
  return cr_gpu_blocks_in(call, CR_DEVICE_FUNCTION_softmax_bwd, &args, s.outer * s.inner,
                          line_length(s));
}

CR_GPU_FOLLOWING_ROW(affine_fwd, AFFINE_FWD, affine_fwd, .plan = affine_fwd_plan);
CR_GPU_FOLLOWING_ROW(affine_bwd_data, AFFINE_BWD_DATA, affine_bwd_data, .plan = around_plan);
CR_GPU_FOLLOWING_ROW(affine_bwd_scale, AFFINE_BWD_SCALE, sums, .plan = sums_plan,
                     .can_accumulate = true);
CR_GPU_FOLLOWING_ROW(affine_bwd_bias, AFFINE_BWD_BIAS, sums, .plan = sums_plan,
                     .can_accumulate = true);
CR_GPU_FOLLOWING_ROW(relu_bwd_bias, RELU_BWD_BIAS, relu_bwd_bias, .plan = sums_plan,
                     .can_accumulate = true);
CR_GPU_FOLLOWING_ROW(prelu_fwd, PRELU_FWD, prelu_fwd, .plan = around_plan);
CR_GPU_FOLLOWING_ROW(prelu_bwd_data, PRELU_BWD_DATA, prelu_bwd_data, .plan = prelu_bwd_data_plan);
CR_GPU_FOLLOWING_ROW(prelu_bwd_slope, PRELU_BWD_SLOPE, sums, .plan = sums_plan,
                     .can_accumulate = true);
CR_GPU_FOLLOWING_ROW(bn_fwd_train, BN_FWD_TRAIN, bn_fwd_train, .plan = bn_plan);
CR_GPU_FOLLOWING_ROW(bn_fwd_global, BN_FWD_GLOBAL, bn_fwd_global, .plan = bn_plan);
CR_GPU_FOLLOWING_ROW(bn_bwd, BN_BWD, bn_bwd, .plan = bn_plan, .can_accumulate = true);
CR_GPU_ROW(softmax_fwd, SOFTMAX_FWD, softmax_fwd, .plan = NULL);
CR_GPU_ROW(softmax_bwd, SOFTMAX_BWD, softmax_bwd, .plan = NULL);
