/* Losses that are sums over positions, and their gradients: s.alpha * diff_loss times the
 * derivative. The sums are made in double precision, of CR_REF_PARTS parts. */

#include "core/fail.h"
#include "device/cpu/label.h"
#include "device/cpu/ref_math.h"
#include "device/cpu/ref_softmax.h"

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

/* Adds to *count how many targets are not ignored. */
CR_CLONES static double sigmoid_part(const cr_value *x, const cr_real *t, cr_real ignored,
                                     int64_t count, double *counted) {
  double loss = 0, used = 0;
#pragma omp simd reduction(+ : loss, used)
  for (int64_t i = 0; i < count; ++i) {
    const cr_real v = cr_get(x, i);
    const bool is_used = trunc(t[i]) != ignored;
    const cr_real all = (v > 0 ? v : 0) - v * t[i] + cr_ref_log1p(cr_ref_exp_below_0(-fabs(v)));
    loss += (double)(is_used ? all : 0);
    used += is_used ? 1 : 0;
  }
  *counted = used;
  return loss;
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
      return cr_label_fail(label[n], n, rows, classes);
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

/* Row `label` of the gain matrix; its absence is the identity. */
static cr_real gain_of(const cr_real *gain, int64_t label, int64_t c, int64_t classes) {
  if (gain) return gain[label * classes + c];
  return label == c ? 1 : 0;
}

/* The sum of -weight log(prob); probabilities without weight may be anything. */
CR_CLONES static double weighted_logs(int64_t count, const cr_real *weight, const cr_value *prob) {
  const cr_real least = cr_ref_log(least_probability);
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    const cr_real given = cr_get(prob, i);
    const cr_real nats = given < least_probability ? least : cr_ref_log(given);
    sum -= (double)(weight[i] != 0 ? weight[i] * nats : 0);
  }
  return sum;
}

CR_CLONES static void infogain_slopes(int64_t count, cr_real factor, const cr_real *weight,
                                      const cr_value *prob, cr_value *diff) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real given = cr_get(prob, i);
    const cr_real slope =
        -factor * weight[i] / (given < least_probability ? least_probability : given);
    cr_put(diff, i, weight[i] == 0 ? 0 : slope);
  }
}

enum {
  WIDTH = 512, /* positions that are worked through at a time */
  STRIP = 2048 /* probabilities that are worked through at a time */
};

/* Positions that are neighbours in memory: of one sample, or with inner = 1 of several. */
typedef struct infogain_block {
  int64_t first, at; /* the first position, and its element of class 0 */
  int64_t count;
  int64_t truth[WIDTH];
} infogain_block;

/* Positions of a block. With inner = 1 they are whole rows of probabilities. */
static int64_t infogain_width(const cr_split *s) {
  if (s->inner > 1) return WIDTH;
  const int64_t rows = STRIP / (s->channels > 0 ? s->channels : 1);
  return rows < 1 ? 1 : rows < WIDTH ? rows : WIDTH;
}

static int64_t infogain_blocks(const cr_split *s) {
  const int64_t width = infogain_width(s);
  if (s->inner == 1) return (s->outer + width - 1) / width;
  return s->outer * ((s->inner + width - 1) / width);
}

/* Block b of all; returns the first position whose label is out of range, or -1. */
static int64_t infogain_begin(const cr_call *call, const cr_split *s, int64_t b,
                              infogain_block *out) {
  const cr_real *label = cr_as_reals(call->buffer, 1);
  const int64_t width = infogain_width(s), length = s->inner == 1 ? s->outer : s->inner;
  const int64_t blocks = (length + width - 1) / width;
  const int64_t sample = b / blocks, begin = b % blocks * width;
  out->first = sample * length + begin;
  out->at = sample * s->channels * length + (s->inner == 1 ? begin * s->channels : begin);
  out->count = length - begin < width ? length - begin : width;
  for (int64_t i = 0; i < out->count; ++i) {
    out->truth[i] = cr_label_class(label[out->first + i], s->channels, call->desc->u.nll.has_ignore,
                                   call->desc->u.nll.ignore);
    if (out->truth[i] == CR_LABEL_BAD) return out->first + i;
  }
  return -1;
}

/* Classes from c on whose probabilities at a block's positions are neighbours in memory. */
static int64_t infogain_classes(const cr_split *s, int64_t c) {
  if (s->inner > 1) return 1;
  return s->channels - c < STRIP ? s->channels - c : STRIP;
}

/* The weights of these, `classes` of them, at each position; 0 where the label is ignored. */
static void infogain_weights(const infogain_block *block, const cr_split *s, const cr_real *gain,
                             int64_t c, int64_t classes, cr_real *weight) {
  for (int64_t i = 0; i < block->count; ++i) {
    const int64_t truth = block->truth[i];
    if (truth >= 0 && gain && classes > 1) {
      memcpy(weight + i * classes, gain + truth * s->channels + c,
             (size_t)classes * sizeof *weight);
      continue;
    }
    for (int64_t k = 0; k < classes; ++k) {
      weight[i * classes + k] = truth < 0 ? 0 : gain_of(gain, truth, c + k, s->channels);
    }
  }
}

/* What one part of the blocks adds; `bad` as infogain_begin returns. */
typedef struct infogain_part {
  double loss;
  int64_t count, bad;
} infogain_part;

static infogain_part infogain_over(const cr_call *call, const cr_split *s, int64_t begin,
                                   int64_t end) {
  const cr_value *prob = cr_as_values(call->buffer, 0);
  const cr_real *gain = cr_as_reals(call->buffer, 2);
  infogain_part out = {0, 0, -1};
  infogain_block block;
  cr_real weight[STRIP];
  for (int64_t b = begin; b < end; ++b) {
    out.bad = infogain_begin(call, s, b, &block);
    if (out.bad >= 0) break;
    for (int64_t i = 0; i < block.count; ++i) out.count += block.truth[i] < 0 ? 0 : 1;
    for (int64_t c = 0, classes; c < s->channels; c += classes) {
      classes = infogain_classes(s, c);
      infogain_weights(&block, s, gain, c, classes, weight);
      out.loss += weighted_logs(block.count * classes, weight, prob + block.at + c * s->inner);
    }
  }
  return out;
}

/* The argument that the probabilities of scores go to. */
enum { PROB = 5 };

enum { LANES = 16, QUARTER = 4, TOGETHER = 64 /* values summed before they are widened */ };

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
CR_CLONES static double weighted_row(int64_t classes, const cr_real *weight, const cr_value *x,
                                     cr_real log_sum) {
  const cr_real least = cr_ref_log(least_probability);
  const int64_t whole = classes - classes % LANES;
  double sum[QUARTER] = {0};
  cr_real part[LANES] = {0};
  for (int64_t c = 0; c < whole; c += LANES) {
#pragma omp simd
    for (int k = 0; k < LANES; ++k) {
      part[k] += weighted_nats(weight[c + k], cr_get(x, c + k) - log_sum, least);
    }
    if ((c + LANES) % TOGETHER == 0) widen_sums(part, sum);
  }
  if (classes < LANES) {
    for (int64_t c = 0; c < classes; ++c) {
      part[c] = weighted_nats(weight[c], cr_get(x, c) - log_sum, least);
    }
  } else if (whole < classes) {
    const int32_t known = (int32_t)(LANES - classes % LANES);
    weight += classes - LANES;
    x += classes - LANES;
#pragma omp simd
    for (int32_t k = 0; k < LANES; ++k) {
      const cr_real term = weighted_nats(weight[k], cr_get(x, k) - log_sum, least);
      part[k] += k < known ? 0 : term;
    }
  }
  widen_sums(part, sum);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The same of positions whose classes lie `inner` apart; sum: of each. */
CR_CLONES static void weighted_plane(int64_t count, const cr_real *weight, const cr_value *x,
                                     const cr_real *log_sum, double *sum) {
  const cr_real least = cr_ref_log(least_probability);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    sum[i] += (double)weighted_nats(weight[i], cr_get(x, i) - log_sum[i], least);
  }
}

CR_CLONES static void find_log_sums(int64_t count, const cr_real *top, cr_real *sum) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sum[i] = top[i] + cr_ref_log(sum[i]);
}

/* What the positions of a softmax's block add. */
static double softmax_infogain(const cr_call *call, const cr_split *s, const int64_t *truth,
                               cr_softmax_block *block) {
  const cr_value *x = cr_as_values(call->buffer, 0) + block->at;
  const cr_real *gain = cr_as_reals(call->buffer, 2);
  double loss = 0, sum[CR_SOFTMAX_POSITIONS] = {0};
  find_log_sums(block->count, block->top, block->sum);
  for (int64_t i = 0; i < block->count && s->inner == 1; ++i) {
    if (truth[i] < 0) continue;
    sum[i] = weighted_row(s->channels, gain + truth[i] * s->channels, x + i * s->channels,
                          block->sum[i]);
  }
  for (int64_t c = 0; c < s->channels && s->inner > 1; ++c) {
    cr_real weight[CR_SOFTMAX_POSITIONS];
    for (int64_t i = 0; i < block->count; ++i) {
      weight[i] = truth[i] < 0 ? 0 : gain[truth[i] * s->channels + c];
    }
    weighted_plane(block->count, weight, x + c * s->inner, block->sum, sum);
  }
  for (int64_t i = 0; i < block->count; ++i) loss -= truth[i] < 0 ? 0 : sum[i];
  return loss;
}

static infogain_part softmax_infogain_over(const cr_call *call, const cr_split *s, int64_t begin,
                                           int64_t end) {
  const cr_real *label = cr_as_reals(call->buffer, 1);
  infogain_part out = {0, 0, -1};
  for (int64_t b = begin; b < end; ++b) {
    int64_t truth[CR_SOFTMAX_POSITIONS];
    cr_softmax_block block;
    cr_ref_softmax_block(s, b, cr_as_values(call->buffer, 0), cr_as_values(call->buffer, PROB),
                         &block);
    for (int64_t i = 0; i < block.count; ++i) {
      truth[i] = cr_label_class(label[block.first + i], s->channels, call->desc->u.nll.has_ignore,
                                call->desc->u.nll.ignore);
      if (truth[i] == CR_LABEL_BAD && out.bad < 0) out.bad = block.first + i;
      out.count += truth[i] < 0 ? 0 : 1;
    }
    if (out.bad >= 0) break;
    out.loss += softmax_infogain(call, s, truth, &block);
  }
  return out;
}

static bool is_of_scores(const cr_op_desc *desc) {
  return desc->args > PROB && desc->arg[PROB].shape.axes >= 0;
}

static crema_status plan_infogain_fwd(cr_plan *plan) {
  if (!is_of_scores(plan->desc) || plan->desc->arg[2].shape.axes >= 0) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "the loss of scores needs gains");
}

/* prob or scores (outer, C, inner), label (outer, inner), gain (C, C), loss, count, prob. */
static crema_status infogain_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  const bool of_scores = is_of_scores(call->desc);
  const int64_t positions = s.outer * s.inner;
  const int64_t blocks = of_scores ? cr_ref_softmax_blocks(&s) : infogain_blocks(&s);
  infogain_part part[CR_REF_PARTS];
#pragma omp parallel for schedule(static) if (positions * s.channels >= CR_REF_PARALLEL_MIN / 4)
  for (int k = 0; k < CR_REF_PARTS; ++k) {
    const int64_t begin = cr_ref_part(blocks, k), end = cr_ref_part(blocks, k + 1);
    part[k] = of_scores ? softmax_infogain_over(call, &s, begin, end)
                        : infogain_over(call, &s, begin, end);
  }
  double loss = 0;
  int64_t counted = 0;
  for (int k = 0; k < CR_REF_PARTS; ++k) {
    if (part[k].bad >= 0)
      return cr_label_fail(label[part[k].bad], part[k].bad, positions, s.channels);
    loss += part[k].loss;
    counted += part[k].count;
  }
  *cr_as_reals(call->buffer, 3) = (cr_real)loss;
  *cr_as_reals(call->buffer, 4) = (cr_real)counted;
  return CREMA_OK;
}

static void infogain_gradient(const cr_call *call, const cr_split *s, int64_t b, cr_real factor) {
  const cr_value *prob = cr_as_values(call->buffer, 0);
  cr_value *diff = cr_as_values(call->buffer, 4);
  infogain_block block;
  cr_real weight[STRIP];
  (void)infogain_begin(call, s, b, &block);
  for (int64_t c = 0, classes; c < s->channels; c += classes) {
    const int64_t at = block.at + c * s->inner;
    classes = infogain_classes(s, c);
    infogain_weights(&block, s, cr_as_reals(call->buffer, 2), c, classes, weight);
    infogain_slopes(block.count * classes, factor, weight, prob + at, diff + at);
  }
}

/* prob, label, gain, diff_loss, diff_prob. */
static crema_status infogain_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  const int64_t positions = s.outer * s.inner;
  cr_real factor = 0;
  CR_TRY(gradient_factor(call->scalars, cr_as_reals(call->buffer, 3), &factor));
  for (int64_t i = 0; i < positions; ++i) {
    if (cr_label_class(label[i], s.channels, call->desc->u.nll.has_ignore,
                       call->desc->u.nll.ignore) == CR_LABEL_BAD) {
      return cr_label_fail(label[i], i, positions, s.channels);
    }
  }
#pragma omp parallel for schedule(static) if (positions * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < infogain_blocks(&s); ++b) infogain_gradient(call, &s, b, factor);
  return CREMA_OK;
}

CR_REF_KERNEL(sigmoid_loss_fwd, SIGMOID_LOSS_FWD, .run = sigmoid_fwd);
CR_REF_KERNEL(sigmoid_loss_bwd, SIGMOID_LOSS_BWD, .run = sigmoid_bwd);
CR_REF_KERNEL(hinge_fwd, HINGE_FWD, .run = hinge_fwd);
CR_REF_KERNEL(hinge_bwd, HINGE_BWD, .run = hinge_bwd);
CR_REF_KERNEL(contrastive_fwd, CONTRASTIVE_FWD, .run = contrastive_fwd);
CR_REF_KERNEL(contrastive_bwd, CONTRASTIVE_BWD, .run = contrastive_bwd);
CR_REF_KERNEL(infogain_fwd, INFOGAIN_FWD, .plan = plan_infogain_fwd, .run = infogain_fwd);
CR_REF_KERNEL(infogain_bwd, INFOGAIN_BWD, .run = infogain_bwd);
