/* PReLU: a ReLU that learns its slope (He et al., "Delving deep into rectifiers", 2015).
 *
 * Formula: y = x for x > 0, slope * x otherwise.
 * Shapes: x (N, C, ...) -> y (as x), also in place. Parameter: slope, one per channel (C) or, with
 * channel_shared, one for all (a scalar); filled with 0.25 unless filler says otherwise.
 * Fields: prelu_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "prelu" type: "PReLU" bottom: "x" top: "y" } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_pair.h"

typedef struct prelu_state {
  cr_layer_pair pair;
  bool shared;
  cr_layer_op backward_slope;
} prelu_state;

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_PRELU_FWD, {CR_X0, CR_W0, CR_Y}},
    .backward = {CR_OP_PRELU_BWD_DATA, {CR_INPUT, CR_W0, CR_DY, CR_DX}},
};

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__FillerParameter quarter = CR_CONSTANT_FILLER(0.25f);
  prelu_state *s = layer->state;
  const Caffe__PReLUParameter *param = layer->param->prelu_param;
  (void)top;
  CR_TRY(cr_layer_need_channels(layer, &bottom[0]->shape));
  s->shared = param && param->channel_shared;
  crema_shape slope = s->shared ? cr_shape(0, NULL) : cr_shape_1(bottom[0]->shape.dim[1]);
  CR_TRY(cr_layer_set_params(layer, 1));
  return cr_layer_add_param(layer, 0, &slope, param && param->filler ? param->filler : &quarter);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  prelu_state *s = layer->state;
  const crema_shape *shape = &bottom[0]->shape;
  CR_TRY(cr_layer_need_channels(layer, shape));
  const crema_shape x = s->shared ? cr_shape_3(1, 1, crema_shape_count(shape, 0, shape->axes))
                                  : cr_layer_fold(shape, 1, 2);
  const crema_shape c = cr_shape_1(crema_blob_count(layer->blob[0]));
  if (x.dim[1] != c.dim[0]) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "there are slopes for %lld channels, found %lld",
                         (long long)c.dim[0], (long long)x.dim[1]);
  }
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], shape));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_PRELU_BWD_SLOPE);
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward_slope, &desc, &x, &x, &c));
  return cr_layer_pair_make(layer, bottom, top, &desc,
                            &(cr_pair_shapes){.x = {&x}, .y = &x, .w = &c});
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  prelu_state *s = layer->state;
  cr_tensor *input = cr_layer_keep_input(&s->pair.keep, bottom[0], top[0]);
  if (layer->param_propagate_down[0]) {
    CR_TRY(CR_LAYER_RUN(&s->backward_slope, context, input, top[0]->diff, layer->blob[0]->diff));
  }
  return cr_layer_pair_backward(layer, context, top, propagate_down, bottom);
}

/* Slopes below 0 are possible, but none is filled so by default. */
static cr_value_use preserves(const cr_layer *layer) {
  (void)layer;
  return CR_VALUES_SIGNS;
}

const cr_layer_class cr_layer_prelu = {
    CR_LAYER_PAIR("PReLU", prelu_state, 1),
    .in_place = true,
    .setup = setup,
    .reshape = reshape,
    .forward = cr_layer_pair_forward,
    .backward = backward,
    .uses_bottom = cr_layer_always,
    .memory.preserves = preserves,
    .fusion.reach = cr_layer_reaches_position,
    .int8.takes_bf16 = true,
};
