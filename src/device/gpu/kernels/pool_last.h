/* Pooling of channels-last images: element (n, s, c) is at (n S + s) C + c. Neighbouring threads
 * have neighbouring channels of one position. The arithmetic is as in window.h. */
#ifndef CR_GPU_KERNELS_POOL_LAST_H
#define CR_GPU_KERNELS_POOL_LAST_H

#include "device/gpu/kernels/window.h"

typedef struct cr_pool_last_args {
  cr_pool_args pool;
  cr_divisor channels;
} cr_pool_last_args;

/* An element of an array of positions and channels: its position in its image, and the element of
 * the other array at position 0 of the same image and channel. */
typedef struct cr_pool_place {
  int64_t position, base;
} cr_pool_place;

CR_HD cr_pool_place cr_pool_place_of(const cr_pool_last_args *a, int64_t i, cr_divisor positions,
                                     int64_t other_positions) {
  const cr_quotient at = cr_divide_by(i, a->channels);
  const cr_quotient image = cr_divide_by(at.whole, positions);
  cr_pool_place place;
  place.position = image.rest;
  place.base = image.whole * other_positions * a->channels.by + at.rest;
  return place;
}

CR_HD void cr_pool_max_last_at(const cr_pool_last_args *a, int64_t i, int axes) {
  const cr_hd_slide *s = &a->pool.slide;
  const cr_pool_place place = cr_pool_place_of(a, i, s->by_out_count, s->in_count);
  const cr_hd_span span = cr_hd_span_of(s, axes, place.position);
  float best = -FLT_MAX;
  int32_t index = -1, at[CR_MAX_SPATIAL];
  cr_copy_index(axes, at, span.begin);
  if (!span.empty) {
    do {
      const int64_t k = cr_hd_encode(axes, s->in, at);
      const float x = cr_get(a->pool.src, place.base + k * a->channels.by);
      if (index >= 0 && !(x > best)) continue;
      best = x;
      index = cr_pool_inside(s, axes, &span, at);
    } while (cr_hd_next(axes, span.begin, span.end, at));
  }
  cr_put(a->pool.out, i, best);
  if (a->pool.new_index != NULL) a->pool.new_index[i] = index;
}

CR_HD void cr_pool_max_last_device(const void *args, int64_t i) {
  const cr_pool_last_args *a = (const cr_pool_last_args *)args;
  if (a->pool.slide.axes == 2) cr_pool_max_last_at(a, i, 2);
  else cr_pool_max_last_at(a, i, a->pool.slide.axes);
}

CR_HD void cr_pool_average_last_at(const cr_pool_last_args *a, int64_t i, int axes) {
  const cr_hd_slide *s = &a->pool.slide;
  const cr_pool_place place = cr_pool_place_of(a, i, s->by_out_count, s->in_count);
  const cr_hd_span span = cr_hd_span_of(s, axes, place.position);
  cr_wide sum = 0;
  int32_t at[CR_MAX_SPATIAL];
  cr_copy_index(axes, at, span.begin);
  if (!span.empty) {
    do {
      const int64_t k = cr_hd_encode(axes, s->in, at);
      sum += (cr_wide)cr_get(a->pool.src, place.base + k * a->channels.by);
    } while (cr_hd_next(axes, span.begin, span.end, at));
  }
  cr_put(a->pool.out, i, span.empty ? 0 : (float)(sum / (cr_wide)span.padded_count));
  if (a->pool.new_index != NULL) a->pool.new_index[i] = 0;
}

CR_HD void cr_pool_average_last_device(const void *args, int64_t i) {
  const cr_pool_last_args *a = (const cr_pool_last_args *)args;
  if (a->pool.slide.axes == 2) cr_pool_average_last_at(a, i, 2);
  else cr_pool_average_last_at(a, i, a->pool.slide.axes);
}

/* The share of a window's gradient that goes to its element at `me`. */
CR_HD float cr_pool_share(const cr_pool_last_args *a, int64_t to, int axes, const int32_t *me,
                          const int32_t *at) {
  const cr_hd_slide *s = &a->pool.slide;
  int64_t inside = 0, padded = 1;
  for (int k = 0; k < axes; ++k) {
    const int32_t first = at[k] * s->stride[k] - s->pad[k], last = first + s->kernel[k];
    const int32_t edge = s->in[k] + s->pad[k];
    inside = inside * s->kernel[k] + me[k] - first;
    padded *= (last < edge ? last : edge) - first;
  }
  if (a->pool.index == NULL) return cr_get(a->pool.dy, to) / (float)padded;
  return a->pool.index[to] == inside ? cr_get(a->pool.dy, to) : 0;
}

CR_HD void cr_pool_bwd_last_at(const cr_pool_last_args *a, int64_t i, int axes) {
  const cr_hd_slide *s = &a->pool.slide;
  const cr_pool_place place = cr_pool_place_of(a, i, s->by_in_count, s->out_count);
  int32_t me[CR_MAX_SPATIAL], begin[CR_MAX_SPATIAL], end[CR_MAX_SPATIAL], at[CR_MAX_SPATIAL];
  cr_hd_decode(axes, s->by_in, place.position, me);
  float sum = 0;
  if (cr_hd_seen_by(s, axes, me, begin, end)) {
    cr_copy_index(axes, at, begin);
    do {
      const int64_t to = place.base + cr_hd_encode(axes, s->out, at) * a->channels.by;
      sum += cr_pool_share(a, to, axes, me, at);
    } while (cr_hd_next(axes, begin, end, at));
  }
  cr_put(a->pool.out, i, sum);
}

/* With `index` the gradient of maxima, else of averages. */
CR_HD void cr_pool_bwd_last_device(const void *args, int64_t i) {
  const cr_pool_last_args *a = (const cr_pool_last_args *)args;
  if (a->pool.slide.axes == 2) cr_pool_bwd_last_at(a, i, 2);
  else cr_pool_bwd_last_at(a, i, a->pool.slide.axes);
}

#endif
