/* Values that are cut or surrounded. */
#include <stdio.h>

#include "core/fail.h"
#include "onnx/import/window.h"

crema_status cr_import_fill(cr_import_node *node, const crema_shape *shape, float number,
                            cr_import_value **out) {
  cr_buffer text = {0};
  CR_TRY(cr_import_between(node, "filled", shape, out));
  crema_status status = cr_buffer_print(&text, "type: \"DummyData\" dummy_data_param { shape {");
  for (int i = 0; i < shape->axes && status == CREMA_OK; ++i) {
    status = cr_buffer_print(&text, " dim: %lld", (long long)shape->dim[i]);
  }
  if (status == CREMA_OK) {
    status = cr_buffer_print(&text, " } data_filler { type: \"constant\" value: %.9g } }",
                             (double)number);
  }
  if (status == CREMA_OK) status = cr_import_wide_layer(node, NULL, 0, out, 1, text.data);
  cr_buffer_free(&text);
  return status;
}

/* Only the extents of the reference count, from the first axis that is cut. */
crema_status cr_import_cut(cr_import_node *node, cr_import_value *from, const int64_t *offset,
                           cr_import_value *to) {
  const crema_shape *shape = to->shape;
  cr_import_value *bottom[2] = {from, NULL};
  crema_shape extents = *shape;
  cr_buffer text = {0};
  int axis = 0;
  while (axis < shape->axes - 1 && from->shape->dim[axis] == shape->dim[axis]) ++axis;
  for (int i = 0; i < axis; ++i) extents.dim[i] = 1;
  CR_TRY(cr_import_fill(node, &extents, 0, &bottom[1]));
  crema_status status = cr_buffer_print(&text, "type: \"Crop\" crop_param { axis: %d", axis);
  for (int i = axis; i < shape->axes && status == CREMA_OK; ++i) {
    status = cr_buffer_print(&text, " offset: %lld", (long long)offset[i]);
  }
  if (status == CREMA_OK) status = cr_buffer_print(&text, " }");
  if (status == CREMA_OK) status = cr_import_wide_layer(node, bottom, 2, &to, 1, text.data);
  cr_buffer_free(&text);
  return status;
}

/* Concatenates constants before and after the value along one axis. */
static crema_status surround_axis(cr_import_node *node, cr_import_value *from, int axis,
                                  const int64_t count[2], float number, cr_import_value *to) {
  cr_import_value *bottom[3];
  int bottoms = 0;
  char text[64];
  for (int side = 0; side < 2; ++side) {
    crema_shape shape = *from->shape;
    shape.dim[axis] = count[side];
    if (count[side] > 0) CR_TRY(cr_import_fill(node, &shape, number, &bottom[bottoms++]));
    if (side == 0) bottom[bottoms++] = from;
  }
  (void)snprintf(text, sizeof text, "type: \"Concat\" concat_param { axis: %d }", axis);
  return cr_import_wide_layer(node, bottom, bottoms, &to, 1, text);
}

crema_status cr_import_surround(cr_import_node *node, cr_import_value *from, const int64_t *begin,
                                float value, cr_import_value *to) {
  crema_shape shape = *from->shape;
  int last = 0;
  for (int i = 0; i < shape.axes; ++i) {
    if (to->shape->dim[i] != shape.dim[i]) last = i;
  }
  for (int i = 0; i <= last; ++i) {
    const int64_t count[2] = {begin[i], to->shape->dim[i] - shape.dim[i] - begin[i]};
    cr_import_value *next = to;
    if (i < last && count[0] == 0 && count[1] == 0) continue;
    shape.dim[i] = to->shape->dim[i];
    if (i < last) CR_TRY(cr_import_between(node, "padded", &shape, &next));
    CR_TRY(surround_axis(node, from, i, count, value, next));
    from = next;
  }
  return CREMA_OK;
}
