/* GradientScaler: reverses gradients, with a factor that grows during training (Ganin and
 * Lempitsky, "Unsupervised domain adaptation by backpropagation", 2015).
 *
 * Formula: y = x, and dx = -c dy. c = lower_bound + 2 h / (1 + exp(-alpha p)) - h, with h =
 * upper_bound - lower_bound and p = min(iteration / max_iter, 1).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: gradient_scaler_param.
 * Caffe: as in Ganin's fork, where iterations are the solver's. Here they are forward passes in
 * TRAIN; a solver with iter_size makes several passes in an iteration.
 * Example, x 4 3:
 *   layer { name: "reverse" type: "GradientScaler" bottom: "x" top: "y"
 *     gradient_scaler_param { upper_bound: 1 max_iter: 10000 } } */
#include <math.h>

#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

typedef struct scaler_state {
  double lower, height, alpha, max_iter;
  cr_layer_op copy, scale;
} scaler_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__GradientScalerParameter defaults = CAFFE__GRADIENT_SCALER_PARAMETER__INIT;
  scaler_state *s = layer->state;
  const Caffe__GradientScalerParameter *param = layer->param->gradient_scaler_param;
  (void)bottom, (void)top;
  if (param == NULL) param = &defaults;
  if (!(param->lower_bound <= param->upper_bound) || !isfinite(param->upper_bound) ||
      !isfinite(param->lower_bound)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "lower_bound %g must not be above upper_bound %g",
                         (double)param->lower_bound, (double)param->upper_bound);
  }
  if (!(param->alpha >= 0) || !(param->max_iter >= 1)) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "alpha is %g, must be 0 or more; max_iter is %g, must be 1 or more",
                         (double)param->alpha, (double)param->max_iter);
  }
  s->lower = (double)param->lower_bound;
  s->height = (double)param->upper_bound - s->lower;
  s->alpha = (double)param->alpha;
  s->max_iter = (double)param->max_iter;
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  scaler_state *s = layer->state;
  const crema_shape *shape = &bottom[0]->shape;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_COPY);
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], shape));
  CR_TRY(CR_LAYER_MAKE(layer, &s->copy, &desc, shape, shape));
  desc.kind = CR_OP_AXPBY;
  return CR_LAYER_MAKE(layer, &s->scale, &desc, shape, shape);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  scaler_state *s = layer->state;
  if (cr_layer_in_place(bottom[0], top[0])) return CREMA_OK;
  return CR_LAYER_RUN(&s->copy, context, bottom[0]->data, top[0]->data);
}

/* The first pass has number 1. */
static double factor(const cr_layer *layer) {
  const scaler_state *s = layer->state;
  const double iteration = layer->pass > 0 ? (double)(layer->pass - 1) : 0;
  const double progress = fmin(iteration / s->max_iter, 1);
  return s->lower + 2 * s->height / (1 + exp(-s->alpha * progress)) - s->height;
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  scaler_state *s = layer->state;
  const cr_op_scalars scalars = {.alpha = -factor(layer), .beta = 0};
  if (!propagate_down[0]) return CREMA_OK;
  return cr_layer_op_run(&s->scale, context, (cr_tensor *[]){top[0]->diff, bottom[0]->diff},
                         &scalars);
}

static cr_value_use preserves(const cr_layer *layer) {
  (void)layer;
  return CR_VALUES_ALL;
}

const cr_layer_class cr_layer_gradient_scaler = {
    CR_LAYER_OF_OPS("GradientScaler", sizeof(scaler_state), setup, reshape, forward, backward),
    .bottoms = {1, 1},
    .tops = {1, 1},
    .in_place = true,
    .memory.preserves = preserves,
    .memory.varies = true,
    .fusion.noop_in_test = cr_layer_passes_in_test,
};
