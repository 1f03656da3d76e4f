/* Slice, Split and Gather. */
#include <string.h>

#include "core/fail.h"
#include "onnx/import/parts.h"

/* ---- Slice --------------------------------------------------------------------------- */

typedef struct slice_lists {
  const int64_t *start, *end, *axis, *step; /* axis and step may be NULL */
  size_t count;
} slice_lists;

static crema_status read_lists(cr_import_node *node, slice_lists *out) {
  size_t ends = 0, axes = 0, steps = 0;
  CR_TRY(cr_import_int_list(node, "starts", 1, &out->start, &out->count));
  CR_TRY(cr_import_int_list(node, "ends", 2, &out->end, &ends));
  CR_TRY(cr_import_int_list(node, "axes", 3, &out->axis, &axes));
  CR_TRY(cr_import_int_list(node, "steps", 4, &out->step, &steps));
  const bool fits = ends == out->count && (out->axis == NULL || axes == out->count) &&
                    (out->step == NULL || steps == out->count);
  return fits ? CREMA_OK : cr_import_reject(node, "its lists have different lengths");
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

/* Entry i of the lists, cut to the extents as ONNX defines it. */
static crema_status read_places(cr_import_node *node, const slice_lists *lists, size_t i,
                                const crema_shape *shape, cr_import_places *out) {
  const int64_t step = lists->step == NULL ? 1 : lists->step[i];
  int64_t start = lists->start[i], end = lists->end[i];
  const int64_t axis = lists->axis == NULL ? (int64_t)i : lists->axis[i];
  CR_TRY(cr_import_axis(node, axis, shape->axes, &out->axis));
  const int64_t size = shape->dim[out->axis];
  if (step == 0 || step == INT64_MIN) return cr_import_reject(node, "step 0");
  if (start < 0) start += size;
  if (end < 0) end += size;
  start = clamp(start, 0, step > 0 ? size : size - 1);
  end = clamp(end, step > 0 ? 0 : -1, size);
  const int64_t reach = step > 0 ? end - start : start - end, stride = step > 0 ? step : -step;
  out->start = start;
  out->step = step;
  out->count = reach <= 0 || size == 0 ? 0 : (reach - 1) / stride + 1;
  return CREMA_OK;
}

/* Reads all entries; *count of them take less than their axis. */
static crema_status read_slice(cr_import_node *node, cr_import_places *out, int *count) {
  const crema_shape *shape = node->input[0]->shape;
  slice_lists lists;
  bool seen[CREMA_MAX_AXES] = {false};
  *count = 0;
  CR_TRY(read_lists(node, &lists));
  for (size_t i = 0; i < lists.count; ++i) {
    cr_import_places places;
    CR_TRY(read_places(node, &lists, i, shape, &places));
    if (seen[places.axis]) return cr_import_reject(node, "axis %d is listed twice", places.axis);
    seen[places.axis] = true;
    const bool all = places.step == 1 && places.count == shape->dim[places.axis];
    if (!all) out[(*count)++] = places;
  }
  return CREMA_OK;
}

crema_status cr_import_slice(cr_import_node *node) {
  cr_import_places places[CREMA_MAX_AXES];
  cr_import_value *value = node->input[0];
  int count = 0;
  CR_TRY(read_slice(node, places, &count));
  if (count == 0) return cr_import_view(node, value, value->shape, &node->output[0]);
  for (int i = 0; i < count; ++i) {
    cr_import_value *next = i + 1 == count ? node->output[0] : NULL;
    CR_TRY(cr_import_take_places(node, value, &places[i], &next));
    value = next;
  }
  return CREMA_OK;
}

/* ---- Split --------------------------------------------------------------------------- */

/* The size of part i: from the list or, without one, equal; then the last may be smaller. */
static int64_t part_size(const int64_t *list, int64_t size, int parts, int i) {
  if (list != NULL) return list[i];
  const int64_t each = (size + parts - 1) / parts;
  return i + 1 < parts ? each : size - each * (parts - 1);
}

static crema_status check_sizes(cr_import_node *node, const int64_t *list, int64_t size) {
  int64_t sum = 0;
  for (int i = 0; i < node->outputs; ++i) {
    const int64_t part = part_size(list, size, node->outputs, i);
    if (part < 1 || part > size - sum)
      return cr_import_reject(node, "a part of %lld", (long long)part);
    sum += part;
  }
  return sum == size ? CREMA_OK : cr_import_reject(node, "its parts are not the whole axis");
}

static crema_status split_constant(cr_import_node *node, const int64_t *list, int axis) {
  const int64_t size = node->input[0]->shape->dim[axis];
  cr_import_places places = {.axis = axis, .step = 1};
  for (int i = 0; i < node->outputs; ++i) {
    places.count = part_size(list, size, node->outputs, i);
    if (node->output[i] != NULL) {
      CR_TRY(cr_import_take_places(node, node->input[0], &places, &node->output[i]));
    }
    places.start += places.count;
  }
  return CREMA_OK;
}

static crema_status split_layer(cr_import_node *node, const int64_t *list, int axis,
                                cr_buffer *text) {
  const int64_t size = node->input[0]->shape->dim[axis];
  int64_t point = 0;
  CR_TRY(cr_buffer_print(text, "type: \"Slice\" slice_param { axis: %d", axis));
  for (int i = 0; i < node->outputs; ++i) {
    crema_shape shape = *node->input[0]->shape;
    shape.dim[axis] = part_size(list, size, node->outputs, i);
    if (node->output[i] == NULL) CR_TRY(cr_import_between(node, "part", &shape, &node->output[i]));
    else CR_TRY(cr_import_set_shape(node->import, node->output[i], &shape));
    node->output[i]->type = node->input[0]->type;
    if (i > 0) CR_TRY(cr_buffer_print(text, " slice_point: %lld", (long long)point));
    point += shape.dim[axis];
  }
  CR_TRY(cr_buffer_print(text, " }"));
  return cr_import_wide_layer(node, node->input, 1, node->output, node->outputs, text->data);
}

crema_status cr_import_split(cr_import_node *node) {
  cr_import_value *x = node->input[0];
  const int64_t *list = NULL;
  size_t count = 0;
  int axis = 0;
  cr_buffer text = {0};
  CR_TRY(cr_import_axis(node, cr_import_int(node, "axis", 0), x->shape->axes, &axis));
  CR_TRY(cr_import_int_list(node, "split", 1, &list, &count));
  const int64_t parts = cr_import_int(node, "num_outputs", node->outputs);
  if (parts != node->outputs || (list != NULL && count != (size_t)node->outputs)) {
    return cr_import_reject(node, "the number of parts is not %d", node->outputs);
  }
  CR_TRY(check_sizes(node, list, x->shape->dim[axis]));
  if (cr_import_is_constant(x)) return split_constant(node, list, axis);
  if (node->outputs == 1) return cr_import_view(node, x, x->shape, &node->output[0]);
  crema_status status = split_layer(node, list, axis, &text);
  cr_buffer_free(&text);
  return status;
}

/* ---- Gather --------------------------------------------------------------------------- */

/* The shape of the result: the axis is replaced by the axes of the indices. */
static crema_status gather_shape(cr_import_node *node, int axis, crema_shape *out) {
  const crema_shape *x = node->input[0]->shape, *index = node->input[1]->shape;
  if (x->axes + index->axes - 1 > CREMA_MAX_AXES) return cr_import_reject(node, "too many axes");
  *out = (crema_shape){0};
  for (int i = 0; i < axis; ++i) out->dim[out->axes++] = x->dim[i];
  for (int i = 0; i < index->axes; ++i) out->dim[out->axes++] = index->dim[i];
  for (int i = axis + 1; i < x->axes; ++i) out->dim[out->axes++] = x->dim[i];
  return crema_shape_check(out);
}

/* The indices from the front. */
static crema_status read_indices(cr_import_node *node, int64_t size, int64_t **out) {
  const cr_import_value *index = node->input[1];
  const int64_t count = cr_import_count(index);
  cr_import_value *resolved = NULL;
  CR_TRY(cr_import_between(node, "indices", index->shape, &resolved));
  CR_TRY(cr_import_fold_ints(node, resolved, index->shape, out));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t place = index->ints[i];
    (*out)[i] = place < 0 ? place + size : place;
    if ((*out)[i] < 0 || (*out)[i] >= size) {
      return cr_import_reject(node, "index %lld of an axis of %lld", (long long)place,
                              (long long)size);
    }
  }
  return CREMA_OK;
}

static crema_status gather_constant(cr_import_node *node, int axis, const int64_t *list,
                                    const crema_shape *shape) {
  const cr_import_value *x = node->input[0];
  const int64_t count = cr_import_count(node->input[1]), size = x->shape->dim[axis];
  const int64_t outer = crema_shape_count(x->shape, 0, axis);
  const int64_t inner = crema_shape_count(x->shape, axis + 1, x->shape->axes);
  size_t width = 0;
  void *to = NULL;
  CR_TRY(cr_import_fold_like(node, x, node->output[0], shape, &width, &to));
  const size_t run = (size_t)inner * width;
  const char *from = cr_import_numbers(x);
  for (int64_t i = 0; i < outer * count && run > 0; ++i) {
    const int64_t row = i / count * size + list[i % count];
    memcpy((char *)to + (size_t)i * run, from + (size_t)row * run, run);
  }
  return CREMA_OK;
}

/* Indices that the net computes, into the rows of a constant table. */
static crema_status embed(cr_import_node *node, int axis, const crema_shape *shape) {
  const cr_import_value *table = node->input[0];
  cr_import_value *rows = NULL;
  if (axis != 0 || table->floats == NULL) {
    return cr_import_reject(node, "indices that are not constant, not into rows of floats");
  }
  const int64_t count = table->shape->dim[0];
  const int64_t width = crema_shape_count(table->shape, 1, table->shape->axes);
  crema_shape flat = *node->input[1]->shape;
  if (count < 1 || width < 1 || count > INT32_MAX || width > INT32_MAX ||
      flat.axes == CREMA_MAX_AXES) {
    return cr_import_reject(node, "a table of this shape");
  }
  flat.dim[flat.axes++] = width;
  CR_TRY(cr_import_between(node, "rows", &flat, &rows));
  if (crema_shape_equal(&flat, shape)) rows = node->output[0];
  CR_TRY(cr_import_set_shape(node->import, rows, &flat));
  const cr_import_ends ends = {.bottom = {node->input[1]}, .top = {rows}};
  CR_TRY(cr_import_layer(node, &ends,
                         "type: \"Embed\" embed_param { num_output: %lld input_dim: %lld "
                         "bias_term: false }",
                         (long long)width, (long long)count));
  const crema_shape weights = {.axes = 2, .dim = {count, width}};
  CR_TRY(cr_import_weights_of(node->import, &weights, table->floats));
  if (rows == node->output[0]) return CREMA_OK;
  return cr_import_view(node, rows, shape, &node->output[0]);
}

crema_status cr_import_gather(cr_import_node *node) {
  crema_shape shape;
  int axis = 0;
  int64_t *list = NULL;
  CR_TRY(cr_import_need(node, 2));
  cr_import_value *x = node->input[0], *index = node->input[1], *taken = NULL;
  CR_TRY(cr_import_axis(node, cr_import_int(node, "axis", 0), x->shape->axes, &axis));
  CR_TRY(gather_shape(node, axis, &shape));
  if (!cr_import_is_constant(index) && cr_import_is_constant(x)) return embed(node, axis, &shape);
  if (!cr_import_is_constant(index)) return cr_import_reject(node, "indices must be constant");
  if (index->ints == NULL) return cr_import_reject(node, "indices must be integers");
  CR_TRY(read_indices(node, x->shape->dim[axis], &list));
  if (cr_import_is_constant(x)) return gather_constant(node, axis, list, &shape);
  CR_TRY(cr_import_take_list(node, x, axis, list, cr_import_count(index), &taken));
  return cr_import_view(node, taken, &shape, &node->output[0]);
}
