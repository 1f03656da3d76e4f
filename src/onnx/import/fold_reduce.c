/* Reductions of constants, and operators that find or place numbers. */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "onnx/import/fold.h"
#include "onnx/import/reduce.h"

static const char *const reductions[] = {"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
                                         "ReduceSum"};

bool cr_fold_is_reduction(const char *op) {
  for (size_t i = 0; i < sizeof reductions / sizeof *reductions; ++i) {
    if (strcmp(reductions[i], op) == 0) return true;
  }
  return false;
}

/* The result at one place: `walk` visits the axes that are reduced, from place `start`. */
static double reduce_place(const char *kind, const cr_import_value *from, cr_import_walk *walk,
                           int64_t start) {
  const int64_t count = crema_shape_count(walk->shape, 0, walk->shape->axes);
  const bool most = strcmp(kind, "Max") == 0, least = strcmp(kind, "Min") == 0;
  const bool multiplies = strcmp(kind, "Prod") == 0;
  double result = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = start + walk->at[0];
    const double x = from->floats != NULL ? (double)from->floats[at] : (double)from->ints[at];
    if (i == 0) result = x;
    else if (most) result = x > result ? x : result;
    else if (least) result = x < result ? x : result;
    else result = multiplies ? result * x : result + x;
    cr_import_step(walk);
  }
  return strcmp(kind, "Mean") == 0 ? result / (double)count : result;
}

crema_status cr_fold_reduce(cr_import_node *node) {
  const cr_import_value *from = node->input[0];
  const char *kind = node->op + strlen("Reduce");
  cr_import_reduction r;
  size_t width = 0;
  void *to = NULL;
  int64_t dense[CREMA_MAX_AXES] = {0};
  CR_TRY(cr_import_read_reduction(node, &r));
  if (cr_import_count(from) == 0) return cr_import_reject(node, "no numbers");
  crema_shape kept = *from->shape, gone = *from->shape;
  for (int i = 0; i < kept.axes; ++i) (r.reduced[i] ? &kept : &gone)->dim[i] = 1;
  cr_import_dense(from->shape, dense);
  cr_import_walk outer = {.shape = &kept}, inner = {.shape = &gone};
  memcpy(outer.stride[0], dense, sizeof dense);
  memcpy(inner.stride[0], dense, sizeof dense);
  CR_TRY(cr_import_fold_like(node, from, node->output[0], &r.shape, &width, &to));
  const int64_t count = crema_shape_count(&kept, 0, kept.axes);
  for (int64_t i = 0; i < count; ++i) {
    const double x = reduce_place(kind, from, &inner, outer.at[0]);
    if (from->floats != NULL) ((float *)to)[i] = (float)x;
    else if (fabs(x) <= CR_FOLD_EXACT && x == floor(x)) ((int64_t *)to)[i] = (int64_t)x;
    else return cr_import_reject(node, "the result %g is no exact integer", x);
    cr_import_step(&outer);
  }
  return CREMA_OK;
}

/* ---- places ------------------------------------------------------------------------- */

static bool is_set(const cr_import_value *value, int64_t i) {
  return value->floats != NULL ? value->floats[i] != 0 : value->ints[i] != 0;
}

crema_status cr_fold_non_zero(cr_import_node *node) {
  const cr_import_value *from = node->input[0];
  const int64_t count = cr_import_count(from);
  int64_t found = 0, *to;
  for (int64_t i = 0; i < count; ++i) found += is_set(from, i);
  const crema_shape shape = {.axes = 2, .dim = {from->shape->axes, found}};
  CR_TRY(cr_import_fold_ints(node, node->output[0], &shape, &to));
  cr_import_walk walk = {.shape = from->shape};
  for (int64_t i = 0, at = 0; i < count; ++i) {
    for (int k = 0; k < from->shape->axes && is_set(from, i); ++k) {
      to[k * found + at] = walk.index[k];
    }
    at += is_set(from, i);
    cr_import_step(&walk);
  }
  return CREMA_OK;
}

crema_status cr_fold_one_hot(cr_import_node *node) {
  const cr_import_value *index = node->input[0], *values = node->input[2];
  crema_shape shape = *index->shape;
  int64_t depth;
  int axis = 0;
  size_t width = 0;
  void *to = NULL;
  if (index->ints == NULL || !cr_import_is_one_int(node->input[1], &depth) || depth < 1 ||
      cr_import_count(values) != 2 || shape.axes == CREMA_MAX_AXES) {
    return cr_import_reject(node, "its inputs are not integers");
  }
  CR_TRY(cr_import_axis(node, cr_import_int(node, "axis", -1), shape.axes + 1, &axis));
  for (int i = shape.axes; i > axis; --i) shape.dim[i] = shape.dim[i - 1];
  shape.dim[axis] = depth;
  shape.axes += 1;
  CR_TRY(cr_import_fold_like(node, values, node->output[0], &shape, &width, &to));
  const int64_t count = crema_shape_count(&shape, 0, shape.axes);
  const int64_t inner = crema_shape_count(&shape, axis + 1, shape.axes);
  const char *off_on = cr_import_numbers(values);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t given = index->ints[i / (inner * depth) * inner + i % inner];
    const bool on = (given < 0 ? given + depth : given) == i / inner % depth;
    memcpy((char *)to + (size_t)i * width, off_on + (on ? width : 0), width);
  }
  return CREMA_OK;
}
