/* Sums and products of blobs and parameters. */
#include "onnx/export/layer.h"

/* ---- Scale and Bias ------------------------------------------------------------------------ */

/* The second bottom, which spans axes of the first from `first` on, with the missing axes. */
static const char *spread_bottom(cr_onnx_layer *l, int first) {
  const int axes = cr_onnx_bottom_shape(l, 0)->axes, own = cr_onnx_bottom_shape(l, 1)->axes;
  int64_t added[CREMA_MAX_AXES];
  size_t count = 0;
  for (int i = first + own; i < axes; ++i) {
    added[count] = own + (int64_t)count;
    ++count;
  }
  if (own == 0 || count == 0) return l->in[1];
  const char *out = cr_onnx_name(l->g, "spread");
  cr_onnx_unsqueeze(l->g, out, l->in[1], added, count);
  return out;
}

/* A parameter with an extent for each sample fits only the batch of the net. */
static bool fits_batch(cr_onnx_layer *l, int first, const crema_blob *blob) {
  return first > 0 || blob->shape.axes == 0 || !cr_onnx_rejects_any_batch(l);
}

void cr_onnx_export_scale(cr_onnx_layer *l) {
  const Caffe__ScaleParameter *p = l->param->scale_param;
  const crema_shape *shape = cr_onnx_bottom_shape(l, 0);
  const int first = cr_onnx_axis(shape, p == NULL ? 1 : p->axis);
  crema_blob *const *blob = l->layer->blob;
  const int params = l->layer->params;
  if (params > 0 && !fits_batch(l, first, blob[0])) return;
  const bool biased = p != NULL && p->bias_term;
  const char *scale = l->bottoms > 1
                          ? spread_bottom(l, first)
                          : cr_onnx_span_parameter(l->g, "scale", blob[0], first, shape->axes);
  const char *product = biased ? cr_onnx_name(l->g, "product") : l->out[0];
  CR_ONNX_NODE(l->g, "Mul", product, l->in[0], scale);
  if (!biased) return;
  CR_ONNX_NODE(l->g, "Add", l->out[0], product,
               cr_onnx_span_parameter(l->g, "bias", blob[params - 1], first, shape->axes));
}

void cr_onnx_export_bias(cr_onnx_layer *l) {
  const Caffe__BiasParameter *p = l->param->bias_param;
  const crema_shape *shape = cr_onnx_bottom_shape(l, 0);
  const int first = cr_onnx_axis(shape, p == NULL ? 1 : p->axis);
  const char *bias;
  if (l->bottoms > 1) {
    bias = spread_bottom(l, first);
  } else {
    if (!fits_batch(l, first, l->layer->blob[0])) return;
    bias = cr_onnx_span_parameter(l->g, "bias", l->layer->blob[0], first, shape->axes);
  }
  CR_ONNX_NODE(l->g, "Add", l->out[0], l->in[0], bias);
}

/* ---- Eltwise ------------------------------------------------------------------------------ */

/* The product of all bottoms, in their order. */
static void write_product(cr_onnx_layer *l) {
  const char *product = l->in[0];
  for (int i = 1; i < l->bottoms; ++i) {
    const char *out = i == l->bottoms - 1 ? l->out[0] : cr_onnx_name(l->g, "product");
    CR_ONNX_NODE(l->g, "Mul", out, product, l->in[i]);
    product = out;
  }
}

/* One node with all bottoms, times their coefficients. */
static void write_all(cr_onnx_layer *l, const char *op, const float *coeff) {
  const char **names = cr_onnx_memory(l->g, ((size_t)l->bottoms + 1) * sizeof *names);
  if (names == NULL) return;
  for (int i = 0; i < l->bottoms; ++i) {
    names[i] = l->in[i];
    if (coeff == NULL || coeff[i] == 1) continue;
    names[i] = cr_onnx_name(l->g, "term");
    CR_ONNX_NODE(l->g, "Mul", names[i], l->in[i], cr_onnx_scalar(l->g, "coeff", coeff[i]));
  }
  cr_onnx_node(l->g, op, l->out[0], names);
}

void cr_onnx_export_eltwise(cr_onnx_layer *l) {
  static const Caffe__EltwiseParameter defaults = CAFFE__ELTWISE_PARAMETER__INIT;
  const Caffe__EltwiseParameter *p = l->param->eltwise_param ? l->param->eltwise_param : &defaults;
  const float *coeff = p->n_coeff > 0 ? p->coeff : NULL;
  if (p->operation == CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__PROD) {
    write_product(l);
  } else if (p->operation == CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__MAX) {
    write_all(l, "Max", NULL);
  } else if (l->bottoms == 2 && (coeff == NULL || coeff[0] == 1) &&
             (coeff == NULL || coeff[1] == 1 || coeff[1] == -1)) {
    const bool less = coeff != NULL && coeff[1] == -1;
    CR_ONNX_NODE(l->g, less ? "Sub" : "Add", l->out[0], l->in[0], l->in[1]);
  } else {
    write_all(l, "Sum", coeff);
  }
}
