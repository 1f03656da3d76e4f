/* Losses that are sums over positions, and their gradients: s.alpha * diff_loss times the
 * derivative. The sums are made by one thread, in order, in double precision. */

#include "core/fail.h"
#include "device/cpu/label.h"
#include "device/cpu/ref_type.h"

static crema_status gradient_factor(const cr_op_scalars *scalars, const cr_real *diff_loss,
                                    cr_real *out) {
  if (!scalars) return cr_fail(CREMA_E_ARGUMENT, "the loss gradient lacks its factor");
  *out = (cr_real)scalars->alpha * diff_loss[0];
  return CREMA_OK;
}

static cr_real sigmoid(cr_real x) {
  const cr_real power = exp(-fabs(x));
  return x < 0 ? power / (1 + power) : 1 / (1 + power);
}

/* A target is ignored when its whole part is the ignored label. */
static bool is_ignored(const cr_op_desc *desc, cr_real target) {
  return desc->u.nll.has_ignore && target > -2147483648.0f && target < 2147483648.0f &&
         (int)target == desc->u.nll.ignore;
}

/* scores, targets, loss, count: the sum of -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)). */
static crema_status sigmoid_fwd(const cr_call *call) {
  const cr_value *x = cr_as_values(call->buffer, 0);
  const cr_real *t = cr_as_reals(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  double loss = 0;
  int64_t counted = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (is_ignored(call->desc, t[i])) continue;
    const double v = (double)cr_get(x, i);
    loss += (v > 0 ? v : 0) - v * (double)t[i] + log1p(exp(-fabs(v)));
    ++counted;
  }
  *cr_as_reals(call->buffer, 2) = (cr_real)loss;
  *cr_as_reals(call->buffer, 3) = (cr_real)counted;
  return CREMA_OK;
}

/* scores, targets, diff_loss, diff_scores. */
static crema_status sigmoid_bwd(const cr_call *call) {
  const cr_value *x = cr_as_values(call->buffer, 0);
  const cr_real *t = cr_as_reals(call->buffer, 1);
  cr_value *dx = cr_as_values(call->buffer, 3);
  cr_real factor = 0;
  const int64_t count = cr_op_arg_count(call->desc, 0);
  CR_TRY(gradient_factor(call->scalars, cr_as_reals(call->buffer, 2), &factor));
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 4)
  for (int64_t i = 0; i < count; ++i) {
    const cr_real target = t[i];
    const cr_real slope = factor * (sigmoid(cr_get(x, i)) - target);
    cr_put(dx, i, is_ignored(call->desc, target) ? 0 : slope);
  }
  return CREMA_OK;
}

/* How far score c of a row falls short of its margin; `sign` is d shortfall / d score. */
static cr_real shortfall(cr_real score, bool truth, cr_real *sign) {
  *sign = truth ? -1.0f : 1.0f;
  const cr_real margin = 1 + *sign * score;
  return margin > 0 ? margin : 0;
}

static crema_status check_labels(const cr_real *label, int64_t rows, int64_t classes) {
  for (int64_t n = 0; n < rows; ++n) {
    if (cr_label_class(label[n], classes, false, 0) == CR_LABEL_BAD) {
      return cr_label_fail(label[n], n, rows, classes);
    }
  }
  return CREMA_OK;
}

/* scores (N, C), labels (N), loss. */
static crema_status hinge_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *x = cr_as_values(call->buffer, 0);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  CR_TRY(check_labels(label, s.outer, s.channels));
  double loss = 0;
  for (int64_t i = 0; i < s.outer * s.channels; ++i) {
    cr_real sign;
    const bool truth = (int64_t)label[i / s.channels] == i % s.channels;
    const double missing = (double)shortfall(cr_get(x, i), truth, &sign);
    loss += call->desc->u.norm == 2 ? missing * missing : missing;
  }
  *cr_as_reals(call->buffer, 2) = (cr_real)loss;
  return CREMA_OK;
}

/* scores, labels, diff_loss, diff_scores. */
static crema_status hinge_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *x = cr_as_values(call->buffer, 0);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  cr_value *dx = cr_as_values(call->buffer, 3);
  cr_real factor = 0;
  CR_TRY(check_labels(label, s.outer, s.channels));
  CR_TRY(gradient_factor(call->scalars, cr_as_reals(call->buffer, 2), &factor));
  for (int64_t i = 0; i < s.outer * s.channels; ++i) {
    cr_real sign;
    const bool truth = (int64_t)label[i / s.channels] == i % s.channels;
    const cr_real missing = shortfall(cr_get(x, i), truth, &sign);
    const cr_real slope = call->desc->u.norm == 2 ? 2 * missing : (cr_real)(missing > 0);
    cr_put(dx, i, factor * sign * slope);
  }
  return CREMA_OK;
}

/* Whether the whole part of a flag is not 0; nan counts as similar. */
static bool is_similar(cr_real flag) {
  return !(fabs(flag) < 1);
}

/* a_i - b_i */
static double gap(const cr_value *a, const cr_value *b, int64_t i) {
  return (double)cr_get(a, i) - (double)cr_get(b, i);
}

static double square_distance(const cr_value *a, const cr_value *b, int64_t length) {
  double sum = 0;
  for (int64_t i = 0; i < length; ++i) sum += gap(a, b, i) * gap(a, b, i);
  return sum;
}

/* a (N, C), b (N, C), similar (N), loss (Hadsell, Chopra and LeCun, "Dimensionality reduction by
 * learning an invariant mapping", 2006). */
static crema_status contrastive_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *similar = cr_as_reals(call->buffer, 2);
  const double margin = (double)call->desc->u.contrastive.margin;
  double loss = 0;
  for (int64_t n = 0; n < s.outer; ++n) {
    const int64_t at = n * s.channels;
    const double square = square_distance(cr_as_values(call->buffer, 0) + at,
                                          cr_as_values(call->buffer, 1) + at, s.channels);
    const double missing = margin - (call->desc->u.contrastive.legacy ? square : sqrt(square));
    if (is_similar(similar[n])) {
      loss += square;
    } else if (missing > 0) {
      loss += call->desc->u.contrastive.legacy ? missing : missing * missing;
    }
  }
  *cr_as_reals(call->buffer, 3) = (cr_real)loss;
  return CREMA_OK;
}

/* a, b, similar, diff_loss, diff_a; that of b is the opposite. The distance that divides is kept
 * away from 0 by adding 1e-4, as Caffe does. */
static crema_status contrastive_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *a = cr_as_values(call->buffer, 0), *b = cr_as_values(call->buffer, 1);
  const cr_real *similar = cr_as_reals(call->buffer, 2);
  cr_value *da = cr_as_values(call->buffer, 4);
  cr_real factor = 0;
  const double margin = (double)call->desc->u.contrastive.margin;
  const bool legacy = call->desc->u.contrastive.legacy;
  CR_TRY(gradient_factor(call->scalars, cr_as_reals(call->buffer, 3), &factor));
  for (int64_t n = 0; n < s.outer; ++n) {
    const int64_t at = n * s.channels;
    const double square = square_distance(a + at, b + at, s.channels), distance = sqrt(square);
    const double missing = margin - (legacy ? square : distance);
    double slope = 2;
    if (!is_similar(similar[n])) {
      slope = missing > 0 ? (legacy ? -2 : -2 * missing / (distance + 1e-4)) : 0;
    }
    for (int64_t i = at; i < at + s.channels; ++i) {
      cr_put(da, i, (cr_real)(slope * (double)factor * gap(a, b, i)));
    }
  }
  return CREMA_OK;
}

/* Smaller probabilities count as this one. */
static const cr_real least_probability = (cr_real)1e-20;

/* Row `label` of the gain matrix; its absence is the identity. */
static cr_real gain_of(const cr_real *gain, int64_t label, int64_t c, int64_t classes) {
  if (gain) return gain[label * classes + c];
  return label == c ? 1 : 0;
}

/* prob (outer, C, inner), label (outer, inner), gain (C, C), loss, count. */
static crema_status infogain_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *prob = cr_as_values(call->buffer, 0);
  const cr_real *label = cr_as_reals(call->buffer, 1), *gain = cr_as_reals(call->buffer, 2);
  double loss = 0;
  int64_t counted = 0;
  for (int64_t i = 0; i < s.outer * s.inner; ++i) {
    const int64_t truth = cr_label_class(label[i], s.channels, call->desc->u.nll.has_ignore,
                                         call->desc->u.nll.ignore);
    if (truth == CR_LABEL_BAD) return cr_label_fail(label[i], i, s.outer * s.inner, s.channels);
    if (truth == CR_LABEL_IGNORED) continue;
    ++counted;
    for (int64_t c = 0; c < s.channels; ++c) {
      const cr_real g = gain_of(gain, truth, c, s.channels);
      const cr_real p = cr_get(prob, (i / s.inner * s.channels + c) * s.inner + i % s.inner);
      if (g != 0) loss -= (double)g * log((double)(p < least_probability ? least_probability : p));
    }
  }
  *cr_as_reals(call->buffer, 3) = (cr_real)loss;
  *cr_as_reals(call->buffer, 4) = (cr_real)counted;
  return CREMA_OK;
}

/* prob, label, gain, diff_loss, diff_prob. */
static crema_status infogain_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *prob = cr_as_values(call->buffer, 0);
  const cr_real *label = cr_as_reals(call->buffer, 1), *gain = cr_as_reals(call->buffer, 2);
  cr_value *diff = cr_as_values(call->buffer, 4);
  cr_real factor = 0;
  CR_TRY(gradient_factor(call->scalars, cr_as_reals(call->buffer, 3), &factor));
  for (int64_t i = 0; i < s.outer * s.inner; ++i) {
    const int64_t truth = cr_label_class(label[i], s.channels, call->desc->u.nll.has_ignore,
                                         call->desc->u.nll.ignore);
    if (truth == CR_LABEL_BAD) return cr_label_fail(label[i], i, s.outer * s.inner, s.channels);
    for (int64_t c = 0; c < s.channels; ++c) {
      const int64_t at = (i / s.inner * s.channels + c) * s.inner + i % s.inner;
      const cr_real g = truth == CR_LABEL_IGNORED ? 0 : gain_of(gain, truth, c, s.channels);
      const cr_real given = cr_get(prob, at);
      const cr_real p = given < least_probability ? least_probability : given;
      cr_put(diff, at, g == 0 ? 0 : -factor * g / p);
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(sigmoid_loss_fwd, SIGMOID_LOSS_FWD, .run = sigmoid_fwd);
CR_REF_KERNEL(sigmoid_loss_bwd, SIGMOID_LOSS_BWD, .run = sigmoid_bwd);
CR_REF_KERNEL(hinge_fwd, HINGE_FWD, .run = hinge_fwd);
CR_REF_KERNEL(hinge_bwd, HINGE_BWD, .run = hinge_bwd);
CR_REF_KERNEL(contrastive_fwd, CONTRASTIVE_FWD, .run = contrastive_fwd);
CR_REF_KERNEL(contrastive_bwd, CONTRASTIVE_BWD, .run = contrastive_bwd);
CR_REF_KERNEL(infogain_fwd, INFOGAIN_FWD, .run = infogain_fwd);
CR_REF_KERNEL(infogain_bwd, INFOGAIN_BWD, .run = infogain_bwd);
