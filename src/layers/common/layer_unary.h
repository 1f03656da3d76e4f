/* What the element-wise layers of one function have in common: one bottom, one top of the same
 * shape, in place or not, top = f(bottom). */
#ifndef CR_LAYERS_LAYER_UNARY_H
#define CR_LAYERS_LAYER_UNARY_H

#include "layers/common/layer_op.h"

typedef struct cr_layer_unary {
  cr_layer_op forward, backward;
  cr_unary function;
  float alpha, beta, gamma; /* of the function, see cr_unary */
} cr_layer_unary;

/* Class functions for a state that starts with a cr_layer_unary whose function and numbers
 * setup has filled in. */
crema_status cr_layer_unary_reshape(cr_layer *layer, crema_blob *const *bottom,
                                    crema_blob *const *top) CREMA_MUST_USE;
crema_status cr_layer_unary_forward(cr_layer *layer, crema_context *context,
                                    crema_blob *const *bottom,
                                    crema_blob *const *top) CREMA_MUST_USE;
crema_status cr_layer_unary_backward(cr_layer *layer, crema_context *context,
                                     crema_blob *const *top, const bool *propagate_down,
                                     crema_blob *const *bottom) CREMA_MUST_USE;
cr_values cr_layer_unary_uses_tops(const cr_layer *layer, bool in_place);
bool cr_layer_unary_uses_bottom(const cr_layer *layer, int bottom);
cr_values cr_layer_unary_preserves(const cr_layer *layer);

#endif
