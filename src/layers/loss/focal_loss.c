/* FocalLoss: the logistic loss with less weight for labels that are predicted well (Lin, Goyal,
 * Girshick, He and Dollar, "Focal loss for dense object detection", 2017).
 *
 * Formula: loss = sum of -alpha * (1 - p)^gamma * log(p) with p = softmax(scores)[label], over all
 * positions whose label is not ignored, divided as loss_param says.
 * Shapes: scores (outer, C, inner), labels (outer, inner) -> loss (a scalar) and, optionally, the
 * probabilities (as scores).
 * Fields: focal_loss_param, loss_param, softmax_param.
 * Caffe: as in most forks, which also call it SoftmaxFocalLoss and focalSoftmaxWithLoss. The
 * default of alpha is 0.25, 0.75 or 1 in different forks, so write it. Refused: type LINEAR, and
 * labels for each score, which some forks compare with sigmoids.
 * Example, scores 4 3, label 4:
 *   layer { name: "loss" type: "FocalLoss" bottom: "scores" bottom: "label" top: "loss"
 *     focal_loss_param { alpha: 0.25 gamma: 2 } } */
#include "core/fail.h"
#include "layers/loss/loss_ops.h"
#include "layers/loss/position_loss.h"

typedef struct focal_state {
  cr_position_loss base; /* has to be the first member */
  double alpha, gamma;
  /* Of each position: log p, p, 1 - p, (1 - p)^gamma, (1 - p)^(gamma - 1), and their product. */
  cr_tensor *log_p, *p, *miss, *power, *lower, *part;
  cr_layer_op scale, raise, complement, weaken, weaken_less, two, three, add;
} focal_state;

static const Caffe__FocalLossParameter *param_of(const cr_layer *layer) {
  static const Caffe__FocalLossParameter defaults = CAFFE__FOCAL_LOSS_PARAMETER__INIT;
  return layer->param->focal_loss_param ? layer->param->focal_loss_param : &defaults;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  focal_state *s = layer->state;
  const Caffe__FocalLossParameter *param = param_of(layer);
  if (param->type != CAFFE__FOCAL_LOSS_PARAMETER__TYPE__ORIGIN) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "type LINEAR of focal_loss_param is not supported");
  }
  if (!(param->gamma >= 0 && param->gamma < 1e6f)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "gamma is %g, must be 0 or more",
                         (double)param->gamma);
  }
  s->alpha = (double)param->alpha;
  s->gamma = (double)param->gamma;
  return cr_position_loss_setup(layer, bottom, top);
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

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  focal_state *s = layer->state;
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

/* With z = -log p: term = alpha (1 - p)^gamma z, and its derivative by z is
 * alpha (1 - p)^gamma + alpha gamma z p (1 - p)^(gamma - 1). */
static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  focal_state *s = layer->state;
  cr_tensor *each = s->base.each;
  CR_TRY(cr_position_loss_find(layer, context, bottom, top));
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

const cr_layer_class cr_layer_focal_loss = {
    CR_LAYER_SOFTMAX_LOSS("FocalLoss", 2, 2),
    .state_size = sizeof(focal_state),
    .graph.takes_softmax = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = cr_position_loss_backward,
};
