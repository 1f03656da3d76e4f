/* Im2col: the values in the window of a convolution at each position.
 *
 * Formula: y[c][k][position] = x[c][stride * position + dilation * k - pad], 0 outside of x.
 * Shapes: x (N..., C, S...) -> y (N..., C * size of the window, S'...), S' as in Convolution.
 * Fields: convolution_param.
 * Caffe: the same.
 * Example, x 2 3 6 6:
 *   layer { name: "columns" type: "Im2col" bottom: "x" top: "y"
 *     convolution_param { kernel_size: 3 } } */
#include "core/fail.h"
#include "layers/common/layer_pair.h"
#include "layers/common/layer_shape.h"
#include "layers/common/layer_window.h"

typedef struct im2col_state {
  cr_layer_pair pair;
  int axis;
  cr_window window;
} im2col_state;

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_IM2COL, {CR_X0, CR_Y}},
    .backward = {CR_OP_COL2IM, {CR_DY, CR_DX}},
};

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  im2col_state *s = layer->state;
  const Caffe__ConvolutionParameter *param = layer->param->convolution_param;
  const crema_shape *from = &bottom[0]->shape;
  (void)top;
  if (param == NULL) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "convolution_param with a kernel is required");
  }
  CR_TRY(cr_layer_axis(layer, from, param->axis, "axis", &s->axis));
  if (from->axes - s->axis < 2) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottom has no spatial axes after axis %d",
                         s->axis);
  }
  return cr_layer_read_window(layer, param, from->axes - s->axis - 1, &s->window);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  im2col_state *s = layer->state;
  const crema_shape *from = &bottom[0]->shape;
  const cr_window *w = &s->window;
  if (from->axes != s->axis + 1 + w->axes) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottom must have %d axes, found %d",
                         s->axis + 1 + w->axes, from->axes);
  }
  crema_shape to = *from;
  for (int i = 0; i < w->axes; ++i) {
    int64_t span = w->dilation[i] * (w->kernel[i] - 1) + 1;
    int64_t room = from->dim[s->axis + 1 + i] + 2 * w->pad[i] - span;
    if (room < 0) return cr_layer_fail_kernel(layer, w, i, from->dim[s->axis + 1 + i]);
    CR_TRY(cr_layer_multiply(layer, w->kernel[i], &to.dim[s->axis]));
    to.dim[s->axis + 1 + i] = room / w->stride[i] + 1;
  }
  CR_TRY(crema_blob_reshape(top[0], &to));
  crema_shape x = cr_shape_1(crema_shape_count(from, 0, s->axis)), y = x;
  for (int i = s->axis; i < from->axes; ++i) {
    x.dim[x.axes++] = from->dim[i];
    y.dim[y.axes++] = to.dim[i];
  }
  cr_op_desc desc = cr_layer_op_desc(CR_OP_IM2COL);
  desc.u.window = *w;
  return cr_layer_pair_make(layer, bottom, top, &desc, &(cr_pair_shapes){.x = {&x}, .y = &y});
}

const cr_layer_class cr_layer_im2col = {
    CR_LAYER_PAIR("Im2col", im2col_state, 1),
    .setup = setup,
    .reshape = reshape,
    .forward = cr_layer_pair_forward,
    .backward = cr_layer_pair_backward,
};
