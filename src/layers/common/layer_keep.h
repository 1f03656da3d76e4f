/* The input of a layer that works in place, kept for its backward pass. */
#ifndef CR_LAYERS_LAYER_KEEP_H
#define CR_LAYERS_LAYER_KEEP_H

#include "layers/common/layer_op.h"

/* Zero-initialised: no values are kept. */
typedef struct cr_layer_keep {
  cr_layer_op copy;
  cr_tensor *input;
} cr_layer_keep;

/* Allocates memory for the values of `bottom`. */
crema_status cr_layer_keep_make(cr_layer *layer, cr_layer_keep *keep,
                                const crema_blob *bottom) CREMA_MUST_USE;

/* Before a forward pass that may overwrite its bottom: keeps the values if it will, and a backward
 * pass follows. *input: the tensor that the forward pass reads. The values are moved if possible
 * (cr_tensor_take), else copied. */
crema_status cr_layer_keep_forward(cr_layer *layer, cr_layer_keep *keep, crema_context *context,
                                   const crema_blob *bottom, const crema_blob *top,
                                   cr_tensor **input) CREMA_MUST_USE;

/* For the backward pass: the bottom's values as forward saw them. */
cr_tensor *cr_layer_keep_input(const cr_layer_keep *keep, const crema_blob *bottom,
                               const crema_blob *top);

#endif
