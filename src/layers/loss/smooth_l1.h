/* What L1 losses, smooth or not, have in common. */
#ifndef CR_LAYERS_LOSS_SMOOTH_L1_H
#define CR_LAYERS_LOSS_SMOOTH_L1_H

#include "layers/loss/layer_loss.h"

typedef struct cr_smooth_l1 {
  cr_layer_loss loss;
  float sigma2;
  cr_layer_op forward, backward;
} cr_smooth_l1;

/* Reads loss_param; `fallback` as in cr_layer_loss_read. Errors: CREMA_E_UNSUPPORTED for
 * ignore_label, as there are no labels. */
crema_status cr_smooth_l1_read(cr_layer *layer, int fallback) CREMA_MUST_USE;

/* cr_layer_loss_reshape for bottoms of shape `a`: (N, C, ...), or (N). */
crema_status cr_smooth_l1_shape_loss(cr_layer *layer, const crema_shape *a,
                                     crema_blob *top) CREMA_MUST_USE;

/* Reads smooth_l1_loss_param, checks that all bottoms have one shape with axes, makes the ops. */
crema_status cr_smooth_l1_make(cr_layer *layer, crema_blob *const *bottom) CREMA_MUST_USE;

/* The same without reading and checking; `sigma2` may be infinite. */
crema_status cr_smooth_l1_make_ops(cr_layer *layer, crema_blob *const *bottom,
                                   float sigma2) CREMA_MUST_USE;

/* Class functions; s->loss has the top's divisor. */
cr_layer_forward_fn cr_smooth_l1_forward;
cr_layer_backward_fn cr_smooth_l1_backward;
bool cr_smooth_l1_uses_bottom(const cr_layer *layer, int bottom);

#endif
