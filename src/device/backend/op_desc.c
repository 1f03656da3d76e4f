#include "device/backend/op_desc.h"

#include <ctype.h>
#include <string.h>

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

int cr_op_kind_arity(cr_op_kind kind, bool *more) {
  int fixed = 0;
  *more = strchr(cr_op_kind_args(kind), '*') != NULL;
  for (const char *p = cr_op_kind_args(kind); *p != '\0'; ++p)
    fixed += isalpha((unsigned char)*p) != 0;
  return fixed;
}

static cr_op_role role_of(char mark) {
  return mark == '+' ? CR_ROLE_ARITHMETIC : mark == '=' ? CR_ROLE_OWN : CR_ROLE_VALUES;
}

cr_op_use cr_op_kind_use(cr_op_kind kind, int args, int arg) {
  bool more = false;
  int repeats = 1 + args - cr_op_kind_arity(kind, &more);
  for (const char *p = cr_op_kind_args(kind); *p != '\0'; ++p) {
    if (!isalpha((unsigned char)*p)) continue;
    arg -= p[1] == '*' ? repeats : 1;
    if (arg >= 0) continue;
    return (cr_op_use){(char)toupper((unsigned char)*p), islower((unsigned char)*p) != 0,
                       role_of(p[1])};
  }
  return (cr_op_use){0};
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
