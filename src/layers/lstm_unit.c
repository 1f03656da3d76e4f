/* LSTMUnit: one step of an LSTM, from gate sums that other layers compute.
 *
 * Formula: i, f, o = sigmoid of their parts of x, g = tanh of its part. Then c = cont f c' + i g
 * and h = o tanh(c). At the start of a sequence cont is 0, else 1.
 * Shapes: c' (1, N, D), x (1, N, 4 D) in the order i, f, o, g, cont (1, N) -> c (1, N, D), h (1, N,
 * D).
 * Fields: none.
 * Caffe: the same; if cont is neither 0 nor 1, the gradient follows the formula.
 * Example, c 1 3 4, x 1 3 16, cont 1 3:
 *   layer { name: "unit" type: "LSTMUnit" bottom: "c" bottom: "x" bottom: "cont"
 *     top: "c_out" top: "h_out" } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

typedef struct unit_state {
  cr_layer_op forward, backward;
  cr_tensor *diff_c, *diff_x; /* gradients that the net does not need */
} unit_state;

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  unit_state *s = layer->state;
  const crema_shape *cells = &bottom[0]->shape;
  const crema_dtype type = cr_layer_arithmetic(layer);
  char text[128];
  if (cells->axes != 3 || cells->dim[0] != 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must have shape 1 N D, found %s",
                         crema_shape_text(cells, text, sizeof text));
  }
  const crema_shape gates = cr_shape_3(1, cells->dim[1], 4 * cells->dim[2]);
  const crema_shape cont = cr_shape_2(1, cells->dim[1]);
  CR_TRY(cr_layer_same_shape(layer, "bottom 1", &gates, &bottom[1]->shape));
  CR_TRY(cr_layer_same_shape(layer, "bottom 2", &cont, &bottom[2]->shape));
  CR_TRY(crema_blob_reshape(top[0], cells));
  CR_TRY(crema_blob_reshape(top[1], cells));
  CR_TRY(cr_layer_tensor(layer, &s->diff_x, type, crema_blob_count(bottom[1])));
  CR_TRY(cr_layer_tensor(layer, &s->diff_c, type, crema_blob_count(bottom[0])));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_LSTM_UNIT_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, &gates, &cont, cells, cells, cells));
  desc.kind = CR_OP_LSTM_UNIT_BWD;
  return CR_LAYER_MAKE(layer, &s->backward, &desc, &gates, &cont, cells, cells, cells, &gates,
                       cells);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  unit_state *s = layer->state;
  return CR_LAYER_RUN(&s->forward, context, bottom[1]->data, bottom[2]->data, bottom[0]->data,
                      top[0]->data, top[1]->data);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  unit_state *s = layer->state;
  if (propagate_down[2]) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "cont (bottom 2) has no gradient");
  }
  return CR_LAYER_RUN(&s->backward, context, bottom[1]->data, bottom[2]->data, bottom[0]->data,
                      top[0]->diff, top[1]->diff, propagate_down[1] ? bottom[1]->diff : s->diff_x,
                      propagate_down[0] ? bottom[0]->diff : s->diff_c);
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)layer;
  return bottom < 2;
}

const cr_layer_class cr_layer_lstm_unit = {
    CR_LAYER_OF_OPS("LSTMUnit", sizeof(unit_state), cr_layer_noop, reshape, forward, backward),
    .bottoms = {3, 3},
    .tops = {2, 2},
    .no_gradient_bottoms = 1u << 2,
    .graph.integer_bottoms = 1u << 2,
    .uses_bottom = uses_bottom,
};
