/* Softmax, and the inference form of losses that compute probabilities. */
#include "onnx/export/layer.h"

static void write_softmax(cr_onnx_layer *l, int axis) {
  const crema_shape *shape = cr_onnx_bottom_shape(l, 0);
  cr_onnx_softmax(l->g, l->out[0], l->in[0], cr_onnx_axis(shape, axis), shape->axes);
}

void cr_onnx_export_softmax(cr_onnx_layer *l) {
  write_softmax(l, l->param->softmax_param == NULL ? 1 : l->param->softmax_param->axis);
}

void cr_onnx_export_softmax_loss(cr_onnx_layer *l) {
  const Caffe__InfogainLossParameter *infogain = l->param->infogain_loss_param;
  if (infogain != NULL) write_softmax(l, infogain->axis);
  else cr_onnx_export_softmax(l);
}

void cr_onnx_export_sigmoid_loss(cr_onnx_layer *l) {
  CR_ONNX_NODE(l->g, "Sigmoid", l->out[0], l->in[0]);
}

/* With a label for each score the scores are independent. */
void cr_onnx_export_focal_loss(cr_onnx_layer *l) {
  const Caffe__FocalLossParameter *focal = l->param->focal_loss_param;
  const Caffe__SoftmaxParameter *softmax = l->param->softmax_param;
  if (crema_blob_count(l->bottom[0]) == crema_blob_count(l->bottom[1])) {
    cr_onnx_export_sigmoid_loss(l);
    return;
  }
  const bool own = focal != NULL && (focal->has_axis || softmax == NULL);
  write_softmax(l, own ? focal->axis : softmax != NULL ? softmax->axis : 1);
}
