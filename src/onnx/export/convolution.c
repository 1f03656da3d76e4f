/* Convolutions. */
#include "layers/common/layer_conv.h"
#include "onnx/export/layer.h"

/* The bottom as ONNX has it: one axis of samples and at least one of space. */
static const char *write_folded(cr_onnx_layer *l, const char *in) {
  const cr_layer_conv *conv = l->layer->state;
  const crema_shape *from = cr_onnx_bottom_shape(l, 0);
  crema_shape to = cr_shape_2(-1, conv->channels);
  for (int i = conv->axis + 1; i < from->axes; ++i) to.dim[to.axes++] = from->dim[i];
  if (conv->window.axes == 0) to.dim[to.axes++] = 1;
  const char *out = cr_onnx_name(l->g, "folded");
  cr_onnx_reshape(l->g, out, in, to.dim, (size_t)to.axes);
  return out;
}

/* The weights, with that axis of space, and their window. */
static crema_shape fold_weights(const cr_layer_conv *conv, const crema_blob *blob,
                                cr_window *window) {
  crema_shape out = blob->shape;
  *window = conv->window;
  if (window->axes > 0) return out;
  window->axes = 1;
  window->kernel[0] = window->stride[0] = window->dilation[0] = 1;
  window->pad[0] = 0;
  out.dim[out.axes++] = 1;
  return out;
}

static void write_node(cr_onnx_layer *l, const char *out, const char *in, const char *weights,
                       const char *bias) {
  const cr_layer_conv *conv = l->layer->state;
  int64_t pads[2 * CR_MAX_SPATIAL];
  cr_window window;
  (void)fold_weights(conv, l->layer->blob[0], &window);
  for (int i = 0; i < window.axes; ++i) pads[i] = pads[i + window.axes] = window.pad[i];
  CR_ONNX_NODE(l->g, conv->transposed ? "ConvTranspose" : "Conv", out, in, weights, bias);
  cr_onnx_window(l->g, &window, window.axes, pads, true);
  cr_onnx_int(l->g, "group", conv->group);
}

void cr_onnx_export_convolution(cr_onnx_layer *l) {
  const cr_layer_conv *conv = l->layer->state;
  cr_onnx_graph *g = l->g;
  cr_window window;
  const bool folds = conv->axis != 1 || conv->window.axes == 0;
  if (conv->axis == 0 && cr_onnx_rejects_any_batch(l)) return;
  const crema_shape shape = fold_weights(conv, l->layer->blob[0], &window);
  const char *weights = cr_onnx_parameter(g, "weights", l->layer->blob[0], &shape);
  const char *bias = conv->bias ? cr_onnx_parameter(g, "bias", l->layer->blob[1], NULL) : NULL;
  for (int i = 0; i < l->tops; ++i) {
    if (!folds) {
      write_node(l, l->out[i], l->in[i], weights, bias);
      continue;
    }
    const char *in = write_folded(l, l->in[i]), *out = cr_onnx_name(g, "sums");
    write_node(l, out, in, weights, bias);
    cr_onnx_reshape_to(g, l->out[i], out, cr_onnx_top_shape(l, i));
  }
}
