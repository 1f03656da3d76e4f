/* Shapes as layer parameters give them. */
#ifndef CR_LAYERS_LAYER_SHAPE_H
#define CR_LAYERS_LAYER_SHAPE_H

#include "layers/layer.h"

/* Reads a BlobShape whose extents must all be 0 or more. Errors: CREMA_E_SHAPE. */
crema_status cr_layer_read_shape(const cr_layer *layer, const Caffe__BlobShape *from,
                                 crema_shape *out) CREMA_MUST_USE;

#endif
