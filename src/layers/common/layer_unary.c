#include "layers/common/layer_unary.h"

#include "core/fail.h"

crema_status cr_layer_unary_reshape(cr_layer *layer, crema_blob *const *bottom,
                                    crema_blob *const *top) {
  cr_layer_unary *s = layer->state;
  const crema_shape *shape = &bottom[0]->shape;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_UNARY_FWD);
  desc.u.unary.function = s->function;
  desc.u.unary.alpha = s->alpha;
  desc.u.unary.beta = s->beta;
  desc.u.unary.gamma = s->gamma;
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], shape));
  CR_TRY(
      cr_layer_op_make(layer, &s->forward, &desc, 2, (const crema_shape *[]){shape, shape}, NULL));
  desc.kind = CR_OP_UNARY_BWD;
  return cr_layer_op_make(layer, &s->backward, &desc, 4,
                          (const crema_shape *[]){shape, shape, shape, shape}, NULL);
}

crema_status cr_layer_unary_forward(cr_layer *layer, crema_context *context,
                                    crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_unary *s = layer->state;
  return cr_layer_op_run(&s->forward, context, (cr_tensor *[]){bottom[0]->data, top[0]->data},
                         NULL);
}

crema_status cr_layer_unary_backward(cr_layer *layer, crema_context *context,
                                     crema_blob *const *top, const bool *propagate_down,
                                     crema_blob *const *bottom) {
  cr_layer_unary *s = layer->state;
  if (!propagate_down[0]) return CREMA_OK;
  return cr_layer_op_run(
      &s->backward, context,
      (cr_tensor *[]){bottom[0]->data, top[0]->data, top[0]->diff, bottom[0]->diff}, NULL);
}

/* ReLU looks at its bottom, which is its top in place. */
cr_values cr_layer_unary_uses_tops(const cr_layer *layer, bool in_place) {
  const cr_layer_unary *s = layer->state;
  if (s->function != CR_UNARY_RELU) return CR_VALUES_LEARNING;
  return in_place ? CR_VALUES_SIGNS : CR_VALUES_NONE;
}

bool cr_layer_unary_uses_bottom(const cr_layer *layer, int bottom) {
  const cr_layer_unary *s = layer->state;
  (void)bottom;
  return s->function == CR_UNARY_RELU;
}

cr_values cr_layer_unary_preserves(const cr_layer *layer) {
  const cr_layer_unary *s = layer->state;
  if (s->function == CR_UNARY_RELU && s->alpha == 0) return CR_VALUES_LEARNING;
  bool rises = s->function == CR_UNARY_TANH || (s->function == CR_UNARY_RELU && s->alpha > 0);
  return rises ? CR_VALUES_SIGNS : CR_VALUES_NONE;
}
