/* Parts of an axis: contiguous, with steps, reversed, or by a list. */
#include "onnx/import/parts.h"

#include <stdio.h>
#include <string.h>

#include "core/fail.h"
#include "onnx/import/elementwise.h"

static crema_status target(cr_import_node *node, const cr_import_value *from,
                           const crema_shape *shape, cr_import_value **out) {
  if (*out == NULL) CR_TRY(cr_import_between(node, "slice", shape, out));
  else CR_TRY(cr_import_set_shape(node->import, *out, shape));
  (*out)->type = from->type;
  return CREMA_OK;
}

/* Places start to start + count - 1: a Slice layer, whose other parts are not read. */
static crema_status take_run(cr_import_node *node, cr_import_value *value, int axis, int64_t start,
                             int64_t count, cr_import_value **out) {
  crema_shape shape = *value->shape, rest = shape;
  const int64_t size = shape.dim[axis], points[] = {start, start + count};
  cr_import_ends ends = {.bottom = {value}};
  char text[64] = "";
  int tops = 0;
  if (count == size) return cr_import_view(node, value, value->shape, out);
  shape.dim[axis] = count;
  CR_TRY(target(node, value, &shape, out));
  const int64_t sizes[] = {start, count, size - start - count};
  for (int i = 0; i < 3; ++i) {
    if (sizes[i] == 0) continue;
    rest.dim[axis] = sizes[i];
    if (i == 1) ends.top[tops++] = *out;
    else CR_TRY(cr_import_between(node, "rest", &rest, &ends.top[tops++]));
  }
  for (int i = 0; i < 2; ++i) {
    const size_t used = strlen(text);
    if (points[i] == 0 || points[i] == size) continue;
    snprintf(text + used, sizeof text - used, " slice_point: %lld", (long long)points[i]);
  }
  return cr_import_layer(node, &ends, "type: \"Slice\" slice_param { axis: %d%s }", axis, text);
}

/* Every step-th place: the axis becomes (count, step), and one column stays. *done is false if the
 * axis has no whole rows around the places. */
static crema_status take_column(cr_import_node *node, cr_import_value *value,
                                const cr_import_places *p, cr_import_value **out, bool *done) {
  const crema_shape *shape = value->shape;
  const int64_t size = shape->dim[p->axis], whole = p->count * p->step;
  const int64_t first = p->start + whole > size ? size - whole : p->start;
  cr_import_value *run = NULL, *rows = NULL, *column = NULL;
  *done = first >= 0 && p->start - first < p->step && shape->axes < CREMA_MAX_AXES;
  if (!*done) return CREMA_OK;
  crema_shape split = *shape, taken = *shape;
  split.axes += 1;
  for (int i = shape->axes; i > p->axis + 1; --i) split.dim[i] = shape->dim[i - 1];
  split.dim[p->axis] = p->count;
  split.dim[p->axis + 1] = p->step;
  taken.dim[p->axis] = p->count;
  CR_TRY(take_run(node, value, p->axis, first, whole, &run));
  CR_TRY(cr_import_view(node, run, &split, &rows));
  CR_TRY(take_run(node, rows, p->axis + 1, p->start - first, 1, &column));
  return cr_import_view(node, column, &taken, out);
}

static crema_status take_constant(cr_import_node *node, const cr_import_value *value,
                                  const cr_import_places *p, cr_import_value **out) {
  crema_shape shape = *value->shape;
  shape.dim[p->axis] = p->count;
  cr_import_walk walk = {.shape = &shape};
  cr_import_dense(value->shape, walk.stride[0]);
  walk.at[0] = p->start * walk.stride[0][p->axis];
  walk.stride[0][p->axis] *= p->step;
  CR_TRY(target(node, value, &shape, out));
  return cr_import_remap(node, value, &walk, *out);
}

crema_status cr_import_take_places(cr_import_node *node, cr_import_value *value,
                                   const cr_import_places *p, cr_import_value **out) {
  bool done = false;
  if (cr_import_is_constant(value)) return take_constant(node, value, p, out);
  if (p->count < 1) return cr_import_reject(node, "a part without numbers");
  if (p->step == 1 || p->count == 1) {
    return take_run(node, value, p->axis, p->start, p->count, out);
  }
  if (p->step < 0) {
    const cr_import_places forth = {p->axis, p->start + (p->count - 1) * p->step, -p->step,
                                    p->count};
    cr_import_value *part = NULL;
    CR_TRY(cr_import_take_places(node, value, &forth, &part));
    return cr_import_map(node, part, out, "type: \"Reverse\" reverse_param { axis: %d }", p->axis);
  }
  CR_TRY(take_column(node, value, p, out, &done));
  if (done) return CREMA_OK;
  void *list;
  CR_TRY(cr_arena_alloc(&node->import->arena, (size_t)p->count * sizeof(int64_t), &list));
  for (int64_t i = 0; i < p->count; ++i) ((int64_t *)list)[i] = p->start + i * p->step;
  return cr_import_take_list(node, value, p->axis, list, p->count, out);
}

/* ---- lists ------------------------------------------------------------------------------ */

/* Whether a list has constant steps, as a run of places. */
static bool is_run(const int64_t *list, int64_t count, cr_import_places *out) {
  out->start = list[0];
  out->count = count;
  out->step = count > 1 ? list[1] - list[0] : 1;
  for (int64_t i = 1; i < count; ++i) {
    if (list[i] - list[i - 1] != out->step) return false;
  }
  return out->step == 1 || out->step == -1;
}

/* The axis in front of all others, or back at its place. */
static void front_order(int axes, int axis, bool back, int *order) {
  for (int i = 0; i < axes; ++i) {
    if (back) order[i] = i == axis ? 0 : i < axis ? i + 1 : i;
    else order[i] = i == 0 ? axis : i <= axis ? i - 1 : i;
  }
}

static crema_status list_value(cr_import_node *node, const int64_t *list, int64_t count,
                               cr_import_value **out) {
  const crema_shape shape = {.axes = 1, .dim = {count}};
  int64_t *to;
  CR_TRY(cr_import_between(node, "places", &shape, out));
  CR_TRY(cr_import_fold_ints(node, *out, &shape, &to));
  memcpy(to, list, (size_t)count * sizeof *list);
  return CREMA_OK;
}

crema_status cr_import_take_list(cr_import_node *node, cr_import_value *value, int axis,
                                 const int64_t *list, int64_t count, cr_import_value **out) {
  cr_import_places run = {.axis = axis};
  crema_shape shape = *value->shape;
  cr_import_value *front = NULL, *places = NULL, *picked = NULL;
  int order[CREMA_MAX_AXES];
  if (count < 1) return cr_import_reject(node, "a part without numbers");
  if (is_run(list, count, &run)) return cr_import_take_places(node, value, &run, out);
  front_order(shape.axes, axis, false, order);
  CR_TRY(cr_import_permute(node, value, order, &front));
  CR_TRY(list_value(node, list, count, &places));
  shape = *front->shape;
  shape.dim[0] = count;
  CR_TRY(target(node, value, &shape, axis == 0 ? out : &picked));
  cr_import_value *top = axis == 0 ? *out : picked;
  const cr_import_ends ends = {.bottom = {front, places}, .top = {top}};
  CR_TRY(cr_import_layer(node, &ends, "type: \"BatchReindex\""));
  if (axis == 0) return CREMA_OK;
  front_order(shape.axes, axis, true, order);
  return cr_import_permute(node, picked, order, out);
}
