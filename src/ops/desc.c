/* Building and comparing descriptions of ops. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "ops/op.h"

crema_status cr_op_desc_copy(const cr_op_desc *desc, cr_op_desc **out) {
  const size_t bytes = cr_op_desc_size(desc);
  cr_op_desc *copy = malloc(bytes);
  if (copy == NULL) return cr_fail_memory(bytes, "an op");
  memcpy(copy, desc, bytes);
  *out = copy;
  return CREMA_OK;
}

/* Requires memory that is all zero. Extents after the last axis can have any value and stay zero.
 */
static crema_status set_argument(cr_op_arg *arg, const crema_shape *shape, float scale) {
  arg->type = CREMA_F32;
  arg->scale = 1;
  arg->shape.axes = -1;
  if (shape == NULL) return CREMA_OK;
  CR_TRY(crema_shape_check(shape));
  arg->shape.axes = shape->axes;
  memcpy(arg->shape.dim, shape->dim, (size_t)shape->axes * sizeof *shape->dim);
  arg->scale = scale;
  return CREMA_OK;
}

crema_status cr_op_describe_numbers(const cr_op_desc *desc, int args,
                                    const crema_shape *const *shape, const float *scale,
                                    int numbers, const float *number, cr_op_desc **out) {
  const size_t bytes = cr_op_desc_bytes(args) + (size_t)numbers * sizeof *number;
  cr_op_desc *made = calloc(1, bytes);
  crema_status status = CREMA_OK;
  if (made == NULL) return cr_fail_memory(bytes, "an op");
  memcpy(made, desc, sizeof *desc);
  made->args = args;
  made->numbers = numbers;
  if (numbers > 0) memcpy(&made->arg[args], number, (size_t)numbers * sizeof *number);
  for (int i = 0; i < args; ++i) {
    CR_TRY_GOTO(set_argument(&made->arg[i], shape[i], scale != NULL ? scale[i] : 1), fail);
  }
  *out = made;
  return CREMA_OK;
fail:
  cr_op_desc_free(made);
  return status;
}

crema_status cr_op_describe(const cr_op_desc *desc, int args, const crema_shape *const *shape,
                            const float *scale, cr_op_desc **out) {
  return cr_op_describe_numbers(desc, args, shape, scale, 0, NULL, out);
}

void cr_op_desc_free(cr_op_desc *desc) {
  free(desc);
}

bool cr_op_desc_same(const cr_op_desc *a, const cr_op_desc *b) {
  return a->args == b->args && a->numbers == b->numbers && memcmp(a, b, cr_op_desc_size(a)) == 0;
}
