/* Noise: adds random numbers.
 *
 * Formula: TRAIN: y = x + n. With gaussian_std, n is normal with mean bias and deviation
 * gaussian_std times the root mean square of x. Otherwise n is uniform between bias -
 * uniform_range and bias + uniform_range. TEST: y = x.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: noise_param.
 * Caffe: as in happynear's fork, with another random generator. Early versions of that fork use
 * gaussian_std itself as the deviation. Layers of this name in other forks have other fields.
 * Example, x 4 16:
 *   layer { name: "noise" type: "Noise" bottom: "x" top: "y" noise_param { gaussian_std: 0.1 } } */
#include <math.h>

#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

typedef struct noise_state {
  cr_layer_op noise, copy;
} noise_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__NoiseLayerParameter *p = layer->param->noise_param;
  (void)bottom, (void)top;
  if (p == NULL || (!p->has_gaussian_std && !p->has_uniform_range)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "noise_param needs gaussian_std or uniform_range");
  }
  if (p->gaussian_std >= 0 && p->uniform_range >= 0 && isfinite(p->gaussian_std) &&
      isfinite(p->uniform_range) && isfinite(p->bias)) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_RANGE,
                       "gaussian_std %g and uniform_range %g must be 0 or more, bias %g finite",
                       (double)p->gaussian_std, (double)p->uniform_range, (double)p->bias);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  noise_state *s = layer->state;
  const Caffe__NoiseLayerParameter *p = layer->param->noise_param;
  const crema_shape *shape = &bottom[0]->shape;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_COPY);
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], shape));
  CR_TRY(CR_LAYER_MAKE(layer, &s->copy, &desc, shape, shape));
  desc = cr_layer_op_desc(CR_OP_NOISE);
  desc.u.noise.uniform = !p->has_gaussian_std;
  desc.u.noise.mean = (double)p->bias;
  desc.u.noise.spread = (double)(p->has_gaussian_std ? p->gaussian_std : p->uniform_range);
  return CR_LAYER_MAKE(layer, &s->noise, &desc, shape, shape);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  noise_state *s = layer->state;
  const cr_op_scalars scalars = {.seed = layer->key, .counter = layer->pass};
  cr_tensor *args[] = {bottom[0]->data, top[0]->data};
  if (layer->phase != CAFFE__PHASE__TEST)
    return cr_layer_op_run(&s->noise, context, args, &scalars);
  if (cr_layer_in_place(bottom[0], top[0])) return CREMA_OK;
  return cr_layer_op_run(&s->copy, context, args, NULL);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  noise_state *s = layer->state;
  if (!propagate_down[0] || bottom[0]->diff == top[0]->diff) return CREMA_OK;
  return CR_LAYER_RUN(&s->copy, context, top[0]->diff, bottom[0]->diff);
}

static cr_value_use preserves(const cr_layer *layer) {
  return layer->phase == CAFFE__PHASE__TEST ? CR_VALUES_ALL : CR_VALUES_NONE;
}

const cr_layer_class cr_layer_noise = {
    CR_LAYER_OF_OPS("Noise", sizeof(noise_state), setup, reshape, forward, backward),
    .bottoms = {1, 1},
    .tops = {1, 1},
    .in_place = true,
    .memory.preserves = preserves,
    .fusion.noop_in_test = cr_layer_passes_in_test,
};
