/* Silence: reads blobs that no other layer reads, so that they are no outputs.
 *
 * Formula: none; the gradient of the bottoms is 0.
 * Shapes: any number of bottoms -> no top.
 * Fields: none.
 * Caffe: the same.
 * Example, x 2 3:
 *   layer { name: "hush" type: "Silence" bottom: "x" } */
#include "layers/common/layer.h"
#include "layers/common/layer_noop.h"

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  (void)context, (void)top;
  for (int i = 0; i < layer->bottoms; ++i) {
    if (propagate_down[i]) cr_tensor_set_zero(bottom[i]->diff);
  }
  return CREMA_OK;
}

const cr_layer_class cr_layer_silence = {
    .type = "Silence",
    .bottoms = {1, CR_ANY},
    .tops = {0, 0},
    .graph.integer_bottoms = CR_ALL_BOTTOMS,
    .graph.ignores_values = true,
    .setup = cr_layer_noop,
    .reshape = cr_layer_noop,
    .forward = cr_layer_noop_forward,
    .backward = backward,
};
