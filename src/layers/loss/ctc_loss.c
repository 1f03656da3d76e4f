/* CTCLoss: connectionist temporal classification: labels of a sequence without their places
 * (Graves, Fernandez, Gomez and Schmidhuber, 2006).
 *
 * Formula: loss = mean over sequences of -log(sum over paths of the product of softmax(scores)). A
 * path gives a class to each step. It counts if it becomes the labels once repetitions of a class
 * are merged, unless ctc_merge_repeated is false, and then blanks are omitted. With output_delay d,
 * a path starts after d steps, which have no gradient.
 * Shapes: scores (T, N, C), labels (N, L) -> loss (a scalar); labels that equal the blank are
 * omitted. Or scores (T, N, C), indicators (T, N), labels (L, N) -> loss (a scalar): a sequence
 * ends before its second indicator 0, its labels before the first negative one. With ctc_param and
 * two bottoms: scores (N, C, T), or with the axes that nct_axis gives. The labels are then (N, L),
 * or (L, N) if N is axis 1 of the scores.
 * Fields: ctc_loss_param, ctc_param.
 * Caffe: two bottoms are as in WarpCTC's CtcLoss, three as in Wick's CTCLoss and WarpCTCLoss. The
 * loss of a sequence that is too short for its labels is 0, as in WarpCTC. With indicators, a
 * sequence without labels has the loss 0. Wick's gradient lacks the factor loss_weight / N.
 * ctc_param is as in hzli-ucas/caffe; already_softmax: the scores are probabilities. That fork
 * divides the gradient by N T instead of N.
 * Example, scores 12 2 6, label 2 4:
 *   layer { name: "loss" type: "CTCLoss" bottom: "scores" bottom: "label" top: "loss"
 *     ctc_loss_param { blank_label: 0 } } */
#include <math.h>
#include <string.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "layers/common/layer_ctc.h"
#include "layers/loss/layer_loss.h"
#include "layers/loss/loss_ops.h"

typedef struct ctc_state {
  cr_ctc_axes axes;
  cr_tensor *gradient; /* of the sum over the sequences */
  cr_layer_op scale;
  cr_buffer memory, loss; /* of the threads; of each sequence, double */
} ctc_state;

static const Caffe__CTCLossParameter *param_of(const cr_layer *layer) {
  static const Caffe__CTCLossParameter defaults = CAFFE__CTCLOSS_PARAMETER__INIT;
  return layer->param->ctc_loss_param ? layer->param->ctc_loss_param : &defaults;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__CTCLossParameter *param = param_of(layer);
  (void)bottom, (void)top;
  if (param->output_delay < 0) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "output_delay is %d, must be 0 or more",
                         param->output_delay);
  }
  if (layer->param->ctc_param != NULL && layer->param->ctc_loss_param != NULL) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "ctc_param (scores N C T) and ctc_loss_param (scores T N C) exclude each "
                         "other");
  }
  return CREMA_OK;
}

/* ctc_param gives the axes of the scores; without it they are T N C. */
static bool by_axes(const cr_layer *layer) {
  return layer->param->ctc_param != NULL && layer->bottoms == 2;
}

static bool is_softmaxed(const cr_layer *layer) {
  return layer->param->ctc_param != NULL && layer->param->ctc_param->already_softmax;
}

static int64_t blank_given(const cr_layer *layer) {
  const Caffe__CTCLossParameter *param = param_of(layer);
  if (layer->param->ctc_param != NULL) return layer->param->ctc_param->blank_index;
  if (param->has_blank_index) return param->blank_index;
  return layer->bottoms > 2 ? -1 : param->blank_label;
}

static crema_status check_axes(const cr_layer *layer, crema_blob *const *bottom,
                               const cr_ctc_axes *axes) {
  const crema_shape *scores = &bottom[0]->shape, *labels = &bottom[1]->shape;
  int64_t blank = 0;
  char text[128];
  if (axes->sequences > 1) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "the first nct_axis is %d, must be 0 or 1, as in the labels",
                         axes->sequences);
  }
  if (labels->axes != 2 || labels->dim[axes->sequences] != scores->dim[axes->sequences]) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "labels must have 2 axes, and %lld sequences on axis %d, found shape %s",
                         (long long)scores->dim[axes->sequences], axes->sequences,
                         crema_shape_text(labels, text, sizeof text));
  }
  return cr_ctc_blank(layer, blank_given(layer), scores->dim[axes->classes], &blank);
}

static crema_status check_shapes(const cr_layer *layer, crema_blob *const *bottom) {
  const Caffe__CTCLossParameter *param = param_of(layer);
  const crema_shape *scores = &bottom[0]->shape, *labels = &bottom[layer->bottoms - 1]->shape;
  int64_t blank = 0;
  char text[128];
  if (scores->axes < 3 || crema_shape_count(scores, 3, scores->axes) != 1 || labels->axes < 2 ||
      labels->dim[layer->bottoms - 2] != scores->dim[1] ||
      crema_shape_count(labels, 2, labels->axes) != 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "scores must have shape T N C and labels a row or column for each of N "
                         "sequences, found labels of shape %s",
                         crema_shape_text(labels, text, sizeof text));
  }
  if (layer->bottoms > 2 && (bottom[1]->shape.axes < 2 ||
                             crema_blob_count(bottom[1]) != scores->dim[0] * scores->dim[1])) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the indicators must have shape T N, found %s",
                         crema_shape_text(&bottom[1]->shape, text, sizeof text));
  }
  if ((param->alphabet_size > 0 && param->alphabet_size != scores->dim[2]) ||
      param->time_step > scores->dim[0]) {
    return cr_layer_fail(
        layer, CREMA_E_SHAPE, "alphabet_size %u and time_step %u do not fit scores of shape %s",
        param->alphabet_size, param->time_step, crema_shape_text(scores, text, sizeof text));
  }
  return cr_ctc_blank(layer, blank_given(layer), scores->dim[2], &blank);
}

static crema_status find_axes(const cr_layer *layer, crema_blob *const *bottom, cr_ctc_axes *out) {
  *out = (cr_ctc_axes){.sequences = 1, .classes = 2, .steps = 0};
  if (by_axes(layer)) return cr_ctc_find_axes(layer, &bottom[0]->shape, out);
  if (layer->param->ctc_param == NULL || layer->param->ctc_param->n_nct_axis == 0) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                       "nct_axis is for scores without indicators; with them, the shape is T N C");
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  ctc_state *s = layer->state;
  const crema_shape scalar = cr_shape(0, NULL);
  CR_TRY(find_axes(layer, bottom, &s->axes));
  CR_TRY(by_axes(layer) ? check_axes(layer, bottom, &s->axes) : check_shapes(layer, bottom));
  CR_TRY(cr_layer_pass_tensor(layer, &s->gradient, cr_layer_arithmetic(layer),
                              crema_blob_count(bottom[0])));
  CR_TRY(cr_loss_make_scale(layer, &s->scale, &bottom[0]->shape));
  return crema_blob_reshape(top[0], &scalar);
}

/* A pass, which threads make a sequence at a time. */
typedef struct ctc_pass {
  const cr_layer *layer;
  cr_ctc_scores scores;
  cr_ctc_rows labels, indicators;
  bool indicated, merge, softmaxed;
  int64_t steps, delay, blank;
  cr_host_results gradient;
  double *loss, *memory;
  int64_t per_worker; /* doubles */
} ctc_pass;

/* A sequence: its labels with blanks around each are the states of a path. */
typedef struct ctc_paths {
  int64_t steps, states, classes;
  const int32_t *label;
  int64_t blank, first; /* first: the step before which there is no path */
  bool merge;
  double *log_p;        /* steps x classes: logarithms of the probabilities */
  double *alpha, *beta; /* steps x states: of the paths to a state, and of those from it on */
} ctc_paths;

static int64_t class_of(const ctc_paths *p, int64_t state) {
  return state % 2 == 1 ? p->label[state / 2] : p->blank;
}

/* A path may skip the blank between two labels that differ or are not merged. */
static bool may_skip(const ctc_paths *p, int64_t from, int64_t to) {
  return from >= 0 && to < p->states && to % 2 == 1 &&
         !(p->merge && class_of(p, from) == class_of(p, to));
}

/* A path may repeat a blank, and a label that is merged. */
static bool may_stay(const ctc_paths *p, int64_t state) {
  return p->merge || state % 2 == 0;
}

static double log_sum(double a, double b) {
  const double most = a > b ? a : b, least = a > b ? b : a;
  return least == -INFINITY ? most : most + log1p(exp(least - most));
}

static void put_value(const ctc_pass *pass, int64_t n, int64_t t, int64_t c, double value) {
  const cr_ctc_rows *rows = &pass->scores.rows;
  cr_host_put(&pass->gradient, n * rows->apart + t * rows->step + c * pass->scores.class_step,
              value);
}

static void find_probabilities(const ctc_pass *pass, int64_t n, ctc_paths *p) {
  for (int64_t t = 0; t < p->steps; ++t) {
    double *row = p->log_p + t * p->classes, most = -INFINITY, sum = 0;
    for (int64_t c = 0; c < p->classes; ++c) {
      row[c] = cr_ctc_score(&pass->scores, n, p->first + t, c);
      if (pass->softmaxed) row[c] = row[c] > 0 ? log(row[c]) : -INFINITY;
      if (row[c] > most) most = row[c];
    }
    if (pass->softmaxed) continue;
    for (int64_t c = 0; c < p->classes; ++c) sum += exp(row[c] - most);
    for (int64_t c = 0; c < p->classes; ++c) row[c] -= most + log(sum);
  }
}

/* alpha includes the step's own probability. */
static void find_alpha(ctc_paths *p) {
  for (int64_t t = 0; t < p->steps; ++t) {
    const double *last = p->alpha + (t - 1) * p->states;
    double *row = p->alpha + t * p->states;
    for (int64_t u = 0; u < p->states; ++u) {
      double sum = t == 0 && u < 2 ? 0 : -INFINITY;
      if (t > 0 && may_stay(p, u)) sum = last[u];
      if (t > 0 && u > 0) sum = log_sum(sum, last[u - 1]);
      if (t > 0 && may_skip(p, u - 2, u)) sum = log_sum(sum, last[u - 2]);
      row[u] = sum + p->log_p[t * p->classes + class_of(p, u)];
    }
  }
}

/* beta does not. */
static void find_beta(ctc_paths *p) {
  for (int64_t t = p->steps - 1; t >= 0; --t) {
    const double *next = p->beta + (t + 1) * p->states, *log_p = p->log_p + (t + 1) * p->classes;
    double *row = p->beta + t * p->states;
    for (int64_t u = 0; u < p->states; ++u) {
      double sum = u + 2 >= p->states ? 0 : -INFINITY;
      if (t + 1 < p->steps) {
        sum = may_stay(p, u) ? next[u] + log_p[class_of(p, u)] : -INFINITY;
        if (u + 1 < p->states) sum = log_sum(sum, next[u + 1] + log_p[class_of(p, u + 1)]);
        if (may_skip(p, u, u + 2)) sum = log_sum(sum, next[u + 2] + log_p[class_of(p, u + 2)]);
      }
      row[u] = sum;
    }
  }
}

/* d loss / d score = probability of the class - probability that a path of the labels is there; by
 * a probability: minus the latter / probability of the class. */
static void put_gradient(const ctc_pass *pass, int64_t n, const ctc_paths *p, double log_all) {
  for (int64_t t = 0; t < p->steps; ++t) {
    const double *alpha = p->alpha + t * p->states, *beta = p->beta + t * p->states;
    double *row = p->log_p + t * p->classes;
    for (int64_t c = 0; c < p->classes; ++c) {
      const double chance = exp(row[c]);
      double there = 0;
      for (int64_t u = 0; u < p->states; ++u) {
        if (class_of(p, u) == c) there += exp(alpha[u] + beta[u] - log_all);
      }
      put_value(pass, n, p->first + t, c,
                !pass->softmaxed ? chance - there
                : there > 0      ? -there / chance
                                 : 0);
    }
  }
}

static double loss_of(const ctc_pass *pass, int64_t n, ctc_paths *p) {
  if (p->steps <= 0 || (pass->indicated && p->states == 1)) return 0;
  find_probabilities(pass, n, p);
  find_alpha(p);
  const double *last = p->alpha + (p->steps - 1) * p->states;
  const double log_all =
      p->states > 1 ? log_sum(last[p->states - 1], last[p->states - 2]) : last[0];
  if (log_all == -INFINITY) return 0; /* there is no path */
  if (!pass->layer->needs_backward) return -log_all;
  find_beta(p);
  put_gradient(pass, n, p, log_all);
  return -log_all;
}

/* The labels of sequence n, without repetitions if the layer wants it so. */
static crema_status read_labels(const ctc_pass *pass, int64_t n, int32_t *label, int64_t *count) {
  int64_t kept = 0;
  CR_TRY(cr_ctc_labels(pass->layer, &pass->labels, n, pass->scores.classes, pass->blank, label,
                       count));
  for (int64_t i = 0; i < *count; ++i) {
    const bool repeats = i > 0 && label[i] == label[i - 1];
    if (repeats && param_of(pass->layer)->preprocess_collapse_repeated) continue;
    label[kept++] = label[i];
  }
  *count = kept;
  return CREMA_OK;
}

static crema_status work_on(void *state, int worker, int64_t n) {
  const ctc_pass *pass = state;
  double *memory = pass->memory + worker * pass->per_worker;
  int32_t *label = (int32_t *)(void *)memory;
  const int64_t most = pass->labels.length, steps = pass->scores.rows.length;
  ctc_paths p = {
      .classes = pass->scores.classes, .label = label, .blank = pass->blank, .merge = pass->merge};
  int64_t labels = 0;
  CR_TRY(read_labels(pass, n, label, &labels));
  p.steps = pass->indicated ? cr_ctc_steps(&pass->indicators, n, steps) : pass->steps;
  p.first = pass->delay;
  p.steps -= pass->delay;
  p.states = 2 * labels + 1;
  p.log_p = memory + most;
  p.alpha = p.log_p + steps * p.classes;
  p.beta = p.alpha + steps * (2 * most + 1);
  for (int64_t t = 0; t < steps; ++t) {
    for (int64_t c = 0; c < p.classes; ++c) put_value(pass, n, t, c, 0);
  }
  pass->loss[n] = loss_of(pass, n, &p);
  return CREMA_OK;
}

static crema_status begin(cr_layer *layer, crema_blob *const *bottom, ctc_pass *pass) {
  ctc_state *s = layer->state;
  const Caffe__CTCLossParameter *param = param_of(layer);
  *pass = (ctc_pass){.layer = layer,
                     .indicated = layer->bottoms > 2,
                     .merge = param->ctc_merge_repeated,
                     .softmaxed = is_softmaxed(layer),
                     .delay = param->output_delay};
  CR_TRY(cr_ctc_read_axes(bottom[0], &s->axes, &pass->scores));
  if (pass->indicated) {
    CR_TRY(cr_ctc_read_rows(layer, "bottom 1", bottom[1], false, &pass->indicators));
  }
  CR_TRY(cr_ctc_read_rows(layer, "the labels", bottom[layer->bottoms - 1],
                          by_axes(layer) ? s->axes.sequences == 0 : !pass->indicated,
                          &pass->labels));
  CR_TRY(cr_ctc_blank(layer, blank_given(layer), pass->scores.classes, &pass->blank));
  pass->steps = param->time_step > 0 ? param->time_step : pass->scores.rows.length;
  return cr_host_write(s->gradient, &pass->gradient);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  ctc_state *s = layer->state;
  cr_host_results to;
  ctc_pass pass;
  double sum = 0;
  CR_TRY(begin(layer, bottom, &pass));
  const int64_t sequences = pass.scores.rows.sequences, steps = pass.scores.rows.length;
  const int64_t states = 2 * pass.labels.length + 1;
  pass.per_worker = pass.labels.length + steps * (pass.scores.classes + 2 * states);
  /* Exponential functions take as long as about 40 multiply-adds. */
  const int workers = cr_host_workers(context, 40.0 * (double)(sequences * pass.per_worker));
  CR_TRY(cr_buffer_reserve(&s->memory, (size_t)(workers * pass.per_worker + 1) * sizeof(double)));
  CR_TRY(cr_buffer_reserve(&s->loss, (size_t)(sequences + 1) * sizeof(double)));
  pass.memory = (double *)(void *)s->memory.data;
  pass.loss = (double *)(void *)s->loss.data;
  CR_TRY(cr_host_spread(workers, sequences, work_on, &pass));
  for (int64_t n = 0; n < sequences; ++n) sum += pass.loss[n];
  CR_TRY(cr_host_write(top[0]->data, &to));
  cr_host_put(&to, 0, sequences > 0 ? sum / (double)sequences : 0);
  return CREMA_OK;
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  ctc_state *s = layer->state;
  const int64_t sequences = bottom[0]->shape.dim[s->axes.sequences];
  double weight = 0;
  CR_TRY(cr_layer_loss_refuse(layer, propagate_down));
  if (!propagate_down[0]) return CREMA_OK;
  CR_TRY(cr_tensor_host_value(top[0]->diff, &weight));
  return cr_loss_run_scale(&s->scale, context, sequences > 0 ? weight / (double)sequences : 0,
                           s->gradient, bottom[0]->diff);
}

static void destroy(cr_layer *layer) {
  ctc_state *s = layer->state;
  cr_buffer_free(&s->loss);
  cr_buffer_free(&s->memory);
}

const cr_layer_class cr_layer_ctc_loss = {
    CR_LAYER_LOSS("CTCLoss", 2, 3, 1),
    .state_size = sizeof(ctc_state),
    .no_gradient_bottoms = 1u << 1 | 1u << 2,
    .graph.integer_bottoms = CR_LAST_BOTTOM,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .destroy = destroy,
};
