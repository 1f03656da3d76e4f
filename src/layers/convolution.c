/* Convolution: convolution over any number of spatial axes, in groups.
 *
 * Formula: y[o] = bias[o] + sum over channels c of the group and window positions k of
 * weights[o][c][k] * x[c][stride * position + dilation * k - pad].
 * Shapes: x (N..., C, S...) -> y (N..., O, S'...) with S' = (S + 2 pad - dilation (K - 1) - 1) /
 * stride + 1, O being num_output. Axes before axis are batch, axis holds the channels, the rest is
 * space. Parameters: weights (O, C / group, K...), bias (O). Several bottoms of one shape give the
 * same number of tops, with the same weights.
 * Fields: convolution_param.
 * Caffe: the same.
 * Example, x 2 3 16 16:
 *   layer { name: "conv" type: "Convolution" bottom: "x" top: "y"
 *     param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
 *     convolution_param { num_output: 8 kernel_size: 3 pad: 1 stride: 2
 *       weight_filler { type: "xavier" } } } */
#include "core/fail.h"
#include "layers/common/layer_conv.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)top;
  return cr_layer_conv_setup(layer, bottom, false, cr_layer_conv_extent);
}

const cr_layer_class cr_layer_convolution = {
    CR_LAYER_CONV("Convolution"),
    .fusion.fuses_posts = true,
    .int8.takes_int8 = true,
    .setup = setup,
};
