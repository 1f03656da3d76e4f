#include "layers/common/layer_op.h"

#include <string.h>

#include "core/fail.h"

cr_op_desc cr_layer_op_desc(cr_op_kind kind) {
  cr_op_desc desc;
  /* Padding bytes are zeroed too: same_parameters compares memory. */
  memset(&desc, 0, sizeof desc);
  desc.kind = kind;
  desc.type = CREMA_F32;
  return desc;
}

static bool same_parameters(const cr_op_desc *a, const cr_op_desc *b) {
  if (a->kind != b->kind || a->type != b->type) return false;
  return a->kind == CR_OP_SUM || memcmp(&a->u, &b->u, sizeof a->u) == 0;
}

static bool same_arguments(const cr_op_desc *made, int args, const crema_shape *const *shape,
                           const crema_dtype *type) {
  if (made->args != args) return false;
  for (int i = 0; i < args; ++i) {
    const cr_op_arg *arg = &made->arg[i];
    if ((shape[i] == NULL) != (arg->shape.axes < 0)) return false;
    if (shape[i] == NULL) continue;
    if (arg->type != (type ? type[i] : CREMA_F32)) return false;
    if (!crema_shape_equal(&arg->shape, shape[i])) return false;
  }
  return true;
}

static crema_status describe(cr_op_desc *desc, int args, const crema_shape *const *shape,
                             const crema_dtype *type) {
  for (int i = 0; i < args; ++i) {
    if (shape[i] == NULL) {
      CR_TRY(cr_op_desc_add_absent(desc));
    } else {
      CR_TRY(cr_op_desc_add(desc, shape[i], type ? type[i] : CREMA_F32));
    }
  }
  return CREMA_OK;
}

crema_status cr_layer_op_make(cr_layer_op *slot, const cr_op_desc *desc, int args,
                              const crema_shape *const *shape, const crema_dtype *type) {
  cr_op_desc made = *desc, given = *desc;
  crema_status status;
  if (desc->kind == CR_OP_SUM) made.u.sum.coeff = NULL;
  if (slot->op && same_parameters(&slot->made, desc) &&
      same_arguments(&slot->made, args, shape, type)) {
    cr_op_desc_free(&given);
    return CREMA_OK;
  }
  cr_layer_op_free(slot);
  CR_TRY_GOTO(describe(&made, args, shape, type), fail);
  CR_TRY_GOTO(describe(&given, args, shape, type), fail);
  CR_TRY_GOTO(cr_op_create(&given, &slot->op), fail);
  slot->made = made;
  return CREMA_OK;
fail:
  cr_op_desc_free(&given);
  cr_op_desc_free(&made);
  return status;
}

void cr_layer_op_free(cr_layer_op *slot) {
  cr_op_destroy(slot->op);
  slot->op = NULL;
  cr_op_desc_free(&slot->made);
}

crema_status cr_layer_op_run(cr_layer_op *slot, crema_context *context, cr_tensor *const *tensor,
                             const cr_op_scalars *scalars) {
  if (slot->op == NULL) return cr_fail(CREMA_E_STATE, "the layer has no shapes yet");
  return cr_op_run(slot->op, context, tensor, scalars);
}

crema_status cr_layer_tensor(cr_tensor **tensor, crema_dtype type, int64_t count) {
  if (*tensor == NULL) return cr_tensor_create(type, count, tensor);
  if (cr_tensor_count(*tensor) == count) return CREMA_OK;
  return cr_tensor_resize(*tensor, count);
}

crema_status cr_layer_axis(const cr_layer *layer, const crema_shape *shape, int axis,
                           const char *field, int *out) {
  char text[128];
  if (crema_shape_axis(shape, axis, out) == CREMA_OK) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_RANGE,
                       "%s %d is out of range for a blob of %d axes, shape %s", field, axis,
                       shape->axes, crema_shape_text(shape, text, sizeof text));
}

bool cr_layer_in_place(const crema_blob *bottom, const crema_blob *top) {
  return bottom == top || cr_tensor_shares_with(bottom->data, top->data);
}

crema_shape cr_layer_fold(const crema_shape *shape, int from, int to) {
  return cr_shape_3(crema_shape_count(shape, 0, from), crema_shape_count(shape, from, to),
                    crema_shape_count(shape, to, shape->axes));
}

crema_status cr_layer_same_shape(const cr_layer *layer, const char *what,
                                 const crema_shape *expected, const crema_shape *found) {
  char a[128], b[128];
  if (crema_shape_equal(expected, found)) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE, "%s must have shape %s, found %s", what,
                       crema_shape_text(expected, a, sizeof a),
                       crema_shape_text(found, b, sizeof b));
}
