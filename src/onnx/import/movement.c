/* Values in another order, side by side, or repeated. */
#include <stdio.h>
#include <string.h>

#include "core/fail.h"
#include "onnx/import/numbers.h"

crema_status cr_import_transpose(cr_import_node *node) {
  const int axes = node->input[0]->shape->axes;
  int order[CREMA_MAX_AXES];
  bool seen[CREMA_MAX_AXES] = {false};
  size_t count;
  const int64_t *given = cr_import_ints(node, "perm", &count);
  if (given != NULL && count != (size_t)axes) {
    return cr_import_reject(node, "perm has %zu axes instead of %d", count, axes);
  }
  for (int i = 0; i < axes; ++i) {
    order[i] = axes - 1 - i;
    if (given != NULL) CR_TRY(cr_import_axis(node, given[i], axes, &order[i]));
    if (seen[order[i]]) return cr_import_reject(node, "axis %d is listed twice", order[i]);
    seen[order[i]] = true;
  }
  return cr_import_permute(node, node->input[0], order, &node->output[0]);
}

/* ---- side by side ----------------------------------------------------------------- */

static crema_status concat_shape(cr_import_node *node, int axis, crema_shape *out) {
  *out = *node->input[0]->shape;
  for (int i = 1; i < node->inputs; ++i) {
    const crema_shape *shape = node->input[i]->shape;
    bool same = shape->axes == out->axes;
    for (int k = 0; k < out->axes && same; ++k) {
      same = k == axis || shape->dim[k] == out->dim[k];
    }
    if (!same) return cr_import_reject(node, "input %d has another shape", i);
    out->dim[axis] += shape->dim[axis];
    CR_TRY(crema_shape_check(out));
  }
  return CREMA_OK;
}

static crema_status concat_constants(cr_import_node *node, int axis, const crema_shape *shape) {
  size_t width = 0;
  void *to = NULL;
  const int64_t outer = crema_shape_count(shape, 0, axis);
  CR_TRY(cr_import_fold_like(node, node->input[0], node->output[0], shape, &width, &to));
  char *at = to;
  for (int64_t row = 0; row < outer; ++row) {
    for (int i = 0; i < node->inputs; ++i) {
      const cr_import_value *from = node->input[i];
      const size_t size = (size_t)crema_shape_count(from->shape, axis, shape->axes) * width;
      const char *numbers = cr_import_numbers(from);
      if (size > 0) memcpy(at, numbers + (size_t)row * size, size);
      at += size;
    }
  }
  return CREMA_OK;
}

/* The layer; inputs without numbers are omitted. */
static crema_status concat_layer(cr_import_node *node, int axis, const crema_shape *shape) {
  void *memory;
  char text[128];
  int bottoms = 0;
  CR_TRY(cr_arena_alloc(&node->import->arena, (size_t)node->inputs * sizeof(void *), &memory));
  cr_import_value **bottom = memory;
  for (int i = 0; i < node->inputs; ++i) {
    if (cr_import_count(node->input[i]) > 0) bottom[bottoms++] = node->input[i];
  }
  if (bottoms == 0) return cr_import_reject(node, "no numbers");
  if (bottoms == 1) return cr_import_view(node, bottom[0], shape, &node->output[0]);
  snprintf(text, sizeof text, "type: \"Concat\" concat_param { axis: %d }", axis);
  CR_TRY(cr_import_set_shape(node->import, node->output[0], shape));
  node->output[0]->type = bottom[0]->type;
  return cr_import_wide_layer(node, bottom, bottoms, node->output, 1, text);
}

crema_status cr_import_concat(cr_import_node *node) {
  crema_shape shape;
  bool constant = true, alike = true;
  int axis = 0;
  CR_TRY(cr_import_need(node, node->inputs));
  const bool floats = node->input[0]->floats != NULL;
  CR_TRY(cr_import_axis(node, cr_import_int(node, "axis", 1), node->input[0]->shape->axes, &axis));
  CR_TRY(concat_shape(node, axis, &shape));
  for (int i = 0; i < node->inputs; ++i) {
    constant = constant && cr_import_is_constant(node->input[i]);
    alike = alike && (node->input[i]->floats != NULL) == floats;
  }
  if (!constant) return concat_layer(node, axis, &shape);
  if (!alike) return cr_import_reject(node, "its inputs have different types");
  return concat_constants(node, axis, &shape);
}

/* ---- repetitions --------------------------------------------------------------------- */

/* The extents of a list of integers. */
static crema_status read_extents(cr_import_node *node, int index, crema_shape *out) {
  const int64_t *list = NULL;
  size_t count = 0;
  CR_TRY(cr_import_need(node, index + 1));
  CR_TRY(cr_import_int_list(node, "", index, &list, &count));
  if (count > CREMA_MAX_AXES) return cr_import_reject(node, "%zu axes", count);
  out->axes = (int)count;
  for (int i = 0; i < out->axes; ++i) out->dim[i] = list[i];
  return crema_shape_check(out);
}

crema_status cr_import_expand(cr_import_node *node) {
  crema_shape given, shape;
  CR_TRY(read_extents(node, 1, &given));
  CR_TRY(cr_import_broadcast(node, node->input[0]->shape, &given, &shape));
  return cr_import_expand_to(node, node->input[0], &shape, &node->output[0]);
}

/* A constant repeated: as (1, d0, 1, d1, ...) it broadcasts to (r0, d0, r1, d1, ...). */
static crema_status tile_constant(cr_import_node *node, const crema_shape *times,
                                  const crema_shape *shape) {
  cr_import_value *x = node->input[0], *split = NULL, *repeated = NULL;
  crema_shape from = {.axes = 2 * times->axes}, to = from;
  if (from.axes > CREMA_MAX_AXES) return cr_import_reject(node, "%d axes", times->axes);
  for (int i = 0; i < times->axes; ++i) {
    from.dim[2 * i] = 1;
    to.dim[2 * i] = times->dim[i];
    from.dim[2 * i + 1] = to.dim[2 * i + 1] = x->shape->dim[i];
  }
  CR_TRY(cr_import_view(node, x, &from, &split));
  CR_TRY(cr_import_expand_to(node, split, &to, &repeated));
  return cr_import_view(node, repeated, shape, &node->output[0]);
}

crema_status cr_import_tile(cr_import_node *node) {
  cr_import_value *x = node->input[0];
  crema_shape times, shape = *x->shape;
  CR_TRY(read_extents(node, 1, &times));
  if (times.axes != shape.axes) return cr_import_reject(node, "%d repeats", times.axes);
  for (int i = 0; i < shape.axes; ++i) {
    const int64_t most = shape.dim[i] > INT32_MAX ? 1 : INT32_MAX;
    if (times.dim[i] < 1 || times.dim[i] > most) return cr_import_reject(node, "its repeats");
    shape.dim[i] *= times.dim[i];
    CR_TRY(crema_shape_check(&shape));
  }
  if (cr_import_is_constant(x)) return tile_constant(node, &times, &shape);
  crema_shape reached = *x->shape;
  for (int i = shape.axes - 1; i >= 0; --i) {
    cr_import_value *next = node->output[0];
    if (times.dim[i] == 1) continue;
    reached.dim[i] = shape.dim[i];
    if (!crema_shape_equal(&reached, &shape))
      CR_TRY(cr_import_between(node, "tiled", &reached, &next));
    else CR_TRY(cr_import_set_shape(node->import, next, &shape));
    next->type = x->type;
    const cr_import_ends ends = {.bottom = {x}, .top = {next}};
    CR_TRY(cr_import_layer(node, &ends, "type: \"Tile\" tile_param { axis: %d tiles: %lld }", i,
                           (long long)times.dim[i]));
    x = next;
  }
  return x == node->input[0] ? cr_import_view(node, x, &shape, &node->output[0]) : CREMA_OK;
}

/* ---- pixels and channels ---------------------------------------------------------------- */

/* Reads x as `split`, exchanges its axes, and gives the result the shape `shape`. */
static crema_status rearrange(cr_import_node *node, const crema_shape *split, const int *order,
                              const crema_shape *shape) {
  cr_import_value *parts = NULL, *turned = NULL;
  CR_TRY(cr_import_view(node, node->input[0], split, &parts));
  CR_TRY(cr_import_permute(node, parts, order, &turned));
  return cr_import_view(node, turned, shape, &node->output[0]);
}

static crema_status read_block(cr_import_node *node, int64_t *out) {
  *out = cr_import_int(node, "blocksize", 0);
  if (node->input[0]->shape->axes != 4) return cr_import_reject(node, "an input without 4 axes");
  if (cr_import_count(node->input[0]) == 0) return cr_import_reject(node, "no numbers");
  if (*out < 1 || *out > 32768) return cr_import_reject(node, "blocksize %lld", (long long)*out);
  return CREMA_OK;
}

crema_status cr_import_depth_to_space(cr_import_node *node) {
  static const int depth_first[] = {0, 3, 4, 1, 5, 2}, columns_first[] = {0, 1, 4, 2, 5, 3};
  const crema_shape *x = node->input[0]->shape;
  const bool crd = cr_import_is_text(node, "mode", "CRD", false);
  int64_t b = 0;
  CR_TRY(read_block(node, &b));
  if (x->dim[1] % (b * b) != 0) return cr_import_reject(node, "its channels are no blocks");
  const int64_t c = x->dim[1] / (b * b), n = x->dim[0], h = x->dim[2], w = x->dim[3];
  const crema_shape dcr = {.axes = 6, .dim = {n, b, b, c, h, w}};
  const crema_shape split = {.axes = 6, .dim = {n, c, b, b, h, w}};
  const crema_shape shape = {.axes = 4, .dim = {n, c, h * b, w * b}};
  return rearrange(node, crd ? &split : &dcr, crd ? columns_first : depth_first, &shape);
}

crema_status cr_import_space_to_depth(cr_import_node *node) {
  static const int order[] = {0, 3, 5, 1, 2, 4};
  const crema_shape *x = node->input[0]->shape;
  int64_t b = 0;
  CR_TRY(read_block(node, &b));
  if (x->dim[2] % b != 0 || x->dim[3] % b != 0) return cr_import_reject(node, "no whole blocks");
  const int64_t c = x->dim[1], n = x->dim[0], h = x->dim[2] / b, w = x->dim[3] / b;
  const crema_shape split = {.axes = 6, .dim = {n, c, h, b, w, b}};
  const crema_shape shape = {.axes = 4, .dim = {n, c * b * b, h, w}};
  return rearrange(node, &split, order, &shape);
}
