/* What Convolution and Deconvolution have in common: their parameters and the checks of bottoms. */
#ifndef CR_LAYERS_LAYER_CONV_H
#define CR_LAYERS_LAYER_CONV_H

#include "layers/common/layer_op.h"

typedef struct cr_layer_conv {
  int axis; /* of the channels: those before are batch, those after space */
  int64_t channels, outputs, group;
  bool bias;
  cr_window window;
} cr_layer_conv;

/* Reads convolution_param for bottoms shaped as bottom[0]. Errors: CREMA_E_ARGUMENT,
 * CREMA_E_RANGE, CREMA_E_SHAPE. */
crema_status cr_layer_conv_read(cr_layer *layer, crema_blob *const *bottom,
                                cr_layer_conv *conv) CREMA_MUST_USE;

/* Creates parameter 0, weights (first, second / group, window), and 1, the bias. */
crema_status cr_layer_conv_params(cr_layer *layer, const cr_layer_conv *conv, int64_t first,
                                  int64_t second) CREMA_MUST_USE;

/* All bottoms have one shape that fits the parameters. */
crema_status cr_layer_conv_check(const cr_layer *layer, const cr_layer_conv *conv,
                                 crema_blob *const *bottom) CREMA_MUST_USE;

/* A shape as ops want it: batch axes joined; without spatial axes, one of extent 1. */
crema_shape cr_layer_conv_fold(const cr_layer_conv *conv, const crema_shape *shape);

/* The weights' shape and the parameters of a CONV op, with the same spatial axis added. */
crema_shape cr_layer_conv_weights(const cr_layer *layer, const cr_layer_conv *conv,
                                  cr_conv_params *params);

#endif
