/* The same numbers under another shape or name. */
#include <string.h>

#include "core/fail.h"
#include "onnx/import/fold.h"
#include "onnx/import/numbers.h"

static crema_status view_input(cr_import_node *node, const crema_shape *shape) {
  return cr_import_view(node, node->input[0], shape, &node->output[0]);
}

crema_status cr_import_identity(cr_import_node *node) {
  cr_import_alias(node->output[0], node->input[0]);
  return CREMA_OK;
}

/* At inference nothing is dropped; the mask is not computed. */
crema_status cr_import_dropout(cr_import_node *node) {
  const cr_import_value *training = cr_import_input(node, 2);
  const bool off = training == NULL || (training->ints != NULL && cr_import_count(training) == 1 &&
                                        training->ints[0] == 0);
  if (!off) return cr_import_reject(node, "training_mode");
  if (node->outputs > 1 && node->output[1] != NULL) return cr_import_reject(node, "the mask");
  return cr_import_identity(node);
}

/* Blobs have floats, so casts between types of floats, and of integers to floats, are no work. */
crema_status cr_import_cast(cr_import_node *node) {
  const bool like = strcmp(node->op, "CastLike") == 0;
  const int32_t from = node->input[0]->type;
  if (like) CR_TRY(cr_import_need(node, 2));
  const int32_t to = like ? node->input[1]->type : (int32_t)cr_import_int(node, "to", 0);
  const bool floating =
      to >= CR_ONNX_FLOAT && to <= CR_ONNX_BFLOAT16 && to != CR_ONNX_STRING && !cr_fold_is_int(to);
  const bool wider = to == CR_ONNX_INT64 || (to == CR_ONNX_INT32 && from != CR_ONNX_UINT32);
  if (!floating && !(to == from) && !(wider && cr_fold_is_int(from))) {
    char text[2][CR_ONNX_TYPE_TEXT];
    return cr_import_reject(node, "a cast from %s to %s", cr_onnx_type_name(from, text[0]),
                            cr_onnx_type_name(to, text[1]));
  }
  CR_TRY(cr_import_identity(node));
  node->output[0]->type = to;
  return CREMA_OK;
}

/* ---- Reshape ----------------------------------------------------------------------- */

/* Replaces 0 by the extent of the input, and -1 by the rest. */
static crema_status resolve(cr_import_node *node, const int64_t *dims, crema_shape *out) {
  const crema_shape *from = node->input[0]->shape;
  const bool zeros = cr_import_int(node, "allowzero", 0) != 0;
  int open = -1;
  for (int i = 0; i < out->axes; ++i) {
    out->dim[i] = dims[i];
    if (dims[i] == 0 && !zeros) {
      if (i >= from->axes) return cr_import_reject(node, "no axis %d to copy", i);
      out->dim[i] = from->dim[i];
    } else if (dims[i] == -1) {
      if (open >= 0) return cr_import_reject(node, "two extents of -1");
      open = i;
      out->dim[i] = 1;
    }
  }
  CR_TRY(crema_shape_check(out));
  if (open < 0) return CREMA_OK;
  const int64_t rest = crema_shape_count(out, 0, out->axes);
  const int64_t count = cr_import_count(node->input[0]);
  if (rest == 0 || count % rest != 0) return cr_import_reject(node, "-1 has no extent");
  out->dim[open] = count / rest;
  return CREMA_OK;
}

crema_status cr_import_reshape(cr_import_node *node) {
  const int64_t *dims = NULL;
  size_t count = 0;
  crema_shape shape;
  CR_TRY(cr_import_int_list(node, "shape", 1, &dims, &count));
  if (count > CREMA_MAX_AXES) return cr_import_reject(node, "%zu axes", count);
  shape.axes = (int)count;
  CR_TRY(resolve(node, dims, &shape));
  return view_input(node, &shape);
}

crema_status cr_import_flatten(cr_import_node *node) {
  const crema_shape *from = node->input[0]->shape;
  int64_t axis = cr_import_int(node, "axis", 1);
  if (axis < 0) axis += from->axes;
  if (axis < 0 || axis > from->axes) return cr_import_reject(node, "axis %lld", (long long)axis);
  const crema_shape shape = {.axes = 2,
                             .dim = {crema_shape_count(from, 0, (int)axis),
                                     crema_shape_count(from, (int)axis, from->axes)}};
  return view_input(node, &shape);
}

/* ---- axes of extent 1 ---------------------------------------------------------------- */

/* Marks the axes that an attribute or input 1 lists. *given: whether there is a list. */
static crema_status read_axes(cr_import_node *node, int axes, bool *marked, bool *given) {
  const int64_t *list = NULL;
  size_t count = 0;
  CR_TRY(cr_import_int_list(node, "axes", 1, &list, &count));
  *given = list != NULL;
  for (size_t i = 0; i < count; ++i) {
    int axis;
    CR_TRY(cr_import_axis(node, list[i], axes, &axis));
    if (marked[axis]) return cr_import_reject(node, "axis %d is listed twice", axis);
    marked[axis] = true;
  }
  return CREMA_OK;
}

crema_status cr_import_squeeze(cr_import_node *node) {
  const crema_shape *from = node->input[0]->shape;
  bool marked[CREMA_MAX_AXES] = {false}, given;
  crema_shape shape = {0};
  CR_TRY(read_axes(node, from->axes, marked, &given));
  for (int i = 0; i < from->axes; ++i) {
    if (marked[i] && from->dim[i] != 1) {
      return cr_import_reject(node, "axis %d has extent %lld", i, (long long)from->dim[i]);
    }
    if (given ? !marked[i] : from->dim[i] != 1) shape.dim[shape.axes++] = from->dim[i];
  }
  return view_input(node, &shape);
}

crema_status cr_import_unsqueeze(cr_import_node *node) {
  const crema_shape *from = node->input[0]->shape;
  bool marked[CREMA_MAX_AXES] = {false}, given;
  const int64_t *list = NULL;
  size_t count = 0;
  int next = 0;
  CR_TRY(cr_import_int_list(node, "axes", 1, &list, &count));
  if (count > CREMA_MAX_AXES || from->axes + (int)count > CREMA_MAX_AXES) {
    return cr_import_reject(node, "too many axes");
  }
  crema_shape shape = {.axes = from->axes + (int)count};
  CR_TRY(read_axes(node, shape.axes, marked, &given));
  if (!given) return cr_import_reject(node, "no axes");
  for (int i = 0; i < shape.axes; ++i) shape.dim[i] = marked[i] ? 1 : from->dim[next++];
  return view_input(node, &shape);
}
