/* Rows that use matrix products: the inner product, and convolution over unfolded windows. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/gpu/kernels/device_functions.h"
#include "device/gpu/rows.h"

/* m rows of k values in, of n values out. */
typedef struct gemm_ip_state {
  cr_gemm_plan *gemm;
  cr_split bias;     /* diff_dst as (M, N, 1), whose columns add up to diff_bias */
  size_t gemm_bytes; /* the product's scratchpad; post operations follow */
  bool bias_after;   /* the bias is added here, not by the library */
} gemm_ip_state;

static void ip_destroy(cr_plan *plan) {
  gemm_ip_state *state = plan->state;
  if (state == NULL) return;
  cr_gemm_plan_destroy(state->gemm);
  free(state);
}

/* src, weights, dst: the indices of the arguments that have these shapes. */
static crema_status ip_sizes(const cr_plan *plan, int src, int weights, int dst, int64_t *m,
                             int64_t *n, int64_t *k) {
  const cr_split in = cr_op_split(plan->desc, src, 0);
  const cr_split out = cr_op_split(plan->desc, dst, 0);
  *m = in.channels, *n = out.inner, *k = in.inner;
  if (out.channels == *m && cr_op_arg_count(plan->desc, weights) == *n * *k) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE,
                 "inner product of %" PRId64 " x %" PRId64 " to %" PRId64 " x %" PRId64
                 " with %" PRId64 " weights",
                 *m, *k, out.channels, *n, cr_op_arg_count(plan->desc, weights));
}

static crema_status ip_keep(cr_plan *plan, const cr_gemm_shape *sizes, cr_split bias) {
  cr_gemm_shape shape = *sizes;
  CR_TRY(cr_gpu_one_type(plan->desc, &shape.type));
  gemm_ip_state *state = calloc(1, sizeof *state);
  if (state == NULL) return cr_fail_memory(sizeof *state, "the plan of an inner product");
  size_t bytes = 0;
  crema_status status = cr_gemm_plan_create(plan->context, &shape, &state->gemm, &bytes);
  if (status != CREMA_OK) {
    free(state);
    return status;
  }
  state->bias = bias;
  state->gemm_bytes = cr_gpu_rounded(bytes);
  plan->workspace_bytes = state->gemm_bytes + cr_gpu_posts_bytes(plan->desc);
  plan->state = state;
  return CREMA_OK;
}

static crema_status ip_plan(cr_plan *plan) {
  const cr_op_kind kind = plan->desc->kind;
  const bool transpose = plan->desc->u.ip.transpose;
  int64_t m, n, k;
  if (kind == CR_OP_IP_BWD_DATA) {
    CR_TRY(ip_sizes(plan, 2, 1, 0, &m, &n, &k));
    const cr_gemm_shape shape = {.m = m, .n = k, .k = n, .b_transposed = transpose};
    return ip_keep(plan, &shape, (cr_split){0, 0, 0});
  }
  if (kind == CR_OP_IP_BWD_WEIGHTS) {
    CR_TRY(ip_sizes(plan, 0, 2, 1, &m, &n, &k));
    const cr_gemm_shape shape = {
        .m = transpose ? k : n, .n = transpose ? n : k, .k = m, .a_transposed = true};
    const cr_split columns = {m, n, 1};
    CR_TRY(ip_keep(plan, &shape, columns));
    plan->workspace_bytes += cr_gpu_channel_scratchpad(columns);
    return CREMA_OK;
  }
  CR_TRY(ip_sizes(plan, 0, 1, 3, &m, &n, &k));
  const bool bias = plan->desc->arg[2].shape.axes >= 0;
  cr_gemm_shape shape = {.m = m, .n = n, .k = k, .b_transposed = !transpose, .bias = bias};
  crema_status status = ip_keep(plan, &shape, (cr_split){0, 0, 0});
  if (status != CREMA_E_UNSUPPORTED || !bias) return status;
  shape.bias = false;
  CR_TRY(ip_keep(plan, &shape, (cr_split){0, 0, 0}));
  ((gemm_ip_state *)plan->state)->bias_after = true;
  return CREMA_OK;
}

/* src (M,K), weights (N,K) or (K,N), bias (N), dst (M,N). */
static crema_status ip_fwd(const cr_call *call) {
  const gemm_ip_state *state = call->plan->state;
  const cr_hd_values bias = cr_gpu_values(call, 2);
  CR_TRY(cr_gpu_posts_begin(call, state->gemm_bytes));
  CR_TRY(cr_gemm_plan_run(state->gemm, call->context, cr_gpu_f32(call, 0), cr_gpu_f32(call, 1),
                          state->bias_after ? NULL : bias.at, false, cr_gpu_f32(call, 3),
                          call->workspace));
  return cr_gpu_posts(call, state->gemm_bytes, !state->bias_after,
                      cr_op_split(call->desc, 3, 0).inner, 1);
}

/* diff_dst, weights, diff_src. */
static crema_status ip_bwd_data(const cr_call *call) {
  const gemm_ip_state *state = call->plan->state;
  return cr_gemm_plan_run(state->gemm, call->context, cr_gpu_f32(call, 0), cr_gpu_f32(call, 1),
                          NULL, false, cr_gpu_f32(call, 2), call->workspace);
}

/* src, diff_dst, diff_weights, diff_bias: diff_dst^T src, or src^T diff_dst. */
static crema_status ip_bwd_weights(const cr_call *call) {
  const gemm_ip_state *state = call->plan->state;
  const bool transpose = call->desc->u.ip.transpose;
  const void *src = cr_gpu_f32(call, 0), *diff_dst = cr_gpu_f32(call, 1);
  CR_TRY(cr_gemm_plan_run(state->gemm, call->context, transpose ? src : diff_dst,
                          transpose ? diff_dst : src, NULL, call->accumulate[2],
                          cr_gpu_f32(call, 2), call->workspace));
  if (call->buffer[3].address == 0) return CREMA_OK;
  const cr_gpu_channel_sum sum = {.split = state->bias,
                                  .dy = cr_gpu_values(call, 1),
                                  .term = CR_TERM_VALUE,
                                  .add = call->accumulate[3],
                                  .out = cr_gpu_values(call, 3),
                                  .scratchpad = cr_gpu_scratchpad(call, state->gemm_bytes)};
  return cr_gpu_channel_sums(call, &sum);
}

/* The windows of one image and group are unfolded into a matrix of C/group * K rows and P = S'...
 * columns. */
typedef struct gemm_conv_state {
  cr_hd_slide slide;
  int64_t batch, group;
  int64_t in_channels, out_channels; /* of one group */
  int64_t rows;                      /* in_channels * window elements */
  bool unfolded;                     /* a 1x1 window of stride 1: the image is its own matrix */
  cr_gemm_plan *gemm;
  /* In this order in the workspace; the bias' sums or post operations follow. */
  size_t matrix_bytes, gemm_bytes;
} gemm_conv_state;

static void conv_destroy(cr_plan *plan) {
  gemm_conv_state *state = plan->state;
  if (state == NULL) return;
  cr_gemm_plan_destroy(state->gemm);
  free(state);
}

static bool is_unfolded(const cr_hd_slide *s) {
  for (int a = 0; a < s->axes; ++a) {
    if (s->kernel[a] != 1 || s->stride[a] != 1 || s->pad[a] != 0 || s->in[a] != s->out[a]) {
      return false;
    }
  }
  return true;
}

/* src, weights and dst: the indices of the arguments that have these shapes. */
static crema_status conv_sizes(const cr_plan *plan, int src, int weights, int dst,
                               gemm_conv_state *state) {
  const cr_conv_params *params = &plan->desc->u.conv;
  const crema_shape *in = &plan->desc->arg[src].shape, *out = &plan->desc->arg[dst].shape;
  CR_TRY(cr_gpu_slide(&params->window, in, out, false, &state->slide));
  state->group = params->group;
  if (state->group < 1 || in->dim[1] % state->group != 0 || out->dim[1] % state->group != 0) {
    return cr_fail(CREMA_E_SHAPE,
                   "%" PRId64 " groups do not divide %" PRId64 " input and %" PRId64
                   " output channels",
                   state->group, in->dim[1], out->dim[1]);
  }
  state->batch = in->dim[0];
  state->in_channels = in->dim[1] / state->group;
  state->out_channels = out->dim[1] / state->group;
  state->rows = state->in_channels * state->slide.kernel_count;
  state->unfolded = is_unfolded(&state->slide);
  const int64_t wanted = out->dim[1] * state->rows, found = cr_op_arg_count(plan->desc, weights);
  if (out->dim[0] == in->dim[0] && found == wanted) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE,
                 "convolution of %" PRId64 " to %" PRId64 " images with %" PRId64
                 " weights, not %" PRId64,
                 in->dim[0], out->dim[0], found, wanted);
}

static cr_split conv_bias_split(const gemm_conv_state *s) {
  return (cr_split){s->batch, s->group * s->out_channels, s->slide.out_count};
}

static crema_status conv_plan(cr_plan *plan) {
  const cr_op_kind kind = plan->desc->kind;
  const bool data = kind == CR_OP_CONV_BWD_DATA, weights = kind == CR_OP_CONV_BWD_WEIGHTS;
  gemm_conv_state *s = calloc(1, sizeof *s);
  size_t bytes = 0;
  if (s == NULL) return cr_fail_memory(sizeof *s, "the plan of a convolution");
  crema_status status;
  CR_TRY_GOTO(conv_sizes(plan, data ? 2 : 0, weights ? 2 : 1, data ? 0 : weights ? 1 : 3, s), fail);
  const int64_t positions = s->slide.out_count;
  cr_gemm_shape shape = {.type = CREMA_F32, .m = s->out_channels, .n = positions, .k = s->rows};
  if (data) shape.m = s->rows, shape.k = s->out_channels;
  if (weights) shape.n = s->rows, shape.k = positions;
  shape.a_transposed = data;
  shape.b_transposed = weights;
  CR_TRY_GOTO(cr_gemm_plan_create(plan->context, &shape, &s->gemm, &bytes), fail);
  const size_t matrix = (size_t)(s->rows * positions) * sizeof(float);
  s->matrix_bytes = s->unfolded ? 0 : cr_gpu_rounded(matrix);
  s->gemm_bytes = cr_gpu_rounded(bytes);
  plan->workspace_bytes = s->matrix_bytes + s->gemm_bytes + cr_gpu_posts_bytes(plan->desc);
  if (weights) plan->workspace_bytes += cr_gpu_channel_scratchpad(conv_bias_split(s));
  plan->state = s;
  return CREMA_OK;
fail:
  free(s);
  return status;
}

/* The matrix of one image's group. */
static crema_status unfold(const cr_call *call, const gemm_conv_state *s, float *image,
                           const float **matrix) {
  *matrix = image;
  if (s->unfolded) return CREMA_OK;
  const cr_fold_args args = {.from = cr_float_values(image),
                             .to = cr_float_values(cr_gpu_scratchpad(call, 0)),
                             .slide = s->slide};
  *matrix = args.to.at;
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_unfold, &args, s->rows * s->slide.out_count);
}

static crema_devptr gemm_scratchpad(const cr_call *call, const gemm_conv_state *s) {
  return (crema_devptr){call->workspace.address + s->matrix_bytes};
}

/* src (N,C,S...), weights (O,C/group,K...), bias (O), dst (N,O,S'...). */
static crema_status conv_fwd(const cr_call *call) {
  const gemm_conv_state *s = call->plan->state;
  const int64_t image = s->in_channels * s->slide.in_count;
  const int64_t filters = s->out_channels * s->rows, result = s->out_channels * s->slide.out_count;
  const size_t posts = s->matrix_bytes + s->gemm_bytes;
  CR_TRY(cr_gpu_posts_begin(call, posts));
  for (int64_t i = 0; i < s->batch * s->group; ++i) {
    const float *matrix = NULL;
    CR_TRY(unfold(call, s, cr_gpu_f32(call, 0) + i * image, &matrix));
    CR_TRY(cr_gemm_plan_run(s->gemm, call->context, cr_gpu_f32(call, 1) + i % s->group * filters,
                            matrix, NULL, false, cr_gpu_f32(call, 3) + i * result,
                            gemm_scratchpad(call, s)));
  }
  return cr_gpu_posts(call, posts, false, s->group * s->out_channels, s->slide.out_count);
}

/* diff_dst, weights, diff_src. */
static crema_status conv_bwd_data(const cr_call *call) {
  const gemm_conv_state *s = call->plan->state;
  const int64_t filters = s->out_channels * s->rows, result = s->out_channels * s->slide.out_count;
  for (int64_t i = 0; i < s->batch * s->group; ++i) {
    float *image = cr_gpu_f32(call, 2) + i * s->in_channels * s->slide.in_count;
    float *matrix = s->unfolded ? image : cr_gpu_scratchpad(call, 0);
    CR_TRY(cr_gemm_plan_run(s->gemm, call->context, cr_gpu_f32(call, 1) + i % s->group * filters,
                            cr_gpu_f32(call, 0) + i * result, NULL, false, matrix,
                            gemm_scratchpad(call, s)));
    if (s->unfolded) continue;
    const cr_fold_args args = {
        .from = cr_float_values(matrix), .to = cr_float_values(image), .slide = s->slide};
    CR_TRY(
        cr_gpu_each_in(call, CR_DEVICE_FUNCTION_fold, &args, s->in_channels * s->slide.in_count));
  }
  return CREMA_OK;
}

/* src, diff_dst, diff_weights, diff_bias. */
static crema_status conv_bwd_weights(const cr_call *call) {
  const gemm_conv_state *s = call->plan->state;
  const int64_t filters = s->out_channels * s->rows, result = s->out_channels * s->slide.out_count;
  const float *diff_dst = cr_gpu_f32(call, 1);
  if (s->batch == 0 && !call->accumulate[2]) CR_TRY(cr_gpu_clear(call, 2));
  for (int64_t i = 0; i < s->batch * s->group; ++i) {
    const float *matrix = NULL;
    const bool add = call->accumulate[2] || i >= s->group;
    CR_TRY(unfold(call, s, cr_gpu_f32(call, 0) + i * s->in_channels * s->slide.in_count, &matrix));
    CR_TRY(cr_gemm_plan_run(s->gemm, call->context, diff_dst + i * result, matrix, NULL, add,
                            cr_gpu_f32(call, 2) + i % s->group * filters,
                            gemm_scratchpad(call, s)));
  }
  if (call->buffer[3].address == 0) return CREMA_OK;
  const cr_gpu_channel_sum sum = {
      .split = conv_bias_split(s),
      .dy = cr_gpu_values(call, 1),
      .term = CR_TERM_VALUE,
      .add = call->accumulate[3],
      .out = cr_gpu_values(call, 3),
      .scratchpad = cr_gpu_scratchpad(call, s->matrix_bytes + s->gemm_bytes)};
  return cr_gpu_channel_sums(call, &sum);
}

CR_GPU_ROW(ip_fwd, IP_FWD, ip_fwd, .plan = ip_plan, .destroy = ip_destroy);
CR_GPU_ROW(ip_bwd_data, IP_BWD_DATA, ip_bwd_data, .plan = ip_plan, .destroy = ip_destroy);
CR_GPU_ROW(ip_bwd_weights, IP_BWD_WEIGHTS, ip_bwd_weights, .plan = ip_plan, .destroy = ip_destroy,
           .can_accumulate = true);
CR_GPU_ROW_OF(conv_fwd_f32_gpu, CONV_FWD, F32, conv_fwd, false, .plan = conv_plan,
              .destroy = conv_destroy);
CR_GPU_ROW_OF(conv_bwd_data_f32_gpu, CONV_BWD_DATA, F32, conv_bwd_data, false, .plan = conv_plan,
              .destroy = conv_destroy);
CR_GPU_ROW_OF(conv_bwd_weights_f32_gpu, CONV_BWD_WEIGHTS, F32, conv_bwd_weights, false,
              .plan = conv_plan, .destroy = conv_destroy, .can_accumulate = true);
