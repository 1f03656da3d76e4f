/* Convolution by cuDNN 9, over one to three spatial axes (one is seen as two, of extent 1).
 * Algorithms come from cuDNN's heuristics, deterministic ones only; full f32 arithmetic. Halves are
 * multiplied by tensor cores, which loses nothing, and added up in f32. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/fail.h"
#include "device/cuda/cudnn_library.h"
#include "device/cuda/kernels/channel.h"
#include "device/cuda/rows.h"
#include "device/memory/scratchpad.h"

enum { MAX_SPATIAL = 3, MAX_CANDIDATES = 16 };

/* The most scratchpad that an algorithm may ask for, however much there is: what more would gain is
 * not worth the memory. */
static const size_t workspace_limit = (size_t)256 << 20;

typedef enum conv_pass { PASS_FORWARD, PASS_DATA, PASS_WEIGHTS } conv_pass;

typedef struct conv_state {
  const cr_cudnn *dnn;
  conv_pass pass;
  crema_dtype type; /* of image, weights and result */
  cudnnTensorDescriptor_t src, dst;
  cudnnFilterDescriptor_t filter;
  cudnnConvolutionDescriptor_t conv;
  int algorithm;
  size_t dnn_bytes;  /* cuDNN's scratchpad comes first */
  size_t bias_bytes; /* then that of the bias' gradient, or of post operations */
  cr_split bias;     /* dst as (N, O, positions) */
} conv_state;

static bool is_unsupported(cudnnStatus_t status) {
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED;
}

/* What cuDNN does not support is left to the next row without a word. All else is a failure, which
 * is told of; where it comes while an op is planned, the next row is tried then. */
static crema_status check(const cr_cudnn *dnn, cudnnStatus_t status, const char *what) {
  if (status == CUDNN_STATUS_SUCCESS) return CREMA_OK;
  const cudaError_t left = cudaGetLastError();
  crema_status code = CREMA_E_UNSUPPORTED;
  if (cr_cudnn_lacks_memory(status, left)) code = CREMA_E_NO_MEMORY;
  else if (!is_unsupported(status)) code = cr_cuda_library_failure();
  return cr_fail(code, "cuDNN, %s: %s", what, dnn->cudnnGetErrorString(status));
}

/* ---- descriptors ---- */

/* Extents and row-major strides of a shape, with an axis of extent 1 put in when there is only
 * one spatial axis. Errors: CREMA_E_UNSUPPORTED beyond cuDNN's int. */
static crema_status extents(const crema_shape *shape, int *count, int *dim, int *stride) {
  int axes = 0;
  for (int a = 0; a < shape->axes; ++a) {
    if (a == 2 && shape->axes == 3) dim[axes++] = 1;
    if (shape->dim[a] < 1 || shape->dim[a] > INT32_MAX) {
      return cr_fail(CREMA_E_UNSUPPORTED, "cuDNN: an extent of %" PRId64, shape->dim[a]);
    }
    dim[axes++] = (int)shape->dim[a];
  }
  int64_t step = 1;
  for (int a = axes - 1; a >= 0; --a) {
    stride[a] = (int)step;
    step *= dim[a];
    if (step > INT32_MAX) return cr_fail(CREMA_E_UNSUPPORTED, "cuDNN: a blob beyond 2^31 values");
  }
  *count = axes;
  return CREMA_OK;
}

static cudnnDataType_t library_type(crema_dtype type) {
  if (type == CREMA_F16) return CUDNN_DATA_HALF;
  return type == CREMA_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

static crema_status set_tensor(const conv_state *s, const crema_shape *shape,
                               cudnnTensorDescriptor_t *out) {
  const cr_cudnn *dnn = s->dnn;
  int count = 0, dim[MAX_SPATIAL + 2], stride[MAX_SPATIAL + 2];
  CR_TRY(extents(shape, &count, dim, stride));
  CR_TRY(check(dnn, dnn->cudnnCreateTensorDescriptor(out), "descriptor"));
  return check(dnn,
               dnn->cudnnSetTensorNdDescriptor(*out, library_type(s->type), count, dim, stride),
               "blob");
}

/* The weights may have been given another shape of the same count, so it is made from the window.
 */
static crema_status set_filter(conv_state *s, const cr_conv_params *params, const crema_shape *in,
                               const crema_shape *out) {
  const cr_cudnn *dnn = s->dnn;
  crema_shape shape = {.axes = 2 + params->window.axes};
  int count = 0, dim[MAX_SPATIAL + 2], stride[MAX_SPATIAL + 2];
  shape.dim[0] = out->dim[1];
  shape.dim[1] = in->dim[1] / params->group;
  for (int a = 0; a < params->window.axes; ++a) shape.dim[a + 2] = params->window.kernel[a];
  CR_TRY(extents(&shape, &count, dim, stride));
  CR_TRY(check(dnn, dnn->cudnnCreateFilterDescriptor(&s->filter), "descriptor"));
  return check(dnn,
               dnn->cudnnSetFilterNdDescriptor(s->filter, library_type(s->type), CUDNN_TENSOR_NCHW,
                                               count, dim),
               "weights");
}

static crema_status set_conv(conv_state *s, const cr_conv_params *params) {
  const cr_cudnn *dnn = s->dnn;
  cudnnConvolutionDescriptor_t *conv = &s->conv;
  const cr_window *w = &params->window;
  int pad[MAX_SPATIAL], stride[MAX_SPATIAL], dilation[MAX_SPATIAL], axes = 0;
  if (w->axes == 1) {
    pad[0] = 0, stride[0] = dilation[0] = 1;
    axes = 1;
  }
  for (int a = 0; a < w->axes; ++a, ++axes) {
    pad[axes] = (int)w->pad[a];
    stride[axes] = (int)w->stride[a];
    dilation[axes] = (int)w->dilation[a];
  }
  CR_TRY(check(dnn, dnn->cudnnCreateConvolutionDescriptor(conv), "descriptor"));
  CR_TRY(check(dnn,
               dnn->cudnnSetConvolutionNdDescriptor(*conv, axes, pad, stride, dilation,
                                                    CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
               "window"));
  CR_TRY(check(dnn, dnn->cudnnSetConvolutionGroupCount(*conv, (int)params->group), "groups"));
  const cudnnMathType_t math = s->type == CREMA_F32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
  return check(dnn, dnn->cudnnSetConvolutionMathType(*conv, math), "arithmetic");
}

/* ---- choosing an algorithm ---- */

/* What the heuristics say of an algorithm. Their arithmetic is not looked at: the descriptor's is
 * what counts. */
typedef struct candidate {
  int algorithm;
  cudnnStatus_t status;
  cudnnDeterminism_t determinism;
} candidate;

typedef struct candidates {
  candidate list[MAX_CANDIDATES];
  int count;
} candidates;

/* The three passes have structs of their own with the same fields. */
#define CR_LIST(perf, out)                                                                      \
  for (int i = 0; i < (out)->count; ++i) {                                                      \
    (out)->list[i] = (candidate){(int)(perf)[i].algo, (perf)[i].status, (perf)[i].determinism}; \
  }

static cudnnStatus_t list_forward(const conv_state *s, cudnnHandle_t handle, candidates *out) {
  cudnnConvolutionFwdAlgoPerf_t perf[MAX_CANDIDATES];
  const cudnnStatus_t status = s->dnn->cudnnGetConvolutionForwardAlgorithm_v7(
      handle, s->src, s->filter, s->conv, s->dst, MAX_CANDIDATES, &out->count, perf);
  if (status == CUDNN_STATUS_SUCCESS) CR_LIST(perf, out)
  return status;
}

static cudnnStatus_t list_data(const conv_state *s, cudnnHandle_t handle, candidates *out) {
  cudnnConvolutionBwdDataAlgoPerf_t perf[MAX_CANDIDATES];
  const cudnnStatus_t status = s->dnn->cudnnGetConvolutionBackwardDataAlgorithm_v7(
      handle, s->filter, s->dst, s->conv, s->src, MAX_CANDIDATES, &out->count, perf);
  if (status == CUDNN_STATUS_SUCCESS) CR_LIST(perf, out)
  return status;
}

static cudnnStatus_t list_weights(const conv_state *s, cudnnHandle_t handle, candidates *out) {
  cudnnConvolutionBwdFilterAlgoPerf_t perf[MAX_CANDIDATES];
  const cudnnStatus_t status = s->dnn->cudnnGetConvolutionBackwardFilterAlgorithm_v7(
      handle, s->src, s->dst, s->conv, s->filter, MAX_CANDIDATES, &out->count, perf);
  if (status == CUDNN_STATUS_SUCCESS) CR_LIST(perf, out)
  return status;
}

static cudnnStatus_t list_all(const conv_state *s, cudnnHandle_t handle, candidates *out) {
  switch (s->pass) {
    case PASS_FORWARD: return list_forward(s, handle, out);
    case PASS_DATA: return list_data(s, handle, out);
    case PASS_WEIGHTS: break;
  }
  return list_weights(s, handle, out);
}

/* The scratchpad that the algorithm wants with the arithmetic of the descriptor; the
 * candidate's own number may be for another. Fails for what the descriptors rule out. */
static cudnnStatus_t workspace_of(const conv_state *s, cudnnHandle_t handle, int algorithm,
                                  size_t *bytes) {
  switch (s->pass) {
    case PASS_FORWARD:
      return s->dnn->cudnnGetConvolutionForwardWorkspaceSize(
          handle, s->src, s->filter, s->conv, s->dst, (cudnnConvolutionFwdAlgo_t)algorithm, bytes);
    case PASS_DATA:
      return s->dnn->cudnnGetConvolutionBackwardDataWorkspaceSize(
          handle, s->filter, s->dst, s->conv, s->src, (cudnnConvolutionBwdDataAlgo_t)algorithm,
          bytes);
    case PASS_WEIGHTS: break;
  }
  return s->dnn->cudnnGetConvolutionBackwardFilterWorkspaceSize(
      handle, s->src, s->dst, s->conv, s->filter, (cudnnConvolutionBwdFilterAlgo_t)algorithm,
      bytes);
}

/* Algorithms that work on transformed images: Fourier's, and Winograd's on tiles of their own (the
 * fused one has small tiles). Their rounding grows with the tile, beyond what the direct sums of
 * the CPU show. */
static bool loses_digits(conv_pass pass, int algorithm) {
  switch (pass) {
    case PASS_FORWARD:
      return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_FFT ||
             algorithm == CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING ||
             algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
    case PASS_DATA:
      return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT ||
             algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING ||
             algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
    case PASS_WEIGHTS: break;
  }
  return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT ||
         algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING ||
         algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
}

/* The candidates that are deterministic, keep their digits, and are within the limit, each with all
 * the scratchpad of a run. cuDNN lists the fastest first and need not say how fast it is: the index
 * in its list stands for the time. What the descriptors rule out is unsupported to one version and
 * a bad parameter to another. */
static crema_status find_usable(const conv_state *s, cudnnHandle_t handle, const candidates *found,
                                cr_algorithm *table, int *out) {
  int count = 0;
  for (int i = 0; i < found->count; ++i) {
    const candidate *c = &found->list[i];
    size_t bytes = 0;
    if (c->status != CUDNN_STATUS_SUCCESS || c->determinism != CUDNN_DETERMINISTIC) continue;
    if (loses_digits(s->pass, c->algorithm)) continue;
    const cudnnStatus_t status = workspace_of(s, handle, c->algorithm, &bytes);
    if (is_unsupported(status) || CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_BAD_PARAM) continue;
    CR_TRY(check(s->dnn, status, "scratchpad of an algorithm"));
    if (bytes > workspace_limit) continue;
    table[count++] =
        (cr_algorithm){.id = i, .seconds = i, .bytes = (bytes + 255) / 256 * 256 + s->bias_bytes};
  }
  (void)cudaGetLastError();
  *out = count;
  return CREMA_OK;
}

/* The fastest that the device has the memory for. */
static crema_status choose(conv_state *s, crema_context *context, cudnnHandle_t handle) {
  candidates found = {.count = 0};
  cr_algorithm table[MAX_CANDIDATES];
  int best = 0, count = 0;
  CR_TRY(check(s->dnn, list_all(s, handle, &found), "choice of an algorithm"));
  CR_TRY(find_usable(s, handle, &found, table, &count));
  if (count == 0) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "cuDNN: no exact and deterministic algorithm for this convolution");
  }
  const crema_status chosen = cr_context_choose(context, table, count, &best);
  if (chosen != CREMA_OK) return cr_fail_in(chosen, "cuDNN");
  s->algorithm = found.list[best].algorithm;
  for (int i = 0; i < count; ++i) {
    if (table[i].id == best) s->dnn_bytes = table[i].bytes - s->bias_bytes;
  }
  return CREMA_OK;
}

/* ---- the plan ---- */

static void destroy_state(conv_state *s) {
  if (s == NULL) return;
  if (s->conv != NULL) (void)s->dnn->cudnnDestroyConvolutionDescriptor(s->conv);
  if (s->filter != NULL) (void)s->dnn->cudnnDestroyFilterDescriptor(s->filter);
  if (s->dst != NULL) (void)s->dnn->cudnnDestroyTensorDescriptor(s->dst);
  if (s->src != NULL) (void)s->dnn->cudnnDestroyTensorDescriptor(s->src);
  free(s);
}

static void conv_destroy(cr_plan *plan) {
  destroy_state(plan->state);
}

/* What the row after this one, over unfolded windows, will check and report. */
static crema_status check_sizes(const cr_plan *plan, const crema_shape *in, int weights,
                                const crema_shape *out) {
  const cr_conv_params *params = &plan->desc->u.conv;
  cr_hd_slide slide;
  CR_TRY(cr_cuda_slide(&params->window, in, out, false, &slide));
  if (params->window.axes < 1 || params->window.axes > MAX_SPATIAL) {
    return cr_fail(CREMA_E_UNSUPPORTED, "cuDNN: %d spatial axes", params->window.axes);
  }
  const int64_t group = params->group;
  if (group < 1 || in->dim[1] % group != 0 || out->dim[1] % group != 0 ||
      in->dim[0] != out->dim[0] ||
      cr_op_arg_count(plan->desc, weights) !=
          out->dim[1] * (in->dim[1] / group) * slide.kernel_count) {
    return cr_fail(CREMA_E_UNSUPPORTED, "cuDNN: the shapes do not fit");
  }
  /* cuDNN works out the output's extents itself; it knows no other rounding. */
  for (int a = 0; a < slide.axes; ++a) {
    const int64_t reach = (int64_t)slide.dilation[a] * (slide.kernel[a] - 1) + 1;
    const int64_t room = (int64_t)slide.in[a] + 2 * (int64_t)slide.pad[a] - reach;
    if (room < 0 || room / slide.stride[a] + 1 != slide.out[a]) {
      return cr_fail(CREMA_E_UNSUPPORTED, "cuDNN: another output extent on axis %d", a);
    }
  }
  return CREMA_OK;
}

static crema_status describe(conv_state *s, const cr_conv_params *params, const crema_shape *in,
                             const crema_shape *out) {
  CR_TRY(set_tensor(s, in, &s->src));
  CR_TRY(set_tensor(s, out, &s->dst));
  CR_TRY(set_filter(s, params, in, out));
  return set_conv(s, params);
}

static crema_status make_state(conv_state *s, crema_context *context, const cr_conv_params *params,
                               const crema_shape *in, const crema_shape *out) {
  cudnnHandle_t handle = NULL;
  int before = -1;
  CR_TRY(describe(s, params, in, out));
  CR_TRY(cr_cuda_enter(context->device, &before));
  crema_status status = cr_cuda_dnn_handle(context, &handle);
  if (status == CREMA_OK) status = choose(s, context, handle);
  cr_cuda_leave(before);
  return status;
}

/* src, weights and dst: the indices of the arguments that have these shapes. */
static crema_status conv_plan(cr_plan *plan, conv_pass pass, int src, int weights, int dst) {
  const crema_shape *in = &plan->desc->arg[src].shape, *out = &plan->desc->arg[dst].shape;
  const cr_cudnn *dnn = NULL;
  CR_TRY(cr_cuda_cudnn(&dnn));
  CR_TRY(check_sizes(plan, in, weights, out));
  const cr_op_arg *arg = plan->desc->arg;
  if (arg[weights].type != arg[src].type || arg[dst].type != arg[src].type) {
    return cr_fail(CREMA_E_UNSUPPORTED, "cuDNN: image, weights and result have several types");
  }
  conv_state *state = calloc(1, sizeof *state);
  if (state == NULL) return cr_fail_memory(sizeof *state, "the plan of a convolution");
  state->dnn = dnn;
  state->pass = pass;
  state->type = arg[src].type;
  state->bias = cr_op_split(plan->desc, dst, 1);
  if (pass == PASS_WEIGHTS) state->bias_bytes = cr_cuda_channel_scratchpad(state->bias);
  if (pass == PASS_FORWARD) state->bias_bytes = cr_cuda_posts_bytes(plan->desc);
  const crema_status status = make_state(state, plan->context, &plan->desc->u.conv, in, out);
  if (status != CREMA_OK) {
    destroy_state(state);
    return status;
  }
  plan->workspace_bytes = state->dnn_bytes + state->bias_bytes;
  plan->state = state;
  return CREMA_OK;
}

static crema_status conv_fwd_plan(cr_plan *plan) {
  return conv_plan(plan, PASS_FORWARD, 0, 1, 3);
}
static crema_status conv_bwd_data_plan(cr_plan *plan) {
  return conv_plan(plan, PASS_DATA, 2, 1, 0);
}
static crema_status conv_bwd_weights_plan(cr_plan *plan) {
  return conv_plan(plan, PASS_WEIGHTS, 0, 2, 1);
}

/* ---- runs ---- */

/* src, weights, bias, dst. */
static crema_status conv_fwd(const cr_call *call) {
  const conv_state *s = call->plan->state;
  const float one = 1, zero = 0;
  cudnnHandle_t handle = NULL;
  CR_TRY(cr_cuda_dnn_handle(call->context, &handle));
  CR_TRY(cr_cuda_posts_begin(call, s->dnn_bytes));
  CR_TRY(check(s->dnn,
               s->dnn->cudnnConvolutionForward(
                   handle, &one, s->src, cr_cuda_f32(call, 0), s->filter, cr_cuda_f32(call, 1),
                   s->conv, (cudnnConvolutionFwdAlgo_t)s->algorithm, cr_cuda_scratchpad(call, 0),
                   s->dnn_bytes, &zero, s->dst, cr_cuda_f32(call, 3)),
               "convolution"));
  return cr_cuda_posts(call, s->dnn_bytes, false, s->bias.channels, s->bias.inner);
}

/* diff_dst, weights, diff_src. */
static crema_status conv_bwd_data(const cr_call *call) {
  const conv_state *s = call->plan->state;
  const float one = 1, zero = 0;
  cudnnHandle_t handle = NULL;
  CR_TRY(cr_cuda_dnn_handle(call->context, &handle));
  return check(s->dnn,
               s->dnn->cudnnConvolutionBackwardData(
                   handle, &one, s->filter, cr_cuda_f32(call, 1), s->dst, cr_cuda_f32(call, 0),
                   s->conv, (cudnnConvolutionBwdDataAlgo_t)s->algorithm,
                   cr_cuda_scratchpad(call, 0), s->dnn_bytes, &zero, s->src, cr_cuda_f32(call, 2)),
               "gradient of a convolution's source");
}

/* src, diff_dst, diff_weights, diff_bias. */
static crema_status conv_bwd_weights(const cr_call *call) {
  const conv_state *s = call->plan->state;
  const float one = 1, beta = call->accumulate[2] ? 1 : 0;
  cudnnHandle_t handle = NULL;
  CR_TRY(cr_cuda_dnn_handle(call->context, &handle));
  CR_TRY(check(s->dnn,
               s->dnn->cudnnConvolutionBackwardFilter(handle, &one, s->src, cr_cuda_f32(call, 0),
                                                      s->dst, cr_cuda_f32(call, 1), s->conv,
                                                      (cudnnConvolutionBwdFilterAlgo_t)s->algorithm,
                                                      cr_cuda_scratchpad(call, 0), s->dnn_bytes,
                                                      &beta, s->filter, cr_cuda_f32(call, 2)),
               "gradient of a convolution's weights"));
  if (call->buffer[3].address == 0) return CREMA_OK;
  const cr_cuda_channel_sum sum = {.split = s->bias,
                                   .dy = cr_cuda_values(call, 1),
                                   .term = CR_TERM_VALUE,
                                   .add = call->accumulate[3],
                                   .out = cr_cuda_values(call, 3),
                                   .scratchpad = cr_cuda_scratchpad(call, s->dnn_bytes)};
  return cr_cuda_channel_sums(call, &sum);
}

CR_CUDA_ROW(conv_fwd_f32_cudnn, CONV_FWD, conv_fwd, .types = CR_CUDA_FLOATS, .plan = conv_fwd_plan,
            .destroy = conv_destroy, .library = true);
CR_CUDA_ROW(conv_bwd_data_f32_cudnn, CONV_BWD_DATA, conv_bwd_data, .types = CR_CUDA_FLOATS,
            .plan = conv_bwd_data_plan, .destroy = conv_destroy, .library = true);
CR_CUDA_ROW(conv_bwd_weights_f32_cudnn, CONV_BWD_WEIGHTS, conv_bwd_weights, .types = CR_CUDA_FLOATS,
            .plan = conv_bwd_weights_plan, .destroy = conv_destroy, .can_accumulate = true,
            .library = true);
