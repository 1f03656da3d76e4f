/* Deconvolution: the transpose of a convolution, which exchanges its forward and its backward pass.
 *
 * Formula: y = bias + the gradient that a Convolution with these weights would give its bottom if
 * its top had the gradient x.
 * Shapes: x (N..., C, S...) -> y (N..., O, S'...) with S' = stride (S - 1) + dilation (K - 1) + 1 -
 * 2 pad. Parameters: weights (C, O / group, K...), bias (O). Several bottoms of one shape give the
 * same number of tops.
 * Fields: convolution_param.
 * Caffe: the same.
 * Example, x 2 4 5 5:
 *   layer { name: "up" type: "Deconvolution" bottom: "x" top: "y"
 *     convolution_param { num_output: 4 group: 4 kernel_size: 4 stride: 2 pad: 1 bias_term: false
 *       weight_filler { type: "bilinear" } } } */
#include "core/fail.h"
#include "layers/common/layer_conv.h"

static crema_status extent(const cr_layer *layer, const crema_shape *from, int i, int64_t *out) {
  const cr_layer_conv *s = layer->state;
  const cr_window *w = &s->window;
  char text[128];
  int64_t size = from->dim[s->axis + 1 + i];
  int64_t span = w->dilation[i] * (w->kernel[i] - 1) + 1;
  /* Larger extents overflow 64-bit counts and do not fit in memory. */
  bool huge = size > INT32_MAX || span > INT32_MAX;
  *out = huge ? 0 : w->stride[i] * (size - 1) + span - 2 * w->pad[i];
  if (*out >= 1) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       "the top would have no position along spatial axis %d: bottom shape %s, "
                       "kernel span %lld, pad %lld",
                       i, crema_shape_text(from, text, sizeof text), (long long)span,
                       (long long)w->pad[i]);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)top;
  return cr_layer_conv_setup(layer, bottom, true, extent);
}

const cr_layer_class cr_layer_deconvolution = {
    CR_LAYER_CONV("Deconvolution"),
    .setup = setup,
};
