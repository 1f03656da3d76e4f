/* The common part of layers with one element-wise function: top = f(bottom), of one shape, in place
 * or not. */
#ifndef CR_LAYERS_LAYER_UNARY_H
#define CR_LAYERS_LAYER_UNARY_H

#include "layers/common/layer_noop.h"
#include "layers/common/layer_pair.h"

typedef struct cr_layer_unary {
  cr_layer_pair pair;
  cr_unary function;
  double alpha, beta, gamma; /* of the function, see cr_unary */
} cr_layer_unary;

/* The natural logarithm of a base in a layer's arithmetic. Base -1 means e. NaN unless the base is
 * positive and finite. */
double cr_layer_unary_log(crema_dtype arithmetic, float base);

/* Class functions. Setup takes the function from the class's `post`, which accepts the parameters.
 */
cr_layer_shape_fn cr_layer_unary_setup;
cr_layer_shape_fn cr_layer_unary_reshape;
cr_value_use cr_layer_unary_uses_tops(const cr_layer *layer, bool in_place);
bool cr_layer_unary_uses_bottom(const cr_layer *layer, int bottom);
cr_value_use cr_layer_unary_preserves(const cr_layer *layer);

/* The gradient is computed from the value where cr_unary_by_value allows that; otherwise an
 * in-place pass keeps its input. */
extern const cr_layer_pair_table cr_layer_unary_by_value, cr_layer_unary_by_input;

/* The members that the classes set; each adds its post, its setup and, with a gradient, backward
 * (cr_layer_pair_backward). With a `state` that begins with a cr_layer_unary, a class also adds its
 * reshape. */
#define CR_LAYER_UNARY_OF(type_name, state, table)                                   \
  .type = type_name, .state_size = sizeof(state), .pair = &table, .bottoms = {1, 1}, \
  .tops = {1, 1}, .in_place = true, .forward = cr_layer_pair_forward,                \
  .uses_tops = cr_layer_unary_uses_tops, .uses_bottom = cr_layer_unary_uses_bottom,  \
  .memory.preserves = cr_layer_unary_preserves, .fusion.reach = cr_layer_reaches_position
#define CR_LAYER_UNARY(type_name, table) \
  CR_LAYER_UNARY_OF(type_name, cr_layer_unary, table), .reshape = cr_layer_unary_reshape

#endif
