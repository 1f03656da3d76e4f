/* The gradient of the softmax loss of floats, in blocks of positions (softmax_fast.c).
 *
 * Gain over softmax_loss.c on AMD EPYC (Zen 5), two threads: 13x in the SoftmaxWithLoss row of
 * bench/layers, 4,096 rows of 1,024 classes. */
#define CR_REF_F32

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/label.h"
#include "device/cpu/kernels/softmax_fast.h"

enum { SCORES, LABEL, DIFF, GAIN, SUMS };

static bool has_gains(const cr_op_desc *desc) {
  return desc->args > GAIN && desc->arg[GAIN].shape.axes >= 0;
}

CR_CLONES static void scale_values(int64_t count, float factor, const float *x, float *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = factor * x[i];
}

CR_CLONES static void gain_values(int64_t count, float alpha, float sum, const float *gain,
                                  const float *x, float *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = alpha * (sum * x[i] - gain[i]);
}

/* The gradient with weights for pairs of classes at one position, whose class 0 is the first of
 * prob and diff. */
static void gain_gradient(const cr_call *call, const cr_split *s, int64_t label, const float *prob,
                          float *diff) {
  const float *gain = cr_as_reals(call->buffer, GAIN) + label * s->channels;
  const float sum = cr_as_reals(call->buffer, SUMS)[label];
  const float alpha = (float)call->scalars->alpha;
  if (s->inner == 1) {
    gain_values(s->channels, alpha, sum, gain, prob, diff);
    return;
  }
  for (int64_t c = 0; c < s->channels; ++c) {
    diff[c * s->inner] = alpha * (sum * prob[c * s->inner] - gain[c]);
  }
}

/* The gradient at the positions of a block. prob and diff may be one. */
static void gradient_of(const cr_call *call, const cr_split *s, const cr_softmax_block *block,
                        const float *prob) {
  const int64_t next = s->inner == 1 ? s->channels : 1; /* from one position to the next */
  const float *label = cr_as_reals(call->buffer, LABEL) + block->first;
  float *diff = cr_as_reals(call->buffer, DIFF) + block->at;
  const float alpha = (float)call->scalars->alpha;
  const bool gains = has_gains(call->desc);
  int64_t truth[CR_SOFTMAX_POSITIONS];
  float of_truth[CR_SOFTMAX_POSITIONS];
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
  const float *label = cr_as_reals(call->buffer, LABEL);
  const float *from = cr_as_reals(call->buffer, SCORES);
  float *diff = cr_as_reals(call->buffer, DIFF);
  const int64_t positions = s.outer * s.inner, blocks = cr_softmax_fast_blocks(&s);
  for (int64_t i = 0; i < positions; ++i) {
    if (cr_label_class(label[i], s.channels, call->desc->u.nll.has_ignore,
                       call->desc->u.nll.ignore) == CR_LABEL_BAD) {
      return cr_label_fail(label[i], i, positions, s.channels, call->desc->u.nll.has_ignore);
    }
  }
#pragma omp parallel for schedule(static) if (positions * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < blocks; ++b) {
    cr_softmax_block block;
    if (call->desc->u.nll.of_scores) cr_softmax_fast_block(&s, b, from, diff, &block);
    else cr_softmax_fast_place(&s, b, &block);
    gradient_of(call, &s, &block, call->desc->u.nll.of_scores ? diff : from);
  }
  return CREMA_OK;
}

CR_KERNEL(softmax_loss_bwd_fast, SOFTMAX_LOSS_BWD, .plan = cr_check_labels,
          .run = softmax_loss_bwd);
