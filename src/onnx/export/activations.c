/* Functions of one value at a time. */
#include "onnx/export/layer.h"

void cr_onnx_export_relu(cr_onnx_layer *l) {
  const Caffe__ReLUParameter *param = l->param->relu_param;
  const float slope = param == NULL ? 0 : param->negative_slope;
  if (slope == 0) {
    CR_ONNX_NODE(l->g, "Relu", l->out[0], l->in[0]);
  } else {
    CR_ONNX_NODE(l->g, "LeakyRelu", l->out[0], l->in[0]);
    cr_onnx_float(l->g, "alpha", slope);
  }
}
