/* Shapes as layer parameters give them. */
#ifndef CR_LAYERS_LAYER_SHAPE_H
#define CR_LAYERS_LAYER_SHAPE_H

#include "layers/common/layer.h"

/* Reads a BlobShape whose extents must all be 0 or more. Errors: CREMA_E_SHAPE. */
crema_status cr_layer_read_shape(const cr_layer *layer, const Caffe__BlobShape *from,
                                 crema_shape *out) CREMA_MUST_USE;

/* `num_axes` axes of `from` beginning at `axis` (-1: all to the end; 0: a scalar).
 * Errors: CREMA_E_RANGE. */
crema_status cr_layer_read_span(const cr_layer *layer, const crema_shape *from, int axis,
                                int num_axes, crema_shape *out) CREMA_MUST_USE;

/* The position of the axes of `part` in `whole`, starting at `axis`: folds `whole` to three axes
 * with the part in the middle. A scalar fits anywhere. `what` names the part in the error, such as
 * "scale". Errors: CREMA_E_RANGE, CREMA_E_SHAPE with both shapes. */
crema_status cr_layer_fit_span(const cr_layer *layer, const char *what, const crema_shape *whole,
                               const crema_shape *part, int axis, crema_shape *out) CREMA_MUST_USE;

/* Makes `top` share the data and diff of `bottom` with the shape `shape`, which has the same count.
 */
crema_status cr_layer_view(crema_blob *bottom, const crema_shape *shape,
                           crema_blob *top) CREMA_MUST_USE;

/* Multiplies *extent by `factor`. Errors: CREMA_E_SHAPE when no shape can have that many elements.
 */
crema_status cr_layer_multiply(const cr_layer *layer, int64_t factor,
                               int64_t *extent) CREMA_MUST_USE;

#endif
