/* LSTM. Each direction is an LSTM layer with exposed states; the reverse direction reads the
 * reversed steps. */
#include <stdio.h>
#include <string.h>

#include "core/fail.h"
#include "onnx/import/window.h"

typedef struct lstm_import {
  int64_t steps, batch, inputs, units;
  int directions;
  bool reverse; /* the first direction */
  const float *weights, *recurrent, *bias;
} lstm_import;

/* The gates of ONNX (i, o, f, c) in the order of the layer (i, f, o, g). */
static const int gates[] = {0, 2, 1, 3};
enum { GATES = 4 };

static crema_status check_kind(cr_import_node *node) {
  static const char *const rejected[] = {"activations", "activation_alpha", "activation_beta",
                                         "clip"};
  static const char *const standard[] = {"Sigmoid", "Tanh", "Tanh"};
  for (int i = 0; i < 4; ++i) {
    const Onnx__AttributeProto *attribute = cr_import_attribute(node, rejected[i]);
    if (attribute == NULL) continue;
    bool usual = i == 0 && attribute->n_strings % 3 == 0;
    for (size_t k = 0; k < attribute->n_strings && usual; ++k) {
      const ProtobufCBinaryData *name = &attribute->strings[k];
      usual = name->len == strlen(standard[k % 3]) &&
              memcmp(name->data, standard[k % 3], name->len) == 0;
    }
    if (!usual) return cr_import_reject(node, "the attribute %s", rejected[i]);
  }
  if (cr_import_int(node, "input_forget", 0) != 0) return cr_import_reject(node, "input_forget");
  if (cr_import_int(node, "layout", 0) != 0) return cr_import_reject(node, "layout: 1");
  if (cr_import_input(node, 7) != NULL) return cr_import_reject(node, "peepholes");
  return CREMA_OK;
}

/* All sequences have the full length. */
static crema_status check_lengths(cr_import_node *node, int64_t steps) {
  const cr_import_value *lengths = cr_import_input(node, 4);
  if (lengths == NULL) return CREMA_OK;
  const int64_t count = cr_import_count(lengths);
  bool full = lengths->ints != NULL;
  for (int64_t i = 0; full && i < count; ++i) full = lengths->ints[i] == steps;
  return full ? CREMA_OK : cr_import_reject(node, "sequence_lens");
}

static crema_status read_constant(cr_import_node *node, int index, int64_t count,
                                  const float **out) {
  const cr_import_value *value = cr_import_input(node, index);
  *out = NULL;
  if (value == NULL && index == 3) return CREMA_OK;
  if (value == NULL || value->floats == NULL || cr_import_count(value) != count) {
    return cr_import_reject(node, "input %d must be constant and fit the layer", index);
  }
  *out = value->floats;
  return CREMA_OK;
}

static crema_status read_recurrence(cr_import_node *node, lstm_import *r) {
  const crema_shape *x = node->input[0]->shape;
  const cr_import_value *w = cr_import_input(node, 1);
  CR_TRY(check_kind(node));
  if (x->axes != 3 || w == NULL || w->shape->axes != 3 || w->shape->dim[1] % GATES != 0) {
    return cr_import_reject(node, "the inputs must have three axes");
  }
  const bool both = cr_import_is_text(node, "direction", "bidirectional", false);
  *r = (lstm_import){.steps = x->dim[0],
                     .batch = x->dim[1],
                     .inputs = x->dim[2],
                     .units = w->shape->dim[1] / GATES,
                     .directions = both ? 2 : 1,
                     .reverse = cr_import_is_text(node, "direction", "reverse", false)};
  if (r->units < 1 || r->steps < 1) return cr_import_reject(node, "nothing to compute");
  const int64_t rows = r->directions * GATES * r->units;
  CR_TRY(check_lengths(node, r->steps));
  CR_TRY(read_constant(node, 1, rows * r->inputs, &r->weights));
  CR_TRY(read_constant(node, 2, rows * r->units, &r->recurrent));
  return read_constant(node, 3, 2 * rows, &r->bias);
}

/* The weights of one direction, gate by gate, with rows of `width` numbers. */
static crema_status add_gates(cr_import_node *node, const lstm_import *r, const float *from,
                              int64_t width) {
  const crema_shape shape = {.axes = 2, .dim = {GATES * r->units, width}};
  const size_t size = (size_t)(r->units * width);
  float *to;
  CR_TRY(cr_import_weights(node->import, &shape, &to));
  for (int g = 0; g < GATES; ++g) {
    memcpy(to + (size_t)g * size, from + (size_t)gates[g] * size, size * sizeof *to);
  }
  return CREMA_OK;
}

/* ONNX has a bias of the inputs and one of the states. */
static crema_status add_bias(cr_import_node *node, const lstm_import *r, int direction) {
  const crema_shape shape = {.axes = 1, .dim = {GATES * r->units}};
  float *to;
  CR_TRY(cr_import_weights(node->import, &shape, &to));
  for (int64_t i = 0; i < GATES * r->units; ++i) {
    const int64_t from = gates[i / r->units] * r->units + i % r->units;
    const float *bias = r->bias == NULL ? NULL : r->bias + direction * 2 * GATES * r->units;
    to[i] = bias == NULL ? 0 : bias[from] + bias[GATES * r->units + from];
  }
  return CREMA_OK;
}

/* The part of `value` that belongs to a direction, along axis `axis` with one entry for each. */
static crema_status take_direction(cr_import_node *node, cr_import_value *value, int direction,
                                   cr_import_value **out) {
  crema_shape shape = *value->shape;
  int64_t offset[CREMA_MAX_AXES] = {direction};
  *out = value;
  if (shape.dim[0] == 1) return CREMA_OK;
  shape.dim[0] = 1;
  CR_TRY(cr_import_between(node, "first_state", &shape, out));
  return cr_import_cut(node, value, offset, *out);
}

/* The states before the first step: inputs 5 and 6, or zeros. */
static crema_status find_states(cr_import_node *node, const lstm_import *r, int direction,
                                cr_import_value *states[2]) {
  const crema_shape shape = {.axes = 3, .dim = {1, r->batch, r->units}};
  for (int i = 0; i < 2; ++i) {
    cr_import_value *given = cr_import_input(node, 5 + i);
    if (given == NULL) {
      CR_TRY(cr_import_fill(node, &shape, 0, &states[i]));
      continue;
    }
    const crema_shape all = {.axes = 3, .dim = {r->directions, r->batch, r->units}};
    if (!crema_shape_equal(given->shape, &all)) {
      return cr_import_reject(node, "first states of another shape");
    }
    CR_TRY(take_direction(node, given, direction, &states[i]));
  }
  return CREMA_OK;
}

static crema_status reverse(cr_import_node *node, cr_import_value *from, cr_import_value **out) {
  CR_TRY(cr_import_between(node, "reversed", from->shape, out));
  const cr_import_ends ends = {.bottom = {from}, .top = {*out}};
  return cr_import_layer(node, &ends, "type: \"Reverse\" reverse_param { axis: 0 }");
}

/* The results of one direction: all steps (T, N, D), and the last states (1, N, D). */
static crema_status add_direction(cr_import_node *node, const lstm_import *r, int direction,
                                  cr_import_value *result[3]) {
  const crema_shape steps = {.axes = 3, .dim = {r->steps, r->batch, r->units}};
  const crema_shape one = {.axes = 3, .dim = {1, r->batch, r->units}};
  const crema_shape marks = {.axes = 2, .dim = {r->steps, r->batch}};
  const bool backward = r->reverse || direction == 1;
  cr_import_value *states[2], *cont, *x = node->input[0], *hidden;
  if (backward) CR_TRY(reverse(node, x, &x));
  CR_TRY(find_states(node, r, direction, states));
  CR_TRY(cr_import_fill(node, &marks, 1, &cont));
  CR_TRY(cr_import_between(node, "hidden", &steps, &hidden));
  for (int i = 1; i < 3; ++i) CR_TRY(cr_import_between(node, "last", &one, &result[i]));
  const cr_import_ends ends = {.bottom = {x, cont, states[0], states[1]},
                               .top = {hidden, result[1], result[2]}};
  CR_TRY(cr_import_layer(node, &ends,
                         "type: \"LSTM\" recurrent_param { num_output: %lld expose_hidden: true }",
                         (long long)r->units));
  CR_TRY(add_gates(node, r, r->weights + direction * GATES * r->units * r->inputs, r->inputs));
  CR_TRY(add_bias(node, r, direction));
  CR_TRY(add_gates(node, r, r->recurrent + direction * GATES * r->units * r->units, r->units));
  result[0] = hidden;
  return backward ? reverse(node, hidden, &result[0]) : CREMA_OK;
}

crema_status cr_import_lstm(cr_import_node *node) {
  lstm_import r = {0};
  cr_import_value *result[2][3], *part[2];
  char text[64];
  CR_TRY(read_recurrence(node, &r));
  for (int d = 0; d < r.directions; ++d) CR_TRY(add_direction(node, &r, d, result[d]));
  const crema_shape one = {.axes = 4, .dim = {r.steps, 1, r.batch, r.units}};
  for (int i = 0; i < 3; ++i) {
    cr_import_value *out = i < node->outputs ? node->output[i] : NULL;
    const crema_shape last = {.axes = 3, .dim = {r.directions, r.batch, r.units}};
    crema_shape shape = one;
    shape.dim[1] = r.directions;
    if (out == NULL) continue;
    CR_TRY(cr_import_set_shape(node->import, out, i == 0 ? &shape : &last));
    for (int d = 0; d < r.directions; ++d) {
      part[d] = result[d][i];
      if (i > 0) continue;
      CR_TRY(cr_import_between(node, "direction", &one, &part[d]));
      CR_TRY(cr_import_view(node, result[d][0], part[d]->shape, &part[d]));
    }
    (void)snprintf(text, sizeof text, "type: \"Concat\" concat_param { axis: %d }", i == 0);
    CR_TRY(cr_import_wide_layer(node, part, r.directions, &out, 1, text));
  }
  return CREMA_OK;
}
