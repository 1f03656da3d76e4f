/* Building and comparing descriptions of ops. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "ops/op.h"

static crema_status desc_grow(cr_op_desc *desc) {
  cr_op_arg *arg = realloc(desc->arg, ((size_t)desc->args + 1) * sizeof *arg);
  if (arg == NULL) return cr_fail_memory(((size_t)desc->args + 1) * sizeof *arg, "an op");
  desc->arg = arg;
  memset(&arg[desc->args], 0, sizeof *arg);
  arg[desc->args].scale = 1;
  return CREMA_OK;
}

crema_status cr_op_desc_add(cr_op_desc *desc, const crema_shape *shape, crema_dtype type) {
  CR_TRY(crema_shape_check(shape));
  CR_TRY(desc_grow(desc));
  desc->arg[desc->args].shape = *shape;
  desc->arg[desc->args].type = type;
  ++desc->args;
  return CREMA_OK;
}

crema_status cr_op_desc_add_absent(cr_op_desc *desc) {
  CR_TRY(desc_grow(desc));
  desc->arg[desc->args].shape.axes = -1;
  desc->arg[desc->args].type = CREMA_F32;
  ++desc->args;
  return CREMA_OK;
}

void cr_op_desc_free(cr_op_desc *desc) {
  if (desc == NULL) return;
  free(desc->arg);
  *desc = (cr_op_desc){0};
}

bool cr_op_desc_same_params(const cr_op_desc *a, const cr_op_desc *b) {
  return a->kind == b->kind && a->type == b->type && memcmp(&a->u, &b->u, sizeof a->u) == 0;
}
