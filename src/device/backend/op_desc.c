#include "device/backend/op_desc.h"

#define ELEMENTS \
  { CR_COST_ELEMENTS, 0, 0 }
#define WINDOWS(result, weights) \
  { CR_COST_WINDOWS, result, weights }
#define MATRIX(weights) \
  { CR_COST_MATRIX, 0, weights }

static const struct {
  const char *name, *args;
  cr_op_cost cost;
} op_kinds[] = {
#define CR_OP(NAME, name, args, cost) {#name, args, cost},
#include "device/backend/ops.inc"
#undef CR_OP
};

static bool is_known(cr_op_kind kind) {
  return (unsigned)kind < CR_OP_KINDS;
}

const char *cr_op_kind_name(cr_op_kind kind) {
  return is_known(kind) ? op_kinds[kind].name : "?";
}

const char *cr_op_kind_args(cr_op_kind kind) {
  return is_known(kind) ? op_kinds[kind].args : "";
}

cr_op_cost cr_op_kind_cost(cr_op_kind kind) {
  return is_known(kind) ? op_kinds[kind].cost : (cr_op_cost)ELEMENTS;
}

int64_t cr_op_arg_count(const cr_op_desc *desc, int arg) {
  const crema_shape *shape = &desc->arg[arg].shape;
  return shape->axes < 0 ? 0 : crema_shape_count(shape, 0, shape->axes);
}

cr_split cr_op_split(const cr_op_desc *desc, int arg, int axis) {
  const crema_shape *shape = &desc->arg[arg].shape;
  cr_split out = {1, 1, 1};
  for (int a = 0; a < shape->axes; ++a) {
    if (a < axis) {
      out.outer *= shape->dim[a];
    } else if (a == axis) {
      out.channels = shape->dim[a];
    } else {
      out.inner *= shape->dim[a];
    }
  }
  return out;
}
