/* Softmax and its logarithm. */
#include "core/fail.h"
#include "onnx/import/elementwise.h"
#include "onnx/import/reduce.h"

/* The rows of a softmax: a tensor and the axis along which they lie. */
typedef struct softmax_rows {
  cr_import_value *value;
  int axis;
} softmax_rows;

/* Before operator set 13 the axes from `axis` on were one. */
static crema_status find_rows(cr_import_node *node, softmax_rows *out) {
  cr_import_value *x = node->input[0];
  const crema_shape *shape = x->shape;
  const bool joins = node->import->opset < 13;
  int64_t axis = cr_import_int(node, "axis", joins ? 1 : -1);
  *out = (softmax_rows){.value = x};
  if (joins && axis == shape->axes) return cr_import_reject(node, "no axes");
  CR_TRY(cr_import_axis(node, axis, shape->axes, &out->axis));
  if (!joins || crema_shape_count(shape, out->axis + 1, shape->axes) == 1) return CREMA_OK;
  crema_shape joined = {.axes = out->axis + 1};
  for (int i = 0; i < out->axis; ++i) joined.dim[i] = shape->dim[i];
  joined.dim[out->axis] = crema_shape_count(shape, out->axis, shape->axes);
  out->value = NULL;
  return cr_import_view(node, x, &joined, &out->value);
}

/* The value that gets the result for the rows: the output itself unless axes were joined. */
static crema_status find_result(cr_import_node *node, const softmax_rows *rows,
                                cr_import_value **out) {
  *out = node->output[0];
  if (rows->value == node->input[0]) return CREMA_OK;
  return cr_import_between(node, "joined", rows->value->shape, out);
}

/* Gives the output the shape of the input. */
static crema_status finish(cr_import_node *node, cr_import_value *result) {
  if (result == node->output[0]) return CREMA_OK;
  return cr_import_view(node, result, node->input[0]->shape, &node->output[0]);
}

crema_status cr_import_softmax(cr_import_node *node) {
  softmax_rows rows;
  cr_import_value *result = NULL;
  CR_TRY(find_rows(node, &rows));
  CR_TRY(find_result(node, &rows, &result));
  CR_TRY(cr_import_map(node, rows.value, &result, "type: \"Softmax\" softmax_param { axis: %d }",
                       rows.axis));
  return finish(node, result);
}

/* x - max - log(sum(exp(x - max))): the logarithm of a Softmax layer would be wrong where that is
 * rounded to 0. */
crema_status cr_import_log_softmax(cr_import_node *node) {
  softmax_rows rows;
  cr_import_value *result = NULL, *most = NULL, *lower = NULL, *power = NULL, *sum = NULL;
  cr_import_value *log = NULL;
  cr_import_reduction r = {.count = 1};
  CR_TRY(find_rows(node, &rows));
  CR_TRY(find_result(node, &rows, &result));
  r.reduced[rows.axis] = true;
  r.shape = *rows.value->shape;
  r.shape.dim[rows.axis] = 1;
  CR_TRY(cr_import_reduce(node, CR_IMPORT_REDUCE_MAX, rows.value, &r, &most));
  CR_TRY(cr_import_combine(node, CR_IMPORT_SUB, rows.value, most, &lower));
  CR_TRY(cr_import_map(node, lower, &power, "type: \"Exp\""));
  CR_TRY(cr_import_reduce(node, CR_IMPORT_REDUCE_SUM, power, &r, &sum));
  CR_TRY(cr_import_map(node, sum, &log, "type: \"Log\""));
  CR_TRY(cr_import_combine(node, CR_IMPORT_SUB, lower, log, &result));
  return finish(node, result);
}
