/* Arithmetic of constants. Floats are computed as single precision, integers as 64 bits that wrap
 * at the limits of their type. */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "onnx/import/fold.h"

bool cr_fold_is_int(int32_t type) {
  return type != CR_ONNX_FLOAT && type != CR_ONNX_DOUBLE && type != CR_ONNX_FLOAT16 &&
         type != CR_ONNX_BFLOAT16;
}

int64_t cr_fold_wrap(int32_t type, int64_t value) {
  switch (type) {
    case CR_ONNX_BOOL: return value != 0;
    case CR_ONNX_UINT8: return (uint8_t)value;
    case CR_ONNX_INT8: return (int8_t)value;
    case CR_ONNX_UINT16: return (uint16_t)value;
    case CR_ONNX_INT16: return (int16_t)value;
    case CR_ONNX_INT32: return (int32_t)value;
    case CR_ONNX_UINT32: return (uint32_t)value;
    default: return value;
  }
}

/* ---- casts ------------------------------------------------------------------------ */

static crema_status floats_to_ints(cr_import_node *node, int32_t type) {
  const cr_import_value *from = node->input[0];
  int64_t *to;
  CR_TRY(cr_import_fold_ints(node, node->output[0], from->shape, &to));
  const int64_t count = cr_import_count(from);
  for (int64_t i = 0; i < count; ++i) {
    const float x = from->floats[i];
    if (type == CR_ONNX_BOOL) {
      to[i] = x != 0;
    } else if (x > -9.0e18f && x < 9.0e18f && cr_fold_wrap(type, (int64_t)x) == (int64_t)x) {
      to[i] = (int64_t)x;
    } else {
      return cr_import_reject(node, "%g is not a number of the type", (double)x);
    }
  }
  node->output[0]->type = type;
  return CREMA_OK;
}

static crema_status ints_to_floats(cr_import_node *node) {
  const cr_import_value *from = node->input[0];
  float *to;
  CR_TRY(cr_import_fold_floats(node, node->output[0], from->shape, &to));
  const int64_t count = cr_import_count(from);
  for (int64_t i = 0; i < count; ++i) to[i] = (float)from->ints[i];
  return CREMA_OK;
}

static crema_status ints_to_ints(cr_import_node *node, int32_t type) {
  const cr_import_value *from = node->input[0];
  int64_t *to;
  CR_TRY(cr_import_fold_ints(node, node->output[0], from->shape, &to));
  const int64_t count = cr_import_count(from);
  for (int64_t i = 0; i < count; ++i) to[i] = cr_fold_wrap(type, from->ints[i]);
  node->output[0]->type = type;
  return CREMA_OK;
}

crema_status cr_fold_cast(cr_import_node *node) {
  const bool like = strcmp(node->op, "CastLike") == 0;
  const int32_t type = like ? node->input[1]->type : (int32_t)cr_import_int(node, "to", 0);
  if (type < CR_ONNX_FLOAT || type == CR_ONNX_STRING || type > CR_ONNX_BFLOAT16) {
    char text[CR_ONNX_TYPE_TEXT];
    return cr_import_reject(node, "a cast to %s", cr_onnx_type_name(type, text));
  }
  if (node->input[0]->floats == NULL) {
    return cr_fold_is_int(type) ? ints_to_ints(node, type) : ints_to_floats(node);
  }
  if (cr_fold_is_int(type)) return floats_to_ints(node, type);
  cr_import_alias(node->output[0], node->input[0]);
  node->output[0]->type = type;
  return CREMA_OK;
}

/* ---- one argument ----------------------------------------------------------------- */

static float reciprocal(float x) {
  return 1 / x;
}

static float negate(float x) {
  return -x;
}

static const struct {
  const char *op;
  float (*function)(float);
} unary[] = {
    {"Abs", fabsf},   {"Ceil", ceilf},
    {"Cos", cosf},    {"Erf", erff},
    {"Exp", expf},    {"Floor", floorf},
    {"Log", logf},    {"Neg", negate},
    {"Not", NULL},    {"Reciprocal", reciprocal},
    {"Round", rintf}, {"Sin", sinf},
    {"Sqrt", sqrtf},  {"Tanh", tanhf},
};

static int find_unary(const char *op) {
  for (size_t i = 0; i < sizeof unary / sizeof *unary; ++i) {
    if (strcmp(unary[i].op, op) == 0) return (int)i;
  }
  return -1;
}

bool cr_fold_is_unary(const char *op) {
  return find_unary(op) >= 0;
}

static crema_status unary_ints(cr_import_node *node) {
  const cr_import_value *from = node->input[0];
  const char op = node->op[0]; /* of Abs, Neg, Not */
  int64_t *to;
  if (strcmp(node->op, "Abs") != 0 && op != 'N') return cr_import_reject(node, "integers");
  CR_TRY(cr_import_fold_ints(node, node->output[0], from->shape, &to));
  const int64_t count = cr_import_count(from);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t x = from->ints[i], negative = (int64_t)(0 - (uint64_t)x);
    if (op == 'A') to[i] = x < 0 ? negative : x;
    else to[i] = node->op[1] == 'o' ? x == 0 : negative;
    to[i] = cr_fold_wrap(from->type, to[i]);
  }
  node->output[0]->type = from->type;
  return CREMA_OK;
}

crema_status cr_fold_unary(cr_import_node *node) {
  const cr_import_value *from = node->input[0];
  float (*function)(float) = unary[find_unary(node->op)].function;
  float *to;
  if (from->floats == NULL) return unary_ints(node);
  if (function == NULL) return cr_import_reject(node, "floats");
  CR_TRY(cr_import_fold_floats(node, node->output[0], from->shape, &to));
  const int64_t count = cr_import_count(from);
  for (int64_t i = 0; i < count; ++i) to[i] = function(from->floats[i]);
  node->output[0]->type = from->type;
  return CREMA_OK;
}

/* ---- two arguments ----------------------------------------------------------------- */

typedef enum binary_op {
  ADD,
  AND,
  DIV,
  EQUAL,
  GREATER,
  GREATER_OR_EQUAL,
  LESS,
  LESS_OR_EQUAL,
  MAX,
  MIN,
  MOD,
  MUL,
  OR,
  POW,
  SUB,
  XOR
} binary_op;

static const struct {
  const char *op;
  binary_op code;
  bool logical; /* gives booleans */
} binary[] = {
    {"Add", ADD, false},        {"And", AND, true},
    {"Div", DIV, false},        {"Equal", EQUAL, true},
    {"Greater", GREATER, true}, {"GreaterOrEqual", GREATER_OR_EQUAL, true},
    {"Less", LESS, true},       {"LessOrEqual", LESS_OR_EQUAL, true},
    {"Max", MAX, false},        {"Min", MIN, false},
    {"Mod", MOD, false},        {"Mul", MUL, false},
    {"Or", OR, true},           {"Pow", POW, false},
    {"Sub", SUB, false},        {"Xor", XOR, true},
};

static int find_binary(const char *op) {
  for (size_t i = 0; i < sizeof binary / sizeof *binary; ++i) {
    if (strcmp(binary[i].op, op) == 0) return (int)i;
  }
  return -1;
}

bool cr_fold_is_binary(const char *op) {
  return find_binary(op) >= 0;
}

/* A comparison of numbers whose order is `order`: below 0, 0, above 0; 2 for NaN. */
static bool compare(binary_op op, int order) {
  switch (op) {
    case EQUAL: return order == 0;
    case GREATER: return order == 1;
    case GREATER_OR_EQUAL: return order == 1 || order == 0;
    case LESS: return order == -1;
    default: return order == -1 || order == 0;
  }
}

static float compute_floats(binary_op op, float a, float b) {
  switch (op) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case DIV: return a / b;
    case POW: return powf(a, b);
    case MAX: return isnan(a) || a > b ? a : b;
    case MIN: return isnan(a) || a < b ? a : b;
    case MOD: return fmodf(a, b);
    default: return compare(op, isnan(a) || isnan(b) ? 2 : (a > b) - (a < b)) ? 1 : 0;
  }
}

/* False if the result is not a number. */
static bool compute_ints(binary_op op, bool fmod, const int64_t given[2], int64_t *out) {
  const int64_t a = given[0], b = given[1];
  const uint64_t x = (uint64_t)a, y = (uint64_t)b;
  double power;
  if ((op == DIV || op == MOD) && b == 0) return false;
  switch (op) {
    case ADD: *out = (int64_t)(x + y); break;
    case SUB: *out = (int64_t)(x - y); break;
    case MUL: *out = (int64_t)(x * y); break;
    case DIV: *out = b == -1 ? (int64_t)(0 - x) : a / b; break;
    case MOD: /* the sign of the divisor or, with `fmod`, of the dividend */
      *out = b == -1 ? 0 : a % b;
      if (!fmod && *out != 0 && (*out < 0) != (b < 0)) *out += b;
      break;
    case POW:
      power = pow((double)a, (double)b);
      if (b < 0 || fabs(power) >= CR_FOLD_EXACT) return false;
      *out = (int64_t)power;
      break;
    case MAX: *out = a > b ? a : b; break;
    case MIN: *out = a < b ? a : b; break;
    case AND: *out = a != 0 && b != 0; break;
    case OR: *out = a != 0 || b != 0; break;
    case XOR: *out = (a != 0) != (b != 0); break;
    default: *out = compare(op, (a > b) - (a < b)); break;
  }
  return true;
}

/* The two operands of a step, read at their places. */
typedef struct operands {
  const cr_import_value *a, *b;
  cr_import_walk walk;
  int64_t count;
} operands;

static crema_status read_operands(cr_import_node *node, const cr_import_value *a,
                                  const cr_import_value *b, crema_shape *shape, operands *out) {
  CR_TRY(cr_import_broadcast(node, a->shape, b->shape, shape));
  *out = (operands){.a = a, .b = b, .walk = {.shape = shape}};
  out->count = crema_shape_count(shape, 0, shape->axes);
  cr_import_broadcast_strides(a->shape, shape, out->walk.stride[0]);
  cr_import_broadcast_strides(b->shape, shape, out->walk.stride[1]);
  return CREMA_OK;
}

static crema_status binary_floats(cr_import_node *node, int row, const cr_import_value *a,
                                  const cr_import_value *b, cr_import_value *out) {
  operands o;
  crema_shape shape;
  float *to = NULL;
  int64_t *truths = NULL;
  CR_TRY(read_operands(node, a, b, &shape, &o));
  if (binary[row].code == MOD && cr_import_int(node, "fmod", 0) == 0) {
    return cr_import_reject(node, "floats without fmod");
  }
  if (binary[row].code == AND || binary[row].code == OR || binary[row].code == XOR) {
    return cr_import_reject(node, "floats");
  }
  if (binary[row].logical) CR_TRY(cr_import_fold_ints(node, out, &shape, &truths));
  else CR_TRY(cr_import_fold_floats(node, out, &shape, &to));
  out->type = binary[row].logical ? CR_ONNX_BOOL : a->type;
  for (int64_t i = 0; i < o.count; ++i) {
    const float y =
        compute_floats(binary[row].code, a->floats[o.walk.at[0]], b->floats[o.walk.at[1]]);
    if (truths != NULL) truths[i] = y != 0;
    else to[i] = y;
    cr_import_step(&o.walk);
  }
  return CREMA_OK;
}

static crema_status binary_ints(cr_import_node *node, int row, const cr_import_value *a,
                                const cr_import_value *b, cr_import_value *out) {
  operands o;
  crema_shape shape;
  int64_t *to;
  const int32_t type = binary[row].logical ? CR_ONNX_BOOL : a->type;
  const bool fmod = cr_import_int(node, "fmod", 0) != 0;
  CR_TRY(read_operands(node, a, b, &shape, &o));
  CR_TRY(cr_import_fold_ints(node, out, &shape, &to));
  out->type = type;
  for (int64_t i = 0; i < o.count; ++i) {
    const int64_t given[2] = {a->ints[o.walk.at[0]], b->ints[o.walk.at[1]]};
    if (!compute_ints(binary[row].code, fmod, given, &to[i])) {
      return cr_import_reject(node, "%lld and %lld have no result", (long long)given[0],
                              (long long)given[1]);
    }
    to[i] = cr_fold_wrap(type, to[i]);
    cr_import_step(&o.walk);
  }
  return CREMA_OK;
}

/* Max and Min have any number of inputs; all else has two. */
crema_status cr_fold_binary(cr_import_node *node) {
  const int row = find_binary(node->op);
  const bool any = binary[row].code == MAX || binary[row].code == MIN;
  const cr_import_value *left = node->input[0];
  if (!any && node->inputs != 2) return cr_import_reject(node, "%d inputs", node->inputs);
  for (int i = 1; i < node->inputs; ++i) {
    const cr_import_value *right = cr_import_input(node, i);
    cr_import_value *result = node->output[0];
    if (right == NULL || (left->floats != NULL) != (right->floats != NULL)) {
      return cr_import_reject(node, "its inputs have different types");
    }
    if (i + 1 < node->inputs) CR_TRY(cr_import_between(node, "folded", left->shape, &result));
    CR_TRY((left->floats != NULL ? binary_floats : binary_ints)(node, row, left, right, result));
    left = result;
  }
  return CREMA_OK;
}

/* ---- choice ------------------------------------------------------------------------- */

crema_status cr_fold_where(cr_import_node *node) {
  const cr_import_value *truth = node->input[0], *a = node->input[1], *b = node->input[2];
  crema_shape both, shape;
  size_t width = 0;
  void *to = NULL;
  if (truth->ints == NULL || (a->floats != NULL) != (b->floats != NULL)) {
    return cr_import_reject(node, "its inputs have different types");
  }
  CR_TRY(cr_import_broadcast(node, a->shape, b->shape, &both));
  CR_TRY(cr_import_broadcast(node, truth->shape, &both, &shape));
  cr_import_walk walk = {.shape = &shape};
  cr_import_broadcast_strides(truth->shape, &shape, walk.stride[0]);
  cr_import_broadcast_strides(a->shape, &shape, walk.stride[1]);
  cr_import_broadcast_strides(b->shape, &shape, walk.stride[2]);
  CR_TRY(cr_import_fold_like(node, a, node->output[0], &shape, &width, &to));
  const char *yes = cr_import_numbers(a), *no = cr_import_numbers(b);
  const int64_t count = crema_shape_count(&shape, 0, shape.axes);
  for (int64_t i = 0; i < count; ++i) {
    const bool first = truth->ints[walk.at[0]] != 0;
    const char *from = first ? yes + walk.at[1] * (int64_t)width : no + walk.at[2] * (int64_t)width;
    memcpy((char *)to + (size_t)i * width, from, width);
    cr_import_step(&walk);
  }
  return CREMA_OK;
}
