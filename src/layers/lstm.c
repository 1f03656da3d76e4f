/* LSTM: long short-term memory (Hochreiter and Schmidhuber, 1997; forget gates: Gers et al., 2000).
 *
 * Formula: for each step t and sequence n: gates = W x + b + Ws s + Wh (cont h'). Here h' and c'
 * are the states of the preceding step. The gates i, f, o pass through a sigmoid, and g through
 * tanh. The new states are c = cont f c' + i g and h = o tanh(c). At the start of a sequence cont
 * is 0, else 1. The last states of a pass are the first states of the next. Gradients end at the
 * first step.
 * Shapes: x (T, N, ...), cont (T, N), optionally a static input s (N, ...) -> h (T, N, D), with D =
 * num_output. With expose_hidden, the first states h and c (1, N, D) are further bottoms, and the
 * last h and c (1, N, D) further tops. Parameters: W (4 D, values of x), b (4 D), with a static
 * input Ws (4 D, values of s), Wh (4 D, D). Their rows belong to i, f, o, g.
 * Fields: recurrent_param.
 * Caffe: the same, but one layer instead of an unrolled net, so debug_info prints nothing. Here the
 * exposed first states have a gradient.
 * Example, x 5 2 3, cont 5 2:
 *   layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "y"
 *     recurrent_param { num_output: 4 weight_filler { type: "uniform" min: -0.1 max: 0.1 } } } */
#include "core/fail.h"
#include "layers/common/layer_recurrent.h"

enum { H, C };

typedef struct lstm_state {
  cr_layer_recurrent recurrent;
  cr_layer_op forward, copy, backward, backward_first, backward_weights;
  cr_tensor *first[2]; /* gradients of first states that the net does not need */
} lstm_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_recurrent *s = layer->state;
  (void)top;
  CR_TRY(cr_layer_recurrent_setup(layer, bottom, 2, 4, 1));
  const crema_shape weights = cr_shape_2(s->gates, s->units);
  return cr_layer_add_param(layer, s->first_own, &weights,
                            layer->param->recurrent_param->weight_filler);
}

static crema_status make_backward(cr_layer *layer, const crema_shape *gates,
                                  const crema_shape *cells, const crema_shape *cont,
                                  const crema_shape *one) {
  lstm_state *s = layer->state;
  const crema_shape *weights = &layer->blob[s->recurrent.first_own]->shape;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_LSTM_BWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward, &desc, gates, cells, one, cont, weights, cells, NULL,
                       gates, NULL, NULL));
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward_first, &desc, gates, cells, one, cont, weights, cells,
                       NULL, gates, one, one));
  desc.kind = CR_OP_RECURRENT_BWD_WEIGHTS;
  return CR_LAYER_MAKE(layer, &s->backward_weights, &desc, cells, one, cont, gates, weights);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  lstm_state *s = layer->state;
  const cr_layer_recurrent *r = &s->recurrent;
  CR_TRY(cr_layer_recurrent_reshape(layer, bottom, top));
  const crema_shape gates = cr_shape_3(r->steps, r->batch, r->gates);
  const crema_shape cells = cr_shape_3(r->steps, r->batch, r->units);
  const crema_shape cont = cr_shape_2(r->steps, r->batch), one = cr_shape_2(r->batch, r->units);
  const crema_shape *weights = &layer->blob[r->first_own]->shape;
  const crema_dtype type = cr_layer_arithmetic(layer);
  for (int i = 0; i < 2 && r->exposed; ++i) {
    CR_TRY(cr_layer_tensor(layer, &s->first[i], type, r->batch * r->units));
  }
  cr_op_desc desc = cr_layer_op_desc(CR_OP_LSTM_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, &gates, &cont, weights, &one, &one, &cells,
                       &cells, &gates));
  desc.kind = CR_OP_COPY;
  CR_TRY(CR_LAYER_MAKE(layer, &s->copy, &desc, &cells, &cells));
  return make_backward(layer, &gates, &cells, &cont, &one);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  lstm_state *s = layer->state;
  const cr_layer_recurrent *r = &s->recurrent;
  CR_TRY(cr_layer_recurrent_begin(layer, context, bottom));
  CR_TRY(CR_LAYER_RUN(&s->forward, context, r->sums, bottom[1]->data,
                      layer->blob[r->first_own]->data, cr_layer_recurrent_first(layer, bottom, H),
                      cr_layer_recurrent_first(layer, bottom, C), r->state[H], r->state[C],
                      r->sums));
  CR_TRY(CR_LAYER_RUN(&s->copy, context, r->state[H], top[0]->data));
  return cr_layer_recurrent_end(layer, context, top);
}

/* The destination of the gradient of a first state. */
static cr_tensor *first_diff(const lstm_state *s, const bool *propagate_down,
                             crema_blob *const *bottom, int state) {
  const int at = cr_layer_recurrent_bottom(&s->recurrent, state);
  return propagate_down[at] ? bottom[at]->diff : s->first[state];
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  lstm_state *s = layer->state;
  const cr_layer_recurrent *r = &s->recurrent;
  cr_tensor *cont = bottom[1]->data, *weights = layer->blob[r->first_own]->data;
  if (propagate_down[1]) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "cont (bottom 1) has no gradient");
  }
  cr_tensor *argument[10] = {r->sums, r->state[C], cr_layer_recurrent_first(layer, bottom, C),
                             cont,    weights,     top[0]->diff,
                             NULL,    r->diff_sums};
  if (r->exposed) {
    argument[8] = first_diff(s, propagate_down, bottom, H);
    argument[9] = first_diff(s, propagate_down, bottom, C);
  }
  CR_TRY(cr_layer_op_run(r->exposed ? &s->backward_first : &s->backward, context, argument, NULL));
  if (layer->param_propagate_down[r->first_own]) {
    CR_TRY(CR_LAYER_RUN(&s->backward_weights, context, r->state[H],
                        cr_layer_recurrent_first(layer, bottom, H), cont, r->diff_sums,
                        layer->blob[r->first_own]->diff));
  }
  return cr_layer_recurrent_back(layer, context, propagate_down, bottom);
}

const cr_layer_class cr_layer_lstm = {
    CR_LAYER_OF_OPS("LSTM", sizeof(lstm_state), setup, reshape, forward, backward),
    .bottoms = {2, 5},
    .tops = {1, 3},
    .no_gradient_bottoms = 1u << 1,
    .graph.integer_bottoms = 1u << 1,
    .uses_bottom = cr_layer_recurrent_uses_bottom,
};
