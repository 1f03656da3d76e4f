/* The softmax loss of floats, in blocks of positions whose powers softmax_fast.c computes.
 *
 * Gain over softmax_loss.c on AMD EPYC (Zen 5), two threads: 20x in the SoftmaxWithLoss row of
 * bench/layers, 4,096 rows of 1,024 classes, and 7x in the InfogainLoss row. */
#define CR_REF_F32

#include "device/backend/op_check.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/label.h"
#include "device/cpu/kernels/softmax_fast.h"
#include "device/cpu/kernels/vector_math.h"

enum { SCORES, LABEL, PROB, LOSS, COUNT, GAIN, EACH };

/* The sums over one part of the positions. */
typedef struct loss_part {
  double loss;
  int64_t count, bad; /* bad: the first position with a label out of range; -1: none */
} loss_part;

static float *if_there(const cr_call *call, int i) {
  const bool there = call->desc->args > i && call->desc->arg[i].shape.axes >= 0;
  return there ? cr_as_reals(call->buffer, i) : NULL;
}

/* Smaller probabilities count as this one where gains weigh their logarithms. */
static const float least_probability = 1e-20f;

/* Values of a row that are summed before the sum is widened to double. */
enum { PIECE = 256 };

/* The sum of weight_c (x_c - log_sum) over the classes, which lie `step` apart; x - log_sum is the
 * logarithm of a probability. */
CR_INLINE double weighted_sum(int64_t classes, int64_t step, const float *weight, const float *x,
                              float log_sum) {
  const float least = cr_ref_log(least_probability);
  double sum = 0;
  for (int64_t at = 0; at < classes; at += PIECE) {
    const int64_t end = classes - at < PIECE ? classes : at + PIECE;
    float part = 0;
#pragma omp simd reduction(+ : part)
    for (int64_t c = at; c < end; ++c) {
      const float nats = x[c * step] - log_sum;
      part += weight[c] * (nats < least ? least : nats);
    }
    sum += (double)part;
  }
  return sum;
}

/* The losses of a block's positions, with the gains of their labels. */
CR_CLONES static void losses_of_gains(const cr_split *s, const cr_softmax_block *block,
                                      const float *gain, const int64_t *truth, const float *x,
                                      double *loss) {
  const int64_t classes = s->channels;
  for (int64_t i = 0; i < block->count; ++i) {
    const float *weight = gain + truth[i] * classes, log_sum = block->top[i] + block->sum[i];
    if (truth[i] < 0) continue;
    if (s->inner == 1) loss[i] = -weighted_sum(classes, 1, weight, x + i * classes, log_sum);
    else loss[i] = -weighted_sum(classes, s->inner, weight, x + i, log_sum);
  }
}

/* sum: of the powers of each position's scores, which becomes its logarithm. */
CR_INLINE void find_logarithms_in(bool fused, int64_t count, float *sum) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sum[i] = cr_ref_log_of_sum(fused, sum[i]);
}

CR_CLONES static void find_logarithms(int64_t count, float *sum) {
  if (cr_fuses()) find_logarithms_in(true, count, sum);
  else find_logarithms_in(false, count, sum);
}

/* The losses of a block's positions without gains. */
static void losses_of_labels(const cr_split *s, const cr_softmax_block *block, const int64_t *truth,
                             const float *x, double *loss) {
  const float most = (float)87.33654475055310898657; /* -log(FLT_MIN) */
  for (int64_t i = 0; i < block->count; ++i) {
    if (truth[i] < 0) continue;
    const int64_t at = s->inner == 1 ? i * s->channels + truth[i] : truth[i] * s->inner + i;
    const float found = block->sum[i] - (x[at] - block->top[i]);
    /* Written so that nan among the scores gives a nan loss. */
    loss[i] = (double)(found > most ? most : found);
  }
}

/* Finds the classes of a block's positions. Returns the first position whose label is out of range,
 * or -1. */
static int64_t read_labels(const cr_call *call, const cr_split *s, const cr_softmax_block *block,
                           int64_t *truth) {
  const float *label = cr_as_reals(call->buffer, LABEL) + block->first;
  for (int64_t i = 0; i < block->count; ++i) {
    truth[i] = cr_label_class(label[i], s->channels, call->desc->u.nll.has_ignore,
                              call->desc->u.nll.ignore);
    if (truth[i] == CR_LABEL_BAD) return block->first + i;
  }
  return -1;
}

/* Adds up blocks `begin` to `end` - 1. */
static loss_part loss_over(const cr_call *call, const cr_split *s, int64_t begin, int64_t end) {
  const float *gain = if_there(call, GAIN);
  float *each = if_there(call, EACH), *prob = if_there(call, PROB);
  loss_part out = {0, 0, -1};
  for (int64_t b = begin; b < end; ++b) {
    int64_t truth[CR_SOFTMAX_POSITIONS];
    double loss[CR_SOFTMAX_POSITIONS];
    cr_softmax_block block;
    cr_softmax_fast_block(s, b, cr_as_reals(call->buffer, SCORES), prob, &block);
    out.bad = read_labels(call, s, &block, truth);
    if (out.bad >= 0) break;
    find_logarithms(block.count, block.sum);
    const float *x = cr_as_reals(call->buffer, SCORES) + block.at;
    if (gain != NULL) losses_of_gains(s, &block, gain, truth, x, loss);
    else losses_of_labels(s, &block, truth, x, loss);
    for (int64_t i = 0; i < block.count; ++i) {
      if (truth[i] < 0) loss[i] = 0;
      else ++out.count;
      out.loss += loss[i];
      if (each != NULL) each[block.first + i] = (float)loss[i];
    }
  }
  return out;
}

/* scores, label, prob, loss, count, gain, each. */
static crema_status softmax_loss_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, SCORES, 1);
  const int64_t positions = s.outer * s.inner, blocks = cr_softmax_fast_blocks(&s);
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
    const float label = cr_as_reals(call->buffer, LABEL)[all.bad];
    return cr_label_fail(label, all.bad, positions, s.channels, call->desc->u.nll.has_ignore);
  }
  *cr_as_reals(call->buffer, LOSS) = (float)all.loss;
  *cr_as_reals(call->buffer, COUNT) = (float)all.count;
  return CREMA_OK;
}

CR_KERNEL(softmax_loss_fwd_fast, SOFTMAX_LOSS_FWD, .plan = cr_check_labels,
          .run = softmax_loss_fwd);
