/* Losses that are sums over positions, and their gradients: s.alpha * diff_loss times the
 * derivative. The sums are made in double precision, of CR_REF_PARTS parts. */

#include "core/fail.h"
#include "device/cpu/kernels/label.h"
#include "device/cpu/kernels/vector_math.h"

static crema_status gradient_factor(const cr_op_scalars *scalars, const cr_real *diff_loss,
                                    cr_real *out) {
  if (!scalars) return cr_fail(CREMA_E_ARGUMENT, "the loss gradient lacks its factor");
  *out = (cr_real)scalars->alpha * diff_loss[0];
  return CREMA_OK;
}

/* Elements that a thread works through at a time. */
enum { PIECE = 4096 };

static double sum_of(const double *part) {
  double sum = 0;
  for (int p = 0; p < CR_REF_PARTS; ++p) sum += part[p];
  return sum;
}

/* The whole part of a target that is ignored; nan, which no target equals, where there is none. */
static cr_real ignored_target(const cr_op_desc *desc) {
  const cr_real ignored = (cr_real)desc->u.nll.ignore;
  return desc->u.nll.has_ignore && (double)ignored == (double)desc->u.nll.ignore ? ignored : NAN;
}

enum { LANES = 16, FOLDED = 4 /* values of a lane whose logarithms are taken together */ };

/* One part of the loss; adds the other, the logarithm of 1 + exp(-|v|), to those of *rest: 1 +
 * *rest is the product of what they are the logarithms of. Written without that 1, so that small
 * ones lose nothing. */
CR_INLINE cr_real fold_loss(cr_real v, cr_real target, cr_real *rest) {
  const cr_real power = cr_ref_exp_below_0(false, -fabs(v));
  *rest += power * (1 + *rest);
  return (v > 0 ? v : 0) - v * target;
}

/* Whether the target counts. Without targets to ignore nothing is compared. */
CR_INLINE bool is_used(bool ignores, cr_real target, cr_real ignored) {
  return !ignores || trunc(target) != ignored;
}

/* *counted: how many targets are not ignored. */
CR_INLINE double sigmoid_sum(bool ignores, const cr_value *x, const cr_real *t, cr_real ignored,
                             int64_t count, double *counted) {
  double lane[LANES] = {0}, loss = 0, used = 0;
  int64_t i = 0;
  for (; i + LANES * FOLDED <= count; i += LANES * FOLDED) {
    cr_real counts[LANES];
#pragma omp simd
    for (int k = 0; k < LANES; ++k) {
      cr_real rest = 0, direct = 0, number = 0;
      for (int j = 0; j < FOLDED; ++j) {
        const int64_t at = i + j * LANES + k;
        const bool use = is_used(ignores, t[at], ignored);
        cr_real next = rest;
        const cr_real part = fold_loss(cr_get(x, at), t[at], &next);
        rest = use ? next : rest;
        direct += use ? part : 0;
        number += use ? 1 : 0;
      }
      lane[k] += (double)(direct + cr_ref_log1p_far(rest));
      counts[k] = number;
    }
    for (int k = 0; k < LANES && ignores; ++k) used += (double)counts[k];
    used += ignores ? 0 : LANES * FOLDED;
  }
  for (; i < count; ++i) {
    cr_real rest = 0;
    const cr_real part = fold_loss(cr_get(x, i), t[i], &rest);
    if (!is_used(ignores, t[i], ignored)) continue;
    loss += (double)(part + cr_ref_log1p_far(rest));
    used += 1;
  }
  for (int k = 0; k < LANES; ++k) loss += lane[k];
  *counted = used;
  return loss;
}

CR_CLONES static double sigmoid_part(const cr_value *x, const cr_real *t, cr_real ignored,
                                     int64_t count, double *counted) {
  if (isnan(ignored)) return sigmoid_sum(false, x, t, ignored, count, counted);
  return sigmoid_sum(true, x, t, ignored, count, counted);
}

/* scores, targets, loss, count: the sum of -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)). */
static crema_status sigmoid_fwd(const cr_call *call) {
  const cr_value *x = cr_as_values(call->buffer, 0);
  const cr_real *t = cr_as_reals(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const cr_real ignored = ignored_target(call->desc);
  double loss[CR_REF_PARTS], counted[CR_REF_PARTS];
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 4)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    const int64_t begin = cr_ref_part(count, p), end = cr_ref_part(count, p + 1);
    loss[p] = sigmoid_part(x + begin, t + begin, ignored, end - begin, &counted[p]);
  }
  *cr_as_reals(call->buffer, 2) = (cr_real)sum_of(loss);
  *cr_as_reals(call->buffer, 3) = (cr_real)sum_of(counted);
  return CREMA_OK;
}

CR_CLONES static void sigmoid_piece(const cr_value *x, const cr_real *t, cr_real ignored,
                                    cr_real factor, int64_t count, cr_value *dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real slope = factor * (cr_ref_sigmoid(cr_get(x, i)) - t[i]);
    cr_put(dx, i, trunc(t[i]) == ignored ? 0 : slope);
  }
}

/* scores, targets, diff_loss, diff_scores. */
static crema_status sigmoid_bwd(const cr_call *call) {
  const cr_value *x = cr_as_values(call->buffer, 0);
  const cr_real *t = cr_as_reals(call->buffer, 1);
  cr_value *dx = cr_as_values(call->buffer, 3);
  cr_real factor = 0;
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const cr_real ignored = ignored_target(call->desc);
  CR_TRY(gradient_factor(call->scalars, cr_as_reals(call->buffer, 2), &factor));
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 4)
  for (int64_t i = 0; i < count; i += PIECE) {
    const int64_t length = count - i < PIECE ? count - i : PIECE;
    sigmoid_piece(x + i, t + i, ignored, factor, length, dx + i);
  }
  return CREMA_OK;
}

/* How far a score falls short of its margin; `sign` is d shortfall / d score: -1 for the true
 * class, 1 for the others. */
CR_INLINE cr_real shortfall(cr_real score, cr_real sign) {
  const cr_real margin = 1 + sign * score;
  return margin > 0 ? margin : 0;
}

static crema_status check_labels(const cr_real *label, int64_t rows, int64_t classes) {
  for (int64_t n = 0; n < rows; ++n) {
    if (cr_label_class(label[n], classes, false, 0) == CR_LABEL_BAD) {
      return cr_label_fail(label[n], n, rows, classes, true);
    }
  }
  return CREMA_OK;
}

CR_CLONES static double hinge_sum(const cr_value *x, int64_t count, cr_real sign, bool square) {
  double sum = 0;
  if (square) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) {
      const double missing = (double)shortfall(cr_get(x, i), sign);
      sum += missing * missing;
    }
  } else {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) sum += (double)shortfall(cr_get(x, i), sign);
  }
  return sum;
}

/* scores (N, C), labels (N), loss. */
static crema_status hinge_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  const bool square = call->desc->u.norm == 2;
  CR_TRY(check_labels(label, s.outer, s.channels));
  double loss[CR_REF_PARTS];
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    loss[p] = 0;
    for (int64_t n = cr_ref_part(s.outer, p); n < cr_ref_part(s.outer, p + 1); ++n) {
      const cr_value *x = cr_as_values(call->buffer, 0) + n * s.channels;
      const int64_t truth = (int64_t)label[n];
      loss[p] += hinge_sum(x, truth, 1, square) + hinge_sum(x + truth, 1, -1, square) +
                 hinge_sum(x + truth + 1, s.channels - truth - 1, 1, square);
    }
  }
  *cr_as_reals(call->buffer, 2) = (cr_real)sum_of(loss);
  return CREMA_OK;
}

CR_CLONES static void hinge_slopes(const cr_value *x, int64_t count, cr_real sign, cr_real factor,
                                   bool square, cr_value *dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real missing = shortfall(cr_get(x, i), sign);
    const cr_real slope = square ? 2 * missing : missing > 0 ? 1 : 0;
    cr_put(dx, i, factor * sign * slope);
  }
}

/* scores, labels, diff_loss, diff_scores. */
static crema_status hinge_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  const bool square = call->desc->u.norm == 2;
  cr_real factor = 0;
  CR_TRY(check_labels(label, s.outer, s.channels));
  CR_TRY(gradient_factor(call->scalars, cr_as_reals(call->buffer, 2), &factor));
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t n = 0; n < s.outer; ++n) {
    const cr_value *x = cr_as_values(call->buffer, 0) + n * s.channels;
    cr_value *dx = cr_as_values(call->buffer, 3) + n * s.channels;
    const int64_t truth = (int64_t)label[n], behind = truth + 1;
    hinge_slopes(x, truth, 1, factor, square, dx);
    hinge_slopes(x + truth, 1, -1, factor, square, dx + truth);
    hinge_slopes(x + behind, s.channels - behind, 1, factor, square, dx + behind);
  }
  return CREMA_OK;
}

/* Whether the whole part of a flag is not 0; nan counts as similar. */
static bool is_similar(cr_real flag) {
  return !(fabs(flag) < 1);
}

/* a_i - b_i */
CR_INLINE double gap(const cr_value *a, const cr_value *b, int64_t i) {
  return (double)cr_get(a, i) - (double)cr_get(b, i);
}

CR_CLONES static double square_distance(const cr_value *a, const cr_value *b, int64_t length) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < length; ++i) sum += gap(a, b, i) * gap(a, b, i);
  return sum;
}

/* What a pair of rows adds. */
static double contrastive_loss(const cr_op_desc *desc, bool similar, double square) {
  const bool legacy = desc->u.contrastive.legacy;
  const double missing = (double)desc->u.contrastive.margin - (legacy ? square : sqrt(square));
  if (similar) return square;
  if (!(missing > 0)) return 0;
  return legacy ? missing : missing * missing;
}

/* a (N, C), b (N, C), similar (N), loss (Hadsell, Chopra and LeCun, "Dimensionality reduction by
 * learning an invariant mapping", 2006). */
static crema_status contrastive_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *a = cr_as_values(call->buffer, 0), *b = cr_as_values(call->buffer, 1);
  const cr_real *similar = cr_as_reals(call->buffer, 2);
  double loss[CR_REF_PARTS];
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    loss[p] = 0;
    for (int64_t n = cr_ref_part(s.outer, p); n < cr_ref_part(s.outer, p + 1); ++n) {
      const int64_t at = n * s.channels;
      const double square = square_distance(a + at, b + at, s.channels);
      loss[p] += contrastive_loss(call->desc, is_similar(similar[n]), square);
    }
  }
  *cr_as_reals(call->buffer, 3) = (cr_real)sum_of(loss);
  return CREMA_OK;
}

CR_CLONES static void scale_gaps(const cr_value *a, const cr_value *b, int64_t count, double factor,
                                 cr_value *out) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) cr_put(out, i, (cr_real)(factor * gap(a, b, i)));
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
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t n = 0; n < s.outer; ++n) {
    const int64_t at = n * s.channels;
    double slope = 2;
    if (!is_similar(similar[n])) {
      const double square = square_distance(a + at, b + at, s.channels), distance = sqrt(square);
      const double missing = margin - (legacy ? square : distance);
      slope = missing > 0 ? (legacy ? -2 : -2 * missing / (distance + 1e-4)) : 0;
    }
    scale_gaps(a + at, b + at, s.channels, slope * (double)factor, da + at);
  }
  return CREMA_OK;
}

/* Smaller probabilities count as this one. */
static const cr_real least_probability = (cr_real)1e-20;

/* prob (N, C), labels (N), loss. */
static crema_status multinomial_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *prob = cr_as_values(call->buffer, 0);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  double loss[CR_REF_PARTS];
  CR_TRY(check_labels(label, s.outer, s.channels));
#pragma omp parallel for schedule(static) if (s.outer >= CR_REF_PARALLEL_MIN / 16)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    loss[p] = 0;
    for (int64_t n = cr_ref_part(s.outer, p); n < cr_ref_part(s.outer, p + 1); ++n) {
      const cr_real given = cr_get(prob, n * s.channels + (int64_t)label[n]);
      loss[p] -= log((double)(given < least_probability ? least_probability : given));
    }
  }
  *cr_as_reals(call->buffer, 2) = (cr_real)sum_of(loss);
  return CREMA_OK;
}

/* prob, labels, diff_loss, diff_prob. */
static crema_status multinomial_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *prob = cr_as_values(call->buffer, 0);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  cr_value *diff = cr_as_values(call->buffer, 3);
  cr_real factor = 0;
  CR_TRY(check_labels(label, s.outer, s.channels));
  CR_TRY(gradient_factor(call->scalars, cr_as_reals(call->buffer, 2), &factor));
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t n = 0; n < s.outer; ++n) {
    const int64_t at = n * s.channels + (int64_t)label[n];
    const cr_real given = cr_get(prob, at);
    memset(diff + n * s.channels, 0, (size_t)s.channels * sizeof *diff);
    cr_put(diff, at, -factor / (given < least_probability ? least_probability : given));
  }
  return CREMA_OK;
}

CR_REF_KERNEL(sigmoid_loss_fwd, SIGMOID_LOSS_FWD, .run = sigmoid_fwd);
CR_REF_KERNEL(sigmoid_loss_bwd, SIGMOID_LOSS_BWD, .run = sigmoid_bwd);
CR_REF_KERNEL(hinge_fwd, HINGE_FWD, .run = hinge_fwd);
CR_REF_KERNEL(hinge_bwd, HINGE_BWD, .run = hinge_bwd);
CR_REF_KERNEL(contrastive_fwd, CONTRASTIVE_FWD, .run = contrastive_fwd);
CR_REF_KERNEL(contrastive_bwd, CONTRASTIVE_BWD, .run = contrastive_bwd);
CR_REF_KERNEL(multinomial_fwd, MULTINOMIAL_FWD, .run = multinomial_fwd);
CR_REF_KERNEL(multinomial_bwd, MULTINOMIAL_BWD, .run = multinomial_bwd);
