/* Reductions along axes, and the places of the largest numbers. */
#include "onnx/import/reduce.h"

#include <string.h>

#include "core/fail.h"
#include "onnx/import/elementwise.h"

crema_status cr_import_read_reduction(cr_import_node *node, cr_import_reduction *out) {
  const crema_shape *from = node->input[0]->shape;
  const bool keep = cr_import_int(node, "keepdims", 1) != 0;
  const int64_t *axes = NULL;
  size_t count = 0;
  *out = (cr_import_reduction){0};
  CR_TRY(cr_import_int_list(node, "axes", 1, &axes, &count));
  const bool all = count == 0 && cr_import_int(node, "noop_with_empty_axes", 0) == 0;
  for (int i = 0; i < from->axes && all; ++i) out->reduced[i] = true;
  for (size_t i = 0; i < count; ++i) {
    int axis;
    CR_TRY(cr_import_axis(node, axes[i], from->axes, &axis));
    out->reduced[axis] = true;
  }
  for (int i = 0; i < from->axes; ++i) {
    out->count += out->reduced[i];
    if (!out->reduced[i]) out->shape.dim[out->shape.axes++] = from->dim[i];
    else if (keep) out->shape.dim[out->shape.axes++] = 1;
  }
  return CREMA_OK;
}

/* ---- along the last axes ---------------------------------------------------------- */

/* The value with the reduced axes last. *shape gets the extents of the other axes. */
static crema_status move_last(cr_import_node *node, cr_import_value *value,
                              const cr_import_reduction *r, crema_shape *shape,
                              cr_import_value **out) {
  const int axes = value->shape->axes;
  int order[CREMA_MAX_AXES], next = 0;
  shape->axes = 0;
  for (int i = 0; i < axes; ++i) {
    if (r->reduced[i]) continue;
    order[next++] = i;
    shape->dim[shape->axes++] = value->shape->dim[i];
  }
  for (int i = 0; i < axes; ++i) {
    if (r->reduced[i]) order[next++] = i;
  }
  return cr_import_permute(node, value, order, out);
}

/* The largest along the last axes, by a global pooling of maps (..., count, 1). */
static crema_status largest(cr_import_node *node, cr_import_value *value, const crema_shape *kept,
                            cr_import_value **out) {
  const int64_t first = kept->axes > 0 ? kept->dim[0] : 1;
  const int64_t rest = kept->axes > 0 ? crema_shape_count(kept, 1, kept->axes) : 1;
  const int64_t width = crema_shape_count(value->shape, kept->axes, value->shape->axes);
  const crema_shape maps = {.axes = 4, .dim = {first, rest, width, 1}};
  const crema_shape pooled = {.axes = 4, .dim = {first, rest, 1, 1}};
  cr_import_value *map = NULL;
  CR_TRY(cr_import_view(node, value, &maps, &map));
  CR_TRY(cr_import_between(node, "largest", &pooled, out));
  const cr_import_ends ends = {.bottom = {map}, .top = {*out}};
  return cr_import_layer(node, &ends,
                         "type: \"Pooling\" pooling_param { pool: MAX global_pooling: true }");
}

static crema_status sum(cr_import_node *node, cr_import_reducer kind, cr_import_value *value,
                        const crema_shape *kept, cr_import_value **out) {
  static const char *const names[] = {"SUM", "MEAN", "ASUM", "SUMSQ"};
  CR_TRY(cr_import_between(node, "reduced", kept, out));
  const cr_import_ends ends = {.bottom = {value}, .top = {*out}};
  return cr_import_layer(node, &ends,
                         "type: \"Reduction\" reduction_param { operation: %s axis: %d }",
                         names[kind], kept->axes);
}

/* By a global pooling: along both axes of maps. */
static crema_status pool(cr_import_node *node, cr_import_reducer kind, cr_import_value *value,
                         const cr_import_reduction *r, cr_import_value **out) {
  crema_shape shape = *value->shape;
  cr_import_value *pooled = NULL;
  shape.dim[2] = shape.dim[3] = 1;
  if (r->shape.axes == 4 && *out != NULL) {
    pooled = *out;
    CR_TRY(cr_import_set_shape(node->import, pooled, &shape));
  } else {
    CR_TRY(cr_import_between(node, "pooled", &shape, &pooled));
  }
  const cr_import_ends ends = {.bottom = {value}, .top = {pooled}};
  CR_TRY(cr_import_layer(node, &ends,
                         "type: \"Pooling\" pooling_param { pool: %s global_pooling: true }",
                         kind == CR_IMPORT_REDUCE_MAX ? "MAX" : "AVE"));
  if (pooled == *out) return CREMA_OK;
  return cr_import_view(node, pooled, &r->shape, out);
}

crema_status cr_import_reduce(cr_import_node *node, cr_import_reducer kind, cr_import_value *value,
                              const cr_import_reduction *r, cr_import_value **out) {
  crema_shape kept;
  cr_import_value *last = NULL, *reduced = NULL;
  const bool single = kind != CR_IMPORT_REDUCE_L1 && kind != CR_IMPORT_REDUCE_SQUARES;
  if (cr_import_count(value) == 0) return cr_import_reject(node, "no numbers");
  /* One number stays itself. */
  if (single && crema_shape_count(&r->shape, 0, r->shape.axes) == cr_import_count(value)) {
    return cr_import_view(node, value, &r->shape, out);
  }
  if (r->count == 0) {
    return cr_import_map(node, value, out,
                         kind == CR_IMPORT_REDUCE_L1 ? "type: \"AbsVal\""
                                                     : "type: \"Power\" power_param { power: 2 }");
  }
  const bool pools = kind == CR_IMPORT_REDUCE_MEAN || kind == CR_IMPORT_REDUCE_MAX;
  if (pools && value->shape->axes == 4 && r->count == 2 && r->reduced[2] && r->reduced[3]) {
    return pool(node, kind, value, r, out);
  }
  CR_TRY(move_last(node, value, r, &kept, &last));
  if (kind == CR_IMPORT_REDUCE_MAX) CR_TRY(largest(node, last, &kept, &reduced));
  else CR_TRY(sum(node, kind, last, &kept, &reduced));
  return cr_import_view(node, reduced, &r->shape, out);
}

/* ---- operators ---------------------------------------------------------------------- */

static crema_status reduce_input(cr_import_node *node, cr_import_reducer kind,
                                 cr_import_value **out) {
  cr_import_reduction r;
  CR_TRY(cr_import_read_reduction(node, &r));
  return cr_import_reduce(node, kind, node->input[0], &r, out);
}

crema_status cr_import_reduce_sum(cr_import_node *node) {
  return reduce_input(node, CR_IMPORT_REDUCE_SUM, &node->output[0]);
}

crema_status cr_import_reduce_mean(cr_import_node *node) {
  return reduce_input(node, CR_IMPORT_REDUCE_MEAN, &node->output[0]);
}

crema_status cr_import_reduce_l1(cr_import_node *node) {
  return reduce_input(node, CR_IMPORT_REDUCE_L1, &node->output[0]);
}

crema_status cr_import_reduce_sum_square(cr_import_node *node) {
  return reduce_input(node, CR_IMPORT_REDUCE_SQUARES, &node->output[0]);
}

crema_status cr_import_reduce_max(cr_import_node *node) {
  return reduce_input(node, CR_IMPORT_REDUCE_MAX, &node->output[0]);
}

crema_status cr_import_reduce_l2(cr_import_node *node) {
  cr_import_value *squares = NULL;
  CR_TRY(reduce_input(node, CR_IMPORT_REDUCE_SQUARES, &squares));
  return cr_import_map(node, squares, &node->output[0],
                       "type: \"Power\" power_param { power: 0.5 }");
}

crema_status cr_import_reduce_log_sum(cr_import_node *node) {
  cr_import_value *all = NULL;
  CR_TRY(reduce_input(node, CR_IMPORT_REDUCE_SUM, &all));
  return cr_import_map(node, all, &node->output[0], "type: \"Log\"");
}

static const char minus[] = "type: \"Power\" power_param { scale: -1 }";

/* The negative of the largest of the negatives. */
crema_status cr_import_reduce_min(cr_import_node *node) {
  cr_import_value *negative = NULL, *most = NULL;
  cr_import_reduction r;
  CR_TRY(cr_import_read_reduction(node, &r));
  CR_TRY(cr_import_map(node, node->input[0], &negative, "%s", minus));
  CR_TRY(cr_import_reduce(node, CR_IMPORT_REDUCE_MAX, negative, &r, &most));
  return cr_import_map(node, most, &node->output[0], "%s", minus);
}

/* max + log(sum(exp(x - max))) */
crema_status cr_import_reduce_log_sum_exp(cr_import_node *node) {
  cr_import_value *x = node->input[0], *most = NULL, *lower = NULL, *power = NULL, *all = NULL;
  cr_import_value *log = NULL, *flat = NULL;
  cr_import_reduction r, kept;
  CR_TRY(cr_import_read_reduction(node, &r));
  kept = r;
  kept.shape = *x->shape;
  for (int i = 0; i < x->shape->axes; ++i) {
    if (r.reduced[i]) kept.shape.dim[i] = 1;
  }
  CR_TRY(cr_import_reduce(node, CR_IMPORT_REDUCE_MAX, x, &kept, &most));
  CR_TRY(cr_import_combine(node, CR_IMPORT_SUB, x, most, &lower));
  CR_TRY(cr_import_map(node, lower, &power, "type: \"Exp\""));
  CR_TRY(cr_import_reduce(node, CR_IMPORT_REDUCE_SUM, power, &kept, &all));
  CR_TRY(cr_import_map(node, all, &log, "type: \"Log\""));
  CR_TRY(cr_import_combine(node, CR_IMPORT_ADD, log, most, &flat));
  return cr_import_view(node, flat, &r.shape, &node->output[0]);
}

/* ---- places ---------------------------------------------------------------------------- */

/* The ArgMax layer finds the last of equal numbers. The first is the last of the reversed axis. */
static crema_status arg_max(cr_import_node *node, cr_import_value *x) {
  const bool keep = cr_import_int(node, "keepdims", 1) != 0;
  const bool last = cr_import_int(node, "select_last_index", 0) != 0;
  cr_import_value *reversed = NULL, *place = NULL, *back = NULL;
  crema_shape shape = *x->shape;
  int axis = 0;
  CR_TRY(cr_import_axis(node, cr_import_int(node, "axis", 0), shape.axes, &axis));
  const int64_t size = shape.dim[axis];
  if (!last) {
    CR_TRY(cr_import_map(node, x, &reversed, "type: \"Reverse\" reverse_param { axis: %d }", axis));
    x = reversed;
  }
  shape.dim[axis] = 1;
  CR_TRY(cr_import_between(node, "place", &shape, &place));
  const cr_import_ends ends = {.bottom = {x}, .top = {place}};
  CR_TRY(cr_import_layer(node, &ends, "type: \"ArgMax\" argmax_param { axis: %d }", axis));
  if (!last) {
    CR_TRY(cr_import_map(node, place, &back,
                         "type: \"Power\" power_param { scale: -1 shift: %lld }",
                         (long long)(size - 1)));
    place = back;
  }
  if (!keep) {
    for (int i = axis; i + 1 < shape.axes; ++i) shape.dim[i] = shape.dim[i + 1];
    shape.axes -= 1;
  }
  CR_TRY(cr_import_view(node, place, &shape, &node->output[0]));
  node->output[0]->type = CR_ONNX_INT64;
  return CREMA_OK;
}

crema_status cr_import_arg_max(cr_import_node *node) {
  return arg_max(node, node->input[0]);
}

crema_status cr_import_arg_min(cr_import_node *node) {
  cr_import_value *negative = NULL;
  CR_TRY(cr_import_map(node, node->input[0], &negative, "%s", minus));
  return arg_max(node, negative);
}
