/* The softmax loss and its gradient. Scores x, probabilities p and gradients are (outer, C, inner),
 * labels (outer, inner). Let k be the class that the label of a position names:
 *
 *   loss = sum of -log p_k over the positions, each at most -log(FLT_MIN)
 *   dx_c = alpha (p_c - [c is k])
 *
 * Gains g replace the choice of one class by weights of all classes; a p_c below 1e-20 counts as
 * 1e-20:
 *
 *   loss = sum of -g_kc log p_c over the positions and the classes c
 *   dx_c = alpha (p_c (sum of g_k over the classes) - g_kc)
 *
 * Positions with ignored labels have neither loss nor gradient. */
#include "device/backend/op_check.h"
#include "device/cpu/kernels/loss.h"
#include "device/cpu/kernels/softmax.h"

enum { SCORES, LABEL };
enum { PROB = 2, LOSS, COUNT, FWD_GAIN, EACH };
enum { DIFF = 2, BWD_GAIN, BWD_SUMS };

static cr_real *if_there(const cr_call *call, int i) {
  const bool there = call->desc->args > i && call->desc->arg[i].shape.axes >= 0;
  return there ? cr_as_reals(call->buffer, i) : NULL;
}

/* The class that the label of position p names, or CR_LABEL_IGNORED, or CR_LABEL_BAD. */
static int64_t class_of(const cr_call *call, const cr_split *s, int64_t p) {
  return cr_label_class(cr_as_reals(call->buffer, LABEL)[p], s->channels,
                        call->desc->u.nll.has_ignore, call->desc->u.nll.ignore);
}

/* *counted: the number of labels that are not ignored. */
static crema_status check_labels(const cr_call *call, const cr_split *s, int64_t *counted) {
  const int64_t positions = s->outer * s->inner;
  *counted = 0;
  for (int64_t p = 0; p < positions; ++p) {
    const int64_t k = class_of(call, s, p);
    if (k == CR_LABEL_BAD) {
      return cr_label_fail(cr_as_reals(call->buffer, LABEL)[p], p, positions, s->channels,
                           call->desc->u.nll.has_ignore);
    }
    if (k != CR_LABEL_IGNORED) ++*counted;
  }
  return CREMA_OK;
}

/* x: the scores of the position, whose label names class k. */
static double label_loss(const cr_split *s, const cr_real *x, cr_softmax_sum all, int64_t k) {
  const cr_real most = (cr_real)87.33654475055310898657; /* -log(FLT_MIN) */
  const cr_real loss = cr_ref_log((cr_real)all.sum) - (x[k * s->inner] - all.top);
  return (double)(loss > most ? most : loss); /* NaN remains NaN */
}

/* gain: the weights of the classes for the label of the position. */
static double gain_loss(const cr_split *s, const cr_real *x, cr_softmax_sum all,
                        const cr_real *gain) {
  const cr_real least = cr_ref_log((cr_real)1e-20);
  const cr_real log_sum = all.top + cr_ref_log((cr_real)all.sum);
  double loss = 0;
  for (int64_t c = 0; c < s->channels; ++c) {
    const cr_real log_p = x[c * s->inner] - log_sum;
    loss -= (double)(gain[c] * (log_p < least ? least : log_p));
  }
  return loss;
}

static double loss_at(const cr_call *call, const cr_split *s, int64_t p) {
  const int64_t k = class_of(call, s, p), at = cr_softmax_at(s, p);
  const cr_real *x = cr_as_reals(call->buffer, SCORES) + at, *gain = if_there(call, FWD_GAIN);
  cr_real *prob = if_there(call, PROB);
  const cr_softmax_sum all =
      prob != NULL ? cr_softmax_of(s, x, prob + at) : cr_softmax_sum_of(s, x);
  if (k == CR_LABEL_IGNORED) return 0;
  if (gain != NULL) return gain_loss(s, x, all, gain + k * s->channels);
  return label_loss(s, x, all, k);
}

/* scores, label, prob, loss, count, gain, each. */
static crema_status softmax_loss_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, SCORES, 1);
  const int64_t positions = s.outer * s.inner;
  cr_real *each = if_there(call, EACH);
  double part[CR_REF_PARTS] = {0};
  int64_t counted;
  CR_TRY(check_labels(call, &s, &counted));
#pragma omp parallel for schedule(static) if (positions * s.channels >= CR_REF_PARALLEL_MIN / 4)
  for (int k = 0; k < CR_REF_PARTS; ++k) {
    for (int64_t p = cr_ref_part(positions, k); p < cr_ref_part(positions, k + 1); ++p) {
      const double loss = loss_at(call, &s, p);
      part[k] += loss;
      if (each != NULL) each[p] = (cr_real)loss;
    }
  }
  *cr_as_reals(call->buffer, LOSS) = (cr_real)cr_loss_sum(part);
  *cr_as_reals(call->buffer, COUNT) = (cr_real)counted;
  return CREMA_OK;
}

/* The gradient at position p. diff may be prob. */
static void gradient_at(const cr_call *call, const cr_split *s, int64_t p, const cr_real *prob,
                        cr_real *diff) {
  const int64_t k = class_of(call, s, p);
  const cr_real *gain = if_there(call, BWD_GAIN), alpha = (cr_real)call->scalars->alpha;
  for (int64_t c = 0; c < s->channels; ++c) {
    const int64_t at = c * s->inner;
    if (k == CR_LABEL_IGNORED) {
      diff[at] = 0;
    } else if (gain != NULL) {
      const cr_real sum = cr_as_reals(call->buffer, BWD_SUMS)[k];
      diff[at] = alpha * (sum * prob[at] - gain[k * s->channels + c]);
    } else {
      diff[at] = alpha * (prob[at] - (c == k ? 1 : 0));
    }
  }
}

/* prob or scores, label, diff, gain, sums. */
static crema_status softmax_loss_bwd(const cr_call *call) {
  if (!call->scalars) return cr_fail(CREMA_E_ARGUMENT, "the loss gradient lacks its factor");
  const cr_split s = cr_op_split(call->desc, SCORES, 1);
  const int64_t positions = s.outer * s.inner;
  int64_t counted;
  CR_TRY(check_labels(call, &s, &counted));
#pragma omp parallel for schedule(static) if (positions * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t p = 0; p < positions; ++p) {
    const int64_t at = cr_softmax_at(&s, p);
    const cr_real *from = cr_as_reals(call->buffer, SCORES) + at;
    cr_real *diff = cr_as_reals(call->buffer, DIFF) + at;
    if (call->desc->u.nll.of_scores) cr_softmax_of(&s, from, diff);
    gradient_at(call, &s, p, call->desc->u.nll.of_scores ? diff : from, diff);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(softmax_loss_fwd, SOFTMAX_LOSS_FWD, .plan = cr_check_labels, .run = softmax_loss_fwd);
CR_REF_KERNEL(softmax_loss_bwd, SOFTMAX_LOSS_BWD, .plan = cr_check_labels, .run = softmax_loss_bwd);
