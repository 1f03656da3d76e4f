/* Values under another shape: views, exchanged axes, repetitions. */
#include <string.h>

#include "core/fail.h"
#include "onnx/import/numbers.h"

/* The value that gets a result: the given one, or a new one of this shape. */
static crema_status find_target(cr_import_node *node, const char *what, const crema_shape *shape,
                                const cr_import_value *from, cr_import_value **out) {
  if (*out == NULL) CR_TRY(cr_import_between(node, what, shape, out));
  else CR_TRY(cr_import_set_shape(node->import, *out, shape));
  (*out)->type = from->type;
  return CREMA_OK;
}

/* The new extents in text format. The first is copied from the bottom or, if it differs, computed,
 * so that the batch may change. */
static crema_status print_extents(cr_buffer *text, const crema_shape *from, const crema_shape *to) {
  const int64_t count = crema_shape_count(from, 0, from->axes);
  CR_TRY(cr_buffer_print(text, "type: \"Reshape\" reshape_param { shape {"));
  for (int i = 0; i < to->axes; ++i) {
    int64_t dim = to->dim[i];
    if (i == 0 && from->axes > 0 && count > 0) dim = from->dim[0] == dim ? 0 : -1;
    CR_TRY(cr_buffer_print(text, " dim: %lld", (long long)dim));
  }
  return cr_buffer_print(text, " } }");
}

crema_status cr_import_view(cr_import_node *node, cr_import_value *value, const crema_shape *shape,
                            cr_import_value **out) {
  if (crema_shape_equal(value->shape, shape)) {
    if (*out == NULL) *out = value;
    else if (*out != value) cr_import_alias(*out, value);
    return CREMA_OK;
  }
  if (crema_shape_count(shape, 0, shape->axes) != cr_import_count(value)) {
    char text[2][128];
    return cr_import_reject(node, "shape %s cannot become %s",
                            crema_shape_text(value->shape, text[0], sizeof text[0]),
                            crema_shape_text(shape, text[1], sizeof text[1]));
  }
  CR_TRY(find_target(node, "shaped", shape, value, out));
  if (cr_import_is_constant(value)) {
    (*out)->floats = value->floats;
    (*out)->ints = value->ints;
    return CREMA_OK;
  }
  cr_buffer text = {0};
  crema_status status = print_extents(&text, value->shape, shape);
  if (status == CREMA_OK) status = cr_import_wide_layer(node, &value, 1, out, 1, text.data);
  cr_buffer_free(&text);
  return status;
}

/* ---- exchanging axes --------------------------------------------------------- */

/* Whether only axes of extent 1 change their place. The first axis must stay, as its extent, the
 * batch, may change. */
static bool keeps_order(const crema_shape *shape, const int *order) {
  int last = 0;
  for (int i = 0; i < shape->axes; ++i) {
    if (i > 0 && shape->dim[order[i]] == 1) continue;
    if (order[i] < last || (i == 0 && order[i] > 0)) return false;
    last = order[i];
  }
  return true;
}

crema_status cr_import_permute(cr_import_node *node, cr_import_value *value, const int *order,
                               cr_import_value **out) {
  crema_shape shape = *value->shape;
  for (int i = 0; i < shape.axes; ++i) shape.dim[i] = value->shape->dim[order[i]];
  if (keeps_order(value->shape, order)) return cr_import_view(node, value, &shape, out);
  CR_TRY(find_target(node, "permuted", &shape, value, out));
  if (cr_import_is_constant(value)) {
    int64_t dense[CREMA_MAX_AXES];
    cr_import_walk walk = {.shape = &shape};
    cr_import_dense(value->shape, dense);
    for (int i = 0; i < shape.axes; ++i) walk.stride[0][i] = dense[order[i]];
    return cr_import_remap(node, value, &walk, *out);
  }
  cr_buffer text = {0};
  crema_status status = cr_buffer_print(&text, "type: \"Permute\" permute_param {");
  for (int i = 0; i < shape.axes && status == CREMA_OK; ++i) {
    status = cr_buffer_print(&text, " order: %d", order[i]);
  }
  if (status == CREMA_OK) status = cr_buffer_print(&text, " }");
  if (status == CREMA_OK) status = cr_import_wide_layer(node, &value, 1, out, 1, text.data);
  cr_buffer_free(&text);
  return status;
}

/* ---- repetitions ---------------------------------------------------------------- */

/* One Tile layer for each axis that is repeated; `value` has as many axes as `shape`. */
static crema_status tile_axes(cr_import_node *node, cr_import_value *value,
                              const crema_shape *shape, cr_import_value *out) {
  crema_shape reached = *value->shape;
  for (int i = shape->axes - 1; i >= 0; --i) {
    if (reached.dim[i] == shape->dim[i]) continue;
    cr_import_value *next = out;
    reached.dim[i] = shape->dim[i];
    if (shape->dim[i] > INT32_MAX || shape->dim[i] < 1) {
      return cr_import_reject(node, "%lld repetitions", (long long)shape->dim[i]);
    }
    if (!crema_shape_equal(&reached, shape)) {
      CR_TRY(cr_import_between(node, "tiled", &reached, &next));
    }
    const cr_import_ends ends = {.bottom = {value}, .top = {next}};
    CR_TRY(cr_import_layer(node, &ends, "type: \"Tile\" tile_param { axis: %d tiles: %lld }", i,
                           (long long)shape->dim[i]));
    value = next;
  }
  return CREMA_OK;
}

crema_status cr_import_expand_to(cr_import_node *node, cr_import_value *value,
                                 const crema_shape *shape, cr_import_value **out) {
  crema_shape same_rank = {.axes = shape->axes};
  cr_import_value *ranked = NULL;
  for (int i = 0; i < shape->axes; ++i) {
    same_rank.dim[i] = cr_import_aligned(value->shape, shape->axes, i);
  }
  if (crema_shape_equal(&same_rank, shape)) return cr_import_view(node, value, shape, out);
  if (cr_import_is_constant(value)) {
    CR_TRY(find_target(node, "expanded", shape, value, out));
    cr_import_walk walk = {.shape = shape};
    cr_import_broadcast_strides(value->shape, shape, walk.stride[0]);
    return cr_import_remap(node, value, &walk, *out);
  }
  CR_TRY(cr_import_view(node, value, &same_rank, &ranked));
  CR_TRY(find_target(node, "expanded", shape, value, out));
  return tile_axes(node, ranked, shape, *out);
}
