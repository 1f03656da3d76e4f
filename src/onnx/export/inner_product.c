/* Products with weights, and rows of a table. */
#include "onnx/export/layer.h"

/* The axes from `axis` on become one, and those before it the other, unless they are so already. */
void cr_onnx_export_inner_product(cr_onnx_layer *l) {
  const Caffe__InnerProductParameter *p = l->param->inner_product_param;
  const crema_shape *from = cr_onnx_bottom_shape(l, 0);
  const int axis = cr_onnx_axis(from, p->axis);
  cr_onnx_graph *g = l->g;
  const char *in = l->in[0], *out = l->out[0];
  if (axis == 0 && cr_onnx_rejects_any_batch(l)) return;
  if (from->axes != 2 || axis != 1) {
    const int64_t rows[] = {-1, crema_shape_count(from, axis, from->axes)};
    in = cr_onnx_name(g, "rows");
    cr_onnx_reshape(g, in, l->in[0], rows, 2);
  }
  if (axis != 1) out = cr_onnx_name(g, "products");
  const char *weights = cr_onnx_parameter(g, "weights", l->layer->blob[0], NULL);
  const char *bias = p->bias_term ? cr_onnx_parameter(g, "bias", l->layer->blob[1], NULL) : NULL;
  CR_ONNX_NODE(g, "Gemm", out, in, weights, bias);
  cr_onnx_int(g, "transB", !p->transpose);
  if (axis != 1) cr_onnx_reshape_to(g, l->out[0], out, cr_onnx_top_shape(l, 0));
}

/* An index as ONNX has it. */
static const char *write_index(cr_onnx_layer *l, int bottom) {
  const char *index = cr_onnx_name(l->g, "index");
  CR_ONNX_NODE(l->g, "Cast", index, l->in[bottom]);
  cr_onnx_int(l->g, "to", CR_ONNX_INT64);
  return index;
}

void cr_onnx_export_embed(cr_onnx_layer *l) {
  const bool biased = l->param->embed_param->bias_term;
  l->kept = true;
  const char *rows = biased ? cr_onnx_name(l->g, "rows") : l->out[0];
  const char *table = cr_onnx_parameter(l->g, "table", l->layer->blob[0], NULL);
  const char *index = write_index(l, 0);
  CR_ONNX_NODE(l->g, "Gather", rows, table, index);
  cr_onnx_int(l->g, "axis", 0);
  if (!biased) return;
  CR_ONNX_NODE(l->g, "Add", l->out[0], rows,
               cr_onnx_parameter(l->g, "bias", l->layer->blob[1], NULL));
}

void cr_onnx_export_batch_reindex(cr_onnx_layer *l) {
  l->kept = true;
  const char *index = write_index(l, 1);
  CR_ONNX_NODE(l->g, "Gather", l->out[0], l->in[0], index);
  cr_onnx_int(l->g, "axis", 0);
}
