/* Sums over many positions: reductions, losses, accuracy; and the gradients of the losses.
 *
 * Thread blocks sum parts of the positions into `part` (two numbers per part). If there are several
 * parts, one thread block of a second launch adds them in order. No atomic operations, hence the
 * same bits every time. */
#ifndef CR_GPU_KERNELS_LOSS_H
#define CR_GPU_KERNELS_LOSS_H

#include "device/backend/op_enums.h"
#include "device/gpu/kernels/thread_block.h"
#include "device/gpu/kernels/values.h"

/* The results of the two sums. */
typedef struct cr_total_args {
  const CR_GLOBAL cr_wide *part; /* (parts, 2) */
  int64_t parts;
  CR_GLOBAL cr_f64 *sum;           /* F64 result; NULL: none */
  CR_GLOBAL float *first, *second; /* F32 results; NULL: none */
  bool share;                      /* first: first sum / second sum, 0 when that is 0 */
} cr_total_args;

CR_HD void cr_total_give(const cr_total_args *a, cr_wide first, cr_wide second) {
  if (a->share) first = second > 0 ? first / second : 0;
  if (a->sum != NULL) *a->sum = cr_f64_of(first);
  if (a->first != NULL) *a->first = (float)first;
  if (a->second != NULL) *a->second = (float)second;
}

typedef struct cr_loss_args {
  cr_hd_values x;               /* src, prob or scores */
  cr_hd_values label;           /* or targets, or the second of a pair */
  cr_hd_values inside, outside; /* smooth L1: weights of differences and of losses; absent: 1 */
  const CR_GLOBAL float
      *gain; /* weights of pairs of classes, NULL: identity; contrastive: similar */
  const CR_GLOBAL float *sums;   /* of gain's rows; NULL: 1 */
  const CR_GLOBAL float *factor; /* gradients: one number on the device; NULL: 1 */
  CR_GLOBAL float *each;         /* softmax loss: the term of each position; NULL: not requested */
  cr_hd_values out;
  CR_GLOBAL int32_t *hit;  /* accuracy, per position: -1 not counted, else 2 * class + hit */
  CR_GLOBAL cr_wide *part; /* (parts, 2) */
  cr_total_args total;     /* the results, if there is one part */
  int64_t parts, count;    /* positions, or elements */
  int64_t classes, inner;
  CR_GLOBAL cr_gpu_fault *fault;
  float alpha, margin, sigma2;
  int reduction, norm, top_k, ignore;
  bool has_ignore, legacy, of_prob; /* of_prob: softmax loss, x are probabilities */
} cr_loss_args;

/* What one position adds to the two sums. */
typedef struct cr_pair {
  cr_wide first, second;
} cr_pair;

CR_HD int64_t cr_loss_class(const cr_loss_args *a, int64_t position) {
  const int64_t c = cr_class_of(cr_get(a->label, position), a->classes, a->has_ignore, a->ignore);
  if (c == CR_HD_BAD) {
    cr_report(a->fault, CR_GPU_FAULT_LABEL, cr_get(a->label, position), position, a->count,
              a->classes);
  }
  return c;
}

/* The index of class c at a position of (outer, C, inner). */
CR_HD int64_t cr_loss_at(const cr_loss_args *a, int64_t position, int64_t c) {
  const cr_quotient at = cr_divide(position, a->inner);
  return (at.whole * a->classes + c) * a->inner + at.rest;
}

CR_HD cr_pair cr_reduce_term(const cr_loss_args *a, int64_t i) {
  const cr_wide v = (cr_wide)cr_get(a->x, i);
  cr_pair out = {v, 0};
  if (a->reduction == CR_REDUCE_ASUM) out.first = fabs(v);
  if (a->reduction == CR_REDUCE_SUMSQ) out.first = v * v;
  return out;
}

/* The probability of a position's class counts as `least` if it is smaller. */
CR_HD cr_pair cr_class_term(const cr_loss_args *a, int64_t i, float least) {
  cr_pair out = {0, 0};
  const int64_t c = cr_loss_class(a, i);
  if (c < 0) return out;
  const float p = cr_get(a->x, cr_loss_at(a, i, c));
  /* Written so that a nan probability gives a nan loss. */
  out.first = -log((cr_wide)(p < least ? least : p));
  out.second = 1;
  return out;
}

/* A target is ignored if its integer part is the ignored label. */
CR_HD bool cr_target_ignored(const cr_loss_args *a, float target) {
  return a->has_ignore && target > -2147483648.0f && target < 2147483648.0f &&
         (int)target == a->ignore;
}

CR_HD cr_pair cr_sigmoid_loss_term(const cr_loss_args *a, int64_t i) {
  cr_pair out = {0, 0};
  const cr_wide t = (cr_wide)cr_get(a->label, i), v = (cr_wide)cr_get(a->x, i);
  if (cr_target_ignored(a, cr_get(a->label, i))) return out;
  out.first = (v > 0 ? v : 0) - v * t + log1p(exp(-fabs(v)));
  out.second = 1;
  return out;
}

/* How far score i falls short of its margin; *sign is d shortfall / d score. Both are 0 at a
 * position whose label is out of range. */
CR_HD float cr_hinge_shortfall(const cr_loss_args *a, int64_t i, float *sign) {
  const cr_quotient at = cr_divide(i, a->classes);
  const float label = cr_get(a->label, at.whole);
  const int64_t truth = cr_class_of(label, a->classes, false, 0);
  if (truth < 0) {
    cr_report(a->fault, CR_GPU_FAULT_LABEL, label, at.whole, a->count / a->classes, a->classes);
    *sign = 0;
    return 0;
  }
  *sign = truth == at.rest ? -1.0f : 1.0f;
  const float margin = 1 + *sign * cr_get(a->x, i);
  return margin > 0 ? margin : 0;
}

CR_HD cr_pair cr_hinge_term(const cr_loss_args *a, int64_t i) {
  float sign;
  const cr_wide missing = (cr_wide)cr_hinge_shortfall(a, i, &sign);
  cr_pair out = {a->norm == 2 ? missing * missing : missing, 0};
  return out;
}

CR_HD cr_wide cr_square_distance(const cr_loss_args *a, int64_t n) {
  cr_wide sum = 0;
  for (int64_t i = n * a->classes; i < (n + 1) * a->classes; ++i) {
    const cr_wide d = (cr_wide)cr_get(a->x, i) - (cr_wide)cr_get(a->label, i);
    sum += d * d;
  }
  return sum;
}

/* Whether the integer part of a pair's flag is not 0; NaN counts as similar. */
CR_HD bool cr_is_similar(const cr_loss_args *a, int64_t n) {
  return !(fabsf(a->gain[n]) < 1);
}

CR_HD cr_pair cr_contrastive_term(const cr_loss_args *a, int64_t n) {
  cr_pair out = {0, 0};
  const cr_wide square = cr_square_distance(a, n);
  const cr_wide missing = (cr_wide)a->margin - (a->legacy ? square : sqrt(square));
  if (cr_is_similar(a, n)) {
    out.first = square;
  } else if (missing > 0) {
    out.first = a->legacy ? missing : missing * missing;
  }
  return out;
}

CR_HD float cr_weight_at(cr_hd_values weights, int64_t i) {
  return weights.at == NULL ? 1 : cr_get(weights, i);
}

/* The weighted difference of pair i. */
CR_HD float cr_smooth_difference(const cr_loss_args *a, int64_t i) {
  return cr_weight_at(a->inside, i) * (cr_get(a->x, i) - cr_get(a->label, i));
}

CR_HD cr_pair cr_smooth_l1_term(const cr_loss_args *a, int64_t i) {
  const cr_wide square = (cr_wide)a->sigma2, d = fabs((cr_wide)cr_smooth_difference(a, i));
  const cr_wide loss = d < 1 / square ? 0.5 * square * d * d : d - 0.5 / square;
  cr_pair out = {(cr_wide)cr_weight_at(a->outside, i) * loss, 0};
  return out;
}

#define CR_LEAST_PROBABILITY 1e-20f

CR_HD float cr_gain_of(const cr_loss_args *a, int64_t label, int64_t c) {
  if (a->gain != NULL) return a->gain[label * a->classes + c];
  return label == c ? 1 : 0;
}

/* The logarithm of the sum of the powers of a position's scores, which need not be rounded as
 * their probabilities are. */
CR_HD cr_wide cr_log_sum(const cr_loss_args *a, int64_t i) {
  cr_wide sum = 0;
  float top = cr_get(a->x, cr_loss_at(a, i, 0));
  for (int64_t c = 1; c < a->classes; ++c) top = fmaxf(top, cr_get(a->x, cr_loss_at(a, i, c)));
  for (int64_t c = 0; c < a->classes; ++c) {
    sum += exp((cr_wide)cr_get(a->x, cr_loss_at(a, i, c)) - (cr_wide)top);
  }
  return (cr_wide)top + log(sum);
}

CR_HD cr_pair cr_score_term(const cr_loss_args *a, int64_t i) {
  cr_pair out = {0, 0};
  const int64_t c = cr_loss_class(a, i);
  if (c < 0) return out;
  const cr_wide found = cr_log_sum(a, i) - (cr_wide)cr_get(a->x, cr_loss_at(a, i, c));
  const cr_wide most = -log((cr_wide)FLT_MIN);
  out.first = found > most ? most : found;
  out.second = 1;
  return out;
}

CR_HD cr_pair cr_gain_term(const cr_loss_args *a, int64_t i) {
  cr_pair out = {0, 0};
  const int64_t truth = cr_loss_class(a, i);
  if (truth < 0) return out;
  out.second = 1;
  const cr_wide log_sum = cr_log_sum(a, i), least = log((cr_wide)CR_LEAST_PROBABILITY);
  for (int64_t c = 0; c < a->classes; ++c) {
    const cr_wide nats = (cr_wide)cr_get(a->x, cr_loss_at(a, i, c)) - log_sum;
    const float g = cr_gain_of(a, truth, c);
    if (g != 0) out.first -= (cr_wide)g * (nats < least ? least : nats);
  }
  return out;
}

CR_HD cr_pair cr_softmax_loss_term(const cr_loss_args *a, int64_t i) {
  const cr_pair out = a->gain != NULL ? cr_gain_term(a, i)
                      : a->of_prob    ? cr_class_term(a, i, FLT_MIN)
                                      : cr_score_term(a, i);
  if (a->each != NULL) a->each[i] = (float)out.first;
  return out;
}

/* Counted, and right. */
CR_HD cr_pair cr_accuracy_term(const cr_loss_args *a, int64_t i) {
  cr_pair out = {0, 0};
  if (a->hit[i] < 0) return out;
  out.first = (cr_wide)(a->hit[i] % 2);
  out.second = 1;
  return out;
}

CR_HD void cr_keep_part(const cr_loss_args *a, int64_t part, cr_thread_block thread_block,
                        cr_pair sum) {
  sum.first = cr_thread_block_sum(thread_block, sum.first);
  sum.second = cr_thread_block_sum(thread_block, sum.second);
  if (thread_block.lane == 0) {
    a->part[2 * part] = sum.first;
    a->part[2 * part + 1] = sum.second;
    if (a->parts == 1) cr_total_give(&a->total, sum.first, sum.second);
  }
}

typedef enum cr_loss_kind {
  CR_LOSS_REDUCE,
  CR_LOSS_SOFTMAX,
  CR_LOSS_SIGMOID,
  CR_LOSS_HINGE,
  CR_LOSS_CONTRASTIVE,
  CR_LOSS_MULTINOMIAL,
  CR_LOSS_SMOOTH_L1,
  CR_LOSS_ACCURACY
} cr_loss_kind;

CR_HD cr_pair cr_loss_term(const cr_loss_args *a, int kind, int64_t i) {
  switch (kind) {
    case CR_LOSS_SOFTMAX: return cr_softmax_loss_term(a, i);
    case CR_LOSS_SIGMOID: return cr_sigmoid_loss_term(a, i);
    case CR_LOSS_HINGE: return cr_hinge_term(a, i);
    case CR_LOSS_CONTRASTIVE: return cr_contrastive_term(a, i);
    case CR_LOSS_MULTINOMIAL: return cr_class_term(a, i, CR_LEAST_PROBABILITY);
    case CR_LOSS_SMOOTH_L1: return cr_smooth_l1_term(a, i);
    case CR_LOSS_ACCURACY: return cr_accuracy_term(a, i);
    default: return cr_reduce_term(a, i);
  }
}

CR_HD void cr_loss_part(const cr_loss_args *a, int kind, int64_t part,
                        cr_thread_block thread_block) {
  const int64_t end = cr_part_begin(a->count, a->parts, part + 1);
  cr_pair sum = {0, 0};
  for (int64_t i = cr_part_begin(a->count, a->parts, part) + thread_block.lane; i < end;
       i += thread_block.lanes) {
    const cr_pair term = cr_loss_term(a, kind, i);
    sum.first += term.first;
    sum.second += term.second;
  }
  cr_keep_part(a, part, thread_block, sum);
}

CR_HD void cr_reduce_parts_device(const void *args, int64_t part, cr_thread_block thread_block) {
  cr_loss_part((const cr_loss_args *)args, CR_LOSS_REDUCE, part, thread_block);
}
CR_HD void cr_softmax_loss_parts_device(const void *args, int64_t part,
                                        cr_thread_block thread_block) {
  cr_loss_part((const cr_loss_args *)args, CR_LOSS_SOFTMAX, part, thread_block);
}
CR_HD void cr_sigmoid_loss_parts_device(const void *args, int64_t part,
                                        cr_thread_block thread_block) {
  cr_loss_part((const cr_loss_args *)args, CR_LOSS_SIGMOID, part, thread_block);
}
CR_HD void cr_hinge_parts_device(const void *args, int64_t part, cr_thread_block thread_block) {
  cr_loss_part((const cr_loss_args *)args, CR_LOSS_HINGE, part, thread_block);
}
CR_HD void cr_contrastive_parts_device(const void *args, int64_t part,
                                       cr_thread_block thread_block) {
  cr_loss_part((const cr_loss_args *)args, CR_LOSS_CONTRASTIVE, part, thread_block);
}
CR_HD void cr_multinomial_parts_device(const void *args, int64_t part,
                                       cr_thread_block thread_block) {
  cr_loss_part((const cr_loss_args *)args, CR_LOSS_MULTINOMIAL, part, thread_block);
}
CR_HD void cr_smooth_l1_parts_device(const void *args, int64_t part, cr_thread_block thread_block) {
  cr_loss_part((const cr_loss_args *)args, CR_LOSS_SMOOTH_L1, part, thread_block);
}
CR_HD void cr_accuracy_parts_device(const void *args, int64_t part, cr_thread_block thread_block) {
  cr_loss_part((const cr_loss_args *)args, CR_LOSS_ACCURACY, part, thread_block);
}

CR_HD void cr_total_device(const void *args, int64_t segment, cr_thread_block thread_block) {
  const cr_total_args *a = (const cr_total_args *)args;
  cr_wide first = 0, second = 0;
  for (int64_t k = thread_block.lane; k < a->parts; k += thread_block.lanes) {
    first += a->part[2 * k];
    second += a->part[2 * k + 1];
  }
  first = cr_thread_block_sum(thread_block, first);
  second = cr_thread_block_sum(thread_block, second);
  if (thread_block.lane == 0 && segment == 0) cr_total_give(a, first, second);
}

/* Whether fewer than top_k classes score at least as well as the true one: ties count against. */
CR_HD void cr_accuracy_hits_device(const void *args, int64_t position,
                                   cr_thread_block thread_block) {
  const cr_loss_args *a = (const cr_loss_args *)args;
  const int64_t truth =
      cr_class_of(cr_get(a->label, position), a->classes, a->has_ignore, a->ignore);
  if (truth < 0) {
    if (thread_block.lane != 0) return;
    if (truth == CR_HD_BAD) cr_loss_class(a, position);
    a->hit[position] = -1;
    return;
  }
  const float own = cr_get(a->x, cr_loss_at(a, position, truth));
  cr_wide better = 0;
  for (int64_t c = thread_block.lane; c < a->classes; c += thread_block.lanes) {
    better += c != truth && cr_get(a->x, cr_loss_at(a, position, c)) >= own ? 1 : 0;
  }
  better = cr_thread_block_sum(thread_block, better);
  if (thread_block.lane == 0) a->hit[position] = (int32_t)(2 * truth + (better < a->top_k ? 1 : 0));
}

/* Segment c: the share of class c's positions that are right. */
CR_HD void cr_accuracy_class_device(const void *args, int64_t c, cr_thread_block thread_block) {
  const cr_loss_args *a = (const cr_loss_args *)args;
  cr_wide seen = 0, right = 0;
  for (int64_t i = thread_block.lane; i < a->count; i += thread_block.lanes) {
    if (a->hit[i] < 0 || a->hit[i] / 2 != c) continue;
    seen += 1;
    right += a->hit[i] % 2;
  }
  seen = cr_thread_block_sum(thread_block, seen);
  right = cr_thread_block_sum(thread_block, right);
  if (thread_block.lane == 0) cr_put(a->out, c, seen > 0 ? (float)(right / seen) : 0);
}

CR_HD float cr_loss_factor(const cr_loss_args *a) {
  return a->factor != NULL ? a->alpha * a->factor[0] : a->alpha;
}

/* Element i of (outer, C, inner): alpha * (prob * sums[label] - gain[label]), by default 1 and
 * onehot(label). */
CR_HD void cr_softmax_loss_bwd_device(const void *args, int64_t i) {
  const cr_loss_args *a = (const cr_loss_args *)args;
  const cr_quotient row = cr_divide(i, a->inner), at = cr_divide(row.whole, a->classes);
  const int64_t truth = cr_loss_class(a, at.whole * a->inner + row.rest);
  const float p = cr_get(a->x, i);
  const float sum = truth >= 0 && a->sums != NULL ? a->sums[truth] : 1;
  cr_put(a->out, i, truth < 0 ? 0 : a->alpha * (p * sum - cr_gain_of(a, truth, at.rest)));
}

CR_HD void cr_sigmoid_loss_bwd_device(const void *args, int64_t i) {
  const cr_loss_args *a = (const cr_loss_args *)args;
  const float t = cr_get(a->label, i);
  cr_put(a->out, i,
         cr_target_ignored(a, t) ? 0 : cr_loss_factor(a) * (cr_sigmoid_of(cr_get(a->x, i)) - t));
}

CR_HD void cr_hinge_bwd_device(const void *args, int64_t i) {
  const cr_loss_args *a = (const cr_loss_args *)args;
  float sign;
  const float missing = cr_hinge_shortfall(a, i, &sign);
  const float slope = a->norm == 2 ? 2 * missing : (float)(missing > 0);
  cr_put(a->out, i, cr_loss_factor(a) * sign * slope);
}

/* Segment n: one pair. The distance that divides is kept away from 0 by 1e-4, as Caffe does. */
CR_HD void cr_contrastive_bwd_device(const void *args, int64_t n) {
  const cr_loss_args *a = (const cr_loss_args *)args;
  const cr_wide square = cr_square_distance(a, n), distance = sqrt(square);
  const cr_wide missing = (cr_wide)a->margin - (a->legacy ? square : distance);
  cr_wide slope = 2;
  if (!cr_is_similar(a, n)) {
    slope = missing > 0 ? (a->legacy ? -2 : -2 * missing / (distance + 1e-4)) : 0;
  }
  slope *= (cr_wide)cr_loss_factor(a);
  for (int64_t i = n * a->classes; i < (n + 1) * a->classes; ++i) {
    cr_put(a->out, i, (float)(slope * ((cr_wide)cr_get(a->x, i) - (cr_wide)cr_get(a->label, i))));
  }
}

CR_HD float cr_smooth_l1_bwd_device(const void *args, int64_t i) {
  const cr_loss_args *a = (const cr_loss_args *)args;
  const float d = cr_smooth_difference(a, i);
  const float sign = d < 0 ? -1.0f : d > 0 ? 1.0f : d;
  const float slope = fabsf(d) < 1 / a->sigma2 ? a->sigma2 * d : sign;
  return cr_loss_factor(a) * cr_weight_at(a->outside, i) * cr_weight_at(a->inside, i) * slope;
}

CR_HD void cr_multinomial_bwd_device(const void *args, int64_t i) {
  const cr_loss_args *a = (const cr_loss_args *)args;
  const cr_quotient at = cr_divide(i, a->classes);
  const bool is_truth = cr_loss_class(a, at.whole) == at.rest;
  const float p = cr_get(a->x, i) < CR_LEAST_PROBABILITY ? CR_LEAST_PROBABILITY : cr_get(a->x, i);
  cr_put(a->out, i, is_truth ? -cr_loss_factor(a) / p : 0);
}

#endif
