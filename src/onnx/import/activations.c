/* Functions of one value at a time. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "onnx/import/elementwise.h"

crema_status cr_import_relu(cr_import_node *node) {
  return cr_import_simple(node, "type: \"ReLU\"");
}

crema_status cr_import_leaky_relu(cr_import_node *node) {
  return cr_import_simple(node, "type: \"ReLU\" relu_param { negative_slope: %.9g }",
                          (double)cr_import_float(node, "alpha", 0.01f));
}

crema_status cr_import_elu(cr_import_node *node) {
  return cr_import_simple(node, "type: \"ELU\" elu_param { alpha: %.9g }",
                          (double)cr_import_float(node, "alpha", 1));
}

crema_status cr_import_selu(cr_import_node *node) {
  return cr_import_simple(node, "type: \"ELU\" elu_param { alpha: %.9g lambda: %.9g }",
                          (double)cr_import_float(node, "alpha", 1.67326319217681884765625f),
                          (double)cr_import_float(node, "gamma", 1.05070102214813232421875f));
}

/* alpha elu(x / alpha) */
crema_status cr_import_celu(cr_import_node *node) {
  const double alpha = (double)cr_import_float(node, "alpha", 1);
  cr_import_value *scaled = NULL;
  if (!isfinite(1 / alpha)) return cr_import_reject(node, "alpha %g", alpha);
  CR_TRY(cr_import_map(node, node->input[0], &scaled, "type: \"Power\" power_param { scale: %.9g }",
                       1 / alpha));
  return cr_import_map(node, scaled, &node->output[0],
                       "type: \"ELU\" elu_param { alpha: 1 lambda: %.9g }", alpha);
}

crema_status cr_import_sigmoid(cr_import_node *node) {
  return cr_import_simple(node, "type: \"Sigmoid\"");
}

crema_status cr_import_tanh(cr_import_node *node) {
  return cr_import_simple(node, "type: \"TanH\"");
}

crema_status cr_import_softplus(cr_import_node *node) {
  return cr_import_simple(node, "type: \"BNLL\"");
}

/* x / (1 + |x|) */
crema_status cr_import_softsign(cr_import_node *node) {
  cr_import_value *x = node->input[0], *size = NULL, *factor = NULL;
  CR_TRY(cr_import_map(node, x, &size, "type: \"AbsVal\""));
  CR_TRY(cr_import_map(node, size, &factor, "type: \"Power\" power_param { power: -1 shift: 1 }"));
  return cr_import_combine(node, CR_IMPORT_MUL, x, factor, &node->output[0]);
}

/* x where it is above alpha, else 0 */
crema_status cr_import_thresholded_relu(cr_import_node *node) {
  cr_import_value *x = node->input[0], *above = NULL;
  CR_TRY(cr_import_map(node, x, &above, "type: \"Threshold\" threshold_param { threshold: %.9g }",
                       (double)cr_import_float(node, "alpha", 1)));
  return cr_import_combine(node, CR_IMPORT_MUL, x, above, &node->output[0]);
}

crema_status cr_import_exp(cr_import_node *node) {
  return cr_import_simple(node, "type: \"Exp\"");
}

crema_status cr_import_log(cr_import_node *node) {
  return cr_import_simple(node, "type: \"Log\"");
}

crema_status cr_import_abs(cr_import_node *node) {
  return cr_import_simple(node, "type: \"AbsVal\"");
}

crema_status cr_import_neg(cr_import_node *node) {
  return cr_import_simple(node, "type: \"Power\" power_param { scale: -1 }");
}

crema_status cr_import_sqrt(cr_import_node *node) {
  return cr_import_simple(node, "type: \"Power\" power_param { power: 0.5 }");
}

crema_status cr_import_reciprocal(cr_import_node *node) {
  return cr_import_simple(node, "type: \"Power\" power_param { power: -1 }");
}

/* Of a pattern: x times its sigmoid. */
crema_status cr_import_swish(cr_import_node *node) {
  return cr_import_simple(node, "type: \"Swish\" swish_param { beta: %.9g }",
                          (double)cr_import_float(node, "alpha", 1));
}

crema_status cr_import_gelu(cr_import_node *node) {
  const bool exact = cr_import_is_text(node, "approximate", "none", true);
  if (!exact && !cr_import_is_text(node, "approximate", "tanh", false)) {
    return cr_import_reject(node, "its approximation is not supported");
  }
  return cr_import_simple(
      node, exact ? "type: \"GELU\"" : "type: \"GELU\" gelu_param { approximate: true }");
}

/* ---- limits ----------------------------------------------------------------------- */

/* A limit from the attribute or, from operator set 11 on, the input. */
static crema_status read_limit(cr_import_node *node, const char *name, int index, float *out) {
  const cr_import_value *input = cr_import_input(node, index);
  *out = cr_import_float(node, name, *out);
  if (input == NULL) return CREMA_OK;
  if (input->floats == NULL || cr_import_count(input) != 1) {
    return cr_import_reject(node, "%s must be a constant number", name);
  }
  *out = input->floats[0];
  return CREMA_OK;
}

crema_status cr_import_clip(cr_import_node *node) {
  float low = -INFINITY, high = INFINITY;
  CR_TRY(read_limit(node, "min", 1, &low));
  CR_TRY(read_limit(node, "max", 2, &high));
  if (low <= -FLT_MAX) low = -INFINITY;
  if (high >= FLT_MAX) high = INFINITY;
  if (!(low <= high)) return cr_import_reject(node, "min %g, max %g", (double)low, (double)high);
  if (low == 0 && high == INFINITY) return cr_import_simple(node, "type: \"ReLU\"");
  return cr_import_simple(node, "type: \"Clip\" clip_param { min: %.9g max: %.9g }", (double)low,
                          (double)high);
}

static crema_status hard_sigmoid(cr_import_node *node, double alpha, double beta,
                                 cr_import_value **out) {
  cr_import_value *line = NULL;
  CR_TRY(cr_import_map(node, node->input[0], &line,
                       "type: \"Power\" power_param { scale: %.9g shift: %.9g }", alpha, beta));
  return cr_import_map(node, line, out, "type: \"Clip\" clip_param { min: 0 max: 1 }");
}

crema_status cr_import_hard_sigmoid(cr_import_node *node) {
  return hard_sigmoid(node, (double)cr_import_float(node, "alpha", 0.2f),
                      (double)cr_import_float(node, "beta", 0.5f), &node->output[0]);
}

crema_status cr_import_hard_swish(cr_import_node *node) {
  cr_import_value *gate = NULL;
  CR_TRY(hard_sigmoid(node, 1.0 / 6, 0.5, &gate));
  return cr_import_combine(node, CR_IMPORT_MUL, node->input[0], gate, &node->output[0]);
}

/* x tanh(log(1 + exp(x))) */
crema_status cr_import_mish(cr_import_node *node) {
  cr_import_value *x = node->input[0], *soft = NULL, *gate = NULL;
  CR_TRY(cr_import_map(node, x, &soft, "type: \"BNLL\""));
  CR_TRY(cr_import_map(node, soft, &gate, "type: \"TanH\""));
  return cr_import_combine(node, CR_IMPORT_MUL, x, gate, &node->output[0]);
}

/* ---- slopes ------------------------------------------------------------------------ */

/* max(x, 0) - slope max(-x, 0) */
static crema_status any_slope(cr_import_node *node, cr_import_value *x, cr_import_value *slope) {
  cr_import_value *high = NULL, *negative = NULL, *low = NULL, *sloped = NULL;
  CR_TRY(cr_import_map(node, x, &high, "type: \"ReLU\""));
  CR_TRY(cr_import_map(node, x, &negative, "type: \"Power\" power_param { scale: -1 }"));
  CR_TRY(cr_import_map(node, negative, &low, "type: \"ReLU\""));
  CR_TRY(cr_import_combine(node, CR_IMPORT_MUL, low, slope, &sloped));
  return cr_import_combine(node, CR_IMPORT_SUB, high, sloped, &node->output[0]);
}

crema_status cr_import_prelu(cr_import_node *node) {
  crema_shape shape;
  float number;
  CR_TRY(cr_import_need(node, 2));
  cr_import_value *x = node->input[0], *slope = node->input[1];
  CR_TRY(cr_import_broadcast(node, x->shape, slope->shape, &shape));
  if (!crema_shape_equal(&shape, x->shape)) return cr_import_reject(node, "the slope is larger");
  if (slope->ints != NULL) return cr_import_reject(node, "a slope of integers");
  if (cr_import_is_uniform(slope, &number)) {
    return cr_import_simple(node, "type: \"ReLU\" relu_param { negative_slope: %.9g }",
                            (double)number);
  }
  bool per_channel = x->shape->axes >= 2 && cr_import_is_constant(slope);
  for (int i = 0; i < x->shape->axes && per_channel; ++i) {
    const int64_t needed = i == 1 ? x->shape->dim[1] : 1;
    per_channel = cr_import_aligned(slope->shape, x->shape->axes, i) == needed;
  }
  if (!per_channel) return any_slope(node, x, slope);
  const crema_shape channels = {.axes = 1, .dim = {x->shape->dim[1]}};
  CR_TRY(cr_import_simple(node, "type: \"PReLU\""));
  return cr_import_weights_of(node->import, &channels, slope->floats);
}

/* ---- truth values --------------------------------------------------------------------- */

/* 1 - x */
crema_status cr_import_not(cr_import_node *node) {
  CR_TRY(cr_import_simple(node, "type: \"Power\" power_param { scale: -1 shift: 1 }"));
  node->output[0]->type = CR_ONNX_BOOL;
  return CREMA_OK;
}

/* 1 where the first operand is above the second, by the sign of the difference. */
static crema_status greater(cr_import_node *node, cr_import_value *a, cr_import_value *b,
                            bool inverts) {
  cr_import_value *difference = NULL, *above = NULL;
  cr_import_value **to = inverts ? &above : &node->output[0];
  CR_TRY(cr_import_combine(node, CR_IMPORT_SUB, a, b, &difference));
  CR_TRY(cr_import_map(node, difference, to, "type: \"Threshold\""));
  if (inverts) {
    CR_TRY(cr_import_map(node, above, &node->output[0],
                         "type: \"Power\" power_param { scale: -1 shift: 1 }"));
  }
  node->output[0]->type = CR_ONNX_BOOL;
  return CREMA_OK;
}

crema_status cr_import_compare(cr_import_node *node) {
  const bool less = node->op[0] == 'L', equal = strstr(node->op, "OrEqual") != NULL;
  CR_TRY(cr_import_need(node, 2));
  return greater(node, node->input[less != equal], node->input[less == equal], equal);
}

/* Truth values are 0 and 1. */
static crema_status join_truths(cr_import_node *node, cr_import_arithmetic op) {
  CR_TRY(cr_import_need(node, 2));
  CR_TRY(cr_import_combine(node, op, node->input[0], node->input[1], &node->output[0]));
  node->output[0]->type = CR_ONNX_BOOL;
  return CREMA_OK;
}

crema_status cr_import_and(cr_import_node *node) {
  return join_truths(node, CR_IMPORT_MUL);
}

crema_status cr_import_or(cr_import_node *node) {
  return join_truths(node, CR_IMPORT_MAX);
}
