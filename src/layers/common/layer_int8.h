/* Convolutions and inner products that compute with int8 values. */
#ifndef CR_LAYERS_LAYER_INT8_H
#define CR_LAYERS_LAYER_INT8_H

#include "layers/common/layer_op.h"

/* See CONV_INT8 in ops.inc. The weights are I8, the bias, in units of the sums, F32. Averages use
 * from_scale only. */
struct cr_layer_int8 {
  crema_dtype from;   /* of the integers that are multiplied: U8 or I8 */
  float from_scale;   /* the value of integer 1; a float bottom is rounded to multiples of it */
  float addend_scale; /* the value of the addend's integer 1 in units of the top */
  int numbers;
  float number[]; /* per output channel: the value of 1 of a sum in units of the top */
};

/* For a layer's state: the bottom, rounded. */
typedef struct cr_layer_rounded {
  cr_layer_op op;
  cr_tensor *tensor;
} cr_layer_rounded;

/* Makes `slot` hold the op of layer->int8 that `desc`, of the floats, describes, whose arguments
 * have `shape`: source, weights, bias, result, addend. */
crema_status cr_layer_int8_make(cr_layer *layer, cr_layer_rounded *rounded, cr_layer_op *slot,
                                const cr_op_desc *desc, const crema_shape *const *shape,
                                const crema_blob *bottom) CREMA_MUST_USE;

/* *source, a bottom's values, becomes the tensor for the op. A no-op for integers. */
crema_status cr_layer_int8_round(cr_layer_rounded *rounded, crema_context *context,
                                 cr_tensor **source) CREMA_MUST_USE;

#endif
