/* Softmax losses whose term of a position is a function of -log p, with p the probability of its
 * label. The layer writes that function's values and slopes; the rest is here. */
#ifndef CR_LAYERS_LOSS_POSITION_LOSS_H
#define CR_LAYERS_LOSS_POSITION_LOSS_H

#include "layers/loss/layer_loss.h"

/* The state of such a layer begins with it. */
typedef struct cr_position_loss {
  cr_softmax_loss softmax; /* has to be the first member */
  int64_t positions;
  cr_tensor *each;  /* -log p of each position; 0 where the label is ignored */
  cr_tensor *term;  /* the position's term of the loss */
  cr_tensor *slope; /* the term's derivative by -log p; finite also where the label is ignored */
  cr_tensor *tiled;
  cr_layer_op total, tile, multiply;
} cr_position_loss;

/* Checks and shapes as cr_softmax_loss_make, and makes the tensors. */
crema_status cr_position_loss_make(cr_layer *layer, crema_blob *const *bottom,
                                   crema_blob *const *top, int axis) CREMA_MUST_USE;

/* Forward: `find` gives each; then the layer writes term and slope; `finish` gives the loss. */
crema_status cr_position_loss_find(cr_layer *layer, crema_context *context,
                                   crema_blob *const *bottom,
                                   crema_blob *const *top) CREMA_MUST_USE;
crema_status cr_position_loss_finish(cr_layer *layer, crema_context *context,
                                     crema_blob *const *top) CREMA_MUST_USE;

/* Class functions. */
cr_layer_shape_fn cr_position_loss_setup;
cr_layer_backward_fn cr_position_loss_backward;

#endif
