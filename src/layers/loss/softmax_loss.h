/* The logistic loss of scores, for the layers that use it. */
#ifndef CR_LAYERS_LOSS_SOFTMAX_LOSS_H
#define CR_LAYERS_LOSS_SOFTMAX_LOSS_H

#include "layers/loss/layer_loss.h"

/* Class functions; the state is, or begins with, a cr_softmax_loss. A third top is given the loss
 * of each position. */
cr_layer_shape_fn cr_softmax_loss_setup;
cr_layer_shape_fn cr_softmax_loss_reshape;
cr_layer_forward_fn cr_softmax_loss_forward;
cr_layer_backward_fn cr_softmax_loss_backward;

/* The members that the classes set; each adds its reshape. */
#define CR_SOFTMAX_LOSS(type_name, most_tops)                                \
  CR_LAYER_SOFTMAX_LOSS(type_name, 2, most_tops),                            \
      .state_size = sizeof(cr_softmax_loss), .setup = cr_softmax_loss_setup, \
      .forward = cr_softmax_loss_forward, .backward = cr_softmax_loss_backward

#endif
