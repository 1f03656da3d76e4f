/* ConvolutionDepthwise: a convolution with a group for each channel.
 *
 * Formula: as Convolution with group = C and num_output = C, whatever these fields say.
 * Shapes: x (N..., C, S...) -> y (N..., C, S'...), as Convolution. Parameters: 0 weights (C, 1,
 * window), 1 bias (C).
 * Fields: convolution_param.
 * Caffe: as in the forks that have it, which do not read num_output either.
 * Example, x 2 4 8 8:
 *   layer { name: "conv" type: "ConvolutionDepthwise" bottom: "x" top: "y"
 *     convolution_param { kernel_size: 3 pad: 1 weight_filler { type: "msra" } } } */
#include "core/fail.h"
#include "layers/common/layer_conv.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_conv *s = layer->state;
  (void)top;
  s->depthwise = true;
  return cr_layer_conv_setup(layer, bottom, false, cr_layer_conv_extent);
}

const cr_layer_class cr_layer_convolution_depthwise = {
    CR_LAYER_CONV("ConvolutionDepthwise"),
    .fusion.fuses_posts = true,
    .setup = setup,
};
