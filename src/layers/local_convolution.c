/* LocalConvolution: a convolution with other weights at each position (Taigman et al.,
 * "DeepFace", 2014).
 *
 * Formula: y[o][p] = bias[o][p] + sum over k of weights[o][k][p] w[k][p]. The values w[k][p] are
 * the window at position p, K = C kernel^2 of them.
 * Shapes: x (N, C, H, W) -> y (N, O, H', W'), as Convolution. Parameters: 0 weights (O, 1, K, P),
 * 1 bias (1, 1, O, P), with P = H' W'.
 * Fields: local_convolution_param.
 * Caffe: as in the forks that have local_convolution_param, for one bottom and one group. The
 * forks with local_conv_param share weights between positions; crema rejects that field.
 * Example, x 2 3 5 5:
 *   layer { name: "local" type: "LocalConvolution" bottom: "x" top: "y"
 *     local_convolution_param { num_output: 4 kernel_size: 3 } } */
#include "core/fail.h"
#include "layers/common/layer_local.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)top;
  return cr_layer_local_conv_setup(layer, bottom, "local_convolution_param",
                                   layer->param->local_convolution_param);
}

const cr_layer_class cr_layer_local_convolution = {
    CR_LAYER_LOCAL("LocalConvolution"),
    .setup = setup,
};
