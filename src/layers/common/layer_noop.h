/* Class functions of layers that have nothing to do at a stage: no parameters to read, or tops that
 * share the memory of bottoms and parameters. */
#ifndef CR_LAYERS_LAYER_NOOP_H
#define CR_LAYERS_LAYER_NOOP_H

#include "layers/common/layer.h"

/* For setup and reshape. */
cr_layer_shape_fn cr_layer_noop;
cr_layer_forward_fn cr_layer_noop_forward;
cr_layer_backward_fn cr_layer_noop_backward;
/* For uses_bottom and persistent: whichever it is. */
bool cr_layer_always(const cr_layer *layer, int blob);

#endif
