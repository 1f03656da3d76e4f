/* The layers Correlation and Correlation1D. */
#ifndef CR_LAYERS_LAYER_CORRELATION_H
#define CR_LAYERS_LAYER_CORRELATION_H

#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

typedef struct cr_layer_correlation_state {
  cr_layer_op forward, backward[2];
  bool in_rows; /* Correlation1D */
} cr_layer_correlation_state;

crema_status cr_layer_correlation_setup(cr_layer *layer, crema_blob *const *bottom,
                                        crema_blob *const *top) CREMA_MUST_USE;
/* The same for Correlation1D. */
crema_status cr_layer_correlation_1d_setup(cr_layer *layer, crema_blob *const *bottom,
                                           crema_blob *const *top) CREMA_MUST_USE;
crema_status cr_layer_correlation_reshape(cr_layer *layer, crema_blob *const *bottom,
                                          crema_blob *const *top) CREMA_MUST_USE;
cr_layer_forward_fn cr_layer_correlation_forward;
cr_layer_backward_fn cr_layer_correlation_backward;

/* The members of the classes. */
#define CR_LAYER_CORRELATION(type_name, setup_fn)                             \
  CR_LAYER_OF_OPS(type_name, sizeof(cr_layer_correlation_state), setup_fn,    \
                  cr_layer_correlation_reshape, cr_layer_correlation_forward, \
                  cr_layer_correlation_backward),                             \
      .bottoms = {2, 2}, .tops = {1, 1}, .uses_bottom = cr_layer_always,      \
      .fusion.reach = cr_layer_reaches_sample

#endif
