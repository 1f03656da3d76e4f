/* Local response normalisation (Krizhevsky et al., 2012):
 *
 *     s_i = k + alpha / n * (sum of x_j^2 over the window W(i))
 *     y_i = x_i s_i^-beta
 *     dx_i = dy_i s_i^-beta - 2 alpha beta / n * x_i * (sum of dy_j y_j / s_j over j, i in W(j)) */
#ifndef CR_GPU_KERNELS_LRN_H
#define CR_GPU_KERNELS_LRN_H

#include "device/gpu/kernels/values.h"

typedef struct cr_lrn_args {
  cr_hd_values x, dy, out;
  cr_hd_values ratio;     /* dy y / s and dy s^-beta, */
  CR_GLOBAL float *first; /* between the passes of the gradient */
  int32_t size, before;   /* the window of i begins `before` elements before it */
  int32_t channels, height, width;
  cr_divisor by_plane, by_channels, by_height, by_width;
  float share, k, beta; /* share: alpha / n */
  bool within;          /* windows over rows and columns of one channel, else across channels */
} cr_lrn_args;

CR_HD float cr_lrn_sum_across(const cr_lrn_args *a, cr_hd_values v, int64_t i, int32_t before,
                              bool square) {
  const int64_t plane = (int64_t)a->height * a->width;
  const cr_quotient at = cr_divide_by(i, a->by_plane);
  const int32_t c = (int32_t)cr_divide_by(at.whole, a->by_channels).rest;
  float sum = 0;
  for (int32_t j = c - before; j < c - before + a->size; ++j) {
    if (j < 0 || j >= a->channels) continue;
    const float value = cr_get(v, i + (j - c) * plane);
    sum += square ? value * value : value;
  }
  return sum;
}

CR_HD float cr_lrn_sum_within(const cr_lrn_args *a, cr_hd_values v, int64_t i, int32_t before,
                              bool square) {
  const cr_quotient row = cr_divide_by(i, a->by_width);
  const cr_quotient plane = cr_divide_by(row.whole, a->by_height);
  const int32_t y = (int32_t)plane.rest, x = (int32_t)row.rest;
  const cr_hd_values image = cr_hd_values_from(v, plane.whole * a->height * a->width);
  float sum = 0;
  for (int32_t r = y - before; r < y - before + a->size; ++r) {
    for (int32_t c = x - before; c < x - before + a->size; ++c) {
      if (r < 0 || r >= a->height || c < 0 || c >= a->width) continue;
      const float value = cr_get(image, (int64_t)r * a->width + c);
      sum += square ? value * value : value;
    }
  }
  return sum;
}

CR_HD float cr_lrn_sum(const cr_lrn_args *a, cr_hd_values v, int64_t i, int32_t before,
                       bool square) {
  return a->within ? cr_lrn_sum_within(a, v, i, before, square)
                   : cr_lrn_sum_across(a, v, i, before, square);
}

/* s^-beta; the usual 3/4 without a call of pow. */
CR_HD float cr_lrn_power(float s, float beta) {
  if (beta == 0.75f) return 1 / (sqrtf(s) * sqrtf(sqrtf(s)));
  return powf(s, -beta);
}

CR_HD float cr_lrn_fwd_device(const void *args, int64_t i) {
  const cr_lrn_args *a = (const cr_lrn_args *)args;
  const float s = a->k + a->share * cr_lrn_sum(a, a->x, i, a->before, true);
  return cr_get(a->x, i) * cr_lrn_power(s, a->beta);
}

CR_HD void cr_lrn_bwd_terms_device(const void *args, int64_t i) {
  const cr_lrn_args *a = (const cr_lrn_args *)args;
  const float s = a->k + a->share * cr_lrn_sum(a, a->x, i, a->before, true);
  const float first = cr_get(a->dy, i) * cr_lrn_power(s, a->beta);
  /* dy y / s without y: a layer in place may have overwritten it. */
  cr_put(a->ratio, i, first * cr_get(a->x, i) / s);
  a->first[i] = first;
}

/* Element i is in the windows of i - (size - 1 - before) ... i + before. */
CR_HD float cr_lrn_bwd_device(const void *args, int64_t i) {
  const cr_lrn_args *a = (const cr_lrn_args *)args;
  const float sum = cr_lrn_sum(a, a->ratio, i, a->size - 1 - a->before, false);
  return a->first[i] - 2 * a->share * a->beta * cr_get(a->x, i) * sum;
}

#endif
