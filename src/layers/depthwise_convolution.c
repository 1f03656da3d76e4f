/* DepthwiseConvolution: a convolution with one group per channel (Howard et al., "MobileNets",
 * 2017).
 *
 * Formula: as Convolution; the type is an alias. group is the number of groups.
 * Shapes: x (N..., C, S...) -> y (N..., O, S'...), as Convolution.
 * Fields: convolution_param.
 * Caffe: as in the forks that have it.
 * Example, x 2 4 8 8:
 *   layer { name: "conv" type: "DepthwiseConvolution" bottom: "x" top: "y"
 *     convolution_param { num_output: 4 group: 4 kernel_size: 3 pad: 1
 *       weight_filler { type: "msra" } } } */
#include "core/fail.h"
#include "layers/common/layer_conv.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)top;
  return cr_layer_conv_setup(layer, bottom, false, cr_layer_conv_extent);
}

const cr_layer_class cr_layer_depthwise_convolution = {
    CR_LAYER_CONV("DepthwiseConvolution"),
    .fusion.fuses_posts = true,
    .setup = setup,
};
