/* Dropout: sets values to zero at random (Srivastava et al., "Dropout", 2014).
 *
 * Formula: TRAIN: y = 0 with probability dropout_ratio, x / (1 - dropout_ratio) otherwise. TEST: y
 * = x, or with sample_weights_test the same as in TRAIN.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: dropout_param.
 * Caffe: the same, with masks of another random generator: they depend only on the seed, the
 * layer's name and the number of the pass.
 * Example, x 4 16:
 *   layer { name: "drop" type: "Dropout" bottom: "x" top: "y"
 *     dropout_param { dropout_ratio: 0.4 } } */
#include "core/fail.h"
#include "layers/common/layer_dropout.h"
#include "layers/common/layer_pair.h"

typedef struct dropout_state {
  cr_layer_pair pair;
  cr_dropout dropout;
} dropout_state;

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_DROPOUT_FWD, {CR_X0, CR_Y, CR_BYTES}},
    .backward = {CR_OP_DROPOUT_BWD, {CR_DY, CR_BYTES, CR_DX}},
};

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  dropout_state *s = layer->state;
  const Caffe__DropoutParameter *param = layer->param->dropout_param;
  (void)bottom, (void)top;
  return cr_dropout_set(layer, &s->dropout, param ? param->dropout_ratio : 0.5f,
                        param ? param->random_seed : -1);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  dropout_state *s = layer->state;
  bool drops = false;
  CR_TRY(cr_dropout_make(layer, &s->dropout, bottom, top, &drops));
  if (!drops) return CREMA_OK;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_DROPOUT_FWD);
  desc.u.dropout.ratio = s->dropout.ratio;
  return cr_layer_pair_make(layer, bottom, top, &desc,
                            &(cr_pair_shapes){.bytes = &bottom[0]->shape});
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  dropout_state *s = layer->state;
  if (!cr_dropout_drops(layer, &s->dropout)) {
    return cr_dropout_forward(&s->dropout, context, bottom, top);
  }
  cr_op_scalars scalars = {.seed = layer->key, .counter = layer->pass};
  return cr_layer_pair_run(layer, context, bottom, top, &scalars);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  dropout_state *s = layer->state;
  if (!propagate_down[0]) return CREMA_OK;
  if (!cr_dropout_drops(layer, &s->dropout)) {
    return cr_dropout_backward(&s->dropout, context, top, bottom);
  }
  return cr_layer_pair_backward(layer, context, top, propagate_down, bottom);
}

/* Dropped values have no gradient; all other values are scaled. */
static cr_value_use preserves(const cr_layer *layer) {
  const dropout_state *s = layer->state;
  return !cr_dropout_drops(layer, &s->dropout) || s->dropout.ratio == 0 ? CR_VALUES_ALL
                                                                        : CR_VALUES_SIGNS;
}

const cr_layer_class cr_layer_dropout = {
    CR_LAYER_DROPOUT("Dropout", dropout_state),
    .pair = &pair,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .memory.preserves = preserves,
};
