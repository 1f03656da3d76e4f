/* SeLuDropout: dropout that keeps the mean and the variance of what SeLu gives (Klambauer et al.,
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

/* Dropout itself makes m x / q of x, m being 0 or 1: it works on x - alpha'. */
typedef struct selu_dropout_state {
  cr_dropout dropout;
  double gain; /* a q */
  cr_layer_op before, drop, after, drop_back, scale_back;
  cr_tensor *mask;
} selu_dropout_state;

static const double low = -1.7580993408473766;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  selu_dropout_state *s = layer->state;
  const Caffe__DropoutParameter *param = layer->param->dropout_param;
  (void)bottom, (void)top;
  CR_TRY(cr_dropout_set(layer, &s->dropout, param ? param->dropout_ratio : 0.5f,
                        param ? param->random_seed : -1));
  const double q = 1 - (double)s->dropout.ratio;
  s->gain = q / sqrt(q + low * low * q * (1 - q));
  return CREMA_OK;
}

/* beta x + gamma. */
static crema_status make_line(cr_layer *layer, cr_layer_op *slot, double beta, double gamma,
                              const crema_shape *shape) {
  cr_op_desc desc = cr_layer_op_desc(CR_OP_UNARY_FWD);
  desc.u.unary.function = CR_UNARY_POWER;
  desc.u.unary.alpha = 1;
  desc.u.unary.beta = beta;
  desc.u.unary.gamma = gamma;
  return cr_layer_op_make(layer, slot, &desc, 2, (const crema_shape *[]){shape, shape});
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  selu_dropout_state *s = layer->state;
  const crema_shape *shape = &bottom[0]->shape;
  const double q = 1 - (double)s->dropout.ratio, a = s->gain / q;
  bool drops = false;
  CR_TRY(cr_dropout_make(layer, &s->dropout, bottom, top, &drops));
  if (!drops) return CREMA_OK;
  CR_TRY(cr_layer_tensor(layer, &s->mask, CREMA_U8, crema_blob_count(bottom[0])));
  CR_TRY(make_line(layer, &s->before, 1, -low, shape));
  CR_TRY(make_line(layer, &s->after, s->gain, a * low - a * (1 - q) * low, shape));
  CR_TRY(make_line(layer, &s->scale_back, s->gain, 0, shape));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_DROPOUT_FWD);
  desc.u.dropout.ratio = s->dropout.ratio;
  CR_TRY(cr_layer_op_make(layer, &s->drop, &desc, 3, (const crema_shape *[]){shape, shape, shape}));
  desc.kind = CR_OP_DROPOUT_BWD;
  return cr_layer_op_make(layer, &s->drop_back, &desc, 3,
                          (const crema_shape *[]){shape, shape, shape});
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  selu_dropout_state *s = layer->state;
  cr_tensor *x = bottom[0]->data, *y = top[0]->data;
  if (layer->phase == CAFFE__PHASE__TEST) {
    return cr_dropout_forward(&s->dropout, context, bottom, top);
  }
  cr_op_scalars scalars = {.seed = layer->key, .counter = layer->pass};
  CR_TRY(cr_layer_op_run(&s->before, context, (cr_tensor *[]){x, y}, NULL));
  CR_TRY(cr_layer_op_run(&s->drop, context, (cr_tensor *[]){y, y, s->mask}, &scalars));
  return cr_layer_op_run(&s->after, context, (cr_tensor *[]){y, y}, NULL);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  selu_dropout_state *s = layer->state;
  cr_tensor *dy = top[0]->diff, *dx = bottom[0]->diff;
  if (!propagate_down[0]) return CREMA_OK;
  if (layer->phase == CAFFE__PHASE__TEST) {
    return cr_dropout_backward(&s->dropout, context, top, bottom);
  }
  CR_TRY(cr_layer_op_run(&s->drop_back, context, (cr_tensor *[]){dy, s->mask, dx}, NULL));
  return cr_layer_op_run(&s->scale_back, context, (cr_tensor *[]){dx, dx}, NULL);
}

static cr_values preserves(const cr_layer *layer) {
  return layer->phase == CAFFE__PHASE__TEST ? CR_VALUES_ALL : CR_VALUES_NONE;
}

const cr_layer_class cr_layer_selu_dropout = {
    CR_LAYER_DROPOUT("SeLuDropout", selu_dropout_state),
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .preserves = preserves,
};
