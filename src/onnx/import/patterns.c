/* Patterns of nodes that are one operator: exporters write them for operators that the operator set
 * of the file lacks. Only the last node is replaced; the other nodes die unless something else
 * reads them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "onnx/import/live.h"

/* The nodes by the names of their outputs. */
typedef struct makers {
  cr_import *import;
  cr_name_map index;
} makers;

/* The node that makes a value, if its operator is `op`; else NULL. */
static const Onnx__NodeProto *maker_of(const makers *m, const char *value, const char *op) {
  const int at = cr_name_map_get(&m->index, value);
  if (at < 0) return NULL;
  const Onnx__NodeProto *node = m->import->node[at];
  return node->op_type != NULL && strcmp(node->op_type, op) == 0 ? node : NULL;
}

/* A node of this operator with two inputs; else NULL. */
static const Onnx__NodeProto *pair_of(const makers *m, const char *value, const char *op) {
  const Onnx__NodeProto *node = maker_of(m, value, op);
  return node != NULL && node->n_input == 2 ? node : NULL;
}

/* Whether a value is a constant number near `number`. */
static bool is_number(const makers *m, const char *value, double number) {
  const cr_import_value *known = cr_import_find_value(m->import, value);
  const Onnx__NodeProto *node = maker_of(m, value, "Constant");
  cr_import_value own = {0};
  if (known == NULL && node != NULL && node->n_attribute == 1) {
    const Onnx__AttributeProto *at = node->attribute[0];
    if (at->name != NULL && strcmp(at->name, "value_float") == 0) {
      return fabs((double)at->f - number) <= 1e-5 * fabs(number);
    }
    const bool small =
        at->t != NULL && at->t->n_dims <= 1 && (at->t->n_dims == 0 || at->t->dims[0] == 1);
    if (small && cr_import_tensor(m->import, at->t, &own) == CREMA_OK) known = &own;
  }
  if (known == NULL || known->shape == NULL || cr_import_count(known) != 1) return false;
  const double found = known->floats != NULL ? (double)known->floats[0]
                       : known->ints != NULL ? (double)known->ints[0]
                                             : NAN;
  return fabs(found - number) <= 1e-5 * fabs(number);
}

/* The input of a node that is not the constant `number`; NULL: neither or both are. */
static const char *other_than(const makers *m, const Onnx__NodeProto *node, double number) {
  if (node == NULL) return NULL;
  const bool first = is_number(m, node->input[0], number);
  const bool second = is_number(m, node->input[1], number);
  return first == second ? NULL : node->input[first ? 1 : 0];
}

/* The input of a node that is not `value`; NULL: neither or both are. */
static const char *other_than_value(const Onnx__NodeProto *node, const char *value) {
  if (node == NULL) return NULL;
  const bool first = strcmp(node->input[0], value) == 0;
  const bool second = strcmp(node->input[1], value) == 0;
  return first == second ? NULL : node->input[first ? 1 : 0];
}

/* ---- products ------------------------------------------------------------------------ */

/* The three factors of a product whose input `i` is a product. */
static bool three_factors(const makers *m, const Onnx__NodeProto *last, int i,
                          const char *factor[3]) {
  const Onnx__NodeProto *inner = pair_of(m, last->input[i], "Mul");
  if (inner == NULL) return false;
  factor[0] = last->input[1 - i];
  factor[1] = inner->input[0];
  factor[2] = inner->input[1];
  return true;
}

/* x / sqrt(2), or x times its reciprocal. */
static bool is_scaled(const makers *m, const char *value, const char *x) {
  const Onnx__NodeProto *quotient = pair_of(m, value, "Div");
  if (quotient != NULL) {
    return strcmp(quotient->input[0], x) == 0 && is_number(m, quotient->input[1], sqrt(2));
  }
  const char *found = other_than(m, pair_of(m, value, "Mul"), sqrt(0.5));
  return found != NULL && strcmp(found, x) == 0;
}

/* sqrt(2 / pi) (x + 0.044715 x^3) */
static bool is_tanh_argument(const makers *m, const char *value, const char *x) {
  const char *sum = other_than(m, pair_of(m, value, "Mul"), sqrt(2 / acos(-1)));
  const char *term = sum == NULL ? NULL : other_than_value(pair_of(m, sum, "Add"), x);
  const char *cube = term == NULL ? NULL : other_than(m, pair_of(m, term, "Mul"), 0.044715);
  if (cube == NULL) return false;
  const Onnx__NodeProto *power = pair_of(m, cube, "Pow");
  if (power != NULL) return strcmp(power->input[0], x) == 0 && is_number(m, power->input[1], 3);
  const char *square = other_than_value(pair_of(m, cube, "Mul"), x);
  const Onnx__NodeProto *product = square == NULL ? NULL : pair_of(m, square, "Mul");
  return product != NULL && strcmp(product->input[0], x) == 0 && strcmp(product->input[1], x) == 0;
}

/* The name of the approximation if `value` is the last factor of a GELU of x: 1 + erf(x / sqrt(2)),
 * or 1 + tanh(...); else NULL. */
static const char *gelu_kind(const makers *m, const char *value, const char *x) {
  const char *found = other_than(m, pair_of(m, value, "Add"), 1);
  if (found == NULL) return NULL;
  const Onnx__NodeProto *erf = maker_of(m, found, "Erf"), *tanh_node = maker_of(m, found, "Tanh");
  if (erf != NULL && erf->n_input == 1 && is_scaled(m, erf->input[0], x)) return "none";
  if (tanh_node == NULL || tanh_node->n_input != 1) return NULL;
  return is_tanh_argument(m, tanh_node->input[0], x) ? "tanh" : NULL;
}

/* ---- the replacement ------------------------------------------------------------------ */

/* A node like `last` with one input and, if it is not NULL, the attribute "approximate". */
static crema_status replace(cr_import *import, size_t at, const char *op, const char *x,
                            const char *kind) {
  static const Onnx__AttributeProto empty = ONNX__ATTRIBUTE_PROTO__INIT;
  struct parts {
    Onnx__NodeProto node;
    Onnx__AttributeProto attribute;
    Onnx__AttributeProto *attributes[1];
    char *input[1];
  } * parts;
  void *memory;
  CR_TRY(cr_arena_alloc(&import->arena, sizeof *parts, &memory));
  parts = memory;
  parts->node = *import->node[at];
  parts->node.op_type = (char *)(uintptr_t)op;
  parts->input[0] = (char *)(uintptr_t)x;
  parts->node.n_input = 1;
  parts->node.input = parts->input;
  if (kind != NULL) {
    parts->attribute = empty;
    parts->attribute.name = (char *)(uintptr_t) "approximate";
    parts->attribute.s.data = (uint8_t *)(uintptr_t)kind;
    parts->attribute.s.len = strlen(kind);
    parts->attributes[0] = &parts->attribute;
    parts->node.n_attribute = 1;
    parts->node.attribute = parts->attributes;
  }
  import->node[at] = &parts->node;
  return CREMA_OK;
}

/* 0.5 x (1 + erf(x / sqrt(2))), its factors in any order. NULL: other factors.
 */
static const char *match_gelu(const makers *m, const char *const factor[3], const char **x) {
  *x = NULL;
  for (int i = 0; i < 3; ++i) {
    if (!is_number(m, factor[i], 0.5)) continue;
    for (int k = 1; k < 3; ++k) {
      *x = factor[(i + k) % 3];
      const char *kind = gelu_kind(m, factor[(i + 3 - k) % 3], *x);
      if (kind != NULL) return kind;
    }
  }
  return NULL;
}

static crema_status find_gelu(makers *m, size_t at, bool *found) {
  const Onnx__NodeProto *last = m->import->node[at];
  for (int i = 0; i < 2 && last->n_input == 2; ++i) {
    const char *factor[3], *x;
    const char *kind = three_factors(m, last, i, factor) ? match_gelu(m, factor, &x) : NULL;
    if (kind == NULL) continue;
    *found = true;
    return replace(m->import, at, "Gelu", x, kind);
  }
  return CREMA_OK;
}

/* x sigmoid(x) */
static crema_status find_swish(makers *m, size_t at) {
  const Onnx__NodeProto *node = m->import->node[at];
  for (int i = 0; i < 2 && node->n_input == 2; ++i) {
    const Onnx__NodeProto *gate = maker_of(m, node->input[i], "Sigmoid");
    if (gate == NULL || gate->n_input != 1) continue;
    if (strcmp(gate->input[0], node->input[1 - i]) != 0) continue;
    return replace(m->import, at, "Swish", gate->input[0], NULL);
  }
  return CREMA_OK;
}

static bool is_standard(const Onnx__NodeProto *node) {
  return node->domain == NULL || node->domain[0] == '\0' || strcmp(node->domain, "ai.onnx") == 0;
}

static crema_status find_all(makers *m) {
  const Onnx__GraphProto *graph = m->import->model->proto->graph;
  for (size_t i = 0; i < graph->n_node; ++i) {
    const Onnx__NodeProto *node = graph->node[i];
    for (size_t k = 0; k < node->n_output && is_standard(node); ++k) {
      CR_TRY(cr_name_map_set(&m->index, node->output[k], (int)i));
    }
  }
  for (size_t i = 0; i < graph->n_node; ++i) {
    bool found = false;
    const Onnx__NodeProto *node = graph->node[i];
    if (node->op_type == NULL || strcmp(node->op_type, "Mul") != 0 || !is_standard(node)) continue;
    CR_TRY(find_gelu(m, i, &found));
    if (!found) CR_TRY(find_swish(m, i));
  }
  return CREMA_OK;
}

crema_status cr_import_find_patterns(cr_import *import) {
  const Onnx__GraphProto *graph = import->model->proto->graph;
  makers m = {.import = import};
  void *nodes;
  CR_TRY(cr_arena_alloc(&import->arena, (graph->n_node + 1) * sizeof(void *), &nodes));
  import->node = nodes;
  for (size_t i = 0; i < graph->n_node; ++i) import->node[i] = graph->node[i];
  crema_status status = find_all(&m);
  cr_name_map_free(&m.index);
  return status;
}
