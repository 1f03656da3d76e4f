/* Convolutions. */
#include "layers/common/layer_window.h"
#include "onnx/export/layer.h"

/* The attributes of a window over `axes` spatial axes. */
static void write_window(cr_onnx_graph *g, const cr_window *window, int axes) {
  int64_t kernel[CR_MAX_SPATIAL], stride[CR_MAX_SPATIAL], dilation[CR_MAX_SPATIAL];
  int64_t pads[2 * CR_MAX_SPATIAL];
  for (int i = 0; i < axes; ++i) {
    kernel[i] = window->kernel[i];
    stride[i] = window->stride[i];
    dilation[i] = window->dilation[i];
    pads[i] = pads[i + axes] = window->pad[i];
  }
  cr_onnx_ints(g, "kernel_shape", kernel, (size_t)axes);
  cr_onnx_ints(g, "strides", stride, (size_t)axes);
  cr_onnx_ints(g, "dilations", dilation, (size_t)axes);
  cr_onnx_ints(g, "pads", pads, 2 * (size_t)axes);
}

void cr_onnx_export_convolution(cr_onnx_layer *l) {
  const Caffe__ConvolutionParameter *param = l->param->convolution_param;
  cr_onnx_graph *g = l->g;
  const int axes = cr_onnx_bottom_shape(l, 0)->axes - 2;
  cr_window window;
  if (param->axis != 1 || axes > 3) {
    cr_onnx_reject(l, NULL, "convolution over %d axes with axis %d", axes, param->axis);
    return;
  }
  g->status = cr_layer_read_window(l->layer, param, axes, &window);
  const char *weights = cr_onnx_parameter(g, "weights", l->layer->blob[0], NULL);
  const char *bias =
      l->layer->params > 1 ? cr_onnx_parameter(g, "bias", l->layer->blob[1], NULL) : NULL;
  for (int i = 0; i < l->tops; ++i) {
    CR_ONNX_NODE(g, "Conv", l->out[i], l->in[i], weights, bias);
    write_window(g, &window, axes);
    cr_onnx_int(g, "group", param->group);
  }
}
