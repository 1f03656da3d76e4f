/* Softmax, also as the inference form of its loss. */
#include "onnx/export/layer.h"

static void write_softmax(cr_onnx_layer *l, const Caffe__SoftmaxParameter *param, const char *out) {
  const int axes = cr_onnx_bottom_shape(l, 0)->axes;
  int axis = param == NULL ? 1 : param->axis;
  if (axis < 0) axis += axes;
  cr_onnx_softmax(l->g, out, l->in[0], axis, axes);
}

void cr_onnx_export_softmax(cr_onnx_layer *l) {
  write_softmax(l, l->param->softmax_param, l->out[0]);
}

void cr_onnx_export_softmax_loss(cr_onnx_layer *l) {
  write_softmax(l, l->param->softmax_param, l->out[0]);
}
