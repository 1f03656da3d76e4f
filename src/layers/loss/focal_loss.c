/* FocalLoss: the logistic loss with less weight for labels that are predicted well (Lin, Goyal,
 * Girshick, He and Dollar, "Focal loss for dense object detection", 2017).
 *
 * Formula: with one label per position: p = softmax(scores)[label], a = alpha. With a label for
 * each score, 1 or not: p = sigmoid(score) and a = alpha for a label 1, p = 1 - sigmoid(score) and
 * a = 1 - alpha for others. Type ORIGIN: loss = sum of -a * (1 - p)^gamma * log(p). LINEAR: loss =
 * sum of -a * log(sigmoid(gamma * x + beta)) / gamma, with x = log(p / (1 - p)). Both over all
 * labels that are not ignored, divided as loss_param says. Without normalization or normalize, the
 * divisor is the number of these labels or, with a label for each score, the batch size.
 * Shapes: scores (outer, C, inner), labels (outer, inner) -> loss (a scalar) and, optionally, the
 * probabilities (as scores). Or scores (N, ...), labels (as scores) -> loss (a scalar).
 * Fields: focal_loss_param, loss_param, softmax_param.
 * Caffe: with one label per position as in zimenglan's and chuanqi305's forks, which others call
 * SoftmaxFocalLoss and focalSoftmaxWithLoss; with a label for each score as in sciencefans'. The
 * default of alpha is 0.25, 0.75 or 1 in different forks, so write it. Some forks have the field
 * type but compute ORIGIN for LINEAR; here LINEAR is the paper's FL*.
 * Example, scores 4 3, label 4:
 *   layer { name: "loss" type: "FocalLoss" bottom: "scores" bottom: "label" top: "loss"
 *     focal_loss_param { alpha: 0.25 gamma: 2 } } */
#include <math.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/loss/loss_ops.h"
#include "layers/loss/position_loss.h"

typedef struct focal_state {
  cr_position_loss base; /* has to be the first member */
  bool linear, each;     /* type LINEAR; a label for each score */
  double alpha, beta, gamma;
  /* Of each position: log p, p, 1 - p, (1 - p)^gamma, (1 - p)^(gamma - 1), and their product. */
  cr_tensor *log_p, *p, *miss, *power, *lower, *part;
  cr_layer_op scale, raise, complement, weaken, weaken_less, two, three, add;
  /* With a label for each score: the gradient of the sum, and the sums and counts of parts. */
  cr_tensor *gradient;
  cr_layer_op scale_all;
  cr_buffer part_sum;
} focal_state;

enum { PART = 4096 }; /* values that a thread takes at a time */

static const Caffe__FocalLossParameter *param_of(const cr_layer *layer) {
  static const Caffe__FocalLossParameter defaults = CAFFE__FOCAL_LOSS_PARAMETER__INIT;
  return layer->param->focal_loss_param ? layer->param->focal_loss_param : &defaults;
}

/* Labels for each score are as many as scores. A softmax of one class would have no gradient. */
static bool labels_each(crema_blob *const *bottom) {
  const crema_shape *scores = &bottom[0]->shape, *labels = &bottom[1]->shape;
  return scores->axes > 0 && labels->axes > 0 && scores->dim[0] == labels->dim[0] &&
         crema_blob_count(bottom[0]) == crema_blob_count(bottom[1]);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  focal_state *s = layer->state;
  const Caffe__FocalLossParameter *param = param_of(layer);
  if (param->has_gama && param->has_gamma) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "gama and gamma are the same field");
  }
  s->linear = param->type == CAFFE__FOCAL_LOSS_PARAMETER__TYPE__LINEAR;
  s->alpha = (double)param->alpha;
  s->beta = (double)param->beta;
  s->gamma = (double)(param->has_gama ? param->gama : param->gamma);
  if (!(s->gamma >= 0 && s->gamma < 1e6) || (s->linear && s->gamma == 0)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "gamma is %g, must be %s", s->gamma,
                         s->linear ? "above 0 for type LINEAR" : "0 or more");
  }
  s->each = labels_each(bottom);
  if (!s->each) return cr_position_loss_setup(layer, bottom, top);
  return cr_layer_loss_read(layer, &s->base.softmax.loss,
                            CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE);
}

static crema_status make_ops(cr_layer *layer) {
  /* Where 1 - p is 0 the lower power stays finite, as it is multiplied by a log p of 0. */
  const double tiny = 1e-30;
  focal_state *s = layer->state;
  const int64_t count = s->base.positions;
  const crema_shape shape = cr_shape_1(count);
  CR_TRY(cr_loss_make_scale(layer, &s->scale, &shape));
  CR_TRY(cr_loss_make_function(layer, &s->raise, CR_UNARY_EXP, (const double[]){1, 1, 0}, count));
  CR_TRY(cr_loss_make_function(layer, &s->complement, CR_UNARY_ELU, (const double[]){1, -1, 0},
                               count));
  CR_TRY(cr_loss_make_function(layer, &s->weaken, CR_UNARY_POWER, (const double[]){s->gamma, 1, 0},
                               count));
  CR_TRY(cr_loss_make_function(layer, &s->weaken_less, CR_UNARY_POWER,
                               (const double[]){s->gamma - 1, 1, tiny}, count));
  CR_TRY(cr_loss_make_product(layer, &s->two, 2, &shape));
  CR_TRY(cr_loss_make_product(layer, &s->three, 3, &shape));
  return cr_loss_make_sum(layer, &s->add, (float)s->alpha, (float)(s->alpha * s->gamma), &shape);
}

static crema_status reshape_each(cr_layer *layer, crema_blob *const *bottom,
                                 crema_blob *const *top) {
  focal_state *s = layer->state;
  const int64_t count = crema_blob_count(bottom[0]);
  if (layer->tops > 1) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "probabilities as top 1 need one label per position, found one per score");
  }
  if (!labels_each(bottom)) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "%lld scores need as many labels, found %lld",
                         (long long)count, (long long)crema_blob_count(bottom[1]));
  }
  CR_TRY(
      cr_layer_loss_reshape(layer, &s->base.softmax.loss, top[0], bottom[0]->shape.dim[0], count));
  CR_TRY(cr_layer_pass_tensor(layer, &s->gradient, cr_layer_arithmetic(layer), count));
  CR_TRY(cr_buffer_reserve(&s->part_sum, (size_t)(2 * (count / PART + 1)) * sizeof(double)));
  return cr_loss_make_scale(layer, &s->scale_all, &bottom[0]->shape);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  focal_state *s = layer->state;
  if (s->each) return reshape_each(layer, bottom, top);
  const Caffe__FocalLossParameter *focal = param_of(layer);
  const Caffe__SoftmaxParameter *softmax = layer->param->softmax_param;
  cr_tensor **own[] = {&s->log_p, &s->p, &s->miss, &s->power, &s->lower, &s->part};
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, &bottom[0]->shape,
                       !focal->has_axis && softmax ? softmax->axis : focal->axis, "axis", &axis));
  CR_TRY(cr_position_loss_make(layer, bottom, top, axis));
  for (size_t i = 0; i < sizeof own / sizeof own[0]; ++i) {
    CR_TRY(cr_layer_tensor(layer, own[i], cr_layer_arithmetic(layer), s->base.positions));
  }
  return make_ops(layer);
}

/* log(1 + e^x) */
static double soft_plus(double x) {
  return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* ---- a label for each score ---- */

typedef struct each_work {
  const focal_state *state;
  cr_host_values x, label;
  cr_host_results gradient;
  int64_t count;
  double *part; /* sum and number of labels of each part */
} each_work;

/* The term of one score and its derivative by the score. `sign`: 1 for a label 1, else -1. */
static double each_term(const focal_state *s, double x, double sign, double *slope) {
  const double t = sign * x, alpha = sign > 0 ? s->alpha : 1 - s->alpha;
  if (s->linear) {
    const double u = -(s->gamma * t + s->beta);
    *slope = -sign * alpha * exp(u - soft_plus(u));
    return alpha * soft_plus(u) / s->gamma;
  }
  const double z = soft_plus(-t), p = exp(-z), miss = exp(-soft_plus(t)),
               power = pow(miss, s->gamma);
  *slope = -sign * alpha * power * (s->gamma * p * z + miss);
  return alpha * power * z;
}

static crema_status work_on(void *state, int worker, int64_t part) {
  const each_work *w = state;
  const cr_layer_loss *loss = &w->state->base.softmax.loss;
  const int64_t begin = part * PART, end = begin + PART < w->count ? begin + PART : w->count;
  double sum = 0, labels = 0;
  (void)worker;
  for (int64_t i = begin; i < end; ++i) {
    const double label = cr_host_get(&w->label, i);
    double slope = 0;
    if (!(loss->has_ignore && label == (double)loss->ignore)) {
      sum += each_term(w->state, cr_host_get(&w->x, i), label == 1 ? 1 : -1, &slope);
      ++labels;
    }
    cr_host_put(&w->gradient, i, slope);
  }
  w->part[2 * part] = sum;
  w->part[2 * part + 1] = labels;
  return CREMA_OK;
}

static crema_status forward_each(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                                 crema_blob *const *top) {
  focal_state *s = layer->state;
  cr_layer_loss *loss = &s->base.softmax.loss;
  each_work w = {
      .state = s, .count = crema_blob_count(bottom[0]), .part = (double *)(void *)s->part_sum.data};
  const int64_t parts = (w.count + PART - 1) / PART;
  CR_TRY(cr_host_read(bottom[0]->data, &w.x));
  CR_TRY(cr_host_read(bottom[1]->data, &w.label));
  CR_TRY(cr_host_write(s->gradient, &w.gradient));
  /* Exponential functions take as long as about 40 multiply-adds. */
  CR_TRY(cr_host_spread(cr_host_workers(context, 160.0 * (double)w.count), parts, work_on, &w));
  for (int k = 0; k < 2; ++k) {
    cr_host_results to;
    double sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += w.part[2 * part + k];
    CR_TRY(cr_host_write(loss->pair.own[k], &to));
    cr_host_put(&to, 0, sum);
  }
  return cr_layer_loss_finish(loss, context, top[0]);
}

/* ---- a label per position ---- */

/* LINEAR, with z = -log p: x = -z - log(1 - e^-z), whose derivative by z is -1 / (1 - p). */
static crema_status find_linear(const focal_state *s) {
  cr_host_values each;
  cr_host_results term, slope;
  CR_TRY(cr_host_read(s->base.each, &each));
  CR_TRY(cr_host_write(s->base.term, &term));
  CR_TRY(cr_host_write(s->base.slope, &slope));
  for (int64_t i = 0; i < s->base.positions; ++i) {
    const double z = cr_host_get(&each, i), miss = -expm1(-z);
    const double u = miss > 0 ? s->gamma * (z + log(miss)) - s->beta : -INFINITY;
    cr_host_put(&term, i, miss > 0 ? s->alpha * soft_plus(u) / s->gamma : 0);
    cr_host_put(&slope, i, miss > 0 ? s->alpha * exp(u - soft_plus(u)) / miss : 0);
  }
  return CREMA_OK;
}

/* With z = -log p: term = alpha (1 - p)^gamma z, and its derivative by z is
 * alpha (1 - p)^gamma + alpha gamma z p (1 - p)^(gamma - 1). */
static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  focal_state *s = layer->state;
  cr_tensor *each = s->base.each;
  if (s->each) return forward_each(layer, context, bottom, top);
  CR_TRY(cr_position_loss_find(layer, context, bottom, top));
  if (s->linear) {
    CR_TRY(find_linear(s));
    return cr_position_loss_finish(layer, context, top);
  }
  CR_TRY(cr_loss_run_scale(&s->scale, context, -1, each, s->log_p));
  CR_TRY(CR_LAYER_RUN(&s->raise, context, s->log_p, s->p));
  CR_TRY(CR_LAYER_RUN(&s->complement, context, s->log_p, s->miss));
  CR_TRY(CR_LAYER_RUN(&s->weaken, context, s->miss, s->power));
  CR_TRY(CR_LAYER_RUN(&s->two, context, s->power, each, s->part));
  CR_TRY(cr_loss_run_scale(&s->scale, context, s->alpha, s->part, s->base.term));
  if (s->gamma == 0) {
    CR_TRY(cr_loss_run_scale(&s->scale, context, s->alpha, s->power, s->base.slope));
  } else {
    CR_TRY(CR_LAYER_RUN(&s->weaken_less, context, s->miss, s->lower));
    CR_TRY(CR_LAYER_RUN(&s->three, context, s->lower, each, s->p, s->part));
    CR_TRY(CR_LAYER_RUN(&s->add, context, s->power, s->part, s->base.slope));
  }
  return cr_position_loss_finish(layer, context, top);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  focal_state *s = layer->state;
  double factor = 0;
  if (!s->each) return cr_position_loss_backward(layer, context, top, propagate_down, bottom);
  CR_TRY(cr_layer_loss_refuse(layer, propagate_down));
  if (!propagate_down[0]) return CREMA_OK;
  CR_TRY(cr_layer_loss_factor(&s->base.softmax.loss, top[0], &factor));
  return cr_loss_run_scale(&s->scale_all, context, factor, s->gradient, bottom[0]->diff);
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  const focal_state *s = layer->state;
  return !s->each && cr_softmax_loss_uses_bottom(layer, bottom);
}

static void destroy(cr_layer *layer) {
  focal_state *s = layer->state;
  cr_buffer_free(&s->part_sum);
}

const cr_layer_class cr_layer_focal_loss = {
    CR_LAYER_LOSS("FocalLoss", 2, 2, 2),
    .state_size = sizeof(focal_state),
    .graph.reads_loss_param = true,
    .graph.takes_softmax = true,
    .graph.integer_bottoms = 1u << 1,
    .uses_tops = cr_softmax_loss_uses_tops,
    .uses_bottom = uses_bottom,
    .no_gradient_bottoms = 1u << 1,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .destroy = destroy,
};
