/* Softmax along one axis, shifted by the maximum so that no power overflows. */

#include "device/cpu/ref_math.h"

/* Positions behind the axis that are worked on at a time: a few cache lines of each channel. */
enum { WIDTH = 192 };

/* Arrays (channels, width) of which neighbouring channels lie `step` elements apart. */
typedef struct planes {
  int64_t channels, step;
} planes;

/* Values whose powers are computed at a time, and sums that are made side by side of these. */
enum { STRIP = 64, LANES = 16 };

/* Rows of at most so many values are fetched while the row before is worked on. The processor does
 * that by itself within long rows. */
enum { FETCHED = 4096 };

CR_INLINE void fetch_strip(const cr_value *x, const cr_value *y) {
  const int line = 64 / (int)sizeof *x;
  for (int c = 0; c < STRIP; c += line) {
    __builtin_prefetch(x + c);
    __builtin_prefetch(y + c, 1);
  }
}

CR_INLINE void power_strip(const cr_value *x, cr_real top, cr_value *y, double *sum) {
  cr_real power[STRIP];
#pragma omp simd
  for (int c = 0; c < STRIP; ++c) {
    power[c] = cr_ref_exp_below_0(cr_get(x, c) - top);
    cr_put(y, c, power[c]);
  }
#pragma omp simd
  for (int c = 0; c < LANES; ++c) {
    const cr_real one = power[c] + power[c + LANES];
    const cr_real two = power[c + 2 * LANES] + power[c + 3 * LANES];
    sum[c] += (double)(one + two);
  }
}

/* The axis is the last one. The row `ahead` of this one, if not 0, is fetched. */
CR_CLONES static void softmax_row(int64_t channels, int64_t ahead, const cr_value *x, cr_value *y) {
  cr_real top = -INFINITY;
#pragma omp simd reduction(max : top)
  for (int64_t c = 0; c < channels; ++c) {
    const cr_real value = cr_get(x, c);
    top = value > top ? value : top;
  }
  double sum[LANES] = {0}, all = 0;
  int64_t done = 0;
  for (; done + STRIP <= channels; done += STRIP) {
    if (ahead > 0) fetch_strip(x + ahead + done, y + ahead + done);
    power_strip(x + done, top, y + done, sum);
  }
#pragma omp simd reduction(+ : all)
  for (int64_t c = done; c < channels; ++c) {
    const cr_real power = cr_ref_exp_below_0(cr_get(x, c) - top);
    cr_put(y, c, power);
    all += (double)power;
  }
  for (int c = 0; done > 0 && c < LANES; ++c) all += sum[c];
  const cr_real scale = (cr_real)(1 / all);
#pragma omp simd
  for (int64_t c = 0; c < channels; ++c) cr_put(y, c, cr_get(y, c) * scale);
}

CR_CLONES static void softmax_planes(planes p, int64_t width, const cr_value *x, cr_value *y) {
  cr_real top[WIDTH], scale[WIDTH];
  double sum[WIDTH] = {0};
  for (int64_t i = 0; i < width; ++i) top[i] = -INFINITY;
  /* Two channels at a time: the maxima and sums are read and written half as often. */
  for (int64_t c = 0; c < p.channels; c += 2) {
    const cr_value *one = x + c * p.step, *two = c + 1 < p.channels ? one + p.step : one;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const cr_real a = cr_get(one, i), b = cr_get(two, i);
      const cr_real more = a > top[i] ? a : top[i];
      top[i] = b > more ? b : more;
    }
  }
  for (int64_t c = 0; c + 1 < p.channels; c += 2) {
    const cr_value *from = x + c * p.step;
    cr_value *to = y + c * p.step;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const cr_real a = cr_ref_exp_below_0(cr_get(from, i) - top[i]);
      const cr_real b = cr_ref_exp_below_0(cr_get(from, p.step + i) - top[i]);
      cr_put(to, i, a);
      cr_put(to, p.step + i, b);
      sum[i] += (double)(a + b);
    }
  }
  if (p.channels % 2 != 0) {
    const int64_t last = (p.channels - 1) * p.step;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const cr_real power = cr_ref_exp_below_0(cr_get(x, last + i) - top[i]);
      cr_put(y, last + i, power);
      sum[i] += (double)power;
    }
  }
  for (int64_t i = 0; i < width; ++i) scale[i] = (cr_real)(1 / sum[i]);
  for (int64_t c = 0; c < p.channels; ++c) {
    cr_value *to = y + c * p.step;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) cr_put(to, i, cr_get(to, i) * scale[i]);
  }
}

/* dx = y (dy - sum(y dy)). */
CR_INLINE void gradient_line(int64_t count, const cr_value *y, const cr_value *dy,
                             const double *sum, bool one_sum, cr_value *dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const double slope = (double)cr_get(dy, i) - sum[one_sum ? 0 : i];
    cr_put(dx, i, (cr_real)((double)cr_get(y, i) * slope));
  }
}

CR_CLONES static void gradient_row(int64_t channels, const cr_value *y, const cr_value *dy,
                                   cr_value *dx) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < channels; ++c) sum += (double)cr_get(y, c) * (double)cr_get(dy, c);
  gradient_line(channels, y, dy, &sum, true, dx);
}

CR_CLONES static void gradient_planes(planes p, int64_t width, const cr_value *y,
                                      const cr_value *dy, cr_value *dx) {
  double sum[WIDTH] = {0};
  for (int64_t c = 0; c < p.channels; ++c) {
    const cr_value *of_y = y + c * p.step, *of_dy = dy + c * p.step;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      sum[i] += (double)cr_get(of_y, i) * (double)cr_get(of_dy, i);
    }
  }
  for (int64_t c = 0; c < p.channels; ++c) {
    const int64_t at = c * p.step;
    gradient_line(width, y + at, dy + at, sum, false, dx + at);
  }
}

static int64_t blocks_of(const cr_split *s) {
  return (s->inner + WIDTH - 1) / WIDTH;
}

/* Block b begins at *at and is as wide as is returned. */
static int64_t block_at(const cr_split *s, int64_t b, int64_t *at) {
  const int64_t i = b % blocks_of(s) * WIDTH;
  *at = b / blocks_of(s) * s->channels * s->inner + i;
  return s->inner - i < WIDTH ? s->inner - i : WIDTH;
}

/* src, dst. */
static crema_status softmax_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, call->desc->u.axis);
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_value *dst = cr_as_values(call->buffer, 1);
  const planes p = {s.channels, s.inner};
  const int64_t ahead = s.channels <= FETCHED ? s.channels : 0;
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= \
                                              CR_REF_PARALLEL_MIN / 4)
  for (int64_t b = 0; b < s.outer * blocks_of(&s); ++b) {
    int64_t at;
    const int64_t width = block_at(&s, b, &at);
    if (s.inner == 1) softmax_row(s.channels, b + 1 < s.outer ? ahead : 0, src + at, dst + at);
    else softmax_planes(p, width, src + at, dst + at);
  }
  return CREMA_OK;
}

/* dst, diff_dst, diff_src. */
static crema_status softmax_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, call->desc->u.axis);
  const cr_value *dst = cr_as_values(call->buffer, 0), *diff_dst = cr_as_values(call->buffer, 1);
  cr_value *diff_src = cr_as_values(call->buffer, 2);
  const planes p = {s.channels, s.inner};
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < s.outer * blocks_of(&s); ++b) {
    int64_t at;
    const int64_t width = block_at(&s, b, &at);
    if (s.inner == 1) gradient_row(s.channels, dst + at, diff_dst + at, diff_src + at);
    else gradient_planes(p, width, dst + at, diff_dst + at, diff_src + at);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(softmax_fwd, SOFTMAX_FWD, .run = softmax_fwd);
CR_REF_KERNEL(softmax_bwd, SOFTMAX_BWD, .run = softmax_bwd);
