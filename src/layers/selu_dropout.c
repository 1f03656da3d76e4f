/* SeLuDropout: dropout that keeps the mean and the variance of SeLu's output (Klambauer et al.,
 * "Self-normalizing neural networks", 2017).
 *
 * Formula: TRAIN: y = a (x or, with probability dropout_ratio, alpha') + b, with alpha' =
 * -1.7580993408473766, q = 1 - dropout_ratio, a = (q + alpha'^2 q (1 - q))^(-1/2), b = -a (1 - q)
 * alpha'. TEST: y = x.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: dropout_param.
 * Caffe: as in the paper's fork, with masks of another random generator.
 * Example, x 4 16:
 *   layer { name: "drop" type: "SeLuDropout" bottom: "x" top: "y"
 *     dropout_param { dropout_ratio: 0.1 } } */
#include <math.h>

#include "core/fail.h"
#include "layers/common/layer_dropout.h"

typedef struct selu_dropout_state {
  cr_dropout dropout;
  cr_layer_op forward, backward;
  cr_tensor *mask;
} selu_dropout_state;

static const double low = -1.7580993408473766;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  selu_dropout_state *s = layer->state;
  const Caffe__DropoutParameter *param = layer->param->dropout_param;
  (void)bottom, (void)top;
  return cr_dropout_set(layer, &s->dropout, param ? param->dropout_ratio : 0.5f,
                        param ? param->random_seed : -1);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  selu_dropout_state *s = layer->state;
  const crema_shape *shape = &bottom[0]->shape;
  const double q = 1 - (double)s->dropout.ratio, a = 1 / sqrt(q + low * low * q * (1 - q));
  bool drops = false;
  CR_TRY(cr_dropout_make(layer, &s->dropout, bottom, top, &drops));
  if (!drops) return CREMA_OK;
  CR_TRY(cr_layer_tensor(layer, &s->mask, CREMA_U8, crema_blob_count(bottom[0])));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_DROPOUT_FWD);
  desc.u.dropout.ratio = s->dropout.ratio;
  desc.u.dropout.line = true;
  desc.u.dropout.gain = a;
  desc.u.dropout.shift = -a * (1 - q) * low;
  desc.u.dropout.dropped = a * low + desc.u.dropout.shift;
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, shape, shape, shape));
  desc.kind = CR_OP_DROPOUT_BWD;
  return CR_LAYER_MAKE(layer, &s->backward, &desc, shape, shape, shape);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  selu_dropout_state *s = layer->state;
  if (!cr_dropout_drops(layer, &s->dropout)) {
    return cr_dropout_forward(&s->dropout, context, bottom, top);
  }
  cr_op_scalars scalars = {.seed = layer->key, .counter = layer->pass};
  return cr_layer_op_run(&s->forward, context,
                         (cr_tensor *[]){bottom[0]->data, top[0]->data, s->mask}, &scalars);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  selu_dropout_state *s = layer->state;
  if (!propagate_down[0]) return CREMA_OK;
  if (!cr_dropout_drops(layer, &s->dropout)) {
    return cr_dropout_backward(&s->dropout, context, top, bottom);
  }
  return CR_LAYER_RUN(&s->backward, context, top[0]->diff, s->mask, bottom[0]->diff);
}

static cr_value_use preserves(const cr_layer *layer) {
  const selu_dropout_state *s = layer->state;
  return cr_dropout_drops(layer, &s->dropout) ? CR_VALUES_NONE : CR_VALUES_ALL;
}

const cr_layer_class cr_layer_selu_dropout = {
    CR_LAYER_DROPOUT("SeLuDropout", selu_dropout_state),
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .memory.preserves = preserves,
};
