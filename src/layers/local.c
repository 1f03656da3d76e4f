/* Local: a convolution with other weights at each position (Taigman et al., "DeepFace", 2014).
 *
 * Formula: y[o][p] = bias[o][p] + sum over k of weights[o][k][p] w[k][p]. The values w[k][p] are
 * the window at position p, K = C kernel^2 of them.
 * Shapes: x (N, C, H, W) -> y (N, O, H', W'), as Convolution. Parameters: 0 weights (O, 1, K, P),
 * 1 bias (1, 1, O, P), with P = H' W'.
 * Fields: local_param.
 * Caffe: as in happynear's and other forks. There the gradients of a batch overwrite each other;
 * here they are added.
 * Example, x 2 3 5 5:
 *   layer { name: "local" type: "Local" bottom: "x" top: "y"
 *     local_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } } */
#include "core/fail.h"
#include "layers/common/layer_local.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)top;
  return cr_layer_local_conv_setup(layer, bottom, "local_param", layer->param->local_param);
}

const cr_layer_class cr_layer_local = {
    CR_LAYER_LOCAL("Local"),
    .setup = setup,
};
