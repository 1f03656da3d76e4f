/* Windows that slide over any number of spatial axes: pooling, and windows as columns. Gradients
 * are gathered: each input element adds up the gradients of its windows in their order. So no two
 * threads write one element, and the sum has one order.
 *
 * The number of axes is an argument of every function. If a device function passes a constant, the
 * coordinates stay in registers. */
#ifndef CR_GPU_KERNELS_WINDOW_H
#define CR_GPU_KERNELS_WINDOW_H

#include "device/backend/op_enums.h"
#include "device/gpu/kernels/philox.h"
#include "device/gpu/kernels/values.h"

/* A window with the extents that it slides over; at least one axis. */
typedef struct cr_hd_slide {
  int32_t axes;
  int32_t in[CR_MAX_SPATIAL], out[CR_MAX_SPATIAL];
  int32_t kernel[CR_MAX_SPATIAL], stride[CR_MAX_SPATIAL], pad[CR_MAX_SPATIAL];
  int32_t dilation[CR_MAX_SPATIAL];
  int64_t in_count, out_count, kernel_count; /* elements of one plane and one window */
  cr_divisor by_in[CR_MAX_SPATIAL], by_out[CR_MAX_SPATIAL], by_kernel[CR_MAX_SPATIAL];
  cr_divisor by_stride[CR_MAX_SPATIAL];
  cr_divisor by_in_count, by_out_count, by_kernel_count;
} cr_hd_slide;

/* `index` is below the product of the extents. */
CR_HD void cr_hd_decode(int axes, const cr_divisor *extent, int64_t index, int32_t *at) {
  for (int a = axes - 1; a > 0; --a) {
    const cr_quotient q = cr_divide_by(index, extent[a]);
    at[a] = (int32_t)q.rest;
    index = q.whole;
  }
  at[0] = (int32_t)index;
}

CR_HD int64_t cr_hd_encode(int axes, const int32_t *extent, const int32_t *at) {
  int64_t index = 0;
  for (int a = 0; a < axes; ++a) index = index * extent[a] + at[a];
  return index;
}

/* Steps `at` within begin <= at < end, last axis fastest; false after the last element. */
CR_HD bool cr_hd_next(int axes, const int32_t *begin, const int32_t *end, int32_t *at) {
  for (int a = axes - 1; a >= 0; --a) {
    if (++at[a] < end[a]) return true;
    at[a] = begin[a];
  }
  return false;
}

/* The part of one dense window inside the input. */
typedef struct cr_hd_span {
  int32_t first[CR_MAX_SPATIAL]; /* of the unclipped window */
  int32_t begin[CR_MAX_SPATIAL], end[CR_MAX_SPATIAL];
  int64_t padded_count; /* elements when clipped to the padded input instead */
  bool empty;
} cr_hd_span;

CR_HD cr_hd_span cr_hd_span_of(const cr_hd_slide *s, int axes, int64_t index) {
  cr_hd_span span;
  int32_t at[CR_MAX_SPATIAL];
  cr_hd_decode(axes, s->by_out, index, at);
  span.padded_count = 1;
  span.empty = false;
  for (int a = 0; a < axes; ++a) {
    const int32_t first = at[a] * s->stride[a] - s->pad[a], last = first + s->kernel[a];
    const int32_t padded = s->in[a] + s->pad[a];
    span.first[a] = first;
    span.begin[a] = first > 0 ? first : 0;
    span.end[a] = last < s->in[a] ? last : s->in[a];
    span.padded_count *= (last < padded ? last : padded) - first;
    if (span.begin[a] >= span.end[a]) span.empty = true;
  }
  return span;
}

/* The index in the input plane of element `inside` of the dense window of output `index`; -1
 * outside. */
CR_HD int64_t cr_hd_locate(const cr_hd_slide *s, int axes, int64_t index, int64_t inside) {
  int32_t at[CR_MAX_SPATIAL], offset[CR_MAX_SPATIAL];
  if (inside < 0 || inside >= s->kernel_count) return -1;
  cr_hd_decode(axes, s->by_out, index, at);
  cr_hd_decode(axes, s->by_kernel, inside, offset);
  for (int a = 0; a < axes; ++a) {
    at[a] = at[a] * s->stride[a] - s->pad[a] + offset[a];
    if (at[a] < 0 || at[a] >= s->in[a]) return -1;
  }
  return cr_hd_encode(axes, s->in, at);
}

/* The dense windows that cover input position `at`: outputs begin <= o < end. */
CR_HD bool cr_hd_seen_by(const cr_hd_slide *s, int axes, const int32_t *at, int32_t *begin,
                         int32_t *end) {
  for (int a = 0; a < axes; ++a) {
    const int32_t high = at[a] + s->pad[a], low = high - s->kernel[a] + 1;
    const int32_t last = (int32_t)cr_divide_by(high, s->by_stride[a]).whole + 1;
    begin[a] = low > 0 ? (int32_t)cr_divide_by(low + s->stride[a] - 1, s->by_stride[a]).whole : 0;
    end[a] = last < s->out[a] ? last : s->out[a];
    if (begin[a] >= end[a]) return false;
  }
  return true;
}

typedef struct cr_pool_args {
  cr_hd_values src; /* forward */
  cr_hd_values dy;
  cr_hd_values out; /* dst, diff_src or the mask */
  const CR_GLOBAL int32_t *index;
  CR_GLOBAL int32_t *new_index; /* NULL: not wanted */
  uint64_t seed, counter;
  const CR_GLOBAL uint64_t *passes; /* see cr_hd_counter */
  cr_hd_slide slide;
} cr_pool_args;

/* The index inside the unclipped window. */
CR_HD int32_t cr_pool_inside(const cr_hd_slide *s, int axes, const cr_hd_span *span,
                             const int32_t *at) {
  int64_t index = 0;
  for (int a = 0; a < axes; ++a) index = index * s->kernel[a] + at[a] - span->first[a];
  return (int32_t)index;
}

CR_HD void cr_copy_index(int axes, int32_t *to, const int32_t *from) {
  for (int a = 0; a < axes; ++a) to[a] = from[a];
}

CR_HD void cr_pool_max_at(const cr_pool_args *a, int64_t i, int axes) {
  const cr_hd_slide *s = &a->slide;
  const cr_quotient where = cr_divide_by(i, s->by_out_count);
  const cr_hd_values plane = cr_hd_values_from(a->src, where.whole * s->in_count);
  const cr_hd_span span = cr_hd_span_of(s, axes, where.rest);
  float best = -FLT_MAX;
  int32_t index = -1, at[CR_MAX_SPATIAL];
  cr_copy_index(axes, at, span.begin);
  if (!span.empty) {
    do {
      const float x = cr_get(plane, cr_hd_encode(axes, s->in, at));
      /* The first element always counts, a later element only if it is larger. */
      if (index >= 0 && !(x > best)) continue;
      best = x;
      index = cr_pool_inside(s, axes, &span, at);
    } while (cr_hd_next(axes, span.begin, span.end, at));
  }
  cr_put(a->out, i, best);
  if (a->new_index != NULL) a->new_index[i] = index;
}

CR_HD void cr_pool_max_device(const void *args, int64_t i) {
  const cr_pool_args *a = (const cr_pool_args *)args;
  if (a->slide.axes == 2) cr_pool_max_at(a, i, 2);
  else cr_pool_max_at(a, i, a->slide.axes);
}

CR_HD void cr_pool_average_at(const cr_pool_args *a, int64_t i, int axes) {
  const cr_hd_slide *s = &a->slide;
  const cr_quotient where = cr_divide_by(i, s->by_out_count);
  const cr_hd_values plane = cr_hd_values_from(a->src, where.whole * s->in_count);
  const cr_hd_span span = cr_hd_span_of(s, axes, where.rest);
  cr_wide sum = 0;
  int32_t at[CR_MAX_SPATIAL];
  cr_copy_index(axes, at, span.begin);
  if (!span.empty) {
    do {
      sum += (cr_wide)cr_get(plane, cr_hd_encode(axes, s->in, at));
    } while (cr_hd_next(axes, span.begin, span.end, at));
  }
  cr_put(a->out, i, span.empty ? 0 : (float)(sum / (cr_wide)span.padded_count));
  if (a->new_index != NULL) a->new_index[i] = 0;
}

CR_HD void cr_pool_average_device(const void *args, int64_t i) {
  const cr_pool_args *a = (const cr_pool_args *)args;
  if (a->slide.axes == 2) cr_pool_average_at(a, i, 2);
  else cr_pool_average_at(a, i, a->slide.axes);
}

/* For maxima and drawn values alike: the gradients of the windows that chose this element. */
CR_HD void cr_pool_chosen_bwd_at(const cr_pool_args *a, int64_t i, int axes) {
  const cr_hd_slide *s = &a->slide;
  const cr_quotient where = cr_divide_by(i, s->by_in_count);
  int32_t me[CR_MAX_SPATIAL], begin[CR_MAX_SPATIAL], end[CR_MAX_SPATIAL], at[CR_MAX_SPATIAL];
  cr_hd_decode(axes, s->by_in, where.rest, me);
  float sum = 0;
  if (cr_hd_seen_by(s, axes, me, begin, end)) {
    cr_copy_index(axes, at, begin);
    do {
      const int64_t to = where.whole * s->out_count + cr_hd_encode(axes, s->out, at);
      int64_t inside = 0;
      for (int k = 0; k < axes; ++k) {
        inside = inside * s->kernel[k] + me[k] + s->pad[k] - at[k] * s->stride[k];
      }
      if (a->index[to] == inside) sum += cr_get(a->dy, to);
    } while (cr_hd_next(axes, begin, end, at));
  }
  cr_put(a->out, i, sum);
}

CR_HD void cr_pool_chosen_bwd_device(const void *args, int64_t i) {
  const cr_pool_args *a = (const cr_pool_args *)args;
  if (a->slide.axes == 2) cr_pool_chosen_bwd_at(a, i, 2);
  else cr_pool_chosen_bwd_at(a, i, a->slide.axes);
}

CR_HD void cr_pool_average_bwd_at(const cr_pool_args *a, int64_t i, int axes) {
  const cr_hd_slide *s = &a->slide;
  const cr_quotient where = cr_divide_by(i, s->by_in_count);
  int32_t me[CR_MAX_SPATIAL], begin[CR_MAX_SPATIAL], end[CR_MAX_SPATIAL], at[CR_MAX_SPATIAL];
  cr_hd_decode(axes, s->by_in, where.rest, me);
  float sum = 0;
  if (cr_hd_seen_by(s, axes, me, begin, end)) {
    cr_copy_index(axes, at, begin);
    do {
      int64_t padded = 1;
      for (int k = 0; k < axes; ++k) {
        const int32_t first = at[k] * s->stride[k] - s->pad[k], last = first + s->kernel[k];
        const int32_t edge = s->in[k] + s->pad[k];
        padded *= (last < edge ? last : edge) - first;
      }
      const int64_t to = where.whole * s->out_count + cr_hd_encode(axes, s->out, at);
      sum += cr_get(a->dy, to) / (float)padded;
    } while (cr_hd_next(axes, begin, end, at));
  }
  cr_put(a->out, i, sum);
}

CR_HD void cr_pool_average_bwd_device(const void *args, int64_t i) {
  const cr_pool_args *a = (const cr_pool_args *)args;
  if (a->slide.axes == 2) cr_pool_average_bwd_at(a, i, 2);
  else cr_pool_average_bwd_at(a, i, a->slide.axes);
}

CR_HD void cr_pool_mask_at(const cr_pool_args *a, int64_t i, int axes) {
  cr_put(a->out, i,
         (float)cr_hd_locate(&a->slide, axes, cr_divide_by(i, a->slide.by_out_count).rest,
                             a->index[i]));
}

CR_HD void cr_pool_mask_device(const void *args, int64_t i) {
  const cr_pool_args *a = (const cr_pool_args *)args;
  if (a->slide.axes == 2) cr_pool_mask_at(a, i, 2);
  else cr_pool_mask_at(a, i, a->slide.axes);
}

/* The first element at which the running sum exceeds `target`. If there is none, the last element
 * with a positive value. If there is none either, the first element. Its values go to *value and
 * *inside. */
CR_HD void cr_pool_draw(const cr_hd_slide *s, int axes, const cr_hd_span *span, cr_hd_values plane,
                        cr_wide target, float *value, int32_t *inside) {
  int32_t at[CR_MAX_SPATIAL];
  cr_wide sum = 0;
  cr_copy_index(axes, at, span->begin);
  *value = cr_get(plane, cr_hd_encode(axes, s->in, at));
  *inside = cr_pool_inside(s, axes, span, at);
  do {
    const float x = cr_get(plane, cr_hd_encode(axes, s->in, at));
    if (!(x > 0)) continue;
    sum += (cr_wide)x;
    *value = x;
    *inside = cr_pool_inside(s, axes, span, at);
    if (sum > target) return;
  } while (cr_hd_next(axes, span->begin, span->end, at));
}

typedef struct cr_hd_sums {
  cr_wide value, square;
} cr_hd_sums;

CR_HD cr_hd_sums cr_pool_sums(const cr_hd_slide *s, int axes, const cr_hd_span *span,
                              cr_hd_values plane) {
  cr_hd_sums sums = {0, 0};
  int32_t at[CR_MAX_SPATIAL];
  if (span->empty) return sums;
  cr_copy_index(axes, at, span->begin);
  do {
    const cr_wide x = (cr_wide)cr_get(plane, cr_hd_encode(axes, s->in, at));
    sums.value += x;
    sums.square += x * x;
  } while (cr_hd_next(axes, span->begin, span->end, at));
  return sums;
}

CR_HD void cr_pool_stochastic_at(const cr_pool_args *a, int64_t i, int axes) {
  const cr_hd_slide *s = &a->slide;
  const cr_quotient where = cr_divide_by(i, s->by_out_count);
  const cr_hd_values plane = cr_hd_values_from(a->src, where.whole * s->in_count);
  const cr_hd_span span = cr_hd_span_of(s, axes, where.rest);
  float value = 0;
  int32_t inside = -1;
  if (!span.empty) {
    uint32_t word[4];
    cr_hd_philox(a->seed, cr_hd_counter(a->counter, a->passes), (uint64_t)i / 4, word);
    const cr_wide share = (cr_wide)word[i % 4] / 4294967296.0;
    cr_pool_draw(s, axes, &span, plane, share * cr_pool_sums(s, axes, &span, plane).value, &value,
                 &inside);
  }
  cr_put(a->out, i, value);
  a->new_index[i] = inside;
}

CR_HD void cr_pool_stochastic_device(const void *args, int64_t i) {
  const cr_pool_args *a = (const cr_pool_args *)args;
  if (a->slide.axes == 2) cr_pool_stochastic_at(a, i, 2);
  else cr_pool_stochastic_at(a, i, a->slide.axes);
}

CR_HD void cr_pool_weighted_at(const cr_pool_args *a, int64_t i, int axes) {
  const cr_hd_slide *s = &a->slide;
  const cr_quotient where = cr_divide_by(i, s->by_out_count);
  const cr_hd_span span = cr_hd_span_of(s, axes, where.rest);
  const cr_hd_sums sums =
      cr_pool_sums(s, axes, &span, cr_hd_values_from(a->src, where.whole * s->in_count));
  cr_put(a->out, i, sums.value > 0 ? (float)(sums.square / sums.value) : 0);
}

CR_HD void cr_pool_weighted_device(const void *args, int64_t i) {
  const cr_pool_args *a = (const cr_pool_args *)args;
  if (a->slide.axes == 2) cr_pool_weighted_at(a, i, 2);
  else cr_pool_weighted_at(a, i, a->slide.axes);
}

typedef struct cr_spread_args {
  cr_hd_values from, out;
  cr_hd_slide slide; /* of windows of one element, without padding */
} cr_spread_args;

/* Element i of (planes, S...): the element of `from` (planes, S'...) whose window it is, or 0. */
CR_HD float cr_spread_at(const cr_spread_args *a, int64_t i, int axes) {
  const cr_hd_slide *s = &a->slide;
  const cr_quotient where = cr_divide_by(i, s->by_in_count);
  int32_t at[CR_MAX_SPATIAL];
  cr_hd_decode(axes, s->by_in, where.rest, at);
  for (int k = 0; k < axes; ++k) {
    const cr_quotient q = cr_divide_by(at[k], s->by_stride[k]);
    if (q.rest != 0 || q.whole >= s->out[k]) return 0;
    at[k] = (int32_t)q.whole;
  }
  return cr_get(a->from, where.whole * s->out_count + cr_hd_encode(axes, s->out, at));
}

CR_HD float cr_spread_device(const void *args, int64_t i) {
  const cr_spread_args *a = (const cr_spread_args *)args;
  return a->slide.axes == 2 ? cr_spread_at(a, i, 2) : cr_spread_at(a, i, a->slide.axes);
}

typedef struct cr_fold_args {
  cr_hd_values from, to;
  cr_hd_slide slide;
} cr_fold_args;

/* Element i of (planes, window, positions): the window element's input at the position, 0 in the
 * padding. */
CR_HD void cr_unfold_at(const cr_fold_args *a, int64_t i, int axes) {
  const cr_hd_slide *s = &a->slide;
  const cr_quotient row = cr_divide_by(i, s->by_out_count),
                    plane = cr_divide_by(row.whole, s->by_kernel_count);
  int32_t at[CR_MAX_SPATIAL], offset[CR_MAX_SPATIAL];
  cr_hd_decode(axes, s->by_out, row.rest, at);
  cr_hd_decode(axes, s->by_kernel, plane.rest, offset);
  bool inside = true;
  for (int k = 0; k < axes; ++k) {
    at[k] = at[k] * s->stride[k] - s->pad[k] + offset[k] * s->dilation[k];
    if (at[k] < 0 || at[k] >= s->in[k]) inside = false;
  }
  const cr_hd_values image = cr_hd_values_from(a->from, plane.whole * s->in_count);
  cr_put(a->to, i, inside ? cr_get(image, cr_hd_encode(axes, s->in, at)) : 0);
}

CR_HD void cr_unfold_device(const void *args, int64_t i) {
  const cr_fold_args *a = (const cr_fold_args *)args;
  if (a->slide.axes == 2) cr_unfold_at(a, i, 2);
  else cr_unfold_at(a, i, a->slide.axes);
}

/* The output position whose window has input position `me` as element `offset`; -1: none. */
CR_HD int64_t cr_fold_source(const cr_hd_slide *s, int axes, const int32_t *me,
                             const int32_t *offset) {
  int32_t at[CR_MAX_SPATIAL];
  for (int k = 0; k < axes; ++k) {
    const int32_t position = me[k] + s->pad[k] - offset[k] * s->dilation[k];
    if (position < 0) return -1;
    const cr_quotient q = cr_divide_by(position, s->by_stride[k]);
    if (q.rest != 0) return -1;
    at[k] = (int32_t)q.whole;
    if (at[k] >= s->out[k]) return -1;
  }
  return cr_hd_encode(axes, s->out, at);
}

/* Element i of (planes, S...): the sum over the window's elements. */
CR_HD void cr_fold_at(const cr_fold_args *a, int64_t i, int axes) {
  const cr_hd_slide *s = &a->slide;
  const cr_quotient where = cr_divide_by(i, s->by_in_count);
  const cr_hd_values rows =
      cr_hd_values_from(a->from, where.whole * s->kernel_count * s->out_count);
  int32_t me[CR_MAX_SPATIAL], offset[CR_MAX_SPATIAL];
  cr_hd_decode(axes, s->by_in, where.rest, me);
  float sum = 0;
  for (int64_t k = 0; k < s->kernel_count; ++k) {
    cr_hd_decode(axes, s->by_kernel, k, offset);
    const int64_t source = cr_fold_source(s, axes, me, offset);
    if (source >= 0) sum += cr_get(rows, k * s->out_count + source);
  }
  cr_put(a->to, i, sum);
}

CR_HD void cr_fold_device(const void *args, int64_t i) {
  const cr_fold_args *a = (const cr_fold_args *)args;
  if (a->slide.axes == 2) cr_fold_at(a, i, 2);
  else cr_fold_at(a, i, a->slide.axes);
}

#endif
