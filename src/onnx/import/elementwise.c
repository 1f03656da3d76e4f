/* Arithmetic of two values or more. */
#include "onnx/import/elementwise.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/fail.h"

crema_status cr_import_map(cr_import_node *node, cr_import_value *value, cr_import_value **out,
                           const char *text, ...) {
  char fields[512];
  va_list args;
  va_start(args, text);
  (void)vsnprintf(fields, sizeof fields, text, args);
  va_end(args);
  if (*out == NULL) CR_TRY(cr_import_between(node, "part", value->shape, out));
  else CR_TRY(cr_import_set_shape(node->import, *out, value->shape));
  (*out)->type = value->type;
  return cr_import_wide_layer(node, &value, 1, out, 1, fields);
}

/* (scale x + shift)^power */
static crema_status power(cr_import_node *node, cr_import_value *x, double exponent,
                          const double line[2], cr_import_value **out) {
  return cr_import_map(node, x, out,
                       "type: \"Power\" power_param { power: %.9g scale: %.9g shift: %.9g }",
                       exponent, line[0], line[1]);
}

static crema_status negate(cr_import_node *node, cr_import_value *x, cr_import_value **out) {
  return power(node, x, 1, (const double[]){-1, 0}, out);
}

static crema_status invert(cr_import_node *node, cr_import_value *x, cr_import_value **out) {
  return power(node, x, -1, (const double[]){1, 0}, out);
}

/* ---- values of one shape ------------------------------------------------------ */

static crema_status eltwise(cr_import_node *node, const char *operation, cr_import_value *a,
                            cr_import_value *b, cr_import_value **out) {
  cr_import_value *const bottom[] = {a, b};
  char text[128];
  snprintf(text, sizeof text, "type: \"Eltwise\" eltwise_param { operation: %s }", operation);
  if (*out == NULL) CR_TRY(cr_import_between(node, "part", a->shape, out));
  else CR_TRY(cr_import_set_shape(node->import, *out, a->shape));
  (*out)->type = cr_import_is_constant(a) ? b->type : a->type;
  return cr_import_wide_layer(node, bottom, 2, out, 1, text);
}

static crema_status combine_equals(cr_import_node *node, cr_import_arithmetic op,
                                   cr_import_value *a, cr_import_value *b, cr_import_value **out) {
  cr_import_value *x = NULL, *y = NULL, *largest = NULL;
  switch (op) {
    case CR_IMPORT_ADD: return eltwise(node, "SUM", a, b, out);
    case CR_IMPORT_SUB: return eltwise(node, "SUM coeff: 1 coeff: -1", a, b, out);
    case CR_IMPORT_MUL: return eltwise(node, "PROD", a, b, out);
    case CR_IMPORT_MAX: return eltwise(node, "MAX", a, b, out);
    case CR_IMPORT_DIV: CR_TRY(invert(node, b, &y)); return eltwise(node, "PROD", a, y, out);
    default: break;
  }
  /* The smallest is the negative of the largest of the negatives. */
  CR_TRY(negate(node, a, &x));
  CR_TRY(negate(node, b, &y));
  CR_TRY(eltwise(node, "MAX", x, y, &largest));
  return negate(node, largest, out);
}

/* ---- an operand that is repeated over some axes ------------------------------------ */

/* Axes first to last - 1 of the larger shape. */
typedef struct axis_span {
  int first, last;
} axis_span;

/* The axes of the larger shape that the operand needs: from its first that is not repeated to its
 * last. Axes before them belong to the span if the operand has them as well, so that the batch may
 * change. */
static axis_span find_span(const cr_import_value *small, const crema_shape *large) {
  const crema_shape *shape = small->shape;
  axis_span found = {large->axes, 0};
  for (int i = 0; i < large->axes; ++i) {
    if (cr_import_aligned(shape, large->axes, i) == 1) continue;
    if (i < found.first) found.first = i;
    found.last = i + 1;
  }
  const bool may_extend = !cr_import_is_constant(small) && shape->axes == large->axes;
  if (found.last == 0) {
    return (axis_span){0, may_extend && large->axes > 0 && shape->dim[0] == large->dim[0] ? 1 : 0};
  }
  for (int i = 0; i < found.first; ++i) {
    if (!may_extend || shape->dim[i] != large->dim[i]) return found;
  }
  return (axis_span){0, found.last};
}

/* The operand with the shape of a span. */
static crema_status fit_span(cr_import_node *node, cr_import_value *small, const crema_shape *large,
                             axis_span at, cr_import_value **out) {
  crema_shape whole = {.axes = large->axes}, part = {.axes = at.last - at.first};
  cr_import_value *whole_value = NULL;
  for (int i = 0; i < large->axes; ++i) {
    const bool inside = i >= at.first && i < at.last;
    whole.dim[i] = inside ? large->dim[i] : 1;
    if (inside) part.dim[i - at.first] = large->dim[i];
  }
  CR_TRY(cr_import_expand_to(node, small, &whole, &whole_value));
  return cr_import_view(node, whole_value, &part, out);
}

/* Adds the repeated operand to x, or multiplies x by it. */
static crema_status affine(cr_import_node *node, bool scales, cr_import_value *x,
                           cr_import_value *small, cr_import_value **out) {
  const axis_span at = find_span(small, x->shape);
  cr_import_value *operand = NULL;
  char text[128];
  CR_TRY(fit_span(node, small, x->shape, at, &operand));
  const bool fixed = cr_import_is_constant(operand);
  cr_import_value *const bottom[] = {x, operand};
  snprintf(text, sizeof text,
           scales ? "type: \"Scale\" scale_param { axis: %d num_axes: %d }"
                  : "type: \"Bias\" bias_param { axis: %d num_axes: %d }",
           at.first, at.last - at.first);
  if (*out == NULL) CR_TRY(cr_import_between(node, "part", x->shape, out));
  else CR_TRY(cr_import_set_shape(node->import, *out, x->shape));
  (*out)->type = x->type;
  CR_TRY(cr_import_wide_layer(node, bottom, fixed ? 1 : 2, out, 1, text));
  if (!fixed) return CREMA_OK;
  return cr_import_weights_of(node->import, operand->shape, operand->floats);
}

/* A constant with each number replaced by its negative or reciprocal. */
static crema_status change_constant(cr_import_node *node, const cr_import_value *from, bool inverts,
                                    cr_import_value **out) {
  float *to;
  CR_TRY(cr_import_between(node, "constant", from->shape, out));
  CR_TRY(cr_import_fold_floats(node, *out, from->shape, &to));
  const int64_t count = cr_import_count(from);
  for (int64_t i = 0; i < count; ++i) {
    to[i] = inverts ? 1 / from->floats[i] : -from->floats[i];
    if (!isfinite(to[i]))
      return cr_import_reject(node, "a division by %g", (double)from->floats[i]);
  }
  return CREMA_OK;
}

/* x has the shape of the result, y is repeated. `swapped`: y is the first operand. */
static crema_status combine_repeated(cr_import_node *node, cr_import_arithmetic op,
                                     cr_import_value *x, cr_import_value *y, bool swapped,
                                     cr_import_value **out) {
  const bool divides = op == CR_IMPORT_DIV, subtracts = op == CR_IMPORT_SUB;
  cr_import_value *changed = NULL;
  if (op == CR_IMPORT_MAX || op == CR_IMPORT_MIN) {
    CR_TRY(cr_import_expand_to(node, y, x->shape, &changed));
    return combine_equals(node, op, x, changed, out);
  }
  if ((divides || subtracts) && swapped) {
    CR_TRY(divides ? invert(node, x, &changed) : negate(node, x, &changed));
    x = changed;
  } else if (divides || subtracts) {
    if (cr_import_is_constant(y)) CR_TRY(change_constant(node, y, divides, &changed));
    else CR_TRY(divides ? invert(node, y, &changed) : negate(node, y, &changed));
    y = changed;
  }
  return affine(node, op == CR_IMPORT_MUL || divides, x, y, out);
}

/* ---- a number -------------------------------------------------------------------- */

/* x combined with the number c; `swapped`: c is the first operand. */
static crema_status combine_number(cr_import_node *node, cr_import_arithmetic op,
                                   cr_import_value *x, float c, bool swapped,
                                   cr_import_value **out) {
  const double number = (double)c;
  cr_import_value *inverse = NULL;
  if (!isfinite(c)) return cr_import_reject(node, "the constant %g", number);
  switch (op) {
    case CR_IMPORT_ADD: return power(node, x, 1, (const double[]){1, number}, out);
    case CR_IMPORT_MUL: return power(node, x, 1, (const double[]){number, 0}, out);
    case CR_IMPORT_SUB:
      if (swapped) return power(node, x, 1, (const double[]){-1, number}, out);
      return power(node, x, 1, (const double[]){1, -number}, out);
    case CR_IMPORT_MAX:
      if (c == 0) return cr_import_map(node, x, out, "type: \"ReLU\"");
      return cr_import_map(node, x, out, "type: \"Clip\" clip_param { min: %.9g max: inf }",
                           number);
    case CR_IMPORT_MIN:
      return cr_import_map(node, x, out, "type: \"Clip\" clip_param { min: -inf max: %.9g }",
                           number);
    default: break;
  }
  if (swapped) {
    CR_TRY(invert(node, x, c == 1 ? out : &inverse));
    return c == 1 ? CREMA_OK : power(node, inverse, 1, (const double[]){number, 0}, out);
  }
  if (!isfinite(1 / c)) return cr_import_reject(node, "a division by %g", number);
  return power(node, x, 1, (const double[]){1 / number, 0}, out);
}

crema_status cr_import_combine(cr_import_node *node, cr_import_arithmetic op, cr_import_value *a,
                               cr_import_value *b, cr_import_value **out) {
  const bool swapped = cr_import_is_constant(a);
  cr_import_value *x = swapped ? b : a, *y = swapped ? a : b;
  crema_shape shape;
  float number;
  CR_TRY(cr_import_broadcast(node, a->shape, b->shape, &shape));
  if (cr_import_is_constant(x)) return cr_import_reject(node, "both operands are constant");
  if (y->ints != NULL) return cr_import_reject(node, "a constant of integers");
  if (cr_import_is_constant(y)) {
    cr_import_value *whole = NULL;
    CR_TRY(cr_import_expand_to(node, x, &shape, &whole));
    if (cr_import_is_uniform(y, &number)) {
      return combine_number(node, op, whole, number, swapped, out);
    }
    return combine_repeated(node, op, whole, y, swapped, out);
  }
  if (crema_shape_equal(a->shape, b->shape)) return combine_equals(node, op, a, b, out);
  if (crema_shape_equal(a->shape, &shape)) return combine_repeated(node, op, a, b, false, out);
  if (crema_shape_equal(b->shape, &shape)) return combine_repeated(node, op, b, a, true, out);
  cr_import_value *whole = NULL;
  CR_TRY(cr_import_expand_to(node, a, &shape, &whole));
  return combine_repeated(node, op, whole, b, false, out);
}

/* ---- operators --------------------------------------------------------------------- */

static crema_status combine_inputs(cr_import_node *node, cr_import_arithmetic op) {
  CR_TRY(cr_import_need(node, 2));
  return cr_import_combine(node, op, node->input[0], node->input[1], &node->output[0]);
}

crema_status cr_import_add(cr_import_node *node) {
  return combine_inputs(node, CR_IMPORT_ADD);
}

crema_status cr_import_sub(cr_import_node *node) {
  return combine_inputs(node, CR_IMPORT_SUB);
}

crema_status cr_import_mul(cr_import_node *node) {
  return combine_inputs(node, CR_IMPORT_MUL);
}

crema_status cr_import_div(cr_import_node *node) {
  return combine_inputs(node, CR_IMPORT_DIV);
}

crema_status cr_import_pow(cr_import_node *node) {
  float number;
  cr_import_value *whole = NULL;
  crema_shape shape;
  CR_TRY(cr_import_need(node, 2));
  cr_import_value *a = node->input[0], *b = node->input[1];
  CR_TRY(cr_import_broadcast(node, a->shape, b->shape, &shape));
  if (b->ints != NULL && cr_import_count(b) == 1) number = (float)b->ints[0];
  else if (!cr_import_is_uniform(b, &number)) number = NAN;
  if (!cr_import_is_constant(a) && isfinite(number)) {
    CR_TRY(cr_import_expand_to(node, a, &shape, &whole));
    return power(node, whole, (double)number, (const double[]){1, 0}, &node->output[0]);
  }
  if (cr_import_is_constant(b) || !cr_import_is_uniform(a, &number) || !(number > 0) ||
      !isfinite(number)) {
    return cr_import_reject(node, "neither the base nor the exponent is one number");
  }
  CR_TRY(cr_import_expand_to(node, b, &shape, &whole));
  return cr_import_map(node, whole, &node->output[0], "type: \"Exp\" exp_param { base: %.9g }",
                       (double)number);
}

/* ---- any number of inputs ---------------------------------------------------------- */

/* The inputs joined one after the other. */
static crema_status combine_all(cr_import_node *node, cr_import_arithmetic op,
                                cr_import_value **out) {
  CR_TRY(cr_import_need(node, node->inputs));
  cr_import_value *left = node->input[0];
  if (node->inputs == 1) return cr_import_view(node, left, left->shape, out);
  /* Constants are last: two of them cannot come first. */
  int first = 0;
  while (first < node->inputs - 1 && cr_import_is_constant(node->input[first])) ++first;
  left = node->input[first];
  for (int i = 0, done = 1; i < node->inputs; ++i) {
    if (i == first) continue;
    cr_import_value *result = NULL;
    cr_import_value **to = ++done == node->inputs ? out : &result;
    CR_TRY(cr_import_combine(node, op, left, node->input[i], to));
    left = *to;
  }
  return CREMA_OK;
}

/* One layer, if all inputs have the same shape and none is constant. */
static crema_status combine_at_once(cr_import_node *node, const char *operation, bool *done) {
  char text[128];
  *done = node->inputs > 2;
  CR_TRY(cr_import_need(node, node->inputs));
  for (int i = 0; i < node->inputs && *done; ++i) {
    *done = !cr_import_is_constant(node->input[i]) &&
            crema_shape_equal(node->input[i]->shape, node->input[0]->shape);
  }
  if (!*done) return CREMA_OK;
  snprintf(text, sizeof text, "type: \"Eltwise\" eltwise_param { operation: %s }", operation);
  CR_TRY(cr_import_set_shape(node->import, node->output[0], node->input[0]->shape));
  return cr_import_wide_layer(node, node->input, node->inputs, node->output, 1, text);
}

static crema_status combine_any(cr_import_node *node, cr_import_arithmetic op,
                                const char *operation) {
  bool done = false;
  if (operation != NULL) CR_TRY(combine_at_once(node, operation, &done));
  return done ? CREMA_OK : combine_all(node, op, &node->output[0]);
}

crema_status cr_import_sum(cr_import_node *node) {
  return combine_any(node, CR_IMPORT_ADD, "SUM");
}

crema_status cr_import_max(cr_import_node *node) {
  return combine_any(node, CR_IMPORT_MAX, "MAX");
}

crema_status cr_import_min(cr_import_node *node) {
  return combine_any(node, CR_IMPORT_MIN, NULL);
}

crema_status cr_import_mean(cr_import_node *node) {
  cr_import_value *sum = NULL;
  CR_TRY(combine_all(node, CR_IMPORT_ADD, &sum));
  return power(node, sum, 1, (const double[]){1.0 / node->inputs, 0}, &node->output[0]);
}
