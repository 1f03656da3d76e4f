/* Sums, products and maxima of several arrays, y = alpha x + beta y, and constants. Each element is
 * read from every source before it is written, so that the result may be any of the sources. */
#ifndef CR_GPU_KERNELS_ELTWISE_H
#define CR_GPU_KERNELS_ELTWISE_H

#include "device/gpu/kernels/pack.h"

enum { CR_GPU_SOURCES = 32 };

typedef struct cr_many_args {
  cr_hd_values x[CR_GPU_SOURCES];
  float coeff[CR_GPU_SOURCES];
  int sources;
  bool rectify;       /* negative sums become 0 */
  int skip;           /* the source that is not a factor; -1: all are */
  cr_hd_values first; /* one more factor; absent: none */
  cr_hd_values out;
  CR_GLOBAL int32_t *which; /* for maxima: the source that wins */
} cr_many_args;

CR_HD float cr_sum_value(const cr_many_args *a, float sum) {
  return a->rectify && sum < 0 ? 0 : sum;
}

CR_HD float cr_sum_device(const void *args, int64_t i) {
  const cr_many_args *a = (const cr_many_args *)args;
  float sum = 0;
  for (int k = 0; k < a->sources; ++k) sum += a->coeff[k] * cr_get(a->x[k], i);
  return cr_sum_value(a, sum);
}

CR_HD void cr_sum_pack(const void *args, int64_t i) {
  const cr_many_args *a = (const cr_many_args *)args;
  cr_pack sum = cr_pack_of(0);
  for (int source = 0; source < a->sources; ++source) {
    const float coeff = a->coeff[source];
    const cr_pack x = cr_get_pack(a->x[source], i);
    CR_FOR_PACK(k) sum.of[k] += coeff * x.of[k];
  }
  CR_FOR_PACK(k) sum.of[k] = cr_sum_value(a, sum.of[k]);
  cr_put_pack(a->out, i, sum);
}

CR_HD float cr_sum_of_two_device(const void *args, int64_t i) {
  const cr_many_args *a = (const cr_many_args *)args;
  const float first = cr_get(a->x[0], i), second = cr_get(a->x[1], i);
  return cr_sum_value(a, a->coeff[0] * first + a->coeff[1] * second);
}

CR_HD void cr_sum_of_two_pack(const void *args, int64_t i) {
  const cr_many_args *a = (const cr_many_args *)args;
  const cr_pack second = cr_get_pack(a->x[1], i);
  cr_pack sum = cr_get_pack(a->x[0], i);
  CR_FOR_PACK(k) {
    sum.of[k] = cr_sum_value(a, a->coeff[0] * sum.of[k] + a->coeff[1] * second.of[k]);
  }
  cr_put_pack(a->out, i, sum);
}

CR_HD float cr_prod_device(const void *args, int64_t i) {
  const cr_many_args *a = (const cr_many_args *)args;
  float product = a->first.at != NULL ? cr_get(a->first, i) : 1;
  for (int k = 0; k < a->sources; ++k) {
    if (k != a->skip) product *= cr_get(a->x[k], i);
  }
  return product;
}

/* Among equal values the first source wins, except that the second wins over the first. */
CR_HD void cr_max_device(const void *args, int64_t i) {
  const cr_many_args *a = (const cr_many_args *)args;
  float best = cr_get(a->x[0], i);
  int32_t which = 0;
  for (int k = 1; k < a->sources; ++k) {
    const float x = cr_get(a->x[k], i);
    const bool wins = k == 1 ? !(best > x) : x > best;
    if (wins) {
      best = x;
      which = k;
    }
  }
  cr_put(a->out, i, best);
  a->which[i] = which;
}

typedef struct cr_max_bwd_args {
  cr_hd_values dy, dx;
  const CR_GLOBAL int32_t *which;
  int32_t index;
} cr_max_bwd_args;

CR_HD void cr_max_bwd_device(const void *args, int64_t i) {
  const cr_max_bwd_args *a = (const cr_max_bwd_args *)args;
  cr_put(a->dx, i, a->which[i] == a->index ? cr_get(a->dy, i) : 0);
}

typedef struct cr_axpby_args {
  cr_hd_values x, out;
  float alpha, beta;
} cr_axpby_args;

CR_HD float cr_axpby_device(const void *args, int64_t i) {
  const cr_axpby_args *a = (const cr_axpby_args *)args;
  /* With beta 0 the old content is not read: it may be anything. */
  return a->beta == 0 ? a->alpha * cr_get(a->x, i)
                      : a->alpha * cr_get(a->x, i) + a->beta * cr_get(a->out, i);
}

CR_HD void cr_axpby_pack(const void *args, int64_t i) {
  const cr_axpby_args *a = (const cr_axpby_args *)args;
  cr_pack y = cr_get_pack(a->x, i);
  CR_FOR_PACK(k) y.of[k] *= a->alpha;
  if (a->beta != 0) {
    const cr_pack old = cr_get_pack(a->out, i);
    CR_FOR_PACK(k) y.of[k] += a->beta * old.of[k];
  }
  cr_put_pack(a->out, i, y);
}

typedef struct cr_set_args {
  cr_hd_values y;
  float value;
} cr_set_args;

CR_HD void cr_set_device(const void *args, int64_t i) {
  const cr_set_args *a = (const cr_set_args *)args;
  cr_put(a->y, i, a->value);
}

CR_HD void cr_set_pack(const void *args, int64_t i) {
  const cr_set_args *a = (const cr_set_args *)args;
  cr_put_pack(a->y, i, cr_pack_of(a->value));
}

#endif
