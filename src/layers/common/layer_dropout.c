#include "layers/common/layer_dropout.h"

#include "core/fail.h"
#include "core/rng.h"

bool cr_dropout_noop_in_test(const Caffe__LayerParameter *param) {
  return param->dropout_param == NULL || !param->dropout_param->sample_weights_test;
}

crema_status cr_dropout_set(cr_layer *layer, cr_dropout *dropout, float ratio, int64_t seed) {
  dropout->ratio = ratio;
  dropout->samples = !cr_dropout_noop_in_test(layer->param);
  if (!(ratio >= 0 && ratio < 1)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "dropout_ratio is %g, must be in [0, 1)",
                         (double)ratio);
  }
  if (seed >= 0) layer->key = cr_mix_key((uint64_t)seed, (uint64_t)layer->solver.rank);
  return CREMA_OK;
}

bool cr_dropout_drops(const cr_layer *layer, const cr_dropout *dropout) {
  return layer->phase != CAFFE__PHASE__TEST || dropout->samples;
}

crema_status cr_dropout_make(cr_layer *layer, cr_dropout *dropout, crema_blob *const *bottom,
                             crema_blob *const *top, bool *drops) {
  const crema_shape *shape = &bottom[0]->shape;
  const cr_op_desc copy = cr_layer_op_desc(CR_OP_COPY);
  *drops = cr_dropout_drops(layer, dropout);
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], shape));
  if (*drops) return CREMA_OK;
  return CR_LAYER_MAKE(layer, &dropout->copy, &copy, shape, shape);
}

crema_status cr_dropout_forward(cr_dropout *dropout, crema_context *context,
                                crema_blob *const *bottom, crema_blob *const *top) {
  if (cr_layer_in_place(bottom[0], top[0])) return CREMA_OK;
  return CR_LAYER_RUN(&dropout->copy, context, bottom[0]->data, top[0]->data);
}

crema_status cr_dropout_backward(cr_dropout *dropout, crema_context *context,
                                 crema_blob *const *top, crema_blob *const *bottom) {
  if (bottom[0]->diff == top[0]->diff) return CREMA_OK;
  return CR_LAYER_RUN(&dropout->copy, context, top[0]->diff, bottom[0]->diff);
}
