/* RNN: a recurrent layer of hyperbolic tangents (Elman, 1990).
 *
 * Formula: for each step t and sequence n: h = tanh(W x + b + Ws s + Wh (cont h')). Here h' is h of
 * the preceding step. The output is y = tanh(Wo h + bo). At the start of a sequence cont is 0, else
 * 1. The last state of a pass is the first state of the next. Gradients end at the first step.
 * Shapes: x (T, N, ...), cont (T, N), optionally a static input s (N, ...) -> y (T, N, D), with D =
 * num_output. With expose_hidden, the first state h (1, N, D) is a further bottom, and the last h
 * (1, N, D) a further top. Parameters: W (D, values of x), b (D), with a static input Ws (D, values
 * of s), Wh (D, D), Wo (D, D), bo (D).
 * Fields: recurrent_param.
 * Caffe: the same, but one layer instead of an unrolled net, so debug_info prints nothing. Here the
 * exposed first state has a gradient.
 * Example, x 5 2 3, cont 5 2:
 *   layer { name: "rnn" type: "RNN" bottom: "x" bottom: "cont" top: "y"
 *     recurrent_param { num_output: 4 weight_filler { type: "uniform" min: -0.1 max: 0.1 } } } */
#include "core/fail.h"
#include "layers/common/layer_recurrent.h"

typedef struct rnn_state {
  cr_layer_recurrent recurrent;
  cr_layer_op forward, backward, backward_first, backward_weights;
  cr_layer_op out, out_tanh, copy, out_tanh_back, out_data, out_weights, out_bias;
  cr_tensor *y, *diff_y, *diff_h;
} rnn_state;

/* The layer's own parameters. */
enum { WEIGHTS, OUT_WEIGHTS, OUT_BIAS, OWN };

static crema_blob *own(const cr_layer *layer, int index) {
  const cr_layer_recurrent *s = layer->state;
  return layer->blob[s->first_own + index];
}

static bool own_learns(const cr_layer *layer, int index) {
  const cr_layer_recurrent *s = layer->state;
  return layer->param_propagate_down[s->first_own + index];
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_recurrent *s = layer->state;
  (void)top;
  CR_TRY(cr_layer_recurrent_setup(layer, bottom, 1, 1, OWN));
  const Caffe__RecurrentParameter *param = layer->param->recurrent_param;
  const crema_shape weights = cr_shape_2(s->units, s->units), bias = cr_shape_1(s->units);
  CR_TRY(cr_layer_add_param(layer, s->first_own + WEIGHTS, &weights, param->weight_filler));
  CR_TRY(cr_layer_add_param(layer, s->first_own + OUT_WEIGHTS, &weights, param->weight_filler));
  return cr_layer_add_param(layer, s->first_own + OUT_BIAS, &bias, param->bias_filler);
}

/* y = tanh(Wo h + bo) of all steps. */
static crema_status make_output(cr_layer *layer) {
  rnn_state *s = layer->state;
  const cr_layer_recurrent *r = &s->recurrent;
  const crema_shape rows = cr_shape_2(r->steps * r->batch, r->units);
  const crema_shape *weights = &own(layer, OUT_WEIGHTS)->shape;
  const crema_shape *bias = &own(layer, OUT_BIAS)->shape;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_IP_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->out, &desc, &rows, weights, bias, &rows));
  desc.kind = CR_OP_IP_BWD_DATA;
  CR_TRY(CR_LAYER_MAKE(layer, &s->out_data, &desc, &rows, weights, &rows));
  desc.kind = CR_OP_IP_BWD_WEIGHTS;
  CR_TRY(CR_LAYER_MAKE(layer, &s->out_weights, &desc, &rows, &rows, weights, NULL));
  CR_TRY(cr_layer_weights_make_bias(layer, &s->out_bias, &rows, bias));
  desc.kind = CR_OP_COPY;
  CR_TRY(CR_LAYER_MAKE(layer, &s->copy, &desc, &rows, &rows));
  desc.kind = CR_OP_UNARY_FWD;
  desc.u.unary.function = CR_UNARY_TANH;
  CR_TRY(CR_LAYER_MAKE(layer, &s->out_tanh, &desc, &rows, &rows));
  desc.kind = CR_OP_UNARY_BWD;
  return CR_LAYER_MAKE(layer, &s->out_tanh_back, &desc, &rows, &rows, &rows, &rows);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  rnn_state *s = layer->state;
  const cr_layer_recurrent *r = &s->recurrent;
  CR_TRY(cr_layer_recurrent_reshape(layer, bottom, top));
  const crema_shape cells = cr_shape_3(r->steps, r->batch, r->units);
  const crema_shape cont = cr_shape_2(r->steps, r->batch), one = cr_shape_2(r->batch, r->units);
  const crema_shape *weights = &own(layer, WEIGHTS)->shape;
  const crema_dtype type = cr_layer_arithmetic(layer);
  const int64_t count = crema_blob_count(top[0]);
  CR_TRY(cr_layer_tensor(layer, &s->y, type, count));
  CR_TRY(cr_layer_tensor(layer, &s->diff_y, type, count));
  CR_TRY(cr_layer_tensor(layer, &s->diff_h, type, count));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_RNN_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, &cells, &cont, weights, &one, &cells));
  desc.kind = CR_OP_RNN_BWD;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward, &desc, &cells, &cont, weights, &cells, &cells, NULL));
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward_first, &desc, &cells, &cont, weights, &cells, &cells,
                       &one));
  desc.kind = CR_OP_RECURRENT_BWD_WEIGHTS;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward_weights, &desc, &cells, &one, &cont, &cells, weights));
  return make_output(layer);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  rnn_state *s = layer->state;
  cr_tensor *h = s->recurrent.state[0];
  CR_TRY(cr_layer_recurrent_begin(layer, context, bottom));
  CR_TRY(CR_LAYER_RUN(&s->forward, context, s->recurrent.sums, bottom[1]->data,
                      own(layer, WEIGHTS)->data, cr_layer_recurrent_first(layer, bottom, 0), h));
  CR_TRY(CR_LAYER_RUN(&s->out, context, h, own(layer, OUT_WEIGHTS)->data,
                      own(layer, OUT_BIAS)->data, s->y));
  CR_TRY(CR_LAYER_RUN(&s->out_tanh, context, s->y, s->y));
  CR_TRY(CR_LAYER_RUN(&s->copy, context, s->y, top[0]->data));
  return cr_layer_recurrent_end(layer, context, top);
}

/* Computes the gradient of h from the top's gradient. */
static crema_status output_back(cr_layer *layer, crema_context *context, crema_blob *const *top) {
  rnn_state *s = layer->state;
  CR_TRY(CR_LAYER_RUN(&s->out_tanh_back, context, s->y, s->y, top[0]->diff, s->diff_y));
  if (own_learns(layer, OUT_WEIGHTS)) {
    CR_TRY(CR_LAYER_RUN(&s->out_weights, context, s->recurrent.state[0], s->diff_y,
                        own(layer, OUT_WEIGHTS)->diff, NULL));
  }
  if (own_learns(layer, OUT_BIAS)) {
    CR_TRY(CR_LAYER_RUN(&s->out_bias, context, s->diff_y, own(layer, OUT_BIAS)->diff));
  }
  return CR_LAYER_RUN(&s->out_data, context, s->diff_y, own(layer, OUT_WEIGHTS)->data, s->diff_h);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  rnn_state *s = layer->state;
  const cr_layer_recurrent *r = &s->recurrent;
  const int first = cr_layer_recurrent_bottom(r, 0);
  const bool wanted = r->exposed && propagate_down[first];
  cr_tensor *cont = bottom[1]->data;
  if (propagate_down[1]) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "cont (bottom 1) has no gradient");
  }
  CR_TRY(output_back(layer, context, top));
  CR_TRY(CR_LAYER_RUN(wanted ? &s->backward_first : &s->backward, context, r->state[0], cont,
                      own(layer, WEIGHTS)->data, s->diff_h, r->diff_sums,
                      wanted ? bottom[first]->diff : NULL));
  if (own_learns(layer, WEIGHTS)) {
    CR_TRY(CR_LAYER_RUN(&s->backward_weights, context, r->state[0],
                        cr_layer_recurrent_first(layer, bottom, 0), cont, r->diff_sums,
                        own(layer, WEIGHTS)->diff));
  }
  return cr_layer_recurrent_back(layer, context, propagate_down, bottom);
}

const cr_layer_class cr_layer_rnn = {
    CR_LAYER_OF_OPS("RNN", sizeof(rnn_state), setup, reshape, forward, backward),
    .bottoms = {2, 4},
    .tops = {1, 2},
    .no_gradient_bottoms = 1u << 1,
    .graph.integer_bottoms = 1u << 1,
    .uses_bottom = cr_layer_recurrent_uses_bottom,
};
