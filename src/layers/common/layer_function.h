/* What the layers of one element-wise function (FUNCTION ops) have in common: one bottom, one top
 * of the same shape, in place or not. In place, the input is kept for the backward pass. */
#ifndef CR_LAYERS_LAYER_FUNCTION_H
#define CR_LAYERS_LAYER_FUNCTION_H

#include "layers/common/layer_op.h"

typedef struct cr_layer_function {
  cr_layer_op forward, backward, keep;
  cr_tensor *input; /* copy of what an in-place pass overwrites */
  cr_function kind;
  float alpha, beta, gamma; /* of the function, see cr_function */
} cr_layer_function;

/* Class functions for a state that starts with a cr_layer_function whose kind and numbers setup
 * has filled in. */
crema_status cr_layer_function_reshape(cr_layer *layer, crema_blob *const *bottom,
                                       crema_blob *const *top) CREMA_MUST_USE;
crema_status cr_layer_function_forward(cr_layer *layer, crema_context *context,
                                       crema_blob *const *bottom,
                                       crema_blob *const *top) CREMA_MUST_USE;
crema_status cr_layer_function_backward(cr_layer *layer, crema_context *context,
                                        crema_blob *const *top, const bool *propagate_down,
                                        crema_blob *const *bottom) CREMA_MUST_USE;
cr_values cr_layer_function_uses_tops(const cr_layer *layer, bool in_place);
bool cr_layer_function_uses_bottom(const cr_layer *layer, int bottom);
cr_values cr_layer_function_preserves(const cr_layer *layer);

/* The class of such a layer; `backward` NULL: the function has no gradient. */
#define CR_LAYER_FUNCTION_CLASS(name, type_name, setup_function, backward_function) \
  const cr_layer_class cr_layer_##name = {                                          \
      .type = type_name,                                                            \
      .state_size = sizeof(cr_layer_function),                                      \
      .min_bottoms = 1,                                                             \
      .max_bottoms = 1,                                                             \
      .min_tops = 1,                                                                \
      .max_tops = 1,                                                                \
      .in_place = true,                                                             \
      .setup = setup_function,                                                      \
      .reshape = cr_layer_function_reshape,                                         \
      .forward = cr_layer_function_forward,                                         \
      .backward = backward_function,                                                \
      .uses_tops = cr_layer_function_uses_tops,                                             \
      .uses_bottom = cr_layer_function_uses_bottom,                               \
      .preserves = cr_layer_function_preserves,                                           \
  }

#endif
