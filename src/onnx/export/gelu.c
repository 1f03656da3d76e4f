/* GELU. Before operator set 20, which has the operator, its formula: importers know the pattern. */
#include "onnx/export/layer.h"

/* The output: x / 2 (1 + y). */
static void finish(cr_onnx_layer *l, const char *y) {
  cr_onnx_graph *g = l->g;
  const char *sum = cr_onnx_name(g, "sum"), *product = cr_onnx_name(g, "product");
  CR_ONNX_NODE(g, "Add", sum, y, cr_onnx_scalar(g, "one", 1));
  CR_ONNX_NODE(g, "Mul", product, l->in[0], sum);
  CR_ONNX_NODE(g, "Mul", l->out[0], product, cr_onnx_scalar(g, "half", 0.5f));
}

/* tanh(sqrt(2 / pi) (x + 0.044715 x^3)) */
static void write_approximation(cr_onnx_layer *l) {
  cr_onnx_graph *g = l->g;
  const char *square = cr_onnx_name(g, "square"), *cube = cr_onnx_name(g, "cube");
  const char *term = cr_onnx_name(g, "term"), *line = cr_onnx_name(g, "line");
  const char *scaled = cr_onnx_name(g, "scaled"), *tanh_of = cr_onnx_name(g, "tanh");
  CR_ONNX_NODE(g, "Mul", square, l->in[0], l->in[0]);
  CR_ONNX_NODE(g, "Mul", cube, l->in[0], square);
  CR_ONNX_NODE(g, "Mul", term, cube, cr_onnx_scalar(g, "cubic", 0.044715f));
  CR_ONNX_NODE(g, "Add", line, l->in[0], term);
  CR_ONNX_NODE(g, "Mul", scaled, line, cr_onnx_scalar(g, "factor", 0.79788456f));
  CR_ONNX_NODE(g, "Tanh", tanh_of, scaled);
  finish(l, tanh_of);
}

void cr_onnx_export_gelu(cr_onnx_layer *l) {
  const Caffe__GELUParameter *param = l->param->gelu_param;
  const bool approximate = param != NULL && param->approximate;
  if (l->g->opset >= 20) {
    CR_ONNX_NODE(l->g, "Gelu", l->out[0], l->in[0]);
    if (approximate) cr_onnx_text(l->g, "approximate", "tanh");
  } else if (approximate) {
    write_approximation(l);
  } else {
    const char *scaled = cr_onnx_name(l->g, "scaled"), *erf = cr_onnx_name(l->g, "erf");
    CR_ONNX_NODE(l->g, "Div", scaled, l->in[0], cr_onnx_scalar(l->g, "root", 1.41421356f));
    CR_ONNX_NODE(l->g, "Erf", erf, scaled);
    finish(l, erf);
  }
}
