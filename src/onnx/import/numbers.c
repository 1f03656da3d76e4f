/* The numbers of constants. */
#include "onnx/import/numbers.h"

#include <string.h>

#include "core/fail.h"

/* Computed constants may have this many numbers, and as many as the file has bytes. */
enum { FREE_NUMBERS = 1 << 22 };

crema_status cr_import_need(cr_import_node *node, int count) {
  for (int i = 0; i < count; ++i) {
    if (cr_import_input(node, i) == NULL) return cr_import_reject(node, "input %d is missing", i);
  }
  return CREMA_OK;
}

static crema_status claim(cr_import_node *node, const crema_shape *shape) {
  cr_import *import = node->import;
  CR_TRY(crema_shape_check(shape));
  const int64_t count = crema_shape_count(shape, 0, shape->axes);
  if (count > FREE_NUMBERS + (int64_t)import->model->size - import->folded) {
    return cr_import_reject(node, "its constant of %lld numbers is too large for this file",
                            (long long)count);
  }
  import->folded += count;
  return CREMA_OK;
}

crema_status cr_import_fold_floats(cr_import_node *node, cr_import_value *value,
                                   const crema_shape *shape, float **out) {
  CR_TRY(claim(node, shape));
  return cr_import_make_floats(node->import, value, shape, out);
}

crema_status cr_import_fold_ints(cr_import_node *node, cr_import_value *value,
                                 const crema_shape *shape, int64_t **out) {
  CR_TRY(claim(node, shape));
  return cr_import_make_ints(node->import, value, shape, out);
}

crema_status cr_import_fold_like(cr_import_node *node, const cr_import_value *like,
                                 cr_import_value *value, const crema_shape *shape, size_t *width,
                                 void **out) {
  const int32_t type = like->type;
  if (like->floats != NULL) {
    float *floats;
    CR_TRY(cr_import_fold_floats(node, value, shape, &floats));
    *out = floats;
    *width = sizeof *floats;
  } else {
    int64_t *ints;
    CR_TRY(cr_import_fold_ints(node, value, shape, &ints));
    *out = ints;
    *width = sizeof *ints;
  }
  value->type = type;
  return CREMA_OK;
}

const void *cr_import_numbers(const cr_import_value *value) {
  return value->floats != NULL ? (const void *)value->floats : (const void *)value->ints;
}

bool cr_import_is_one_int(const cr_import_value *value, int64_t *out) {
  if (value == NULL || value->ints == NULL || cr_import_count(value) != 1) return false;
  *out = value->ints[0];
  return true;
}

bool cr_import_is_uniform(const cr_import_value *value, float *out) {
  const int64_t count = cr_import_count(value);
  if (value->floats == NULL || count < 1) return false;
  for (int64_t i = 1; i < count; ++i) {
    if (!(value->floats[i] == value->floats[0])) return false;
  }
  *out = value->floats[0];
  return true;
}

/* ---- reading in another order ------------------------------------------------ */

void cr_import_dense(const crema_shape *shape, int64_t *stride) {
  int64_t next = 1;
  for (int i = shape->axes - 1; i >= 0; --i) {
    stride[i] = next;
    next *= shape->dim[i];
  }
}

void cr_import_step(cr_import_walk *walk) {
  for (int i = walk->shape->axes - 1; i >= 0; --i) {
    const bool more = ++walk->index[i] < walk->shape->dim[i];
    for (int k = 0; k < CR_IMPORT_WALKERS; ++k) {
      walk->at[k] += more ? walk->stride[k][i] : -walk->stride[k][i] * (walk->shape->dim[i] - 1);
    }
    if (more) return;
    walk->index[i] = 0;
  }
}

crema_status cr_import_remap(cr_import_node *node, const cr_import_value *from,
                             cr_import_walk *walk, cr_import_value *out) {
  size_t width = 0;
  void *to = NULL;
  const char *numbers = cr_import_numbers(from);
  CR_TRY(cr_import_fold_like(node, from, out, walk->shape, &width, &to));
  const int64_t count = cr_import_count(out);
  for (int64_t i = 0; i < count; ++i) {
    memcpy((char *)to + (size_t)i * width, numbers + walk->at[0] * (int64_t)width, width);
    cr_import_step(walk);
  }
  return CREMA_OK;
}

/* ---- broadcasting ------------------------------------------------------------- */

int64_t cr_import_aligned(const crema_shape *shape, int axes, int axis) {
  const int place = axis - (axes - shape->axes);
  return place < 0 ? 1 : shape->dim[place];
}

crema_status cr_import_broadcast(cr_import_node *node, const crema_shape *a, const crema_shape *b,
                                 crema_shape *out) {
  out->axes = a->axes > b->axes ? a->axes : b->axes;
  for (int i = 0; i < out->axes; ++i) {
    const int64_t x = cr_import_aligned(a, out->axes, i), y = cr_import_aligned(b, out->axes, i);
    if (x != y && x != 1 && y != 1) {
      char text[2][128];
      return cr_import_reject(node, "shapes %s and %s do not broadcast",
                              crema_shape_text(a, text[0], sizeof text[0]),
                              crema_shape_text(b, text[1], sizeof text[1]));
    }
    out->dim[i] = x == 1 ? y : x;
  }
  return crema_shape_check(out);
}

void cr_import_broadcast_strides(const crema_shape *from, const crema_shape *to, int64_t *stride) {
  int64_t dense[CREMA_MAX_AXES];
  cr_import_dense(from, dense);
  for (int i = 0; i < to->axes; ++i) {
    const int place = i - (to->axes - from->axes);
    stride[i] = place < 0 || from->dim[place] == 1 ? 0 : dense[place];
  }
}
