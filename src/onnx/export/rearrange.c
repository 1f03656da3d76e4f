/* Layers that move values between axes, and windows of values. */
#include "layers/common/layer_window.h"
#include "onnx/export/compose.h"

void cr_onnx_export_shuffle_channel(cr_onnx_layer *l) {
  static const int64_t order[] = {0, 2, 1, 3};
  const Caffe__ShuffleChannelParameter *param = l->param->shuffle_channel_param;
  const crema_shape *shape = cr_onnx_bottom_shape(l, 0);
  const int64_t group = param == NULL ? 1 : param->group, channels = shape->dim[1];
  const char *groups =
      cr_onnx_reshaped(l->g, l->in[0], (const int64_t[]){0, group, channels / group, -1}, 4);
  cr_onnx_reshape_to(l->g, l->out[0], cr_onnx_transposed(l->g, groups, order, 4), shape);
}

void cr_onnx_export_reorg(cr_onnx_layer *l) {
  static const int64_t there[] = {0, 3, 5, 1, 2, 4}, back[] = {0, 3, 4, 1, 5, 2};
  const Caffe__ReorgParameter *param = l->param->reorg_param;
  const crema_shape *from = cr_onnx_bottom_shape(l, 0);
  const int64_t s = param->stride, c = from->dim[1] / (s * s), h = from->dim[2], w = from->dim[3];
  const int64_t pixels[] = {0, c, h, s, w, s}, channels[] = {0, s, s, c, h, w};
  const char *in = cr_onnx_reshaped(l->g, l->in[0], param->reverse ? channels : pixels, 6);
  const char *moved = cr_onnx_transposed(l->g, in, param->reverse ? back : there, 6);
  cr_onnx_reshape_to(l->g, l->out[0], moved, cr_onnx_top_shape(l, 0));
}

void cr_onnx_export_axpy(cr_onnx_layer *l) {
  const int axes = cr_onnx_bottom_shape(l, 1)->axes;
  int64_t dims[CREMA_MAX_AXES] = {0};
  for (int i = 2; i < axes; ++i) dims[i] = 1;
  const char *factor = l->in[0];
  if (axes != cr_onnx_bottom_shape(l, 0)->axes) {
    factor = cr_onnx_reshaped(l->g, factor, dims, (size_t)axes);
  }
  const char *scaled = CR_ONNX_VALUE(l->g, "Mul", l->in[1], factor);
  CR_ONNX_NODE(l->g, "Add", l->out[0], scaled, l->in[2]);
}

void cr_onnx_export_parameter(cr_onnx_layer *l) {
  l->fixed = true;
  CR_ONNX_NODE(l->g, "Identity", l->out[0],
               cr_onnx_parameter(l->g, "values", l->layer->blob[0], NULL));
}

/* ---- Im2col ------------------------------------------------------------------------ */

/* The attributes of a window. */
static void write_window(cr_onnx_graph *g, const cr_window *w) {
  int64_t pads[2 * CR_MAX_SPATIAL];
  for (int i = 0; i < w->axes; ++i) pads[i] = pads[i + w->axes] = w->pad[i];
  cr_onnx_ints(g, "kernel_shape", w->kernel, (size_t)w->axes);
  cr_onnx_ints(g, "strides", w->stride, (size_t)w->axes);
  cr_onnx_ints(g, "dilations", w->dilation, (size_t)w->axes);
  cr_onnx_ints(g, "pads", pads, 2 * (size_t)w->axes);
}

/* The values in a window at each position: a convolution of each channel whose output k has the
 * weight 1 at element k of the window. */
static const char *unfold(cr_onnx_graph *g, const char *in, int64_t channels, const cr_window *w) {
  crema_shape shape = {.axes = w->axes + 2, .dim = {channels, 1}};
  int64_t size = 1;
  float *weight;
  for (int i = 0; i < w->axes; ++i) size *= shape.dim[2 + i] = w->kernel[i];
  shape.dim[0] *= size;
  const char *weights = cr_onnx_new_floats(g, "window", &shape, &weight);
  for (int64_t i = 0; weight != NULL && i < channels * size; ++i) weight[i * size + i % size] = 1;
  const char *out = CR_ONNX_VALUE(g, "Conv", in, weights);
  write_window(g, w);
  cr_onnx_int(g, "group", channels);
  return out;
}

void cr_onnx_export_im2col(cr_onnx_layer *l) {
  const Caffe__ConvolutionParameter *param = l->param->convolution_param;
  const crema_shape *from = cr_onnx_bottom_shape(l, 0);
  const int axis = param->axis < 0 ? param->axis + from->axes : param->axis;
  const int axes = from->axes - axis - 1;
  cr_onnx_graph *g = l->g;
  int64_t maps[CREMA_MAX_AXES] = {-1};
  cr_window window;
  if (axes > 3) {
    cr_onnx_reject(l, "a window over 3 axes", "Conv has no window over %d axes", axes);
    return;
  }
  g->status = cr_layer_read_window(l->layer, param, axes, &window);
  if (g->status != CREMA_OK) return;
  for (int i = axis; i < from->axes; ++i) maps[i - axis + 1] = from->dim[i];
  const char *in = axis == 1 ? l->in[0] : cr_onnx_reshaped(g, l->in[0], maps, (size_t)axes + 2);
  cr_onnx_reshape_to(g, l->out[0], unfold(g, in, from->dim[axis], &window),
                     cr_onnx_top_shape(l, 0));
}

/* ---- Local ------------------------------------------------------------------------- */

static void read_local_window(const Caffe__LocalParameter *p, cr_window *out) {
  const bool kernels = p->has_kernel_h || p->has_kernel_w;
  const bool strides = p->has_stride_h || p->has_stride_w, pads = p->has_pad_h || p->has_pad_w;
  *out =
      (cr_window){2,
                  {kernels ? p->kernel_h : p->kernel_size, kernels ? p->kernel_w : p->kernel_size},
                  {strides ? p->stride_h : p->stride, strides ? p->stride_w : p->stride},
                  {pads ? p->pad_h : p->pad, pads ? p->pad_w : p->pad},
                  {1, 1}};
}

/* One matrix product for each position, of all samples' windows and the position's weights. */
static void write_local(cr_onnx_layer *l, const Caffe__LocalParameter *param) {
  static const int64_t first[] = {2, 0, 1}, inner[] = {2, 1, 0}, last[] = {1, 2, 0};
  const crema_shape *to = cr_onnx_top_shape(l, 0), *blob = &l->layer->blob[0]->shape;
  const int64_t outputs = blob->dim[0], values = blob->dim[2], positions = blob->dim[3];
  const crema_shape shape = {.axes = 3, .dim = {outputs, values, positions}};
  const crema_shape bias = {.axes = 2, .dim = {outputs, positions}};
  cr_onnx_graph *g = l->g;
  cr_window window;
  read_local_window(param, &window);
  const char *all = unfold(g, l->in[0], cr_onnx_bottom_shape(l, 0)->dim[1], &window);
  all = cr_onnx_reshaped(g, all, (const int64_t[]){0, values, positions}, 3);
  const char *weights = cr_onnx_parameter(g, "weights", l->layer->blob[0], &shape);
  const char *product = CR_ONNX_VALUE(g, "MatMul", cr_onnx_transposed(g, all, first, 3),
                                      cr_onnx_transposed(g, weights, inner, 3));
  product = cr_onnx_transposed(g, product, last, 3);
  if (l->layer->params > 1) {
    product =
        CR_ONNX_VALUE(g, "Add", product, cr_onnx_parameter(g, "bias", l->layer->blob[1], &bias));
  }
  cr_onnx_reshape_to(g, l->out[0], product, to);
}

void cr_onnx_export_local(cr_onnx_layer *l) {
  write_local(l, l->param->local_param);
}

void cr_onnx_export_local_convolution(cr_onnx_layer *l) {
  if (l->param->local_conv_param == NULL) {
    write_local(l, l->param->local_convolution_param);
    return;
  }
  cr_onnx_reject(l, "local_convolution_param",
                 "no operator convolves regions of a map with their own weights");
}

/* ---- SPP --------------------------------------------------------------------------- */

/* The mean of each window along an axis. Windows include the padding in their sizes. */
static cr_onnx_matrix mean_of_windows(cr_onnx_graph *g, int64_t size, int64_t kernel, int64_t pad,
                                      int64_t positions) {
  cr_onnx_matrix m = cr_onnx_new_matrix(g, positions, size);
  for (int64_t i = 0; m.weight != NULL && i < positions; ++i) {
    const int64_t begin = i * kernel - pad;
    const int64_t end = begin + kernel < size + pad ? begin + kernel : size + pad;
    for (int64_t k = begin < 0 ? 0 : begin; k < end && k < size; ++k) {
      m.weight[i * size + k] = 1 / (float)(end - begin);
    }
  }
  return m;
}

/* A level with about `bins` x `bins` windows, joined to one axis. */
static const char *write_level(cr_onnx_layer *l, int64_t bins, bool max, bool flat) {
  const int64_t *from = cr_onnx_bottom_shape(l, 0)->dim;
  cr_onnx_graph *g = l->g;
  int64_t kernel[2], pad[4], count[2];
  for (int a = 0; a < 2; ++a) {
    kernel[a] = (from[2 + a] + bins - 1) / bins;
    pad[a] = (kernel[a] * bins - from[2 + a] + 1) / 2;
    count[a] = cr_layer_pool_extent(from[2 + a], kernel[a], kernel[a], pad[a], pad[a] > 0, false);
    const int64_t rest = count[a] * kernel[a] - from[2 + a] - pad[a];
    pad[2 + a] = rest > 0 ? rest : 0;
  }
  const char *out = flat ? cr_onnx_name(g, "level") : l->out[0];
  if (max) {
    CR_ONNX_NODE(g, "MaxPool", out, l->in[0]);
    cr_onnx_ints(g, "kernel_shape", kernel, 2);
    cr_onnx_ints(g, "strides", kernel, 2);
    cr_onnx_ints(g, "pads", pad, 4);
  } else {
    const cr_onnx_matrix rows = mean_of_windows(g, from[2], kernel[0], pad[0], count[0]);
    const cr_onnx_matrix columns = mean_of_windows(g, from[3], kernel[1], pad[1], count[1]);
    cr_onnx_separable(g, out, l->in[0], &rows, &columns);
  }
  if (!flat) return out;
  const char *joined = CR_ONNX_VALUE(g, "Flatten", out);
  cr_onnx_int(g, "axis", 1);
  return joined;
}

void cr_onnx_export_spp(cr_onnx_layer *l) {
  const Caffe__SPPParameter *param = l->param->spp_param;
  const int levels = (int)param->pyramid_height;
  const bool max = param->pool == CAFFE__SPPPARAMETER__POOL_METHOD__MAX;
  const char **parts = cr_onnx_memory(l->g, ((size_t)levels + 1) * sizeof *parts);
  if (parts == NULL) return;
  for (int i = 0; i < levels; ++i) parts[i] = write_level(l, (int64_t)1 << i, max, levels > 1);
  if (levels == 1) return;
  cr_onnx_node(l->g, "Concat", l->out[0], parts);
  cr_onnx_int(l->g, "axis", 1);
}
