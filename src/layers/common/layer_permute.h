/* Layers that exchange axes: Permute and Transpose, which name the axes in different fields. */
#ifndef CR_LAYERS_LAYER_PERMUTE_H
#define CR_LAYERS_LAYER_PERMUTE_H

#include "layers/common/layer_pair.h"

/* The axes of the bottom in the order of the top, as a field gives them. */
typedef struct cr_axis_order {
  const char *field; /* for errors */
  const uint32_t *axis;
  size_t count;
} cr_axis_order;

/* For setup. Errors: CREMA_E_RANGE for an axis that bottom 0 does not have, CREMA_E_ARGUMENT for
 * one that is named twice. */
crema_status cr_layer_permute_check(const cr_layer *layer, crema_blob *const *bottom,
                                    const cr_axis_order *order) CREMA_MUST_USE;

/* For reshape: the top and both ops. Axes that the order does not name follow in their old order.
 * Errors: CREMA_E_RANGE as above. */
crema_status cr_layer_permute_make(cr_layer *layer, crema_blob *const *bottom,
                                   crema_blob *const *top,
                                   const cr_axis_order *order) CREMA_MUST_USE;

extern const cr_layer_pair_table cr_layer_permute_pair;

/* The members that the classes set; each adds setup and reshape. */
#define CR_LAYER_PERMUTE(type_name)                                                       \
  .type = type_name, .state_size = sizeof(cr_layer_pair), .pair = &cr_layer_permute_pair, \
  .bottoms = {1, 1}, .tops = {1, 1}, .forward = cr_layer_pair_forward,                    \
  .backward = cr_layer_pair_backward

#endif
