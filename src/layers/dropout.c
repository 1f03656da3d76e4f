/* Dropout: sets values to zero at random (Srivastava et al., "Dropout", 2014).
 *
 * Formula: TRAIN: y = 0 with probability dropout_ratio, x / (1 - dropout_ratio) otherwise. TEST: y
 * = x.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: dropout_param.
 * Caffe: the same, with masks of another random generator: they depend on the seed, the layer's
 * name and the number of the pass alone.
 * Example, x 4 16:
 *   layer { name: "drop" type: "Dropout" bottom: "x" top: "y"
 *     dropout_param { dropout_ratio: 0.4 } } */
#include "core/fail.h"
#include "core/rng.h"
#include "layers/common/layer_pair.h"

typedef struct dropout_state {
  cr_layer_pair pair;
  float ratio;
  cr_layer_op copy;
} dropout_state;

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_DROPOUT_FWD, {CR_X0, CR_Y, CR_BYTES}},
    .backward = {CR_OP_DROPOUT_BWD, {CR_DY, CR_BYTES, CR_DX}},
};

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  dropout_state *s = layer->state;
  const Caffe__DropoutParameter *param = layer->param->dropout_param;
  (void)bottom, (void)top;
  s->ratio = param ? param->dropout_ratio : 0.5f;
  if (!(s->ratio >= 0 && s->ratio < 1)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "dropout_ratio is %g, must be in [0, 1)",
                         (double)s->ratio);
  }
  if (param && param->random_seed >= 0) {
    layer->key = cr_mix_key((uint64_t)param->random_seed, (uint64_t)layer->solver.rank);
  }
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  dropout_state *s = layer->state;
  const crema_shape *shape = &bottom[0]->shape;
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], shape));
  if (layer->phase == CAFFE__PHASE__TEST) {
    cr_op_desc copy = cr_layer_op_desc(CR_OP_COPY);
    return cr_layer_op_make(layer, &s->copy, &copy, 2, (const crema_shape *[]){shape, shape});
  }
  cr_op_desc desc = cr_layer_op_desc(CR_OP_DROPOUT_FWD);
  desc.u.dropout.ratio = s->ratio;
  return cr_layer_pair_make(layer, bottom, top, &desc, &(cr_pair_shapes){.bytes = shape});
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  dropout_state *s = layer->state;
  if (layer->phase == CAFFE__PHASE__TEST) {
    if (cr_layer_in_place(bottom[0], top[0])) return CREMA_OK;
    return cr_layer_op_run(&s->copy, context, (cr_tensor *[]){bottom[0]->data, top[0]->data}, NULL);
  }
  cr_op_scalars scalars = {.seed = layer->key, .counter = layer->pass};
  return cr_layer_pair_run(layer, context, bottom, top, &scalars);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  dropout_state *s = layer->state;
  if (!propagate_down[0]) return CREMA_OK;
  if (layer->phase == CAFFE__PHASE__TEST) {
    if (bottom[0]->diff == top[0]->diff) return CREMA_OK;
    return cr_layer_op_run(&s->copy, context, (cr_tensor *[]){top[0]->diff, bottom[0]->diff}, NULL);
  }
  return cr_layer_pair_backward(layer, context, top, propagate_down, bottom);
}

/* Dropped values have no gradient; the others are scaled. */
static cr_values preserves(const cr_layer *layer) {
  const dropout_state *s = layer->state;
  return layer->phase == CAFFE__PHASE__TEST || s->ratio == 0 ? CR_VALUES_ALL : CR_VALUES_SIGNS;
}

const cr_layer_class cr_layer_dropout = {
    CR_LAYER_PAIR("Dropout", dropout_state, 1),
    .in_place = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .preserves = preserves,
};
