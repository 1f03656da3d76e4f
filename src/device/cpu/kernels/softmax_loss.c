/* The loss of scores by way of their softmax, and its gradient. Scores and probabilities are
 * (outer, C, inner), labels (outer, inner). */
#include <float.h>

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/label.h"
#include "device/cpu/kernels/softmax.h"
#include "device/cpu/kernels/vector_math.h"

/* ---- forward ------------------------------------------------------------- */

enum { SCORES, LABEL, PROB, LOSS, COUNT, GAIN, EACH };

/* What one part of the positions adds. */
typedef struct loss_part {
  double loss;
  int64_t count, bad; /* bad: the first position with a label out of range; -1: none */
} loss_part;

static bool has_argument(const cr_op_desc *desc, int i) {
  return desc->args > i && desc->arg[i].shape.axes >= 0;
}

/* Smaller probabilities count as this one where gains weigh their logarithms. */
static const cr_real least_probability = (cr_real)1e-20;

enum { LANES = 16, QUARTER = 4, STRIP = 4 * LANES, TOGETHER = 256 /* summed before widening */ };

CR_INLINE cr_real weighted_nats(cr_real weight, cr_real nats, cr_real least) {
  return weight * (nats < least ? least : nats);
}

CR_INLINE void widen_sums(cr_real *part, double *sum) {
#pragma omp simd
  for (int k = 0; k < QUARTER; ++k) {
    sum[k] += (double)((part[k] + part[k + 4]) + (part[k + 8] + part[k + 12]));
  }
  memset(part, 0, LANES * sizeof *part);
}

/* The sum of weight (x - log_sum), the logarithms of a row's probabilities. In sums side by side,
 * whose number does not depend on the processor's vectors; the last vector has values of the one
 * before, too, which do not count. */
CR_INLINE double weighted_row(int64_t classes, const cr_real *weight, const cr_real *x,
                              cr_real log_sum) {
  const cr_real least = cr_ref_log(least_probability);
  const int64_t whole = classes - classes % LANES;
  double sum[QUARTER] = {0};
  cr_real part[LANES] = {0};
  int64_t c = 0;
  for (; c + STRIP <= classes; c += STRIP) {
#pragma omp simd
    for (int k = 0; k < LANES; ++k) {
      cr_real term[STRIP / LANES];
      for (int j = 0; j < STRIP / LANES; ++j) {
        const int64_t at = c + j * LANES + k;
        term[j] = weighted_nats(weight[at], x[at] - log_sum, least);
      }
      part[k] += (term[0] + term[1]) + (term[2] + term[3]);
    }
    if ((c + STRIP) % TOGETHER == 0) widen_sums(part, sum);
  }
  for (; c < whole; c += LANES) {
#pragma omp simd
    for (int k = 0; k < LANES; ++k) {
      part[k] += weighted_nats(weight[c + k], x[c + k] - log_sum, least);
    }
  }
  if (classes < LANES) {
    for (c = 0; c < classes; ++c) {
      part[c] = weighted_nats(weight[c], x[c] - log_sum, least);
    }
  } else if (whole < classes) {
    const int32_t known = (int32_t)(LANES - classes % LANES);
    weight += classes - LANES;
    x += classes - LANES;
#pragma omp simd
    for (int32_t k = 0; k < LANES; ++k) {
      const cr_real term = weighted_nats(weight[k], x[k] - log_sum, least);
      part[k] += k < known ? 0 : term;
    }
  }
  widen_sums(part, sum);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The same of rows one behind the other, each with its label's row of `gain`; 0 where there is no
 * label. */
CR_REF_CLONES static void weighted_rows(int64_t rows, int64_t classes, const cr_real *gain,
                                        const int64_t *truth, const cr_real *x,
                                        const cr_real *log_sum, double *sum) {
  for (int64_t i = 0; i < rows; ++i) {
    sum[i] = truth[i] < 0
                 ? 0
                 : weighted_row(classes, gain + truth[i] * classes, x + i * classes, log_sum[i]);
  }
}

/* The same of positions whose classes lie `inner` apart; sum: of each. */
CR_REF_CLONES static void weighted_plane(int64_t count, const cr_real *weight, const cr_real *x,
                                         const cr_real *log_sum, double *sum) {
  const cr_real least = cr_ref_log(least_probability);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    sum[i] += (double)weighted_nats(weight[i], x[i] - log_sum[i], least);
  }
}

/* sum: of the powers of each position's scores, which becomes its logarithm. */
CR_INLINE void find_logarithms_in(bool fused, int64_t count, cr_real *sum) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sum[i] = cr_ref_log_of_sum(fused, sum[i]);
}

CR_REF_CLONES static void find_logarithms(int64_t count, cr_real *sum) {
  if (cr_fuses()) find_logarithms_in(true, count, sum);
  else find_logarithms_in(false, count, sum);
}

/* The logarithms of all probabilities, weighted with the label's row of gains. */
static void losses_of_gains(const cr_call *call, const cr_split *s, const int64_t *truth,
                            const cr_softmax_block *block, double *loss) {
  const cr_real *x = cr_as_reals(call->buffer, SCORES) + block->at;
  const cr_real *gain = cr_as_reals(call->buffer, GAIN);
  cr_real log_sum[CR_SOFTMAX_POSITIONS], weight[CR_SOFTMAX_POSITIONS];
  for (int64_t i = 0; i < block->count; ++i) {
    log_sum[i] = block->top[i] + block->sum[i];
    loss[i] = 0;
  }
  if (s->inner == 1) {
    weighted_rows(block->count, s->channels, gain, truth, x, log_sum, loss);
  }
  for (int64_t c = 0; c < s->channels && s->inner > 1; ++c) {
    for (int64_t i = 0; i < block->count; ++i) {
      weight[i] = truth[i] < 0 ? 0 : gain[truth[i] * s->channels + c];
    }
    weighted_plane(block->count, weight, x + c * s->inner, log_sum, loss);
  }
  for (int64_t i = 0; i < block->count; ++i) loss[i] = -loss[i];
}

/* The logarithm of the label's probability alone. */
static void losses_of_labels(const cr_call *call, const cr_split *s, const int64_t *truth,
                             const cr_softmax_block *block, double *loss) {
  const cr_real *x = cr_as_reals(call->buffer, SCORES) + block->at;
  const cr_real most = (cr_real)87.33654475055310898657; /* -log(FLT_MIN) */
  for (int64_t i = 0; i < block->count; ++i) {
    if (truth[i] < 0) continue;
    const int64_t at = s->inner == 1 ? i * s->channels + truth[i] : truth[i] * s->inner + i;
    const cr_real found = block->sum[i] - (x[at] - block->top[i]);
    /* Written so that nan among the scores gives a nan loss. */
    loss[i] = (double)(found > most ? most : found);
  }
}

/* The classes of a block's positions; whether none is out of range. */
static bool read_labels(const cr_call *call, const cr_split *s, const cr_softmax_block *block,
                        int64_t *truth, loss_part *out) {
  const cr_real *label = cr_as_reals(call->buffer, LABEL) + block->first;
  for (int64_t i = 0; i < block->count; ++i) {
    truth[i] = cr_label_class(label[i], s->channels, call->desc->u.nll.has_ignore,
                              call->desc->u.nll.ignore);
    if (truth[i] == CR_LABEL_BAD) {
      out->bad = block->first + i;
      return false;
    }
  }
  return true;
}

static loss_part loss_over(const cr_call *call, const cr_split *s, int64_t begin, int64_t end) {
  const bool gains = has_argument(call->desc, GAIN);
  cr_real *each = has_argument(call->desc, EACH) ? cr_as_reals(call->buffer, EACH) : NULL;
  cr_real *prob = has_argument(call->desc, PROB) ? cr_as_reals(call->buffer, PROB) : NULL;
  loss_part out = {0, 0, -1};
  for (int64_t b = begin; b < end; ++b) {
    int64_t truth[CR_SOFTMAX_POSITIONS];
    double loss[CR_SOFTMAX_POSITIONS];
    cr_softmax_block block;
    cr_softmax_block_of(s, b, cr_as_reals(call->buffer, SCORES), prob, &block);
    if (!read_labels(call, s, &block, truth, &out)) break;
    find_logarithms(block.count, block.sum);
    if (gains) losses_of_gains(call, s, truth, &block, loss);
    else losses_of_labels(call, s, truth, &block, loss);
    for (int64_t i = 0; i < block.count; ++i) {
      const bool counts = truth[i] >= 0;
      out.loss += counts ? loss[i] : 0;
      out.count += counts ? 1 : 0;
      if (each != NULL) each[block.first + i] = counts ? (cr_real)loss[i] : 0;
    }
  }
  return out;
}

/* scores, label, prob, loss, count, gain, each. */
static crema_status softmax_loss_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, SCORES, 1);
  const int64_t positions = s.outer * s.inner, blocks = cr_softmax_blocks(&s);
  loss_part part[CR_REF_PARTS], all = {0, 0, -1};
#pragma omp parallel for schedule(static) if (positions * s.channels >= CR_REF_PARALLEL_MIN / 4)
  for (int k = 0; k < CR_REF_PARTS; ++k) {
    part[k] = loss_over(call, &s, cr_ref_part(blocks, k), cr_ref_part(blocks, k + 1));
  }
  for (int k = 0; k < CR_REF_PARTS && all.bad < 0; ++k) {
    all.loss += part[k].loss;
    all.count += part[k].count;
    all.bad = part[k].bad;
  }
  if (all.bad >= 0) {
    const cr_real label = cr_as_reals(call->buffer, LABEL)[all.bad];
    return cr_label_fail(label, all.bad, positions, s.channels, call->desc->u.nll.has_ignore);
  }
  *cr_as_reals(call->buffer, LOSS) = (cr_real)all.loss;
  *cr_as_reals(call->buffer, COUNT) = (cr_real)all.count;
  return CREMA_OK;
}

/* ---- backward ------------------------------------------------------------ */

/* Arguments of the gradient. */
enum { MATRIX = 3, SUMS };

CR_REF_CLONES static void scale_values(int64_t count, cr_real factor, const cr_real *x,
                                       cr_real *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = factor * x[i];
}

CR_REF_CLONES static void gain_values(int64_t count, cr_real alpha, cr_real sum,
                                      const cr_real *gain, const cr_real *x, cr_real *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = alpha * (sum * x[i] - gain[i]);
}

/* The gradient with weights for pairs of classes at one position, whose class 0 is the first of
 * prob and diff. */
static void gain_gradient(const cr_call *call, const cr_split *s, int64_t label,
                          const cr_real *prob, cr_real *diff) {
  const cr_real *gain = cr_as_reals(call->buffer, MATRIX) + label * s->channels;
  const cr_real sum = cr_as_reals(call->buffer, SUMS)[label];
  const cr_real alpha = (cr_real)call->scalars->alpha;
  if (s->inner == 1) {
    gain_values(s->channels, alpha, sum, gain, prob, diff);
    return;
  }
  for (int64_t c = 0; c < s->channels; ++c) {
    diff[c * s->inner] = alpha * (sum * prob[c * s->inner] - gain[c]);
  }
}

/* The gradient at the positions of a block: without gain, alpha times the probability, less 1 for
 * the true class; 0 for all classes where the label is ignored. prob and diff may be one. */
static void gradient_of(const cr_call *call, const cr_split *s, const cr_softmax_block *block,
                        const cr_real *prob) {
  const int64_t next = s->inner == 1 ? s->channels : 1; /* from one position to the next */
  const cr_real *label = cr_as_reals(call->buffer, 1) + block->first;
  cr_real *diff = cr_as_reals(call->buffer, 2) + block->at;
  const cr_real alpha = (cr_real)call->scalars->alpha;
  const bool gains = has_argument(call->desc, MATRIX);
  int64_t truth[CR_SOFTMAX_POSITIONS];
  cr_real of_truth[CR_SOFTMAX_POSITIONS];
  prob += block->at;
  for (int64_t i = 0; i < block->count; ++i) {
    const int64_t c = cr_label_class(label[i], s->channels, call->desc->u.nll.has_ignore,
                                     call->desc->u.nll.ignore);
    truth[i] = c;
    of_truth[i] = c < 0 ? 0 : alpha * (prob[i * next + c * s->inner] - 1);
  }
  if (gains) {
    for (int64_t i = 0; i < block->count; ++i) {
      if (truth[i] >= 0) gain_gradient(call, s, truth[i], prob + i * next, diff + i * next);
    }
  } else if (s->inner == 1) {
    scale_values(block->count * s->channels, alpha, prob, diff);
  } else {
    for (int64_t at = 0; at < s->channels * s->inner; at += s->inner) {
      scale_values(block->count, alpha, prob + at, diff + at);
    }
  }
  for (int64_t i = 0; i < block->count; ++i) {
    const int64_t c = truth[i];
    if (c >= 0 && !gains) {
      diff[i * next + c * s->inner] = of_truth[i];
    } else if (c < 0) {
      for (int64_t k = 0; k < s->channels; ++k) diff[i * next + k * s->inner] = 0;
    }
  }
}

/* prob or scores, label, diff, gain, sums. */
static crema_status softmax_loss_bwd(const cr_call *call) {
  if (!call->scalars) return cr_fail(CREMA_E_ARGUMENT, "the loss gradient lacks its factor");
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  const cr_real *from = cr_as_reals(call->buffer, 0);
  cr_real *diff = cr_as_reals(call->buffer, 2);
  const int64_t positions = s.outer * s.inner, blocks = cr_softmax_blocks(&s);
  for (int64_t i = 0; i < positions; ++i) {
    if (cr_label_class(label[i], s.channels, call->desc->u.nll.has_ignore,
                       call->desc->u.nll.ignore) == CR_LABEL_BAD) {
      return cr_label_fail(label[i], i, positions, s.channels, call->desc->u.nll.has_ignore);
    }
  }
#pragma omp parallel for schedule(static) if (positions * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < blocks; ++b) {
    cr_softmax_block block;
    if (call->desc->u.nll.of_scores) cr_softmax_block_of(&s, b, from, diff, &block);
    else cr_softmax_place(&s, b, &block);
    gradient_of(call, &s, &block, call->desc->u.nll.of_scores ? diff : from);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(softmax_loss_fwd, SOFTMAX_LOSS_FWD, .plan = cr_check_labels, .run = softmax_loss_fwd);
CR_REF_KERNEL(softmax_loss_bwd, SOFTMAX_LOSS_BWD, .plan = cr_check_labels, .run = softmax_loss_bwd);
