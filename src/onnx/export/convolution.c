/* Convolutions. */
#include "layers/common/layer_conv.h"
#include "onnx/export/layer.h"

/* The bottom as ONNX has it: one axis of samples and at least one of space. Returns whether its
 * shape changes. */
static bool fold_bottom(const cr_layer_conv *conv, const crema_shape *shape, crema_shape *out) {
  *out = cr_shape_2(-1, conv->channels);
  for (int i = conv->axis + 1; i < shape->axes; ++i) out->dim[out->axes++] = shape->dim[i];
  if (conv->window.axes == 0) out->dim[out->axes++] = 1;
  return conv->axis != 1 || conv->window.axes == 0;
}

/* The same for the weights, and the window that they belong to. */
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
  crema_shape from;
  cr_window window;
  const bool folds = fold_bottom(conv, cr_onnx_bottom_shape(l, 0), &from);
  if (conv->axis == 0 && cr_onnx_rejects_any_batch(l)) return;
  const crema_shape shape = fold_weights(conv, l->layer->blob[0], &window);
  const char *weights = cr_onnx_parameter(g, "weights", l->layer->blob[0], &shape);
  const char *bias = conv->bias ? cr_onnx_parameter(g, "bias", l->layer->blob[1], NULL) : NULL;
  for (int i = 0; i < l->tops; ++i) {
    if (!folds) {
      write_node(l, l->out[i], l->in[i], weights, bias);
      continue;
    }
    const char *in = cr_onnx_name(g, "folded"), *out = cr_onnx_name(g, "sums");
    cr_onnx_reshape(g, in, l->in[i], from.dim, (size_t)from.axes);
    write_node(l, out, in, weights, bias);
    cr_onnx_reshape_to(g, l->out[i], out, cr_onnx_top_shape(l, i));
  }
}
