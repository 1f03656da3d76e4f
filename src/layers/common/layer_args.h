/* Argument lists of ops with a variable number of blobs. */
#ifndef CR_LAYERS_LAYER_ARGS_H
#define CR_LAYERS_LAYER_ARGS_H

#include "layers/common/layer_op.h"

/* Room for the shapes and tensors of `count` arguments, made at setup and refilled in every
 * pass. It belongs to the layer. */
typedef struct cr_layer_args {
  int count;
  const crema_shape **shape;
  cr_tensor **tensor;
} cr_layer_args;

crema_status cr_layer_args_make(cr_layer *layer, cr_layer_args *args, int count) CREMA_MUST_USE;

/* Creates the ops that concatenate `parts` blobs to a `whole` along an axis, and that split it into
 * the parts. args->shape has the parts' shapes; afterwards it is undefined. */
crema_status cr_layer_args_make_join(cr_layer *layer, cr_layer_args *args, int parts, int axis,
                                     const crema_shape *whole, cr_layer_op *join,
                                     cr_layer_op *cut) CREMA_MUST_USE;

#endif
