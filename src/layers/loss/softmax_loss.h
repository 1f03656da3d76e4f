/* The logistic loss of scores, for the layers that are made of it. */
#ifndef CR_LAYERS_LOSS_SOFTMAX_LOSS_H
#define CR_LAYERS_LOSS_SOFTMAX_LOSS_H

#include "layers/loss/layer_loss.h"

/* Class functions and table; the state is, or begins with, a cr_layer_softmax_loss_state. */
extern const cr_layer_pair_table cr_softmax_loss_pair;
cr_layer_shape_fn cr_softmax_loss_setup;
cr_layer_shape_fn cr_softmax_loss_reshape;
cr_layer_forward_fn cr_softmax_loss_forward;
cr_layer_backward_fn cr_softmax_loss_backward;

/* What the classes have in common; each adds its reshape and its forward pass. */
#define CR_SOFTMAX_LOSS(type_name, most_tops)                                                     \
  CR_LAYER_LOSS(type_name, 2, 2, most_tops),                                                      \
      .state_size = sizeof(cr_layer_softmax_loss_state), .pair = &cr_softmax_loss_pair,           \
      .no_gradient_bottoms = 1u << 1, .integer_bottoms = 1u << 1, .setup = cr_softmax_loss_setup, \
      .backward = cr_softmax_loss_backward, .uses_tops = cr_layer_softmax_loss_uses_tops

#endif
