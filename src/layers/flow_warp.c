/* FlowWarp: moves an image along a flow (Ilg et al., "FlowNet 2.0", 2017).
 *
 * Formula: y at (i, j) = bilinear sample of x at (i + flow[1][i][j], j + flow[0][i][j]). Beyond
 * the last row or column, x has its values. At positions outside [0, H) x [0, W), y is fill_value.
 * Shapes: x (N, C, H, W), flow (N, 2, H, W), horizontal and vertical in pixels -> y (as x).
 * Fields: flow_warp_param.
 * Caffe: as in FlowNet 2.0.
 * Example, x 2 3 4 5, flow 2 2 4 5:
 *   layer { name: "warp" type: "FlowWarp" bottom: "x" bottom: "flow" top: "y" } */
#include <math.h>

#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

typedef struct warp_state {
  cr_layer_op place, copy; /* flow to positions; the gradient of positions to the flow's */
  cr_layer_op forward, backward_data, backward_grid;
  cr_tensor *base; /* (2, H, W): the position of each pixel */
  cr_tensor *grid, *diff_grid;
} warp_state;

static crema_status fill_base(cr_layer *layer, const crema_shape *x) {
  warp_state *s = layer->state;
  const int64_t plane = x->dim[2] * x->dim[3];
  float *value = NULL;
  CR_TRY(cr_layer_tensor(layer, &s->base, cr_layer_arithmetic(layer), 2 * plane));
  CR_TRY(cr_tensor_host_write_floats(s->base, &value));
  for (int64_t p = 0; p < plane; ++p) {
    value[p] = (float)(p % x->dim[3]);
    value[plane + p] = (float)(p / x->dim[3]);
  }
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  warp_state *s = layer->state;
  const Caffe__FlowWarpParameter *p = layer->param->flow_warp_param;
  const crema_shape *x = &bottom[0]->shape;
  const crema_dtype type = cr_layer_arithmetic(layer);
  char text[128];
  if (x->axes != 4) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must be a map of 4 axes, found shape %s",
                         crema_shape_text(x, text, sizeof text));
  }
  const crema_shape flow = cr_shape_4(x->dim[0], 2, x->dim[2], x->dim[3]);
  CR_TRY(cr_layer_same_shape(layer, "bottom 1 (flow)", &flow, &bottom[1]->shape));
  const crema_shape rows = cr_shape_3(flow.dim[0], crema_shape_count(&flow, 1, 4), 1);
  const crema_shape base = cr_shape_1(rows.dim[1]);
  CR_TRY(crema_blob_reshape(top[0], x));
  CR_TRY(fill_base(layer, x));
  CR_TRY(cr_layer_pass_tensor(layer, &s->grid, type, crema_shape_count(&flow, 0, 4)));
  CR_TRY(cr_layer_pass_tensor(layer, &s->diff_grid, type, crema_shape_count(&flow, 0, 4)));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_AFFINE_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->place, &desc, &rows, NULL, &base, &rows));
  desc = cr_layer_op_desc(CR_OP_AXPBY);
  CR_TRY(CR_LAYER_MAKE(layer, &s->copy, &desc, &flow, &flow));
  desc = cr_layer_op_desc(CR_OP_SAMPLE_FWD);
  desc.u.sample.clamped = true;
  if (p != NULL && p->fill_value == CAFFE__FLOW_WARP_PARAMETER__FILL_PARAMETER__NOT_A_NUMBER) {
    desc.u.sample.fill = NAN;
  }
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, x, &flow, x));
  desc.kind = CR_OP_SAMPLE_BWD_DATA;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward_data, &desc, x, &flow, x));
  desc.kind = CR_OP_SAMPLE_BWD_GRID;
  return CR_LAYER_MAKE(layer, &s->backward_grid, &desc, x, &flow, x, &flow);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  warp_state *s = layer->state;
  CR_TRY(CR_LAYER_RUN(&s->place, context, bottom[1]->data, NULL, s->base, s->grid));
  return CR_LAYER_RUN(&s->forward, context, bottom[0]->data, s->grid, top[0]->data);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  warp_state *s = layer->state;
  const cr_op_scalars same = {.alpha = 1, .beta = 0};
  cr_tensor *dy = top[0]->diff;
  if (propagate_down[0]) {
    CR_TRY(CR_LAYER_RUN(&s->backward_data, context, dy, s->grid, bottom[0]->diff));
  }
  if (!propagate_down[1]) return CREMA_OK;
  CR_TRY(CR_LAYER_RUN(&s->backward_grid, context, bottom[0]->data, s->grid, dy, s->diff_grid));
  return cr_layer_op_run(&s->copy, context, (cr_tensor *[]){s->diff_grid, bottom[1]->diff}, &same);
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)layer;
  return bottom == 0;
}

const cr_layer_class cr_layer_flow_warp = {
    CR_LAYER_OF_OPS("FlowWarp", sizeof(warp_state), cr_layer_noop, reshape, forward, backward),
    .bottoms = {2, 2},
    .tops = {1, 1},
    .uses_bottom = uses_bottom,
    .fusion.reach = cr_layer_reaches_sample,
};
