/* Class functions of layers that have nothing to do at a stage: no parameters to read, or tops that
 * share the memory of bottoms and parameters. */
#ifndef CR_LAYERS_LAYER_NOOP_H
#define CR_LAYERS_LAYER_NOOP_H

#include "layers/common/layer.h"

/* For setup and reshape. */
crema_status cr_layer_noop(cr_layer *layer, crema_blob *const *bottom,
                           crema_blob *const *top) CREMA_MUST_USE;
crema_status cr_layer_noop_forward(cr_layer *layer, crema_context *context,
                                   crema_blob *const *bottom,
                                   crema_blob *const *top) CREMA_MUST_USE;
crema_status cr_layer_noop_backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                                    const bool *propagate_down,
                                    crema_blob *const *bottom) CREMA_MUST_USE;

#endif
