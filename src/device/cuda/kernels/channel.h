/* Per-channel work on arrays (outer, C, inner): scale and bias, rectifiers with a slope per
 * channel, batch normalisation, and sums over a channel. */
#ifndef CR_CUDA_KERNELS_CHANNEL_H
#define CR_CUDA_KERNELS_CHANNEL_H

#include "device/cuda/kernels/thread_block.h"
#include "device/cuda/kernels/unary.h"
#include "device/cuda/kernels/values.h"

CR_HD int64_t cr_channel_of(int64_t i, int64_t channels, int64_t inner) {
  return cr_divide(cr_divide(i, inner).whole, channels).rest;
}

typedef struct cr_affine_args {
  cr_values x, scale, bias; /* absent: 1 and 0 */
  cr_values y;
  int64_t channels, inner;
} cr_affine_args;

/* y = x * scale[c] + bias[c]. */
CR_HD void cr_affine_device(const void *args, int64_t i) {
  const cr_affine_args *a = (const cr_affine_args *)args;
  const int64_t c = cr_channel_of(i, a->channels, a->inner);
  float y = cr_get(a->x, i);
  if (a->scale.at != NULL) y = y * cr_get(a->scale, c);
  if (a->bias.at != NULL) y = y + cr_get(a->bias, c);
  cr_put(a->y, i, y);
}

typedef struct cr_posts_args {
  cr_values bias, addend; /* absent: 0 */
  cr_values y;
  int64_t channels, inner;
  int count;
  cr_unary_args
      post[CR_POSTS]; /* the functions; function CR_UNARY_FUNCTIONS: the addend is added */
} cr_posts_args;

/* The end of a convolution or an inner product: y = the post operations of y + bias[c]. The
 * addend is another array than y, which holds what was computed. */
CR_HD void cr_posts_device(const void *args, int64_t i) {
  const cr_posts_args *a = (const cr_posts_args *)args;
  float y = cr_get(a->y, i);
  if (a->bias.at != NULL) y += cr_get(a->bias, cr_channel_of(i, a->channels, a->inner));
  for (int k = 0; k < a->count; ++k) {
    const cr_unary_args *post = &a->post[k];
    y = post->function == CR_UNARY_FUNCTIONS ? y + cr_get(a->addend, i) : cr_unary_value(post, y);
  }
  cr_put(a->y, i, y);
}

typedef struct cr_prelu_args {
  cr_values x, slope, dy, out;
  int64_t channels, inner;
} cr_prelu_args;

CR_HD void cr_prelu_fwd_device(const void *args, int64_t i) {
  const cr_prelu_args *a = (const cr_prelu_args *)args;
  const float x = cr_get(a->x, i);
  cr_put(a->out, i, x > 0 ? x : cr_get(a->slope, cr_channel_of(i, a->channels, a->inner)) * x);
}

CR_HD void cr_prelu_bwd_device(const void *args, int64_t i) {
  const cr_prelu_args *a = (const cr_prelu_args *)args;
  const float dy = cr_get(a->dy, i);
  cr_put(a->out, i,
         cr_get(a->x, i) > 0 ? dy : cr_get(a->slope, cr_channel_of(i, a->channels, a->inner)) * dy);
}

typedef enum cr_channel_term {
  CR_TERM_VALUE,   /* dy */
  CR_TERM_PRODUCT, /* dy x */
  CR_TERM_BELOW    /* dy x where x is not above 0 */
} cr_channel_term;

typedef struct cr_channel_sum_args {
  cr_values dy, x;
  int64_t outer, channels, inner;
  int term;
  int64_t parts; /* of how many partial sums each channel's sum is made */
  double *part;  /* (parts, C) */
  cr_values out; /* (C) */
  bool add;
} cr_channel_sum_args;

CR_HD double cr_channel_value(const cr_channel_sum_args *a, int64_t at) {
  const double dy = (double)cr_get(a->dy, at);
  if (a->term == CR_TERM_VALUE) return dy;
  const float x = cr_get(a->x, at);
  if (a->term == CR_TERM_BELOW && x > 0) return 0;
  return dy * (double)x;
}

/* Segment s: part s / C of channel s % C. */
CR_HD void cr_channel_parts_device(const void *args, int64_t segment,
                                   cr_thread_block thread_block) {
  const cr_channel_sum_args *a = (const cr_channel_sum_args *)args;
  const cr_quotient where = cr_divide(segment, a->channels);
  const int64_t count = a->outer * a->inner;
  const int64_t end = cr_part_begin(count, a->parts, where.whole + 1);
  double sum = 0;
  for (int64_t k = cr_part_begin(count, a->parts, where.whole) + thread_block.lane; k < end;
       k += thread_block.lanes) {
    const cr_quotient at = cr_divide(k, a->inner);
    sum += cr_channel_value(a, (at.whole * a->channels + where.rest) * a->inner + at.rest);
  }
  sum = cr_thread_block_sum(thread_block, sum);
  if (thread_block.lane == 0) a->part[segment] = sum;
}

CR_HD void cr_channel_total_device(const void *args, int64_t c) {
  const cr_channel_sum_args *a = (const cr_channel_sum_args *)args;
  double sum = a->add ? (double)cr_get(a->out, c) : 0;
  for (int64_t k = 0; k < a->parts; ++k) sum += a->part[k * a->channels + c];
  cr_put(a->out, c, (float)sum);
}

/* Batch normalisation (Ioffe and Szegedy, 2015): y = (x - m) / sqrt(v + eps). */
typedef struct cr_bn_args {
  cr_values x, dy, out;
  const float *mean, *variance;   /* that are given */
  float *new_mean, *new_variance; /* that are computed; else NULL */
  double *slope, *flat;           /* (C) each: the sums of the gradient */
  int64_t outer, channels, inner;
  float eps;
  bool global; /* the statistics are constants */
} cr_bn_args;

CR_HD int64_t cr_bn_place(const cr_bn_args *a, int64_t c, int64_t k) {
  const cr_quotient at = cr_divide(k, a->inner);
  return (at.whole * a->channels + c) * a->inner + at.rest;
}

/* Mean and biased variance of channel c, in two passes. */
CR_HD void cr_bn_statistics_device(const void *args, int64_t c, cr_thread_block thread_block) {
  const cr_bn_args *a = (const cr_bn_args *)args;
  const int64_t count = a->outer * a->inner;
  double sum = 0;
  for (int64_t k = thread_block.lane; k < count; k += thread_block.lanes)
    sum += (double)cr_get(a->x, cr_bn_place(a, c, k));
  const double mean = count > 0 ? cr_thread_block_sum(thread_block, sum) / (double)count : 0;
  double square = 0;
  for (int64_t k = thread_block.lane; k < count; k += thread_block.lanes) {
    const double d = (double)cr_get(a->x, cr_bn_place(a, c, k)) - mean;
    square += d * d;
  }
  square = cr_thread_block_sum(thread_block, square);
  if (thread_block.lane == 0) {
    a->new_mean[c] = (float)mean;
    a->new_variance[c] = count > 0 ? (float)(square / (double)count) : 0;
  }
}

CR_HD void cr_bn_normalise_device(const void *args, int64_t i) {
  const cr_bn_args *a = (const cr_bn_args *)args;
  const int64_t c = cr_channel_of(i, a->channels, a->inner);
  const double deviation = sqrt((double)a->variance[c] + (double)a->eps);
  cr_put(a->out, i, (float)(((double)cr_get(a->x, i) - (double)a->mean[c]) / deviation));
}

/* mean(dy) and mean(dy (x - m)) / (v + eps) of channel c. */
CR_HD void cr_bn_gradient_sums_device(const void *args, int64_t c, cr_thread_block thread_block) {
  const cr_bn_args *a = (const cr_bn_args *)args;
  const int64_t count = a->outer * a->inner;
  const double mean = (double)a->mean[c];
  double sum = 0, product = 0;
  for (int64_t k = thread_block.lane; k < count; k += thread_block.lanes) {
    const int64_t at = cr_bn_place(a, c, k);
    const double dy = (double)cr_get(a->dy, at);
    sum += dy;
    product += dy * ((double)cr_get(a->x, at) - mean);
  }
  sum = cr_thread_block_sum(thread_block, sum);
  product = cr_thread_block_sum(thread_block, product);
  if (thread_block.lane == 0) {
    const double size = count > 0 ? (double)count : 1;
    a->flat[c] = sum / size;
    a->slope[c] = product / size / ((double)a->variance[c] + (double)a->eps);
  }
}

/* dx = (dy - mean(dy) - z mean(dy z)) / sqrt(v + eps), z = (x - m) / sqrt(v + eps). */
CR_HD void cr_bn_bwd_device(const void *args, int64_t i) {
  const cr_bn_args *a = (const cr_bn_args *)args;
  const int64_t c = cr_channel_of(i, a->channels, a->inner);
  const double deviation = sqrt((double)a->variance[c] + (double)a->eps);
  double dx = (double)cr_get(a->dy, i);
  if (!a->global) dx -= a->flat[c] + a->slope[c] * ((double)cr_get(a->x, i) - (double)a->mean[c]);
  cr_put(a->out, i, (float)(dx / deviation));
}

#endif
