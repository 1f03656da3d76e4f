/* Parts that the functions of several layers share. */
#include "onnx/export/layer.h"

void cr_onnx_window(cr_onnx_graph *g, const cr_window *window, int axes, const int64_t *pads,
                    bool dilates) {
  cr_onnx_ints(g, "kernel_shape", window->kernel, (size_t)axes);
  cr_onnx_ints(g, "strides", window->stride, (size_t)axes);
  cr_onnx_ints(g, "pads", pads, 2 * (size_t)axes);
  if (dilates) cr_onnx_ints(g, "dilations", window->dilation, (size_t)axes);
}

const char *cr_onnx_span_parameter(cr_onnx_graph *g, const char *what, crema_blob *blob, int first,
                                   int axes) {
  crema_shape shape = blob->shape;
  if (shape.axes > 0) {
    for (int i = first + shape.axes; i < axes; ++i) shape.dim[shape.axes++] = 1;
  }
  return cr_onnx_parameter(g, what, blob, &shape);
}
