/* Convolution by cuDNN 9, over one to three spatial axes (one axis is treated as two, with an
 * extent of 1). Execution plans come from cuDNN's heuristics, of deterministic engines only and in
 * full f32 arithmetic, unless the context computes with fast math. FP16 values are multiplied by
 * tensor cores, which is exact, and accumulated in f32. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "device/cuda/cudnn_graph.h"
#include "device/gpu/kernels/channel.h"
#include "device/gpu/kernels/device_functions.h"
#include "device/gpu/layout.h"
#include "device/gpu/rows.h"
#include "device/memory/scratchpad.h"

/* The largest scratchpad of an engine: a larger one would not be worth its memory. Below the second
 * size, do not look for a smaller engine. */
static const size_t workspace_limit = (size_t)256 << 20, little_workspace = (size_t)1 << 20;

/* Whole blobs have this alignment; images inside a batch may have a smaller one. */
enum { WIDE_ALIGNMENT = 16, ENOUGH_PLANS = 4 };

typedef struct cudnn_conv_state {
  const cr_cudnn *dnn;
  cr_cudnn_conv conv;
  /* For aligned addresses, and for any; the latter may be absent. */
  cr_cudnn_plan wide, narrow;
  /* Held while a plan is run: cuDNN does not promise that threads may share one. */
  pthread_mutex_t lock;
  size_t dnn_bytes; /* cuDNN's scratchpad comes first */
  /* Then weights' gradients that are accumulated, or a source's gradient that is spread. */
  size_t made_bytes;
  size_t bias_bytes; /* then the scratchpad of the bias' gradient, or of post operations */
  cr_split bias;     /* dst as (N, O, positions) */
  bool spreads;      /* see looks_at_single_points */
  cr_hd_slide slide; /* then */
} cudnn_conv_state;

/* Extents of a shape, with an inserted axis of extent 1 if there is only one spatial axis. Errors:
 * CREMA_E_UNSUPPORTED for extents beyond the int range of cuDNN's kernels. */
static crema_status extents(const crema_shape *shape, int *count, int64_t *dim) {
  int axes = 0;
  int64_t values = 1;
  for (int a = 0; a < shape->axes; ++a) {
    if (a == 2 && shape->axes == 3) dim[axes++] = 1;
    if (shape->dim[a] < 1 || shape->dim[a] > INT32_MAX) {
      return cr_fail(CREMA_E_UNSUPPORTED, "cuDNN: an extent of %" PRId64, shape->dim[a]);
    }
    dim[axes++] = shape->dim[a];
    values *= shape->dim[a];
    if (values > INT32_MAX) {
      return cr_fail(CREMA_E_UNSUPPORTED, "cuDNN: a blob beyond 2^31 values");
    }
  }
  *count = axes;
  return CREMA_OK;
}

/* The weights may have another shape of the same count, so their shape is derived from the window.
 */
static crema_status describe(cr_cudnn_conv *conv, const cr_conv_params *params,
                             const crema_shape *in, const crema_shape *out) {
  const cr_window *w = &params->window;
  crema_shape weights = {.axes = 2 + w->axes};
  int axes = 0;
  weights.dim[0] = out->dim[1];
  weights.dim[1] = in->dim[1] / params->group;
  for (int a = 0; a < w->axes; ++a) weights.dim[a + 2] = w->kernel[a];
  CR_TRY(extents(in, &conv->axes, conv->x));
  CR_TRY(extents(&weights, &conv->axes, conv->w));
  CR_TRY(extents(out, &conv->axes, conv->y));
  if (w->axes == 1) {
    conv->pad[0] = 0, conv->stride[0] = conv->dilation[0] = 1;
    axes = 1;
  }
  for (int a = 0; a < w->axes; ++a, ++axes) {
    conv->pad[axes] = w->pad[a];
    conv->stride[axes] = w->stride[a];
    conv->dilation[axes] = w->dilation[a];
  }
  return CREMA_OK;
}

/* The fastest plan whose scratchpad fits the device's memory. cuDNN lists the fastest first without
 * a time, so the index in its list represents the time. */
static crema_status choose(const cudnn_conv_state *s, crema_context *context, cr_cudnn_plans *found,
                           cr_cudnn_plan *out) {
  cr_algorithm table[CR_CUDNN_PLANS];
  int best = -1;
  if (found->count == 0) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   s->conv.fast ? "cuDNN: no algorithm for this convolution"
                                : "cuDNN: no exact and deterministic algorithm for this "
                                  "convolution");
  }
  for (int i = 0; i < found->count; ++i) {
    table[i] = (cr_algorithm){
        .id = i,
        .seconds = i,
        .bytes = cr_gpu_rounded(found->list[i].bytes) + s->made_bytes + s->bias_bytes};
  }
  const crema_status status = cr_context_choose(context, table, found->count, &best);
  if (status == CREMA_OK) *out = found->list[best];
  cr_cudnn_drop_plans(s->dnn, found, status == CREMA_OK ? best : -1);
  return cr_fail_in(status, "cuDNN");
}

static crema_status choose_wide(cudnn_conv_state *s, crema_context *context, cudnnHandle_t handle) {
  const cr_cudnn_wish wish = {.alignment = WIDE_ALIGNMENT,
                              .limit = workspace_limit,
                              .enough = ENOUGH_PLANS,
                              .little = little_workspace};
  cr_cudnn_plans found;
  CR_TRY(cr_cudnn_find_plans(s->dnn, handle, &s->conv, &wish, &found));
  return choose(s, context, &found, &s->wide);
}

/* The first plan that works with the memory of the other plan, if any, because it rarely runs. */
static crema_status choose_narrow(cudnn_conv_state *s, crema_context *context,
                                  cudnnHandle_t handle) {
  cr_cudnn_wish wish = {.alignment = (int64_t)crema_dtype_size(s->conv.type),
                        .limit = cr_gpu_rounded(s->wide.bytes),
                        .enough = 1,
                        .little = cr_gpu_rounded(s->wide.bytes)};
  cr_cudnn_plans found;
  CR_TRY(cr_cudnn_find_plans(s->dnn, handle, &s->conv, &wish, &found));
  if (found.count == 0) {
    wish.limit = workspace_limit;
    wish.enough = ENOUGH_PLANS;
    wish.little = little_workspace;
    CR_TRY(cr_cudnn_find_plans(s->dnn, handle, &s->conv, &wish, &found));
  }
  return choose(s, context, &found, &s->narrow);
}

static void log_choice(const cudnn_conv_state *s) {
  static const char *const pass[] = {"forward", "gradient of source", "gradient of weights"};
  const cr_cudnn_conv *c = &s->conv;
  char x[96] = "", w[96] = "";
  size_t x_size = 0, w_size = 0;
  for (int a = 0; a < c->axes; ++a) {
    x_size += (size_t)snprintf(x + x_size, sizeof x - x_size, a == 0 ? "%d" : "x%d", (int)c->x[a]);
    w_size += (size_t)snprintf(w + w_size, sizeof w - w_size, a == 0 ? "%d" : "x%d", (int)c->w[a]);
  }
  cr_log_debug("cuDNN, %s, %s by %s, %s%s%s: engine %" PRId64 ", %zu bytes; unaligned %" PRId64
               ", %zu bytes",
               pass[c->pass], x, w, crema_dtype_name(c->type), c->fast ? ", fast" : "",
               c->last ? ", channels-last" : "", s->wide.engine, s->wide.bytes,
               s->narrow.plan == NULL ? -1 : s->narrow.engine, s->narrow.bytes);
}

/* Without a plan for unaligned addresses the other plan nearly always suffices, for any reason. */
static crema_status choose_both(cudnn_conv_state *s, crema_context *context, cudnnHandle_t handle) {
  CR_TRY(choose_wide(s, context, handle));
  const crema_status status = choose_narrow(s, context, handle);
  if (status == CREMA_E_NO_MEMORY || status == CREMA_E_CLOSED) return status;
  s->dnn_bytes = cr_gpu_rounded(s->wide.bytes > s->narrow.bytes ? s->wide.bytes : s->narrow.bytes);
  log_choice(s);
  return CREMA_OK;
}

static void destroy_state(cudnn_conv_state *s) {
  if (s == NULL) return;
  cr_cudnn_destroy_plan(s->dnn, &s->narrow);
  cr_cudnn_destroy_plan(s->dnn, &s->wide);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

static void conv_destroy(cr_plan *plan) {
  destroy_state(plan->state);
}

/* Checks that the next row, over unfolded windows, repeats and reports. */
static crema_status check_sizes(const cr_plan *plan, const crema_shape *in, int weights,
                                const crema_shape *out, cr_hd_slide *slide) {
  const cr_conv_params *params = &plan->desc->u.conv;
  CR_TRY(cr_gpu_slide(&params->window, in, out, false, slide));
  if (params->window.axes < 1 || params->window.axes > CR_CUDNN_SPATIAL) {
    return cr_fail(CREMA_E_UNSUPPORTED, "cuDNN: %d spatial axes", params->window.axes);
  }
  const int64_t group = params->group;
  if (group < 1 || in->dim[1] % group != 0 || out->dim[1] % group != 0 ||
      in->dim[0] != out->dim[0] ||
      cr_op_arg_count(plan->desc, weights) !=
          out->dim[1] * (in->dim[1] / group) * slide->kernel_count) {
    return cr_fail(CREMA_E_UNSUPPORTED, "cuDNN: the shapes do not fit");
  }
  /* cuDNN works out the output's extents itself; it knows no other rounding. */
  for (int a = 0; a < slide->axes; ++a) {
    const int64_t reach = (int64_t)slide->dilation[a] * (slide->kernel[a] - 1) + 1;
    const int64_t room = (int64_t)slide->in[a] + 2 * (int64_t)slide->pad[a] - reach;
    if (room < 0 || room / slide->stride[a] + 1 != slide->out[a]) {
      return cr_fail(CREMA_E_UNSUPPORTED, "cuDNN: another output extent on axis %d", a);
    }
  }
  return CREMA_OK;
}

/* Whether each window is a single point and some points are in no window. cuDNN's engines for the
 * gradient of such a source are slow. They take 5 ms, and 0.3 ms for only the points (an H100, 64 x
 * 256 x 56 x 56 with stride 2). So the points' gradient is computed and spread. */
static bool looks_at_single_points(const cr_hd_slide *slide) {
  bool strides = false;
  for (int a = 0; a < slide->axes; ++a) {
    if (slide->kernel[a] != 1 || slide->pad[a] != 0) return false;
    strides = strides || slide->stride[a] > 1;
  }
  return strides;
}

/* Reduces the convolution to the points in windows. */
static void leave_points(cudnn_conv_state *s) {
  cr_cudnn_conv *c = &s->conv;
  int64_t values = 1;
  for (int a = 2; a < c->axes; ++a) {
    c->x[a] = c->y[a];
    c->stride[a - 2] = 1;
  }
  for (int a = 0; a < c->axes; ++a) values *= c->x[a];
  s->made_bytes = cr_gpu_rounded((size_t)values * crema_dtype_size(c->type));
  s->spreads = true;
}

static crema_status make_state(cudnn_conv_state *s, crema_context *context) {
  cudnnHandle_t handle = NULL;
  int before = -1;
  CR_TRY(cr_gpu_enter(context->device, &before));
  crema_status status = cr_cuda_dnn_handle(context, &handle);
  if (status == CREMA_OK) status = choose_both(s, context, handle);
  cr_gpu_leave(before);
  return status;
}

/* The pass of an op, and the arguments that are x, w and y. */
typedef struct conv_roles {
  cr_cudnn_pass pass;
  int x, w, y;
} conv_roles;

static conv_roles roles_of(cr_op_kind kind) {
  switch (kind) {
    case CR_OP_CONV_FWD: return (conv_roles){CR_CUDNN_FORWARD, 0, 1, 3};
    case CR_OP_CONV_BWD_DATA: return (conv_roles){CR_CUDNN_DATA, 2, 1, 0};
    default: return (conv_roles){CR_CUDNN_WEIGHTS, 0, 2, 1};
  }
}

/* Asks for images, weights and an addend in channels-last order. */
static crema_status set_formats(cr_plan *plan, const conv_roles *roles, const cr_cudnn_conv *conv) {
  crema_device *device = plan->context->device;
  crema_shape weights = {.axes = conv->axes};
  for (int a = 0; a < conv->axes; ++a) weights.dim[a] = conv->w[a];
  const cr_op_arg *arg = plan->desc->arg;
  for (int i = 0; i < plan->desc->args; ++i) {
    const bool adds = conv->pass == CR_CUDNN_FORWARD && i == CR_ARG_ADDEND;
    if (i != roles->x && i != roles->w && i != roles->y && !adds) continue;
    if (arg[i].shape.axes < 0) continue;
    const crema_shape *shape = i == roles->w ? &weights : &arg[i].shape;
    CR_TRY(cr_gpu_last(device, shape, arg[i].type, &plan->format[i].layout));
  }
  return CREMA_OK;
}

/* Sizes and parts of the scratchpad. */
static void set_parts(cudnn_conv_state *state, const cr_plan *plan, const conv_roles *roles) {
  const cr_cudnn_pass pass = roles->pass;
  const bool last = state->conv.last;
  if (pass == CR_CUDNN_DATA && !last && looks_at_single_points(&state->slide)) leave_points(state);
  state->bias = cr_op_split(plan->desc, roles->y, 1);
  if (last) {
    state->bias = (cr_split){state->bias.outer * state->bias.inner, state->bias.channels, 1};
  }
  if (pass == CR_CUDNN_WEIGHTS) {
    state->made_bytes = cr_gpu_rounded((size_t)cr_op_arg_count(plan->desc, roles->w) *
                                       crema_dtype_size(plan->desc->arg[roles->w].type));
    state->bias_bytes = cr_gpu_channel_scratchpad(state->bias);
  }
  if (pass == CR_CUDNN_FORWARD) state->bias_bytes = cr_gpu_posts_bytes(plan->desc);
}

static crema_status plan_in_order(cr_plan *plan, bool last) {
  const conv_roles roles = roles_of(plan->desc->kind);
  const cr_op_arg *arg = plan->desc->arg;
  const cr_cudnn *dnn = NULL;
  cr_hd_slide slide;
  CR_TRY(cr_cuda_cudnn(&dnn));
  CR_TRY(check_sizes(plan, &arg[roles.x].shape, roles.w, &arg[roles.y].shape, &slide));
  if (arg[roles.w].type != arg[roles.x].type || arg[roles.y].type != arg[roles.x].type) {
    return cr_fail(CREMA_E_UNSUPPORTED, "cuDNN: image, weights and result have several types");
  }
  cr_cudnn_conv conv = {.pass = roles.pass,
                        .type = arg[roles.x].type,
                        .fast = plan->context->fast_math,
                        .last = last};
  CR_TRY(describe(&conv, &plan->desc->u.conv, &arg[roles.x].shape, &arg[roles.y].shape));
  cudnn_conv_state *state = calloc(1, sizeof *state);
  if (state == NULL) return cr_fail_memory(sizeof *state, "the plan of a convolution");
  pthread_mutex_init(&state->lock, NULL);
  state->dnn = dnn;
  state->conv = conv;
  state->slide = slide;
  set_parts(state, plan, &roles);
  crema_status status = make_state(state, plan->context);
  if (status == CREMA_OK && last) status = set_formats(plan, &roles, &conv);
  if (status != CREMA_OK) {
    destroy_state(state);
    return status;
  }
  plan->workspace_bytes = state->dnn_bytes + state->made_bytes + state->bias_bytes;
  plan->state = state;
  return CREMA_OK;
}

/* Tensor cores read channels-last images. cuDNN transposes row-major images in each run. Exact math
 * keeps the row-major order, whose engines add in another order. */
static crema_status conv_plan(cr_plan *plan) {
  if (plan->context->fast_math && plan->desc->u.conv.window.axes == 2) {
    const crema_status status = plan_in_order(plan, true);
    if (status != CREMA_E_UNSUPPORTED) return status;
    cr_log_debug("%s: not channels-last: %s", plan->kernel->name, crema_error_text());
  }
  return plan_in_order(plan, false);
}

/* Queues cuDNN's part, with x, w and y as cr_cudnn_conv has them. */
static crema_status convolve(const cr_call *call, const void *x, const void *w, const void *y,
                             const char *what) {
  cudnn_conv_state *s = call->plan->state;
  cudnnHandle_t handle = NULL;
  const uintptr_t ends = (uintptr_t)x | (uintptr_t)w | (uintptr_t)y;
  const cr_cudnn_plan *plan = ends % WIDE_ALIGNMENT == 0 ? &s->wide : &s->narrow;
  if (plan->plan == NULL) {
    return cr_fail(CREMA_E_UNSUPPORTED, "cuDNN, %s: no algorithm for unaligned addresses", what);
  }
  CR_TRY(cr_cuda_dnn_handle(call->context, &handle));
  cr_gpu_count_launch(call->context);
  pthread_mutex_lock(&s->lock);
  const cudnnStatus_t status =
      cr_cudnn_run_plan(s->dnn, handle, plan, x, w, y, cr_gpu_scratchpad(call, 0));
  pthread_mutex_unlock(&s->lock);
  return cr_cudnn_check(s->dnn, status, what);
}

/* src, weights, bias, dst. */
static crema_status conv_fwd(const cr_call *call) {
  const cudnn_conv_state *s = call->plan->state;
  CR_TRY(cr_gpu_posts_begin(call, s->dnn_bytes));
  CR_TRY(
      convolve(call, cr_gpu_f32(call, 0), cr_gpu_f32(call, 1), cr_gpu_f32(call, 3), "convolution"));
  return cr_gpu_posts(call, s->dnn_bytes, false, s->bias.channels, s->bias.inner);
}

/* diff_dst, weights, diff_src. */
static crema_status conv_bwd_data(const cr_call *call) {
  const cudnn_conv_state *s = call->plan->state;
  void *made = s->spreads ? cr_gpu_scratchpad(call, s->dnn_bytes) : cr_gpu_f32(call, 2);
  CR_TRY(convolve(call, made, cr_gpu_f32(call, 1), cr_gpu_f32(call, 0),
                  "gradient of a convolution's source"));
  if (!s->spreads) return CREMA_OK;
  const cr_hd_values out = cr_gpu_values(call, 2);
  const cr_spread_args args = {
      .from = {.at = made, .type = out.type}, .out = out, .slide = s->slide};
  return cr_gpu_each_of(call, 2, CR_DEVICE_FUNCTION_spread, &args);
}

/* src, diff_dst, diff_weights, diff_bias. */
static crema_status conv_bwd_weights(const cr_call *call) {
  const cudnn_conv_state *s = call->plan->state;
  const bool add = call->accumulate[2];
  void *made = add ? cr_gpu_scratchpad(call, s->dnn_bytes) : cr_gpu_f32(call, 2);
  CR_TRY(convolve(call, cr_gpu_f32(call, 0), made, cr_gpu_f32(call, 1),
                  "gradient of a convolution's weights"));
  if (add) {
    /* A plan cannot add: the gradient is made in the scratchpad and added from there. */
    const cr_hd_values to = cr_gpu_values(call, 2);
    const cr_axpby_args args = {
        .x = {.at = made, .type = to.type}, .out = to, .alpha = 1, .beta = 1};
    CR_TRY(cr_gpu_each_of(call, 2, CR_DEVICE_FUNCTION_axpby, &args));
  }
  if (call->buffer[3].address == 0) return CREMA_OK;
  const cr_gpu_channel_sum sum = {
      .split = s->bias,
      .dy = cr_gpu_values(call, 1),
      .term = CR_TERM_VALUE,
      .add = call->accumulate[3],
      .out = cr_gpu_values(call, 3),
      .scratchpad = cr_gpu_scratchpad(call, s->dnn_bytes + s->made_bytes)};
  return cr_gpu_channel_sums(call, &sum);
}

CR_GPU_ROW_OF(conv_fwd_f32_cudnn, CONV_FWD, F32, conv_fwd, false, .types = CR_GPU_FLOATS,
              .plan = conv_plan, .destroy = conv_destroy, .library = true);
CR_GPU_ROW_OF(conv_bwd_data_f32_cudnn, CONV_BWD_DATA, F32, conv_bwd_data, false,
              .types = CR_GPU_FLOATS, .plan = conv_plan, .destroy = conv_destroy, .library = true);
CR_GPU_ROW_OF(conv_bwd_weights_f32_cudnn, CONV_BWD_WEIGHTS, F32, conv_bwd_weights, false,
              .types = CR_GPU_FLOATS, .plan = conv_plan, .destroy = conv_destroy,
              .can_accumulate = true, .library = true);
