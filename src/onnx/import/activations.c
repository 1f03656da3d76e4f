/* Functions of one value at a time. */
#include "core/fail.h"
#include "onnx/import/graph.h"

crema_status cr_import_identity(cr_import_node *node) {
  cr_import_alias(node->output[0], node->input[0]);
  return CREMA_OK;
}

crema_status cr_import_relu(cr_import_node *node) {
  return cr_import_simple(node, "type: \"ReLU\"");
}

/* Before operator set 13 the axes from `axis` on were one. */
crema_status cr_import_softmax(cr_import_node *node) {
  const crema_shape *shape = node->input[0]->shape;
  const bool joins = node->import->opset < 13;
  int axis = 0;
  CR_TRY(cr_import_axis(node, cr_import_int(node, "axis", joins ? 1 : -1), shape->axes, &axis));
  if (joins && crema_shape_count(shape, axis + 1, shape->axes) != 1) {
    return cr_import_reject(node, "Softmax over several axes");
  }
  return cr_import_simple(node, "type: \"Softmax\" softmax_param { axis: %d }", axis);
}
