/* SpatialDropout: sets entire channels to zero at random (Tompson et al., "Efficient object
 * localization using convolutional networks", 2015).
 *
 * Formula: TRAIN: y = 0 for a channel of a sample with probability dropout_ratio, x / (1 -
 * dropout_ratio) otherwise. TEST: y = x.
 * Shapes: x (N, C, ...) -> y (as x), also in place.
 * Fields: dropout_param, spatial_dropout_param.
 * Caffe: as in Intel Caffe, which honours only dropout_param, with masks of another random
 * generator; two ratios that differ are refused.
 * Example, x 4 8 3 3:
 *   layer { name: "drop" type: "SpatialDropout" bottom: "x" top: "y"
 *     spatial_dropout_param { dropout_ratio: 0.3 } } */
#include "core/fail.h"
#include "layers/common/layer_dropout.h"

/* The factors of the channels are the result of dropout for ones. */
typedef struct spatial_dropout_state {
  cr_dropout dropout;
  cr_layer_op set, drop, forward, backward;
  cr_tensor *factor, *mask;
} spatial_dropout_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  spatial_dropout_state *s = layer->state;
  const Caffe__SpatialDropoutParameter *own = layer->param->spatial_dropout_param;
  const Caffe__DropoutParameter *common = layer->param->dropout_param;
  (void)bottom, (void)top;
  if (own != NULL && common != NULL && own->dropout_ratio != common->dropout_ratio) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "dropout_ratio is %g in dropout_param and %g in spatial_dropout_param",
                         (double)common->dropout_ratio, (double)own->dropout_ratio);
  }
  if (common != NULL) {
    return cr_dropout_set(layer, &s->dropout, common->dropout_ratio, common->random_seed);
  }
  return cr_dropout_set(layer, &s->dropout, own ? own->dropout_ratio : 0.5f, -1);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  spatial_dropout_state *s = layer->state;
  const crema_shape *shape = &bottom[0]->shape;
  bool drops = false;
  CR_TRY(cr_layer_need_channels(layer, shape));
  CR_TRY(cr_dropout_make(layer, &s->dropout, bottom, top, &drops));
  if (!drops) return CREMA_OK;
  const int64_t channels = crema_shape_count(shape, 0, 2);
  const crema_shape c = cr_shape_1(channels);
  const crema_shape x = cr_shape_3(1, channels, crema_shape_count(shape, 2, shape->axes));
  CR_TRY(cr_layer_tensor(layer, &s->factor, cr_layer_arithmetic(layer), channels));
  CR_TRY(cr_layer_tensor(layer, &s->mask, CREMA_U8, channels));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SET);
  desc.u.value = 1;
  CR_TRY(CR_LAYER_MAKE(layer, &s->set, &desc, &c));
  desc = cr_layer_op_desc(CR_OP_DROPOUT_FWD);
  desc.u.dropout.ratio = s->dropout.ratio;
  CR_TRY(CR_LAYER_MAKE(layer, &s->drop, &desc, &c, &c, &c));
  desc = cr_layer_op_desc(CR_OP_AFFINE_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, &x, &c, NULL, &x));
  desc.kind = CR_OP_AFFINE_BWD_DATA;
  return CR_LAYER_MAKE(layer, &s->backward, &desc, &x, &c, &x);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  spatial_dropout_state *s = layer->state;
  if (!cr_dropout_drops(layer, &s->dropout)) {
    return cr_dropout_forward(&s->dropout, context, bottom, top);
  }
  cr_op_scalars scalars = {.seed = layer->key, .counter = layer->pass};
  CR_TRY(cr_layer_op_run(&s->set, context, &s->factor, NULL));
  CR_TRY(
      cr_layer_op_run(&s->drop, context, (cr_tensor *[]){s->factor, s->factor, s->mask}, &scalars));
  return CR_LAYER_RUN(&s->forward, context, bottom[0]->data, s->factor, NULL, top[0]->data);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  spatial_dropout_state *s = layer->state;
  if (!propagate_down[0]) return CREMA_OK;
  if (!cr_dropout_drops(layer, &s->dropout)) {
    return cr_dropout_backward(&s->dropout, context, top, bottom);
  }
  return CR_LAYER_RUN(&s->backward, context, top[0]->diff, s->factor, bottom[0]->diff);
}

/* Dropped channels have no gradient; all other channels are scaled. */
static cr_value_use preserves(const cr_layer *layer) {
  const spatial_dropout_state *s = layer->state;
  return cr_dropout_drops(layer, &s->dropout) ? CR_VALUES_SIGNS : CR_VALUES_ALL;
}

const cr_layer_class cr_layer_spatial_dropout = {
    CR_LAYER_DROPOUT("SpatialDropout", spatial_dropout_state),
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .memory.preserves = preserves,
};
