/* Rows of sliding windows: pooling, windows as columns, local response normalisation. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/gpu/kernels/device_functions.h"
#include "device/gpu/rows.h"

typedef struct pool_state {
  cr_hd_slide slide;
  int64_t planes;
  bool last; /* source and result are channels-last */
  int64_t channels;
} pool_state;

/* Pooling and its gradient have three arguments of images. */
static crema_status follow(cr_plan *plan, pool_state *state) {
  const unsigned args = CR_ARG(0) | CR_ARG(1) | CR_ARG(2);
  if (plan->desc->kind != CR_OP_POOL_FWD && plan->desc->kind != CR_OP_POOL_BWD) return CREMA_OK;
  CR_TRY(cr_gpu_follow(plan, args));
  state->last = cr_gpu_is_last(plan, args);
  state->channels = plan->desc->arg[0].shape.dim[1];
  return CREMA_OK;
}

/* The extents of the input that POOL_MASK does not have among its arguments. */
static crema_shape mask_input(const cr_op_desc *desc) {
  crema_shape in = desc->arg[0].shape;
  for (int a = 0; a + 2 < in.axes && a < CR_MAX_SPATIAL; ++a) in.dim[a + 2] = desc->u.pool.src[a];
  return in;
}

static crema_status pool_plan(cr_plan *plan) {
  const cr_op_desc *desc = plan->desc;
  const cr_window *window = &desc->u.pool.window;
  const bool backward = desc->kind == CR_OP_POOL_BWD || desc->kind == CR_OP_STOCHASTIC_POOL_BWD;
  const bool mask = desc->kind == CR_OP_POOL_MASK;
  const crema_shape masked = mask_input(desc), *out = &desc->arg[backward || mask ? 0 : 1].shape;
  const crema_shape *in = mask ? &masked : &desc->arg[backward ? 2 : 0].shape;
  for (int a = 0; a < window->axes && a < CR_MAX_SPATIAL; ++a) {
    if (window->dilation[a] > 1) {
      return cr_fail(CREMA_E_UNSUPPORTED, "pooling with a dilated window");
    }
  }
  if (desc->u.pool.method == CR_POOL_AVERAGE_INPUT) {
    return cr_fail(CREMA_E_UNSUPPORTED, "averages without padding");
  }
  pool_state state = {.planes = 0};
  CR_TRY(cr_gpu_slide(window, in, out, true, &state.slide));
  if (in->dim[0] != out->dim[0] || in->dim[1] != out->dim[1]) {
    return cr_fail(CREMA_E_SHAPE,
                   "pooling of %" PRId64 " x %" PRId64 " to %" PRId64 " x %" PRId64 " planes",
                   in->dim[0], in->dim[1], out->dim[0], out->dim[1]);
  }
  state.planes = in->dim[0] * in->dim[1];
  CR_TRY(follow(plan, &state));
  pool_state *kept = malloc(sizeof *kept);
  if (kept == NULL) return cr_fail_memory(sizeof *kept, "the plan of a pooling");
  *kept = state;
  plan->state = kept;
  return CREMA_OK;
}

static cr_pool_args pool_args(const cr_call *call) {
  const pool_state *state = call->plan->state;
  return (cr_pool_args){.slide = state->slide};
}

static cr_pool_last_args last_args(const cr_call *call, cr_pool_args pool) {
  const pool_state *state = call->plan->state;
  return (cr_pool_last_args){.pool = pool, .channels = cr_divisor_of(state->channels)};
}

static int64_t pool_outputs(const cr_call *call) {
  const pool_state *state = call->plan->state;
  return state->planes * state->slide.out_count;
}

/* src, dst, aux. */
static crema_status pool_fwd(const cr_call *call) {
  cr_pool_args args = pool_args(call);
  args.src = cr_gpu_values(call, 0);
  args.out = cr_gpu_values(call, 1);
  args.new_index = cr_gpu_i32(call, 2);
  const bool max = call->desc->u.pool.method == CR_POOL_MAX;
  if (((const pool_state *)call->plan->state)->last) {
    const cr_pool_last_args last = last_args(call, args);
    return cr_gpu_each_in(
        call, max ? CR_DEVICE_FUNCTION_pool_max_last : CR_DEVICE_FUNCTION_pool_average_last, &last,
        pool_outputs(call));
  }
  return cr_gpu_each_in(call, max ? CR_DEVICE_FUNCTION_pool_max : CR_DEVICE_FUNCTION_pool_average,
                        &args, pool_outputs(call));
}

/* diff_dst, aux, diff_src. */
static crema_status pool_bwd(const cr_call *call) {
  const pool_state *state = call->plan->state;
  const bool stochastic = call->desc->kind == CR_OP_STOCHASTIC_POOL_BWD;
  const bool max = !stochastic && call->desc->u.pool.method == CR_POOL_MAX;
  cr_pool_args args = pool_args(call);
  if (max && call->buffer[1].address == 0) {
    return cr_fail(CREMA_E_ARGUMENT, "max pooling: the indices of the maxima are missing");
  }
  args.dy = cr_gpu_values(call, 0);
  args.index = cr_gpu_i32(call, 1);
  args.out = cr_gpu_values(call, 2);
  if (state->last) {
    if (!max) args.index = NULL;
    const cr_pool_last_args last = last_args(call, args);
    return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_pool_bwd_last, &last,
                          state->planes * state->slide.in_count);
  }
  return cr_gpu_each_in(
      call,
      max || stochastic ? CR_DEVICE_FUNCTION_pool_chosen_bwd : CR_DEVICE_FUNCTION_pool_average_bwd,
      &args, state->planes * state->slide.in_count);
}

/* aux, mask. */
static crema_status pool_mask(const cr_call *call) {
  cr_pool_args args = pool_args(call);
  args.index = cr_gpu_i32(call, 0);
  args.out = cr_gpu_values(call, 1);
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_pool_mask, &args, pool_outputs(call));
}

/* src, dst, aux. */
static crema_status stochastic_pool_fwd(const cr_call *call) {
  cr_pool_args args = pool_args(call);
  args.src = cr_gpu_values(call, 0);
  args.out = cr_gpu_values(call, 1);
  args.new_index = cr_gpu_i32(call, 2);
  args.seed = call->scalars->seed;
  args.counter = call->scalars->counter;
  args.passes = cr_gpu_passes(call->context);
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_pool_stochastic, &args, pool_outputs(call));
}

/* src, dst. */
static crema_status stochastic_pool_test(const cr_call *call) {
  cr_pool_args args = pool_args(call);
  args.src = cr_gpu_values(call, 0);
  args.out = cr_gpu_values(call, 1);
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_pool_weighted, &args, pool_outputs(call));
}

static crema_status fold_plan(cr_plan *plan) {
  const int image_arg = plan->desc->kind == CR_OP_IM2COL ? 0 : 1;
  const crema_shape *image = &plan->desc->arg[image_arg].shape;
  const crema_shape *columns = &plan->desc->arg[1 - image_arg].shape;
  cr_hd_slide slide;
  CR_TRY(cr_gpu_slide(&plan->desc->u.window, image, columns, false, &slide));
  if (image->dim[0] != columns->dim[0] || image->dim[1] * slide.kernel_count != columns->dim[1]) {
    return cr_fail(CREMA_E_SHAPE, "the columns do not hold the image's windows");
  }
  cr_hd_slide *kept = malloc(sizeof *kept);
  if (kept == NULL) return cr_fail_memory(sizeof *kept, "the plan of columns");
  *kept = slide;
  plan->state = kept;
  return CREMA_OK;
}

/* One thread per element of argument 1, both ways. */
static crema_status fold(const cr_call *call) {
  const cr_fold_args args = {.from = cr_gpu_values(call, 0),
                             .to = cr_gpu_values(call, 1),
                             .slide = *(const cr_hd_slide *)call->plan->state};
  const bool unfold = call->desc->kind == CR_OP_IM2COL;
  return cr_gpu_each_of(call, 1, unfold ? CR_DEVICE_FUNCTION_unfold : CR_DEVICE_FUNCTION_fold,
                        &args);
}

/* Forward: src, dst, aux. Backward: src, dst, diff_dst, aux, diff_src. */
static crema_status lrn_plan(cr_plan *plan) {
  const bool forward = plan->desc->kind == CR_OP_LRN_FWD;
  const size_t arrays = forward ? 1 : 2;
  const unsigned images = CR_ARG(0) | CR_ARG(1) | (forward ? 0 : CR_ARG(2) | CR_ARG(4));
  const crema_shape *shape = &plan->desc->arg[0].shape;
  const int64_t size = plan->desc->u.lrn.size;
  CR_TRY(cr_check_lrn(plan));
  if (size > INT32_MAX / 4 || shape->dim[1] > INT32_MAX / 4 || shape->dim[2] > INT32_MAX / 4 ||
      shape->dim[3] > INT32_MAX / 4) {
    return cr_fail(CREMA_E_UNSUPPORTED, "LRN over axes longer than 2^29");
  }
  if (!plan->desc->u.lrn.within_channel) CR_TRY(cr_gpu_follow(plan, images));
  plan->workspace_bytes = arrays * (size_t)cr_op_arg_count(plan->desc, 0) * sizeof(float);
  return CREMA_OK;
}

static cr_lrn_args lrn_args(const cr_call *call) {
  const cr_lrn_params *p = &call->desc->u.lrn;
  const int64_t *dim = call->desc->arg[0].shape.dim;
  const float size = (float)p->size;
  /* Channels-last positions are images of one point. */
  const bool last = cr_gpu_is_last(call->plan, CR_ARG(0));
  const int64_t height = last ? 1 : dim[2], width = last ? 1 : dim[3];
  return (cr_lrn_args){.x = cr_gpu_values(call, 0),
                       .size = (int32_t)p->size,
                       .before = (int32_t)((p->size - 1) / 2),
                       .channels = (int32_t)dim[1],
                       .height = (int32_t)height,
                       .width = (int32_t)width,
                       .by_plane = cr_divisor_of(height * width),
                       .by_channels = cr_divisor_of(dim[1]),
                       .by_height = cr_divisor_of(height),
                       .by_width = cr_divisor_of(width),
                       .share = p->alpha / (p->within_channel ? size * size : size),
                       .k = p->k,
                       .beta = p->beta,
                       .within = p->within_channel};
}

/* src, dst, aux. In place, the source is copied first, because neighbours are read. */
static crema_status lrn_fwd(const cr_call *call) {
  cr_lrn_args args = lrn_args(call);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  args.out = cr_gpu_values(call, 1);
  if (count > 0 && args.x.at == args.out.at) {
    CR_TRY(cr_gpu_copy_bytes(call, call->workspace.address, call->buffer[0].address,
                             cr_gpu_bytes(call, 0)));
    args.x.at = cr_gpu_scratchpad(call, 0);
  }
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_lrn_fwd, &args, count);
}

/* src, dst, diff_dst, aux, diff_src. */
static crema_status lrn_bwd(const cr_call *call) {
  cr_lrn_args args = lrn_args(call);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  args.dy = cr_gpu_values(call, 2);
  args.out = cr_gpu_values(call, 4);
  args.ratio = cr_float_values(cr_gpu_scratchpad(call, 0));
  args.first = cr_gpu_scratchpad(call, (size_t)count * sizeof(float));
  CR_TRY(cr_gpu_each_in(call, CR_DEVICE_FUNCTION_lrn_bwd_terms, &args, count));
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_lrn_bwd, &args, count);
}

CR_GPU_FOLLOWING_ROW(pool_fwd, POOL_FWD, pool_fwd, .plan = pool_plan, .destroy = cr_gpu_free_state);
CR_GPU_FOLLOWING_ROW(pool_bwd, POOL_BWD, pool_bwd, .plan = pool_plan, .destroy = cr_gpu_free_state);
CR_GPU_ROW_OF(pool_mask_f32_gpu, POOL_MASK, F32, pool_mask, false, .plan = pool_plan,
              .destroy = cr_gpu_free_state);
CR_GPU_SCALARS_ROW(stochastic_pool_fwd, STOCHASTIC_POOL_FWD, stochastic_pool_fwd, .plan = pool_plan,
                   .destroy = cr_gpu_free_state);
CR_GPU_ROW(stochastic_pool_test, STOCHASTIC_POOL_TEST, stochastic_pool_test, .plan = pool_plan,
           .destroy = cr_gpu_free_state);
CR_GPU_ROW(stochastic_pool_bwd, STOCHASTIC_POOL_BWD, pool_bwd, .plan = pool_plan,
           .destroy = cr_gpu_free_state);
CR_GPU_ROW(im2col, IM2COL, fold, .plan = fold_plan, .destroy = cr_gpu_free_state);
CR_GPU_ROW(col2im, COL2IM, fold, .plan = fold_plan, .destroy = cr_gpu_free_state);
CR_GPU_FOLLOWING_ROW(lrn_fwd, LRN_FWD, lrn_fwd, .plan = lrn_plan);
CR_GPU_FOLLOWING_ROW(lrn_bwd, LRN_BWD, lrn_bwd, .plan = lrn_plan);
