/* Multinomial logistic loss of given probabilities, and its gradient through a softmax.
 * prob is (outer, C, inner), label (outer, inner). */
#include <float.h>

#include "core/clones.h"
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/label.h"
#include "device/cpu/ref_type.h"

/* Arguments of the gradient. */
enum { GAIN = 3, SUMS };

/* What one part of the positions adds. */
typedef struct nll_part {
  double loss;
  int64_t count, bad; /* bad: the first position with a label out of range; -1: none */
} nll_part;

static nll_part nll_over(const cr_plan *plan, const cr_split *s, const cr_value *prob,
                         const cr_real *label, int64_t begin, int64_t end) {
  const bool has_ignore = plan->desc->u.nll.has_ignore;
  const int ignore = plan->desc->u.nll.ignore;
  nll_part out = {0, 0, -1};
  for (int64_t i = begin; i < end; ++i) {
    const int64_t c = cr_label_class(label[i], s->channels, has_ignore, ignore);
    if (c == CR_LABEL_IGNORED) continue;
    if (c == CR_LABEL_BAD) {
      out.bad = i;
      break;
    }
    const int64_t n = i / s->inner;
    const cr_real p = cr_get(prob, (n * s->channels + c) * s->inner + i % s->inner);
    /* Written so that a nan probability gives a nan loss. */
    out.loss -= log((double)(p < FLT_MIN ? FLT_MIN : p));
    ++out.count;
  }
  return out;
}

/* prob, label, loss, count. */
static crema_status nll_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *prob = cr_as_values(call->buffer, 0);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  const int64_t positions = s.outer * s.inner;
  nll_part part[CR_REF_PARTS];
#pragma omp parallel for schedule(static) if (positions >= CR_REF_PARALLEL_MIN / 16)
  for (int k = 0; k < CR_REF_PARTS; ++k) {
    part[k] = nll_over(call->plan, &s, prob, label, cr_ref_part(positions, k),
                       cr_ref_part(positions, k + 1));
  }
  double loss = 0;
  int64_t count = 0;
  for (int k = 0; k < CR_REF_PARTS; ++k) {
    if (part[k].bad >= 0)
      return cr_label_fail(label[part[k].bad], part[k].bad, positions, s.channels);
    loss += part[k].loss;
    count += part[k].count;
  }
  *cr_as_reals(call->buffer, 2) = (cr_real)loss;
  *cr_as_reals(call->buffer, 3) = (cr_real)count;
  return CREMA_OK;
}

CR_CLONES static void scale_values(int64_t count, cr_real factor, const cr_value *x, cr_value *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) cr_put(y, i, factor * cr_get(x, i));
}

CR_CLONES static void gain_values(int64_t count, cr_real alpha, cr_real sum, const cr_real *gain,
                                  const cr_value *x, cr_value *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) cr_put(y, i, alpha * (sum * cr_get(x, i) - gain[i]));
}

/* The gradient with weights for pairs of classes, at the position whose class 0 is element `at`. */
static void gain_gradient(const cr_call *call, const cr_split *s, int64_t label, int64_t at) {
  const cr_value *prob = cr_as_values(call->buffer, 0) + at;
  const cr_real *gain = cr_as_reals(call->buffer, GAIN) + label * s->channels;
  const cr_real sum = cr_as_reals(call->buffer, SUMS)[label];
  const cr_real alpha = (cr_real)call->scalars->alpha;
  cr_value *diff = cr_as_values(call->buffer, 2) + at;
  if (s->inner == 1) {
    gain_values(s->channels, alpha, sum, gain, prob, diff);
    return;
  }
  for (int64_t c = 0; c < s->channels; ++c) {
    cr_put(diff, c * s->inner, alpha * (sum * cr_get(prob, c * s->inner) - gain[c]));
  }
}

/* Positions whose gradient is made at a time. */
enum { WIDTH = 512 };

/* The gradient at the positions begin ... end - 1 of sample n: without gain, alpha times the
 * probability, less 1 for the true class; 0 for all classes where the label is ignored. prob and
 * diff may be one. */
static void nll_gradient(const cr_call *call, const cr_split *s, int64_t n, int64_t begin,
                         int64_t end) {
  const int64_t sample = n * s->channels * s->inner;
  const cr_value *prob = cr_as_values(call->buffer, 0) + sample;
  const cr_real *label = cr_as_reals(call->buffer, 1) + n * s->inner;
  cr_value *diff = cr_as_values(call->buffer, 2) + sample;
  const cr_real alpha = (cr_real)call->scalars->alpha;
  const bool gains = call->desc->args > GAIN && call->desc->arg[GAIN].shape.axes >= 0;
  int64_t truth[WIDTH];
  cr_real of_truth[WIDTH];
  for (int64_t i = begin; i < end; ++i) {
    const int64_t c = cr_label_class(label[i], s->channels, call->desc->u.nll.has_ignore,
                                     call->desc->u.nll.ignore);
    truth[i - begin] = c;
    of_truth[i - begin] = c < 0 ? 0 : alpha * (cr_get(prob, c * s->inner + i) - 1);
  }
  if (gains) {
    for (int64_t i = begin; i < end; ++i) {
      if (truth[i - begin] >= 0) gain_gradient(call, s, truth[i - begin], sample + i);
    }
  } else if (s->inner == 1) {
    scale_values(s->channels, alpha, prob, diff);
  } else {
    for (int64_t at = begin; at < begin + s->channels * s->inner; at += s->inner) {
      scale_values(end - begin, alpha, prob + at, diff + at);
    }
  }
  for (int64_t i = begin; i < end; ++i) {
    const int64_t c = truth[i - begin];
    if (c >= 0 && !gains) {
      cr_put(diff, c * s->inner + i, of_truth[i - begin]);
    } else if (c < 0) {
      for (int64_t k = 0; k < s->channels; ++k) cr_put(diff, k * s->inner + i, 0);
    }
  }
}

/* prob, label, diff, gain, sums. */
static crema_status nll_bwd(const cr_call *call) {
  if (!call->scalars) return cr_fail(CREMA_E_ARGUMENT, "the loss gradient lacks its factor");
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  const int64_t positions = s.outer * s.inner, blocks = (s.inner + WIDTH - 1) / WIDTH;
  for (int64_t i = 0; i < positions; ++i) {
    if (cr_label_class(label[i], s.channels, call->desc->u.nll.has_ignore,
                       call->desc->u.nll.ignore) == CR_LABEL_BAD) {
      return cr_label_fail(label[i], i, positions, s.channels);
    }
  }
#pragma omp parallel for schedule(static) if (positions * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < s.outer * blocks; ++b) {
    const int64_t begin = b % blocks * WIDTH;
    nll_gradient(call, &s, b / blocks, begin, s.inner - begin < WIDTH ? s.inner : begin + WIDTH);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(nll_fwd, NLL_FWD, .plan = cr_check_labels, .run = nll_fwd);
CR_REF_KERNEL(nll_bwd, NLL_BWD, .plan = cr_check_labels, .run = nll_bwd);
