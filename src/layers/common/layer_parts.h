/* Blobs that are parts of another one along an axis. */
#ifndef CR_LAYERS_LAYER_PARTS_H
#define CR_LAYERS_LAYER_PARTS_H

#include "layers/common/layer.h"
#include "memory/tensor.h"

/* Where the parts of a tensor lie in it. */
typedef struct cr_layer_parts {
  int axis, count;
  crema_shape shape; /* of the whole */
  crema_shape *part; /* shapes of the parts */
  cr_part_place *place;
  bool known, fit; /* the places are looked for; all parts have one */
  cr_format lies;  /* where the whole is held in this format */
} cr_layer_parts;

/* Makes room for `count` parts, at setup. */
crema_status cr_layer_parts_make(cr_layer *layer, cr_layer_parts *parts, int count) CREMA_MUST_USE;

/* Tells the shapes, at reshape: shape[i] of part i, which follow one another along `axis`. */
void cr_layer_parts_reshape(cr_layer_parts *parts, int axis, const crema_shape *whole,
                            const crema_shape *const *shape);

/* Gives the parts (NULL: nobody wants that one) the values of the whole, in its memory
 * (cr_tensor_borrow). *done is false where that cannot be: all parts have to be written. */
crema_status cr_layer_parts_borrow(cr_layer_parts *parts, crema_context *context, cr_tensor *whole,
                                   cr_tensor *const *part, bool *done) CREMA_MUST_USE;

#endif
