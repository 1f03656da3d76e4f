/* Pad. */
#include <string.h>

#include "core/fail.h"
#include "onnx/import/window.h"

/* The numbers before and after each axis. From operator set 18 on, input 3 lists the axes. */
static crema_status read_pads(cr_import_node *node, int64_t *begin, int64_t *end) {
  const int axes = node->input[0]->shape->axes;
  const cr_import_value *listed = cr_import_input(node, 3);
  const int64_t *pads;
  size_t count;
  CR_TRY(cr_import_int_list(node, "pads", 1, &pads, &count));
  if (listed != NULL && listed->ints == NULL) {
    return cr_import_reject(node, "axes must be constant");
  }
  const size_t places = listed == NULL ? (size_t)axes : (size_t)cr_import_count(listed);
  if (pads == NULL || places > (size_t)axes || count != 2 * places) {
    return cr_import_reject(node, "pads do not fit the axes of the input");
  }
  for (int i = 0; i < axes; ++i) begin[i] = end[i] = 0;
  for (size_t i = 0; i < places; ++i) {
    int axis = (int)i;
    if (listed != NULL) CR_TRY(cr_import_axis(node, listed->ints[i], axes, &axis));
    begin[axis] = pads[i];
    end[axis] = pads[i + places];
  }
  return CREMA_OK;
}

static crema_status read_value(cr_import_node *node, float *out) {
  const cr_import_value *value = cr_import_input(node, 2);
  *out = cr_import_float(node, "value", 0);
  if (value == NULL) return CREMA_OK;
  if (value->floats == NULL || cr_import_count(value) != 1) {
    return cr_import_reject(node, "the value must be one constant number");
  }
  *out = value->floats[0];
  return CREMA_OK;
}

/* Leaves zeros along spatial axes to the convolutions or poolings that read the output. */
static crema_status leave_to_readers(cr_import_node *node, const int64_t *begin, const int64_t *end,
                                     bool *done) {
  const int axes = node->input[0]->shape->axes;
  bool averaged = false;
  void *zeros;
  *done = false;
  for (int i = 0; i < axes; ++i) {
    if (begin[i] < 0 || end[i] < 0 || (i < 2 && (begin[i] > 0 || end[i] > 0))) return CREMA_OK;
  }
  CR_TRY(cr_import_is_read_by(node, "Conv", done));
  if (!*done) CR_TRY(cr_import_is_read_by(node, "AveragePool", &averaged));
  *done = *done || averaged;
  if (!*done) return CREMA_OK;
  CR_TRY(cr_arena_alloc(&node->import->arena, 2 * (size_t)axes * sizeof(int64_t), &zeros));
  memcpy(zeros, begin, (size_t)axes * sizeof *begin);
  memcpy((int64_t *)zeros + axes, end, (size_t)axes * sizeof *end);
  node->output[0]->blob = node->input[0]->blob;
  node->output[0]->zeros = zeros;
  return CREMA_OK;
}

/* Negative numbers cut the input; positive numbers surround the rest. */
static crema_status cut_and_surround(cr_import_node *node, int64_t *begin, const int64_t *end,
                                     float value) {
  cr_import_value *from = node->input[0], *to = node->output[0];
  crema_shape left = *from->shape;
  int64_t cut[CREMA_MAX_AXES];
  bool cuts = false, adds = false;
  for (int i = 0; i < left.axes; ++i) {
    cut[i] = begin[i] < 0 ? -begin[i] : 0;
    left.dim[i] -= cut[i] + (end[i] < 0 ? -end[i] : 0);
    if (left.dim[i] < 1) return cr_import_reject(node, "negative pads leave nothing");
    cuts = cuts || begin[i] < 0 || end[i] < 0;
    adds = adds || begin[i] > 0 || end[i] > 0;
    if (begin[i] < 0) begin[i] = 0;
  }
  if (!cuts && !adds) {
    cr_import_alias(to, from);
    return CREMA_OK;
  }
  if (cuts && adds) CR_TRY(cr_import_between(node, "cut", &left, &to));
  if (cuts) CR_TRY(cr_import_cut(node, from, cut, to));
  return adds ? cr_import_surround(node, cuts ? to : from, begin, value, node->output[0])
              : CREMA_OK;
}

crema_status cr_import_pad(cr_import_node *node) {
  crema_shape shape = *node->input[0]->shape;
  int64_t begin[CREMA_MAX_AXES], end[CREMA_MAX_AXES];
  bool done = false;
  float value;
  if (!cr_import_is_text(node, "mode", "constant", true)) {
    return cr_import_reject(node, "only the mode constant is supported");
  }
  CR_TRY(read_pads(node, begin, end));
  CR_TRY(read_value(node, &value));
  for (int i = 0; i < shape.axes; ++i) {
    if (begin[i] < INT32_MIN || begin[i] > INT32_MAX || end[i] < INT32_MIN || end[i] > INT32_MAX) {
      return cr_import_reject(node, "pads out of range");
    }
    shape.dim[i] += begin[i] + end[i];
    if (shape.dim[i] < 1) return cr_import_reject(node, "negative pads leave nothing");
  }
  CR_TRY(cr_import_set_shape(node->import, node->output[0], &shape));
  if (value == 0) CR_TRY(leave_to_readers(node, begin, end, &done));
  return done ? CREMA_OK : cut_and_surround(node, begin, end, value);
}
