/* Convolution: convolution over any number of spatial axes, in groups.
 *
 * Formula: y[o] = bias[o] + sum over channels c of the group and window positions k of
 * weights[o][c][k] * x[c][stride * position + dilation * k - pad].
 * Shapes: x (N..., C, S...) -> y (N..., O, S'...) with S' = (S + 2 pad - dilation (K - 1) - 1) /
 * stride + 1, O being num_output. Axes before axis are batch, axis holds the channels, the rest is
 * space. Parameters: weights (O, C / group, K...), bias (O). Several bottoms of one shape give as
 * many tops with the same weights.
 * Fields: convolution_param.
 * Caffe: the same.
 * Example, x 2 3 16 16:
 *   layer { name: "conv" type: "Convolution" bottom: "x" top: "y"
 *     param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
 *     convolution_param { num_output: 8 kernel_size: 3 pad: 1 stride: 2
 *       weight_filler { type: "xavier" } } } */
#include "core/fail.h"
#include "layers/common/layer_conv.h"

static crema_status extent(const cr_layer *layer, const crema_shape *from, int i, int64_t *out) {
  const cr_layer_conv *s = layer->state;
  const cr_window *w = &s->window;
  char text[128];
  int64_t span = w->dilation[i] * (w->kernel[i] - 1) + 1;
  int64_t room = from->dim[s->axis + 1 + i] + 2 * w->pad[i] - span;
  if (room < 0) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the kernel spans %lld positions of spatial axis %d, more than the padded "
                         "input has, shape %s, pad %lld",
                         (long long)span, i, crema_shape_text(from, text, sizeof text),
                         (long long)w->pad[i]);
  }
  *out = room / w->stride[i] + 1;
  return CREMA_OK;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)top;
  return cr_layer_conv_setup(layer, bottom, false, extent);
}

const cr_layer_class cr_layer_convolution = {
    CR_LAYER_CONV("Convolution"),
    .fuses_posts = true,
    .setup = setup,
};
