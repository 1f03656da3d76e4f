/* TripletLoss: brings an anchor closer to a sample of its class than to a sample of another class
 * (Schroff, Kalenichenko and Philbin, "FaceNet", 2015).
 *
 * Formula: loss = 1 / (2 N) * sum over triplets of w * max(0, margin + P - Q), with P = |a - p|^2,
 * Q = |a - n|^2 and w = 1 unless a fourth bottom gives it. With five or six bottoms, a pair d, e
 * adds |d - e|^2 to each triplet. With one or two bottoms, the samples of a batch x form the
 * triplets; the notes below have these forms.
 * Shapes: anchors a (N, ...), positives p and negatives n (as a), optionally weights w (N) or a
 * pair d, e (as a) and a bottom without effect -> loss (a scalar). Or x (N, ...), optionally labels
 * (N) or numbers (T, 3) -> loss (a scalar).
 * Fields: triplet_loss_param.
 * Caffe: three and four bottoms as in the layer that most forks carry. The forms with num_negatives
 * and with five or six bottoms are in versions of a layer that was proposed for BVLC Caffe. Labels
 * only are as in MSRCCS/Caffe, numbers as in CC5.0. The gradients are the derivatives of these
 * formulas; the fork with group_size divides them by all groups and by scale. num_triplets is
 * refused: forks mean different numbers with it.
 * Example, a 4 8, p 4 8, n 4 8:
 *   layer { name: "loss" type: "TripletLoss" bottom: "a" bottom: "p" bottom: "n" top: "loss"
 *     triplet_loss_param { margin: 0.5 } }
 *
 * With num_negatives, K, the batch has sets of a reference, a positive and K negatives. The loss is
 * the sum of the terms, divided by twice the number of sets. The term for losstype 0 is max(0,
 * margin + P - Q), for 1 max(0, 1 - Q / (P + margin)), for 2 max(0, 1 - e^Q / (e^P + margin)). With
 * use_pair, P of each set is added. Labels as bottom 1 have no effect.
 *
 * With group_size and labels, the first sample of each group is an anchor. Its positive is the
 * farthest sample of its label, its negative the nearest of another label. The loss is the mean of
 * max(0, margin + scale^2 (P - Q)) / 2 over the groups that have both.
 *
 * With labels only, each two samples of the first label form triplets with each sample behind the
 * first run of that label. The loss is the mean of max(0, margin + P - Q) over these triplets.
 *
 * Bottom 1 may have the numbers of three samples per triplet. The loss is the sum of max(0, margin
 * + cos(a, n) - cos(a, p)), divided by the number of samples. Here cos(a, b) = a b / sqrt((|a|^2 +
 * eps) (|b|^2 + eps)). */
#include "core/fail.h"
#include "layers/loss/layer_loss.h"
#include "layers/loss/loss_ops.h"
#include "layers/loss/triplet_batch.h"

typedef struct triplet_state {
  cr_layer_loss loss; /* has to be the first member */
  /* a - p and a - n; of each triplet its squared distances, their hinge, and its weight or 0. */
  cr_tensor *near, *far, *near_square, *far_square, *gap, *hinge, *active, *term, *scaled;
  cr_tensor *bare;                        /* the hinge without its weight */
  cr_tensor *pair, *pair_square, *joined; /* d - e, its square, and the term with it */
  cr_layer_op subtract, square, compare, shift, decide, weigh, add, total;
  cr_layer_op scale, scale_all, spread;
  cr_triplet_batch batch; /* with one or two bottoms */
} triplet_state;

static bool is_packed(const cr_layer *layer) {
  return layer->bottoms < 3;
}

static bool has_pair(const cr_layer *layer) {
  return layer->bottoms > 4;
}

static crema_status make_tensors(cr_layer *layer, int64_t triplets, int64_t width) {
  triplet_state *s = layer->state;
  const crema_dtype type = cr_layer_arithmetic(layer);
  cr_tensor **small[] = {&s->near_square, &s->far_square, &s->gap,  &s->hinge,       &s->active,
                         &s->term,        &s->scaled,     &s->bare, &s->pair_square, &s->joined};
  CR_TRY(cr_layer_pass_tensor(layer, &s->near, type, triplets * width));
  CR_TRY(cr_layer_pass_tensor(layer, &s->far, type, triplets * width));
  if (has_pair(layer)) CR_TRY(cr_layer_pass_tensor(layer, &s->pair, type, triplets * width));
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
  if (has_pair(layer)) {
    CR_TRY(cr_layer_same_shape(layer, "bottom 3", a, &bottom[3]->shape));
    return cr_layer_same_shape(layer, "bottom 4", a, &bottom[4]->shape);
  }
  if (layer->bottoms < 4 || crema_blob_count(bottom[3]) == a->dim[0]) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE, "%lld triplets need as many weights, found %lld",
                       (long long)a->dim[0], (long long)crema_blob_count(bottom[3]));
}

static crema_status make_ops(cr_layer *layer, int64_t n, int64_t width) {
  triplet_state *s = layer->state;
  const Caffe__TripletLossParameter *param = layer->param->triplet_loss_param;
  const double margin = param ? (double)param->margin : 1;
  const crema_shape each = cr_shape_1(n), all = cr_shape_2(n, width);
  CR_TRY(cr_loss_make_sum(layer, &s->subtract, 1, -1, &all));
  CR_TRY(cr_loss_make_rows(layer, &s->square, CR_REDUCE_SUMSQ, n, width));
  CR_TRY(cr_loss_make_sum(layer, &s->compare, 1, -1, &each));
  CR_TRY(
      cr_loss_make_function(layer, &s->shift, CR_UNARY_POWER, (const double[]){1, 1, margin}, n));
  CR_TRY(cr_loss_make_function(layer, &s->decide, CR_UNARY_THRESHOLD, (const double[3]){0}, n));
  CR_TRY(cr_loss_make_product(layer, &s->weigh, 2, &each));
  CR_TRY(cr_loss_make_sum(layer, &s->add, 1, 1, &each));
  CR_TRY(cr_loss_make_rows(layer, &s->total, CR_REDUCE_SUM, 1, n));
  CR_TRY(cr_loss_make_scale(layer, &s->scale, &each));
  CR_TRY(cr_loss_make_scale(layer, &s->scale_all, &all));
  return cr_loss_make_scaled_rows(layer, &s->spread, n, width);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  triplet_state *s = layer->state;
  const crema_shape *a = &bottom[0]->shape;
  if (is_packed(layer)) {
    CR_TRY(cr_triplet_batch_reshape(layer, &s->batch, bottom));
    return cr_layer_loss_fix(layer, &s->loss, top[0], 1);
  }
  CR_TRY(check(layer, bottom));
  const int64_t n = a->dim[0], width = crema_shape_count(a, 1, a->axes);
  CR_TRY(cr_layer_loss_fix(layer, &s->loss, top[0], 2 * (double)n));
  CR_TRY(make_tensors(layer, n, width));
  return make_ops(layer, n, width);
}

static crema_status forward_packed(cr_layer *layer, crema_context *context,
                                   crema_blob *const *bottom, crema_blob *const *top) {
  triplet_state *s = layer->state;
  cr_host_results to;
  double loss = 0;
  CR_TRY(cr_triplet_batch_forward(layer, context, &s->batch, bottom, &loss));
  CR_TRY(cr_host_write(top[0]->data, &to));
  cr_host_put(&to, 0, loss);
  return CREMA_OK;
}

/* Makes s->term of the hinge, its weight and the pair. */
static crema_status find_terms(cr_layer *layer, crema_context *context, crema_blob *const *bottom) {
  triplet_state *s = layer->state;
  if (layer->bottoms == 4) {
    CR_TRY(CR_LAYER_RUN(&s->weigh, context, s->hinge, s->active, s->bare));
    CR_TRY(CR_LAYER_RUN(&s->weigh, context, s->active, bottom[3]->data, s->active));
  }
  CR_TRY(CR_LAYER_RUN(&s->weigh, context, s->hinge, s->active, s->term));
  if (!has_pair(layer)) return CREMA_OK;
  CR_TRY(CR_LAYER_RUN(&s->subtract, context, bottom[3]->data, bottom[4]->data, s->pair));
  CR_TRY(CR_LAYER_RUN(&s->square, context, s->pair, s->pair_square));
  return CR_LAYER_RUN(&s->add, context, s->term, s->pair_square, s->joined);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  triplet_state *s = layer->state;
  cr_tensor *a = bottom[0]->data;
  if (is_packed(layer)) return forward_packed(layer, context, bottom, top);
  CR_TRY(CR_LAYER_RUN(&s->subtract, context, a, bottom[1]->data, s->near));
  CR_TRY(CR_LAYER_RUN(&s->subtract, context, a, bottom[2]->data, s->far));
  CR_TRY(CR_LAYER_RUN(&s->square, context, s->near, s->near_square));
  CR_TRY(CR_LAYER_RUN(&s->square, context, s->far, s->far_square));
  CR_TRY(CR_LAYER_RUN(&s->compare, context, s->near_square, s->far_square, s->gap));
  CR_TRY(CR_LAYER_RUN(&s->shift, context, s->gap, s->hinge));
  CR_TRY(CR_LAYER_RUN(&s->decide, context, s->hinge, s->active));
  CR_TRY(find_terms(layer, context, bottom));
  CR_TRY(
      CR_LAYER_RUN(&s->total, context, has_pair(layer) ? s->joined : s->term, s->loss.pair.own[0]));
  return cr_layer_loss_finish(&s->loss, context, top[0]);
}

/* Labels and numbers have the gradient 0. */
static crema_status backward_packed(cr_layer *layer, crema_context *context,
                                    const bool *propagate_down, double factor,
                                    crema_blob *const *bottom) {
  triplet_state *s = layer->state;
  if (layer->bottoms > 1 && propagate_down[1]) {
    cr_tensor_set_zero(bottom[1]->diff);
  }
  if (!propagate_down[0]) return CREMA_OK;
  return cr_triplet_batch_backward(context, &s->batch, factor, bottom);
}

/* The gradients of weights and pair. */
static crema_status backward_others(cr_layer *layer, crema_context *context,
                                    const bool *propagate_down, double factor,
                                    crema_blob *const *bottom) {
  triplet_state *s = layer->state;
  if (layer->bottoms == 4 && propagate_down[3]) {
    return cr_loss_run_scale(&s->scale, context, factor, s->bare, bottom[3]->diff);
  }
  for (int i = 3; i < 5 && has_pair(layer); ++i) {
    if (!propagate_down[i]) continue;
    CR_TRY(cr_loss_run_scale(&s->scale_all, context, i == 3 ? 2 * factor : -2 * factor, s->pair,
                             bottom[i]->diff));
  }
  return CREMA_OK;
}

/* The gradients of an active triplet, times 2: a: n - p, p: p - a, n: a - n. */
static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  triplet_state *s = layer->state;
  double factor = 0;
  CR_TRY(cr_layer_loss_refuse(layer, propagate_down));
  CR_TRY(cr_layer_loss_factor(&s->loss, top[0], &factor));
  if (is_packed(layer)) return backward_packed(layer, context, propagate_down, factor, bottom);
  for (int i = 0; i < 3; ++i) {
    cr_tensor *diff = bottom[i]->diff, *from = i == 0 ? diff : i == 1 ? s->near : s->far;
    if (!propagate_down[i]) continue;
    if (i == 0) CR_TRY(CR_LAYER_RUN(&s->subtract, context, s->near, s->far, diff));
    CR_TRY(cr_loss_run_scale(&s->scale, context, i == 1 ? -2 * factor : 2 * factor, s->active,
                             s->scaled));
    CR_TRY(CR_LAYER_RUN(&s->spread, context, from, s->scaled, NULL, diff));
  }
  return backward_others(layer, context, propagate_down, factor, bottom);
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  return is_packed(layer) && bottom == 0;
}

static void destroy(cr_layer *layer) {
  triplet_state *s = layer->state;
  cr_triplet_batch_free(&s->batch);
}

const cr_layer_class cr_layer_triplet_loss = {
    CR_LAYER_LOSS("TripletLoss", 1, 6, 1),
    .state_size = sizeof(triplet_state),
    .no_gradient_bottoms = 1u << 5,
    .uses_bottom = uses_bottom,
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .destroy = destroy,
};
