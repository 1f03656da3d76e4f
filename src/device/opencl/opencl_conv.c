/* Convolutions over one or two spatial axes as products without unfolded images (product.cl). Other
 * convolutions take the rows of device/gpu. */
#include <stdlib.h>

#include "core/fail.h"
#include "device/gpu/kernels/device_functions.h"
#include "device/gpu/rows.h"
#include "device/opencl/opencl_product.h"

typedef struct opencl_conv_state {
  cr_product product;
  int64_t groups;
  cr_split bias; /* the gradient's sums */
} opencl_conv_state;

/* The window over two axes; a single axis is the second of them. */
static crema_status set_window(const cr_hd_slide *s, cr_product *p) {
  if (s->axes > 2) return cr_fail(CREMA_E_UNSUPPORTED, "a convolution over %d axes", s->axes);
  for (int a = 0; a < 2; ++a) {
    const int from = a - (2 - s->axes);
    p->in[a] = from < 0 ? 1 : s->in[from];
    p->out[a] = from < 0 ? 1 : s->out[from];
    p->window[a] = from < 0 ? 1 : s->kernel[from];
    p->stride[a] = from < 0 ? 1 : s->stride[from];
    p->pad[a] = from < 0 ? 0 : s->pad[from];
    p->dilation[a] = from < 0 ? 1 : s->dilation[from];
    p->by_stride[a] = cr_divisor_of(p->stride[a]);
  }
  p->by_window = cr_divisor_of(s->kernel_count);
  p->by_window_row = cr_divisor_of(p->window[1]);
  p->by_in = cr_divisor_of(s->in_count);
  p->by_in_row = cr_divisor_of(p->in[1]);
  p->by_out = cr_divisor_of(s->out_count);
  p->by_out_row = cr_divisor_of(p->out[1]);
  return CREMA_OK;
}

/* The extents of the product; k below 2^31 for the divisions in the kernel. */
static crema_status set_extents(cr_op_kind kind, const cr_hd_slide *s, int64_t batch,
                                cr_product *p) {
  const int64_t in = p->group_in, out = p->group_out;
  if (kind == CR_OP_CONV_FWD) p->m = out, p->n = batch * s->out_count, p->k = in * s->kernel_count;
  if (kind == CR_OP_CONV_BWD_DATA) {
    p->m = in, p->n = batch * s->in_count, p->k = out * s->kernel_count;
  }
  if (kind == CR_OP_CONV_BWD_WEIGHTS) {
    p->m = out, p->n = in * s->kernel_count, p->k = batch * s->out_count;
  }
  if (p->n > 0 && p->k > 0 && p->m > 0) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "an empty convolution");
}

static crema_status conv_plan(cr_plan *plan) {
  const cr_op_kind kind = plan->desc->kind;
  const bool data = kind == CR_OP_CONV_BWD_DATA, weights = kind == CR_OP_CONV_BWD_WEIGHTS;
  const crema_shape *in = &plan->desc->arg[data ? 2 : 0].shape;
  const crema_shape *out = &plan->desc->arg[data ? 0 : weights ? 1 : 3].shape;
  const cr_conv_params *params = &plan->desc->u.conv;
  cr_hd_slide slide;
  crema_dtype type;
  CR_TRY(cr_gpu_one_type(plan->desc, &type));
  CR_TRY(cr_gpu_slide(&params->window, in, out, false, &slide));
  opencl_conv_state *state = calloc(1, sizeof *state);
  if (state == NULL) return cr_fail_memory(sizeof *state, "the plan of a convolution");
  cr_product *p = &state->product;
  crema_status status = CREMA_OK;
  state->groups = params->group;
  if (params->group < 1 || in->dim[1] % params->group != 0 || out->dim[1] % params->group != 0 ||
      in->dim[0] != out->dim[0]) {
    CR_TRY_GOTO(cr_fail(CREMA_E_UNSUPPORTED, "groups that do not fit"), fail);
  }
  p->type = (int32_t)type;
  p->all_in = (int32_t)in->dim[1], p->all_out = (int32_t)out->dim[1];
  p->group_in = (int32_t)(in->dim[1] / params->group);
  p->group_out = (int32_t)(out->dim[1] / params->group);
  CR_TRY_GOTO(set_window(&slide, p), fail);
  CR_TRY_GOTO(set_extents(kind, &slide, in->dim[0], p), fail);
  state->bias = (cr_split){in->dim[0], out->dim[1], slide.out_count};
  plan->workspace_bytes = cr_gpu_posts_bytes(plan->desc);
  if (weights) plan->workspace_bytes += cr_gpu_channel_scratchpad(state->bias);
  plan->state = state;
  return CREMA_OK;
fail:
  free(state);
  return status;
}

/* src (N,C,S...), weights (O,C/group,K...), bias (O), dst (N,O,S'...). */
static crema_status conv_fwd(const cr_call *call) {
  const opencl_conv_state *s = call->plan->state;
  CR_TRY(cr_gpu_posts_begin(call, 0));
  CR_TRY(cr_opencl_product(call->context, CR_PRODUCT_FORWARD, &s->product, s->groups,
                           cr_gpu_f32(call, 1), cr_gpu_f32(call, 0), cr_gpu_f32(call, 2),
                           cr_gpu_f32(call, 3)));
  return cr_gpu_posts(call, 0, true, s->bias.channels, s->bias.inner);
}

/* diff_dst, weights, diff_src. */
static crema_status conv_bwd_data(const cr_call *call) {
  const opencl_conv_state *s = call->plan->state;
  return cr_opencl_product(call->context, CR_PRODUCT_DATA, &s->product, s->groups,
                           cr_gpu_f32(call, 1), cr_gpu_f32(call, 0), NULL, cr_gpu_f32(call, 2));
}

/* src, diff_dst, diff_weights, diff_bias. */
static crema_status conv_bwd_weights(const cr_call *call) {
  const opencl_conv_state *s = call->plan->state;
  cr_product product = s->product;
  product.add = call->accumulate[2];
  CR_TRY(cr_opencl_product(call->context, CR_PRODUCT_WEIGHTS, &product, s->groups,
                           cr_gpu_f32(call, 1), cr_gpu_f32(call, 0), NULL, cr_gpu_f32(call, 2)));
  if (call->buffer[3].address == 0) return CREMA_OK;
  const cr_gpu_channel_sum sum = {.split = s->bias,
                                  .dy = cr_gpu_values(call, 1),
                                  .term = CR_TERM_VALUE,
                                  .add = call->accumulate[3],
                                  .out = cr_gpu_values(call, 3),
                                  .scratchpad = cr_gpu_scratchpad(call, 0)};
  return cr_gpu_channel_sums(call, &sum);
}

CR_GPU_ROW_OF(conv_fwd_f32_opencl, CONV_FWD, F32, conv_fwd, false, .types = CR_GPU_FLOATS,
              .plan = conv_plan, .destroy = cr_gpu_free_state);
CR_GPU_ROW_OF(conv_bwd_data_f32_opencl, CONV_BWD_DATA, F32, conv_bwd_data, false,
              .types = CR_GPU_FLOATS, .plan = conv_plan, .destroy = cr_gpu_free_state);
CR_GPU_ROW_OF(conv_bwd_weights_f32_opencl, CONV_BWD_WEIGHTS, F32, conv_bwd_weights, false,
              .types = CR_GPU_FLOATS, .plan = conv_plan, .destroy = cr_gpu_free_state,
              .can_accumulate = true);
