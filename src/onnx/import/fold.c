/* Nodes whose outputs are known when the file is read: the table, and operators on shapes. */
#include "onnx/import/fold.h"

#include <math.h>
#include <string.h>

#include "core/fail.h"

/* ---- constants in the file ------------------------------------------------------ */

static crema_status constant_floats(cr_import_node *node, const float *values, size_t count,
                                    bool scalar) {
  const crema_shape shape = {.axes = scalar ? 0 : 1, .dim = {(int64_t)count}};
  float *to;
  CR_TRY(cr_import_fold_floats(node, node->output[0], &shape, &to));
  if (count > 0) memcpy(to, values, count * sizeof *to);
  return CREMA_OK;
}

static crema_status constant_ints(cr_import_node *node, const int64_t *values, size_t count,
                                  bool scalar) {
  const crema_shape shape = {.axes = scalar ? 0 : 1, .dim = {(int64_t)count}};
  int64_t *to;
  CR_TRY(cr_import_fold_ints(node, node->output[0], &shape, &to));
  if (count > 0) memcpy(to, values, count * sizeof *to);
  return CREMA_OK;
}

crema_status cr_fold_constant(cr_import_node *node) {
  const Onnx__AttributeProto *at = cr_import_attribute(node, "value");
  if (at != NULL && at->t != NULL) {
    crema_status status = cr_import_tensor(node->import, at->t, node->output[0]);
    if (status != CREMA_E_UNSUPPORTED) return status;
    return cr_import_reject(node, "%s", crema_error_text());
  }
  if ((at = cr_import_attribute(node, "value_float")) != NULL) {
    return constant_floats(node, &at->f, 1, true);
  }
  if ((at = cr_import_attribute(node, "value_floats")) != NULL) {
    return constant_floats(node, at->floats, at->n_floats, false);
  }
  if ((at = cr_import_attribute(node, "value_int")) != NULL) {
    return constant_ints(node, &at->i, 1, true);
  }
  if ((at = cr_import_attribute(node, "value_ints")) != NULL) {
    return constant_ints(node, at->ints, at->n_ints, false);
  }
  return cr_import_reject(node, "only tensors, floats and integers are supported");
}

/* A shape given as integers. */
static crema_status read_shape(cr_import_node *node, const cr_import_value *value,
                               crema_shape *out) {
  const int64_t axes = cr_import_count(value);
  if (value->ints == NULL || axes > CREMA_MAX_AXES) {
    return cr_import_reject(node, "its shape is not a list of at most %d integers", CREMA_MAX_AXES);
  }
  out->axes = (int)axes;
  for (int i = 0; i < out->axes; ++i) out->dim[i] = value->ints[i];
  return crema_shape_check(out);
}

crema_status cr_fold_constant_of_shape(cr_import_node *node) {
  const Onnx__AttributeProto *given = cr_import_attribute(node, "value");
  float zero = 0;
  crema_shape shape = {0};
  cr_import_value fill = {.type = CR_ONNX_FLOAT, .shape = &shape, .floats = &zero};
  crema_shape to;
  CR_TRY(read_shape(node, node->input[0], &to));
  if (given != NULL && given->t != NULL) {
    CR_TRY(cr_import_tensor(node->import, given->t, &fill));
    if (cr_import_count(&fill) != 1) return cr_import_reject(node, "value is not one number");
  }
  cr_import_walk walk = {.shape = &to};
  return cr_import_remap(node, &fill, &walk, node->output[0]);
}

/* ---- shapes ------------------------------------------------------------------------ */

/* An end of the range of axes, from the end if it is negative, cut to the axes. */
static int64_t clamp_axis(int64_t axis, int axes) {
  if (axis < 0) axis += axes;
  return axis < 0 ? 0 : axis > axes ? axes : axis;
}

crema_status cr_fold_shape(cr_import_node *node) {
  const crema_shape *shape = node->input[0]->shape;
  const int64_t start = clamp_axis(cr_import_int(node, "start", 0), shape->axes);
  const int64_t end = clamp_axis(cr_import_int(node, "end", shape->axes), shape->axes);
  return constant_ints(node, shape->dim + start, end > start ? (size_t)(end - start) : 0, false);
}

crema_status cr_fold_size(cr_import_node *node) {
  const int64_t count = cr_import_count(node->input[0]);
  return constant_ints(node, &count, 1, true);
}

/* ---- ranges ------------------------------------------------------------------------ */

static crema_status range_of_floats(cr_import_node *node) {
  const float start = node->input[0]->floats[0], step = node->input[2]->floats[0];
  const double count = ceil(((double)node->input[1]->floats[0] - (double)start) / (double)step);
  float *to;
  if (!(count < (double)INT32_MAX)) return cr_import_reject(node, "%g numbers", count);
  const crema_shape shape = {.axes = 1, .dim = {count > 0 ? (int64_t)count : 0}};
  CR_TRY(cr_import_fold_floats(node, node->output[0], &shape, &to));
  for (int64_t i = 0; i < shape.dim[0]; ++i) to[i] = start + (float)i * step;
  return CREMA_OK;
}

static bool is_small(int64_t value) {
  return value >= -INT32_MAX && value <= INT32_MAX;
}

crema_status cr_fold_range(cr_import_node *node) {
  int64_t start, limit, step, *to;
  for (int i = 0; i < 3; ++i) {
    if (cr_import_count(node->input[i]) != 1) return cr_import_reject(node, "not one number");
    if ((node->input[i]->floats != NULL) != (node->input[0]->floats != NULL)) {
      return cr_import_reject(node, "its inputs have different types");
    }
  }
  if (node->input[0]->floats != NULL) return range_of_floats(node);
  start = node->input[0]->ints[0];
  limit = node->input[1]->ints[0];
  step = node->input[2]->ints[0];
  if (step == 0 || !is_small(start) || !is_small(limit) || !is_small(step)) {
    return cr_import_reject(node, "its numbers are out of range");
  }
  const int64_t count =
      step > 0 ? (limit - start + step - 1) / step : (start - limit - step - 1) / -step;
  const crema_shape shape = {.axes = 1, .dim = {count > 0 ? count : 0}};
  CR_TRY(cr_import_fold_ints(node, node->output[0], &shape, &to));
  for (int64_t i = 0; i < shape.dim[0]; ++i) to[i] = start + i * step;
  node->output[0]->type = node->input[0]->type;
  return CREMA_OK;
}

/* ---- the table ------------------------------------------------------------------- */

static const struct {
  const char *op;
  cr_import_fn *function;
  int inputs; /* that must be given */
} folded[] = {
    {"Cast", cr_fold_cast, 1},         {"CastLike", cr_fold_cast, 2},
    {"Constant", cr_fold_constant, 0}, {"ConstantOfShape", cr_fold_constant_of_shape, 1},
    {"NonZero", cr_fold_non_zero, 1},  {"OneHot", cr_fold_one_hot, 3},
    {"Range", cr_fold_range, 3},       {"Shape", cr_fold_shape, 1},
    {"Size", cr_fold_size, 1},         {"Where", cr_fold_where, 3},
};

static cr_import_fn *find(const char *op, int *inputs) {
  for (size_t i = 0; i < sizeof folded / sizeof *folded; ++i) {
    if (strcmp(folded[i].op, op) != 0) continue;
    *inputs = folded[i].inputs;
    return folded[i].function;
  }
  *inputs = 1;
  if (cr_fold_is_unary(op)) return cr_fold_unary;
  if (cr_fold_is_reduction(op)) return cr_fold_reduce;
  *inputs = 2;
  return cr_fold_is_binary(op) ? cr_fold_binary : NULL;
}

bool cr_import_folds(const char *op) {
  int inputs;
  return find(op, &inputs) != NULL;
}

crema_status cr_import_fold(cr_import_node *node, bool *done) {
  int inputs = 0;
  cr_import_fn *function = find(node->op, &inputs);
  const bool shapes = function == cr_fold_shape || function == cr_fold_size;
  bool constant = true;
  for (int i = 0; i < node->inputs && constant; ++i) {
    constant = node->input[i] == NULL || cr_import_is_constant(node->input[i]);
  }
  *done = function != NULL && (shapes || constant);
  if (!*done) return CREMA_OK;
  CR_TRY(cr_import_need(node, inputs));
  return function(node);
}
