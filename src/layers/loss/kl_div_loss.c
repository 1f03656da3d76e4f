/* KLDivLoss: the Kullback-Leibler divergence of a map from a target, for networks that predict
 * where people look.
 *
 * Formula: loss = 1 / N * sum of p log(p / (q + e) + e), with e = 1e-6. A sample's map x and target
 * t become q = x / (sum of |x| + e) and p = t / (sum of |t| + e). The gradient of x is
 * -p (S - x) / (S x + e) / N, with S the sum of |x|.
 * Shapes: x (N, ...), t (as x) -> loss (a scalar).
 * Fields: none.
 * Caffe: has no such layer. Formula and gradient come from the fork of DRFN. That gradient is
 * not the derivative: each value's share in the sums of the other values is missing, as there. The
 * fork takes maps of one channel only; here a sample may have any axes.
 * Example, x 2 1 4 4, t 2 1 4 4:
 *   layer { name: "loss" type: "KLDivLoss" bottom: "x" bottom: "t" top: "loss" } */
#include "core/fail.h"
#include "layers/loss/layer_loss.h"
#include "layers/loss/loss_ops.h"

static const double epsilon = 1e-6;

typedef struct kl_div_state {
  cr_layer_loss loss;    /* has to be the first member */
  cr_tensor *target;     /* p, which backward reads */
  cr_tensor *map_sum;    /* S of each sample, likewise */
  cr_tensor *sum, *rate; /* of the target: the sums, and 1 / (a sum + e) of either bottom */
  cr_tensor *a, *b;      /* intermediate values, as many as x has */
  cr_layer_op add_rows, invert_rows, scale_rows, invert, multiply, log, reduce, subtract, scale;
} kl_div_state;

static crema_status make_tensors(cr_layer *layer, int64_t samples, int64_t count) {
  kl_div_state *s = layer->state;
  const crema_dtype type = cr_layer_arithmetic(layer);
  CR_TRY(cr_layer_pass_tensor(layer, &s->target, type, count));
  CR_TRY(cr_layer_pass_tensor(layer, &s->map_sum, type, samples));
  CR_TRY(cr_layer_tensor(layer, &s->sum, type, samples));
  CR_TRY(cr_layer_tensor(layer, &s->rate, type, samples));
  CR_TRY(cr_layer_tensor(layer, &s->a, type, count));
  return cr_layer_tensor(layer, &s->b, type, count);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  kl_div_state *s = layer->state;
  const crema_shape *x = &bottom[0]->shape;
  CR_TRY(cr_layer_same_shape(layer, "bottom 1", x, &bottom[1]->shape));
  if (x->axes < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottoms must have axes, found scalars");
  }
  const crema_shape folded = cr_layer_fold(x, 1, x->axes);
  const int64_t samples = folded.dim[0], width = folded.dim[1], count = samples * width;
  const crema_shape flat = cr_shape_1(count);
  CR_TRY(cr_layer_loss_fix(layer, &s->loss, top[0], (double)samples));
  CR_TRY(make_tensors(layer, samples, count));
  CR_TRY(cr_loss_make_rows(layer, &s->add_rows, CR_REDUCE_ASUM, samples, width));
  CR_TRY(cr_loss_make_function(layer, &s->invert_rows, CR_UNARY_POWER,
                               (const double[]){-1, 1, epsilon}, samples));
  CR_TRY(cr_loss_make_scaled_rows(layer, &s->scale_rows, samples, width));
  CR_TRY(cr_loss_make_function(layer, &s->invert, CR_UNARY_POWER, (const double[]){-1, 1, epsilon},
                               count));
  CR_TRY(cr_loss_make_product(layer, &s->multiply, 2, &flat));
  CR_TRY(
      cr_loss_make_function(layer, &s->log, CR_UNARY_LOG, (const double[]){1, 1, epsilon}, count));
  CR_TRY(cr_loss_make_rows(layer, &s->reduce, CR_REDUCE_SUM, 1, count));
  CR_TRY(cr_loss_make_sum(layer, &s->subtract, 1, -1, &flat));
  return cr_loss_make_scale(layer, &s->scale, &flat);
}

/* to = x / (sum of |x| + e), sample by sample. */
static crema_status normalize(kl_div_state *s, crema_context *context, cr_tensor *x, cr_tensor *sum,
                              cr_tensor *to) {
  CR_TRY(CR_LAYER_RUN(&s->add_rows, context, x, sum));
  CR_TRY(CR_LAYER_RUN(&s->invert_rows, context, sum, s->rate));
  return CR_LAYER_RUN(&s->scale_rows, context, x, s->rate, NULL, to);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  kl_div_state *s = layer->state;
  CR_TRY(normalize(s, context, bottom[1]->data, s->sum, s->target));
  CR_TRY(normalize(s, context, bottom[0]->data, s->map_sum, s->a));
  CR_TRY(CR_LAYER_RUN(&s->invert, context, s->a, s->b));
  CR_TRY(CR_LAYER_RUN(&s->multiply, context, s->target, s->b, s->a));
  CR_TRY(CR_LAYER_RUN(&s->log, context, s->a, s->b));
  CR_TRY(CR_LAYER_RUN(&s->multiply, context, s->target, s->b, s->a));
  CR_TRY(CR_LAYER_RUN(&s->reduce, context, s->a, s->loss.pair.own[0]));
  return cr_layer_loss_finish(&s->loss, context, top[0]);
}

/* With c = p / (S x + e), the gradient is (c x - c S) / N. */
static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  kl_div_state *s = layer->state;
  cr_tensor *x = bottom[0]->data, *dx = bottom[0]->diff;
  double factor = 0;
  CR_TRY(cr_layer_loss_refuse(layer, propagate_down));
  if (!propagate_down[0]) return CREMA_OK;
  CR_TRY(cr_layer_loss_factor(&s->loss, top[0], &factor));
  CR_TRY(CR_LAYER_RUN(&s->scale_rows, context, x, s->map_sum, NULL, s->a));
  CR_TRY(CR_LAYER_RUN(&s->invert, context, s->a, s->b));
  CR_TRY(CR_LAYER_RUN(&s->multiply, context, s->target, s->b, s->a));
  CR_TRY(CR_LAYER_RUN(&s->scale_rows, context, s->a, s->map_sum, NULL, s->b));
  CR_TRY(CR_LAYER_RUN(&s->multiply, context, s->a, x, s->a));
  CR_TRY(CR_LAYER_RUN(&s->subtract, context, s->a, s->b, s->a));
  return cr_loss_run_scale(&s->scale, context, factor, s->a, dx);
}

/* Forward normalizes the target for the backward pass, which never reads bottom 1. */
static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)layer;
  return bottom == 0;
}

const cr_layer_class cr_layer_kl_div_loss = {
    CR_LAYER_LOSS("KLDivLoss", 2, 2, 1),
    .state_size = sizeof(kl_div_state),
    .no_gradient_bottoms = 1u << 1,
    .uses_bottom = uses_bottom,
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
};
