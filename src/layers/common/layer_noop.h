/* Class functions that do nothing (there are no parameters to read, or tops share the memory of
 * bottoms and parameters) and class functions with one answer for all layers. */
#ifndef CR_LAYERS_LAYER_NOOP_H
#define CR_LAYERS_LAYER_NOOP_H

#include "layers/common/layer.h"

/* For setup and reshape. */
cr_layer_shape_fn cr_layer_noop;
cr_layer_forward_fn cr_layer_noop_forward;
cr_layer_backward_fn cr_layer_noop_backward;
/* For uses_bottom and persistent: whichever it is. */
bool cr_layer_always(const cr_layer *layer, int blob);
/* For noop_in_test: always. */
bool cr_layer_passes_in_test(const Caffe__LayerParameter *param);
/* For carries_integers: always. */
bool cr_layer_carries(const cr_layer *layer, const crema_shape *top);

/* For reach: the same for all layers of the class. */
cr_layer_reach cr_layer_reaches_sample(const Caffe__LayerParameter *param, int bottoms);
cr_layer_reach cr_layer_reaches_position(const Caffe__LayerParameter *param, int bottoms);
/* The reach of a layer whose values depend on each other along the axes from `axis` on. Below 0, it
 * is counted from the end, which may be the samples. */
cr_layer_reach cr_layer_reach_from(int axis);

#endif
