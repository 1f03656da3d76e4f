#include "layers/common/layer_function.h"

#include "core/fail.h"

crema_status cr_layer_function_reshape(cr_layer *layer, crema_blob *const *bottom,
                                       crema_blob *const *top) {
  cr_layer_function *s = layer->state;
  const crema_shape *shape = &bottom[0]->shape;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_FUNCTION_FWD);
  desc.u.function.kind = s->kind;
  desc.u.function.alpha = s->alpha;
  desc.u.function.beta = s->beta;
  desc.u.function.gamma = s->gamma;
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], shape));
  CR_TRY(cr_layer_tensor(layer, &s->input, CREMA_F32, crema_blob_count(bottom[0])));
  CR_TRY(
      cr_layer_op_make(layer, &s->forward, &desc, 2, (const crema_shape *[]){shape, shape}, NULL));
  desc.kind = CR_OP_FUNCTION_BWD;
  CR_TRY(cr_layer_op_make(layer, &s->backward, &desc, 4,
                          (const crema_shape *[]){shape, shape, shape, shape}, NULL));
  desc = cr_layer_op_desc(CR_OP_COPY);
  return cr_layer_op_make(layer, &s->keep, &desc, 2, (const crema_shape *[]){shape, shape}, NULL);
}

crema_status cr_layer_function_forward(cr_layer *layer, crema_context *context,
                                       crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_function *s = layer->state;
  if (layer->needs_backward && layer->class->backward && cr_layer_in_place(bottom[0], top[0])) {
    CR_TRY(cr_layer_op_run(&s->keep, context, (cr_tensor *[]){bottom[0]->data, s->input}, NULL));
  }
  return cr_layer_op_run(&s->forward, context, (cr_tensor *[]){bottom[0]->data, top[0]->data},
                         NULL);
}

crema_status cr_layer_function_backward(cr_layer *layer, crema_context *context,
                                        crema_blob *const *top, const bool *propagate_down,
                                        crema_blob *const *bottom) {
  cr_layer_function *s = layer->state;
  if (!propagate_down[0]) return CREMA_OK;
  cr_tensor *input = cr_layer_in_place(bottom[0], top[0]) ? s->input : bottom[0]->data;
  return cr_layer_op_run(&s->backward, context,
                         (cr_tensor *[]){input, top[0]->data, top[0]->diff, bottom[0]->diff}, NULL);
}

cr_values cr_layer_function_uses_tops(const cr_layer *layer, bool in_place) {
  const cr_layer_function *s = layer->state;
  (void)in_place; /* the input is kept then */
  switch (s->kind) {
    case CR_FUNCTION_EXP:
    case CR_FUNCTION_ELU:
    case CR_FUNCTION_SWISH: return CR_VALUES_LEARNING;
    default: return CR_VALUES_NONE;
  }
}

bool cr_layer_function_uses_bottom(const cr_layer *layer, int bottom) {
  const cr_layer_function *s = layer->state;
  (void)bottom;
  if (s->kind == CR_FUNCTION_EXP) return false;
  return s->kind != CR_FUNCTION_POWER || (s->alpha != 0 && s->alpha != 1 && s->beta != 0);
}

cr_values cr_layer_function_preserves(const cr_layer *layer) {
  const cr_layer_function *s = layer->state;
  bool rises = false; /* through 0 */
  switch (s->kind) {
    case CR_FUNCTION_CLIP: return CR_VALUES_LEARNING;
    case CR_FUNCTION_POWER: rises = s->alpha == 1 && s->beta > 0 && s->gamma == 0; break;
    case CR_FUNCTION_ELU: rises = s->alpha > 0 && s->beta > 0; break;
    case CR_FUNCTION_SWISH: rises = true; break;
    default: break;
  }
  return rises ? CR_VALUES_SIGNS : CR_VALUES_NONE;
}
