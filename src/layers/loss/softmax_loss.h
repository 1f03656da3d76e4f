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

#endif
