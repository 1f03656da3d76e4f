/* Normalizations. */
#include "core/fail.h"
#include "onnx/import/window.h"

/* Input `index` as constant numbers: one for each of `count`. */
static crema_status read_numbers(cr_import_node *node, int index, int64_t count,
                                 const float **out) {
  const cr_import_value *value = cr_import_input(node, index);
  if (value == NULL || value->floats == NULL) {
    return cr_import_reject(node, "input %d must be constant", index);
  }
  if (cr_import_count(value) != count) {
    return cr_import_reject(node, "input %d has %lld numbers instead of %lld", index,
                            (long long)cr_import_count(value), (long long)count);
  }
  *out = value->floats;
  return CREMA_OK;
}

static crema_status need_axes(cr_import_node *node, int least) {
  const int axes = node->input[0]->shape->axes;
  return axes >= least ? CREMA_OK : cr_import_reject(node, "an input of %d axes", axes);
}

static crema_status no_more_outputs(cr_import_node *node) {
  for (int i = 1; i < node->outputs; ++i) {
    if (node->output[i] != NULL) return cr_import_reject(node, "output %d", i);
  }
  return CREMA_OK;
}

static crema_status set_same_shape(cr_import_node *node) {
  return cr_import_set_shape(node->import, node->output[0], node->input[0]->shape);
}

/* A Scale layer from `from` to output 0 over axes of `shape` from `axis` on. */
static crema_status add_scale(cr_import_node *node, cr_import_value *from, int axis,
                              const crema_shape *shape, const float *const numbers[2]) {
  const cr_import_ends ends = {.bottom = {from}, .top = {node->output[0]}};
  CR_TRY(cr_import_layer(node, &ends,
                         "type: \"Scale\" scale_param { axis: %d num_axes: %d bias_term: %s }",
                         axis, shape->axes, numbers[1] == NULL ? "false" : "true"));
  CR_TRY(cr_import_weights_of(node->import, shape, numbers[0]));
  return numbers[1] == NULL ? CREMA_OK : cr_import_weights_of(node->import, shape, numbers[1]);
}

/* ---- statistics of the training ------------------------------------------------ */

crema_status cr_import_batch_normalization(cr_import_node *node) {
  const cr_import *import = node->import;
  const float *scale[2] = {NULL, NULL}, *mean = NULL, *variance = NULL, one = 1;
  cr_import_value *normal;
  CR_TRY(need_axes(node, 2));
  CR_TRY(no_more_outputs(node));
  if (cr_import_int(node, "training_mode", 0) != 0) return cr_import_reject(node, "training_mode");
  if (import->opset < 9 && cr_import_int(node, "spatial", 1) != 1) {
    return cr_import_reject(node, "statistics of each position (spatial: 0)");
  }
  const int64_t channels = node->input[0]->shape->dim[1];
  const crema_shape shape = {.axes = 1, .dim = {channels}}, single = {.axes = 1, .dim = {1}};
  for (int i = 0; i < 2; ++i) CR_TRY(read_numbers(node, i + 1, channels, &scale[i]));
  CR_TRY(read_numbers(node, 3, channels, &mean));
  CR_TRY(read_numbers(node, 4, channels, &variance));
  CR_TRY(set_same_shape(node));
  CR_TRY(cr_import_between(node, "normalized", node->input[0]->shape, &normal));
  const cr_import_ends ends = {.bottom = {node->input[0]}, .top = {normal}};
  CR_TRY(cr_import_layer(node, &ends, "type: \"BatchNorm\" batch_norm_param { eps: %.9g }",
                         (double)cr_import_float(node, "epsilon", 1e-5F)));
  CR_TRY(cr_import_weights_of(node->import, &shape, mean));
  CR_TRY(cr_import_weights_of(node->import, &shape, variance));
  CR_TRY(cr_import_weights_of(node->import, &single, &one));
  return add_scale(node, normal, 1, &shape, scale);
}

/* ---- statistics of the sample ----------------------------------------------------- */

/* A GroupNorm layer without parameters. */
static crema_status add_groups(cr_import_node *node, cr_import_value *from, int64_t groups,
                               cr_import_value *to) {
  const cr_import_ends ends = {.bottom = {from}, .top = {to}};
  return cr_import_layer(node, &ends,
                         "type: \"GroupNorm\" group_norm_param { group_num: %lld eps: %.9g }",
                         (long long)groups, (double)cr_import_float(node, "epsilon", 1e-5F));
}

static crema_status normalize_groups(cr_import_node *node, int64_t groups,
                                     const float *const scale[2]) {
  const crema_shape channels = {.axes = 1, .dim = {node->input[0]->shape->dim[1]}};
  cr_import_value *normal;
  if (groups < 1 || channels.dim[0] % groups != 0) {
    return cr_import_reject(node, "%lld groups of %lld channels", (long long)groups,
                            (long long)channels.dim[0]);
  }
  CR_TRY(set_same_shape(node));
  CR_TRY(cr_import_between(node, "normalized", node->input[0]->shape, &normal));
  CR_TRY(add_groups(node, node->input[0], groups, normal));
  return add_scale(node, normal, 1, &channels, scale);
}

crema_status cr_import_instance_normalization(cr_import_node *node) {
  const float *scale[2] = {NULL, NULL};
  CR_TRY(need_axes(node, 3));
  const int64_t channels = node->input[0]->shape->dim[1];
  for (int i = 0; i < 2; ++i) CR_TRY(read_numbers(node, i + 1, channels, &scale[i]));
  return normalize_groups(node, channels, scale);
}

/* Before operator set 21 a group has one scale and bias, else each channel. */
crema_status cr_import_group_normalization(cr_import_node *node) {
  const int64_t groups = cr_import_int(node, "num_groups", 0);
  const float *scale[2] = {NULL, NULL};
  void *spread;
  CR_TRY(need_axes(node, 2));
  const int64_t channels = node->input[0]->shape->dim[1];
  const bool by_group = node->import->opset < 21;
  if (groups < 1 || groups > channels) return cr_import_reject(node, "num_groups is missing");
  for (int i = 0; i < 2; ++i) {
    CR_TRY(read_numbers(node, i + 1, by_group ? groups : channels, &scale[i]));
    if (!by_group) continue;
    CR_TRY(cr_arena_alloc(&node->import->arena, (size_t)channels * sizeof(float), &spread));
    for (int64_t c = 0; c < channels; ++c) ((float *)spread)[c] = scale[i][c * groups / channels];
    scale[i] = spread;
  }
  return normalize_groups(node, groups, scale);
}

/* Each sample of the axes before `axis` is a group; up to two such axes are the layer's own. */
static crema_status normalize_rows(cr_import_node *node, int axis, cr_import_value *to) {
  cr_import_value *x = node->input[0], *rows, *normal;
  const int64_t groups = crema_shape_count(x->shape, 1, axis > 1 ? axis : 1);
  if (axis == 1 || axis == 2) return add_groups(node, x, groups, to);
  const int64_t all = crema_shape_count(x->shape, 0, x->shape->axes);
  const int64_t samples = axis == 0 ? 1 : x->shape->dim[0];
  const crema_shape shape = {
      .axes = 3, .dim = {samples, groups, samples * groups > 0 ? all / samples / groups : 0}};
  const crema_shape flat = {.axes = 3, .dim = {1, 1, all}};
  CR_TRY(cr_import_between(node, "rows", axis == 0 ? &flat : &shape, &rows));
  CR_TRY(cr_import_between(node, "normal_rows", rows->shape, &normal));
  CR_TRY(cr_import_view(node, x, rows->shape, &rows));
  CR_TRY(add_groups(node, rows, axis == 0 ? 1 : groups, normal));
  return cr_import_view(node, normal, to->shape, &to);
}

crema_status cr_import_layer_normalization(cr_import_node *node) {
  const crema_shape *x = node->input[0]->shape;
  const float *scale[2] = {NULL, NULL};
  cr_import_value *normal;
  int axis = 0;
  CR_TRY(need_axes(node, 1));
  CR_TRY(no_more_outputs(node));
  CR_TRY(cr_import_axis(node, cr_import_int(node, "axis", -1), x->axes, &axis));
  crema_shape shape = {.axes = x->axes - axis};
  for (int i = axis; i < x->axes; ++i) shape.dim[i - axis] = x->dim[i];
  const int64_t count = crema_shape_count(&shape, 0, shape.axes);
  CR_TRY(read_numbers(node, 1, count, &scale[0]));
  if (cr_import_input(node, 2) != NULL) CR_TRY(read_numbers(node, 2, count, &scale[1]));
  CR_TRY(set_same_shape(node));
  CR_TRY(cr_import_between(node, "normalized", x, &normal));
  CR_TRY(normalize_rows(node, axis, normal));
  return add_scale(node, normal, axis, &shape, scale);
}

/* ---- mean and deviation -------------------------------------------------------------- */

/* Whether the axes are those from `first` on, and with `batch` also axis 0. */
static bool are_axes(const int64_t *list, size_t count, int axes, int first, bool batch) {
  uint64_t seen = 0, wanted = batch ? 1 : 0;
  for (size_t i = 0; i < count; ++i) {
    const int64_t axis = list[i] < 0 ? list[i] + axes : list[i];
    if (axis < 0 || axis >= axes) return false;
    seen |= (uint64_t)1 << axis;
  }
  for (int i = first; i < axes; ++i) wanted |= (uint64_t)1 << i;
  return seen == wanted;
}

static crema_status add_mvn(cr_import_node *node, cr_import_value *from, bool across,
                            cr_import_value *to) {
  const cr_import_ends ends = {.bottom = {from}, .top = {to}};
  return cr_import_layer(node, &ends, "type: \"MVN\" mvn_param { across_channels: %s eps: 1e-9 }",
                         across ? "true" : "false");
}

static crema_status swap_first_axes(cr_import_node *node, cr_import_value *from,
                                    cr_import_value *to) {
  int order[CREMA_MAX_AXES];
  for (int i = 0; i < from->shape->axes; ++i) order[i] = i < 2 ? 1 - i : i;
  return cr_import_permute(node, from, order, &to);
}

crema_status cr_import_mean_variance_normalization(cr_import_node *node) {
  static const int64_t standard[] = {0, 2, 3};
  const crema_shape *shape = node->input[0]->shape;
  cr_import_value *swapped, *normal;
  size_t count;
  const int64_t *axes = cr_import_ints(node, "axes", &count);
  if (axes == NULL) axes = standard, count = 3;
  CR_TRY(need_axes(node, 3));
  CR_TRY(set_same_shape(node));
  if (are_axes(axes, count, shape->axes, 2, false) ||
      (shape->dim[0] == 1 && are_axes(axes, count, shape->axes, 2, true))) {
    return add_mvn(node, node->input[0], false, node->output[0]);
  }
  if (are_axes(axes, count, shape->axes, 1, false)) {
    return add_mvn(node, node->input[0], true, node->output[0]);
  }
  if (!are_axes(axes, count, shape->axes, 2, true)) {
    return cr_import_reject(node, "MVN layers have the statistics of other axes");
  }
  crema_shape turned = *shape;
  turned.dim[0] = shape->dim[1];
  turned.dim[1] = shape->dim[0];
  CR_TRY(cr_import_between(node, "swapped", &turned, &swapped));
  CR_TRY(cr_import_between(node, "normal", &turned, &normal));
  CR_TRY(swap_first_axes(node, node->input[0], swapped));
  CR_TRY(add_mvn(node, swapped, true, normal));
  return swap_first_axes(node, normal, node->output[0]);
}

/* ---- lengths and neighbours ------------------------------------------------------------ */

/* The eps only keeps vectors of zeros as they are. */
crema_status cr_import_lp_normalization(cr_import_node *node) {
  static const char text[] =
      "type: \"Normalize\" norm_param { across_spatial: false channel_shared: true eps: 1e-37 }";
  const crema_shape *x = node->input[0]->shape, single = {.axes = 0};
  const float one = 1;
  cr_import_value *from = node->input[0], *to = node->output[0];
  int axis = 0;
  CR_TRY(need_axes(node, 1));
  CR_TRY(cr_import_axis(node, cr_import_int(node, "axis", -1), x->axes, &axis));
  if (cr_import_int(node, "p", 2) != 2) return cr_import_reject(node, "only p: 2 is supported");
  CR_TRY(set_same_shape(node));
  const crema_shape split = {.axes = 3,
                             .dim = {crema_shape_count(x, 0, axis), x->dim[axis],
                                     crema_shape_count(x, axis + 1, x->axes)}};
  if (axis != 1) {
    CR_TRY(cr_import_between(node, "vectors", &split, &from));
    CR_TRY(cr_import_between(node, "normal", &split, &to));
    CR_TRY(cr_import_view(node, node->input[0], from->shape, &from));
  }
  const cr_import_ends ends = {.bottom = {from}, .top = {to}};
  CR_TRY(cr_import_layer(node, &ends, "%s", text));
  CR_TRY(cr_import_weights_of(node->import, &single, &one));
  if (axis == 1) return CREMA_OK;
  return cr_import_view(node, to, node->output[0]->shape, &node->output[0]);
}

crema_status cr_import_lrn(cr_import_node *node) {
  const int64_t size = cr_import_int(node, "size", 0);
  CR_TRY(need_axes(node, 3));
  if (size < 1 || size > INT32_MAX || size % 2 == 0) {
    return cr_import_reject(node, "size %lld; LRN layers need an odd size", (long long)size);
  }
  return cr_import_simple(
      node, "type: \"LRN\" lrn_param { local_size: %lld alpha: %.9g beta: %.9g k: %.9g }",
      (long long)size, (double)cr_import_float(node, "alpha", 0.0001F),
      (double)cr_import_float(node, "beta", 0.75F), (double)cr_import_float(node, "bias", 1));
}
