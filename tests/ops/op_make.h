/* Single ops, made by hand. */
#ifndef CR_TESTS_OP_MAKE_H
#define CR_TESTS_OP_MAKE_H

#include <string.h>

#include "check.h"
#include "ops/op.h"

/* All zero but for these. */
static inline cr_op_desc op_blank(cr_op_kind kind, crema_dtype type) {
  cr_op_desc desc;
  memset(&desc, 0, sizeof desc);
  desc.kind = kind;
  desc.type = type;
  return desc;
}

static inline cr_op *op_make(const cr_op_desc *given, int args, const crema_shape *const *shape) {
  cr_op_desc *desc = NULL;
  cr_op *op = NULL;
  ok(cr_op_describe(given, args, shape, NULL, &desc));
  ok(cr_op_create(&desc, &op));
  assert_null(desc); /* the op's */
  return op;
}

#endif
