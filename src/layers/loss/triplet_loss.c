/* TripletLoss: brings an anchor closer to a sample of its class than to a sample of another class
 * (Schroff, Kalenichenko and Philbin, "FaceNet", 2015).
 *
 * Formula: loss = 1 / (2 N) * sum over triplets of w * max(0, margin + |a - p|^2 - |a - n|^2), with
 * w = 1 unless a fourth bottom gives it.
 * Shapes: anchors a (N, ...), positives p and negatives n (as a), optionally weights w (N) -> loss
 * (a scalar).
 * Fields: triplet_loss_param.
 * Caffe: as in the layer that most forks carry. Refused: a single bottom that holds reference,
 * positive and negatives of each set (num_negatives, losstype, use_pair), and a pair as bottoms 3
 * and 4.
 * Example, a 4 8, p 4 8, n 4 8:
 *   layer { name: "loss" type: "TripletLoss" bottom: "a" bottom: "p" bottom: "n" top: "loss"
 *     triplet_loss_param { margin: 0.5 } } */
#include "core/fail.h"
#include "layers/loss/layer_loss.h"
#include "layers/loss/loss_ops.h"

typedef struct triplet_state {
  cr_layer_loss loss; /* has to be the first member */
  /* a - p and a - n; of each triplet its squared distances, their hinge, and its weight or 0. */
  cr_tensor *near, *far, *near_square, *far_square, *gap, *hinge, *active, *term, *scaled;
  cr_layer_op subtract, square, compare, shift, decide, weigh, total;
  cr_layer_op scale, spread;
} triplet_state;

static crema_status make_tensors(cr_layer *layer, int64_t triplets, int64_t width) {
  triplet_state *s = layer->state;
  const crema_dtype type = cr_layer_arithmetic(layer);
  cr_tensor **small[] = {&s->near_square, &s->far_square, &s->gap,   &s->hinge,
                         &s->active,      &s->term,       &s->scaled};
  CR_TRY(cr_layer_pass_tensor(layer, &s->near, type, triplets * width));
  CR_TRY(cr_layer_pass_tensor(layer, &s->far, type, triplets * width));
  for (size_t i = 0; i < sizeof small / sizeof small[0]; ++i) {
    CR_TRY(cr_layer_tensor(layer, small[i], type, triplets));
  }
  return CREMA_OK;
}

static crema_status check(const cr_layer *layer, crema_blob *const *bottom) {
  const crema_shape *a = &bottom[0]->shape;
  if (a->axes < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottoms must have axes, found a scalar");
  }
  CR_TRY(cr_layer_same_shape(layer, "bottom 1", a, &bottom[1]->shape));
  CR_TRY(cr_layer_same_shape(layer, "bottom 2", a, &bottom[2]->shape));
  if (layer->bottoms < 4 || crema_blob_count(bottom[3]) == a->dim[0]) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE, "%lld triplets need as many weights, found %lld",
                       (long long)a->dim[0], (long long)crema_blob_count(bottom[3]));
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  triplet_state *s = layer->state;
  const Caffe__TripletLossParameter *param = layer->param->triplet_loss_param;
  const double margin = param ? (double)param->margin : 1;
  const crema_shape *a = &bottom[0]->shape;
  CR_TRY(check(layer, bottom));
  const int64_t n = a->dim[0], width = crema_shape_count(a, 1, a->axes);
  const crema_shape each = cr_shape_1(n), all = cr_shape_2(n, width);
  CR_TRY(cr_layer_loss_fix(layer, &s->loss, top[0], 2 * (double)n));
  CR_TRY(make_tensors(layer, n, width));
  CR_TRY(cr_loss_make_sum(layer, &s->subtract, 1, -1, &all));
  CR_TRY(cr_loss_make_rows(layer, &s->square, CR_REDUCE_SUMSQ, n, width));
  CR_TRY(cr_loss_make_sum(layer, &s->compare, 1, -1, &each));
  CR_TRY(
      cr_loss_make_function(layer, &s->shift, CR_UNARY_POWER, (const double[]){1, 1, margin}, n));
  CR_TRY(cr_loss_make_function(layer, &s->decide, CR_UNARY_THRESHOLD, (const double[3]){0}, n));
  CR_TRY(cr_loss_make_product(layer, &s->weigh, 2, &each));
  CR_TRY(cr_loss_make_rows(layer, &s->total, CR_REDUCE_SUM, 1, n));
  CR_TRY(cr_loss_make_scale(layer, &s->scale, &each));
  return cr_loss_make_scaled_rows(layer, &s->spread, n, width);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  triplet_state *s = layer->state;
  cr_tensor *a = bottom[0]->data;
  CR_TRY(CR_LAYER_RUN(&s->subtract, context, a, bottom[1]->data, s->near));
  CR_TRY(CR_LAYER_RUN(&s->subtract, context, a, bottom[2]->data, s->far));
  CR_TRY(CR_LAYER_RUN(&s->square, context, s->near, s->near_square));
  CR_TRY(CR_LAYER_RUN(&s->square, context, s->far, s->far_square));
  CR_TRY(CR_LAYER_RUN(&s->compare, context, s->near_square, s->far_square, s->gap));
  CR_TRY(CR_LAYER_RUN(&s->shift, context, s->gap, s->hinge));
  CR_TRY(CR_LAYER_RUN(&s->decide, context, s->hinge, s->active));
  if (layer->bottoms > 3) {
    CR_TRY(CR_LAYER_RUN(&s->weigh, context, s->active, bottom[3]->data, s->active));
  }
  CR_TRY(CR_LAYER_RUN(&s->weigh, context, s->hinge, s->active, s->term));
  CR_TRY(CR_LAYER_RUN(&s->total, context, s->term, s->loss.pair.own[0]));
  return cr_layer_loss_finish(&s->loss, context, top[0]);
}

/* The gradients of an active triplet, times 2: a: n - p, p: p - a, n: a - n. */
static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  triplet_state *s = layer->state;
  double factor = 0;
  CR_TRY(cr_layer_loss_refuse(layer, propagate_down));
  CR_TRY(cr_layer_loss_factor(&s->loss, top[0], &factor));
  for (int i = 0; i < 3; ++i) {
    cr_tensor *diff = bottom[i]->diff, *from = i == 0 ? diff : i == 1 ? s->near : s->far;
    if (!propagate_down[i]) continue;
    if (i == 0) CR_TRY(CR_LAYER_RUN(&s->subtract, context, s->near, s->far, diff));
    CR_TRY(cr_loss_run_scale(&s->scale, context, i == 1 ? -2 * factor : 2 * factor, s->active,
                             s->scaled));
    CR_TRY(CR_LAYER_RUN(&s->spread, context, from, s->scaled, NULL, diff));
  }
  return CREMA_OK;
}

const cr_layer_class cr_layer_triplet_loss = {
    CR_LAYER_LOSS("TripletLoss", 3, 4, 1),
    .state_size = sizeof(triplet_state),
    .no_gradient_bottoms = 1u << 3,
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
};
