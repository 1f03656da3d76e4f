/* Softmax along one axis, shifted by the maximum so that no power overflows. */
#include "device/cpu/ref_softmax.h"

#include "device/cpu/ref_math.h"

/* Positions behind the axis that are worked on at a time: a few cache lines of each channel. */
enum { WIDTH = CR_SOFTMAX_POSITIONS };

/* Arrays (channels, width) of which neighbouring channels lie `step` elements apart. */
typedef struct planes {
  int64_t channels, step;
} planes;

enum {
  ROWS = 32,   /* that go through each step together at most */
  STRIP = 64,  /* values whose powers are computed at a time */
  LANES = 16,  /* values of a vector */
  QUARTER = 4, /* sums of a row that are left when those of all rows are added */
  /* Values of the rows that go through each step together, so that what a row waits for is hidden
   * behind the others; they stay in the nearest cache. */
  TOGETHER = 2048,
  /* Rows of at most so many values are fetched while those before are worked on. The processor does
   * that by itself within long rows. */
  FETCHED = 4096
};

CR_INLINE void fetch_strip(const cr_value *x, const cr_value *y) {
  const int line = 64 / (int)sizeof *x;
  for (int c = 0; c < STRIP; c += line) {
    __builtin_prefetch(x + c);
    __builtin_prefetch(y + c, 1);
  }
}

/* A row of LANES values or more is worked through in whole vectors, of which the last one, its end,
 * has values of the one before, too. How many values other vectors have. */
CR_INLINE int64_t before_end(int64_t channels) {
  return channels - channels % LANES;
}

CR_INLINE void get_end(int64_t channels, const cr_value *x, cr_real *end) {
  cr_get_all(x + channels - LANES, LANES, end);
}

CR_INLINE void put_end(int64_t channels, const cr_real *end, cr_value *y) {
  cr_put_all(end, LANES, y + channels - LANES);
}

CR_INLINE cr_real top_of_row(int64_t channels, const cr_value *x) {
  const int64_t whole = before_end(channels);
  cr_real most[LANES], top = -INFINITY;
  int64_t done = 0;
  get_end(channels, x, most);
  for (; done + STRIP <= whole; done += STRIP) {
#pragma omp simd
    for (int c = 0; c < LANES; ++c) {
      const cr_real one = cr_get(x, done + c), two = cr_get(x, done + LANES + c);
      const cr_real three = cr_get(x, done + 2 * LANES + c);
      const cr_real four = cr_get(x, done + 3 * LANES + c);
      const cr_real of_two = one > two ? one : two, others = three > four ? three : four;
      const cr_real more = of_two > others ? of_two : others;
      most[c] = more > most[c] ? more : most[c];
    }
  }
  for (; done < whole; done += LANES) {
#pragma omp simd
    for (int c = 0; c < LANES; ++c) {
      const cr_real one = cr_get(x, done + c);
      most[c] = one > most[c] ? one : most[c];
    }
  }
#pragma omp simd reduction(max : top)
  for (int c = 0; c < LANES; ++c) top = most[c] > top ? most[c] : top;
  return top;
}

/* The sums of LANES lanes as QUARTER ones. */
CR_INLINE void add_lanes(const cr_real *lane, double *sum) {
#pragma omp simd
  for (int c = 0; c < QUARTER; ++c) {
    sum[c] += (double)((lane[c] + lane[c + 4]) + (lane[c + 8] + lane[c + 12]));
  }
}

/* y = exp(x - top); sum: four parts of the sum. */
CR_INLINE void powers_of_row(int64_t channels, int64_t ahead, const cr_value *x, cr_real top,
                             cr_value *y, double *sum) {
  const int64_t whole = before_end(channels);
  const int32_t known = (int32_t)(whole - (channels - LANES));
  cr_real end[LANES], part[LANES], power[STRIP];
  int64_t done = 0;
  get_end(channels, x, end);
  for (int c = 0; c < QUARTER; ++c) sum[c] = 0;
  for (; done + STRIP <= whole; done += STRIP) {
    if (ahead > 0) fetch_strip(x + ahead + done, y + ahead + done);
#pragma omp simd
    for (int c = 0; c < STRIP; ++c) {
      power[c] = cr_ref_exp_below_0(cr_get(x, done + c) - top);
      cr_put(y, done + c, power[c]);
    }
#pragma omp simd
    for (int c = 0; c < LANES; ++c) {
      const cr_real one = power[c] + power[c + LANES];
      part[c] = one + (power[c + 2 * LANES] + power[c + 3 * LANES]);
    }
    add_lanes(part, sum);
  }
  if (ahead > 0 && done < channels) fetch_strip(x + ahead + done, y + ahead + done);
#pragma omp simd
  for (int32_t c = 0; c < LANES; ++c) {
    end[c] = cr_ref_exp_below_0(end[c] - top);
    part[c] = c < known ? 0 : end[c];
  }
  for (; done < whole; done += LANES) {
#pragma omp simd
    for (int c = 0; c < LANES; ++c) {
      power[c] = cr_ref_exp_below_0(cr_get(x, done + c) - top);
      cr_put(y, done + c, power[c]);
      part[c] += power[c];
    }
  }
  put_end(channels, end, y);
  add_lanes(part, sum);
}

CR_INLINE void scale_row(int64_t channels, cr_real scale, cr_value *y) {
  const int64_t whole = before_end(channels);
  cr_real end[LANES];
  get_end(channels, y, end);
#pragma omp simd
  for (int64_t c = 0; c < whole; ++c) cr_put(y, c, cr_get(y, c) * scale);
#pragma omp simd
  for (int c = 0; c < LANES; ++c) end[c] *= scale;
  put_end(channels, end, y);
}

/* Rows that go through each step together. */
static int64_t rows_together(int64_t channels) {
  if (channels < LANES) return WIDTH;
  const int64_t rows = TOGETHER / channels;
  return rows < 1 ? 1 : rows < ROWS ? rows : ROWS;
}

/* The axis is the last one. What is `ahead` of the rows, if not 0, is fetched. */
CR_CLONES static void softmax_rows(int64_t rows, int64_t channels, int64_t ahead, const cr_value *x,
                                   cr_value *y, cr_real *top, cr_real *sum) {
  double part[ROWS][QUARTER];
  for (int64_t r = 0; r < rows; ++r) top[r] = top_of_row(channels, x + r * channels);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * channels;
    powers_of_row(channels, ahead, x + at, top[r], y + at, part[r]);
  }
  for (int64_t r = 0; r < rows; ++r) {
    sum[r] = (cr_real)((part[r][0] + part[r][1]) + (part[r][2] + part[r][3]));
  }
  for (int64_t r = 0; r < rows; ++r) scale_row(channels, 1 / sum[r], y + r * channels);
}

CR_CLONES static void softmax_planes(planes p, int64_t width, const cr_value *x, cr_value *y,
                                     cr_real *top, cr_real *all) {
  cr_real scale[WIDTH];
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
  for (int64_t i = 0; i < width; ++i) {
    all[i] = (cr_real)sum[i];
    scale[i] = (cr_real)(1 / sum[i]);
  }
  for (int64_t c = 0; c < p.channels; ++c) {
    cr_value *to = y + c * p.step;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) cr_put(to, i, cr_get(to, i) * scale[i]);
  }
}

/* Rows that do not fill a vector, as planes. */
static void softmax_short_rows(int64_t rows, int64_t channels, const cr_value *x, cr_value *y,
                               cr_real *top, cr_real *sum) {
  cr_value plane[LANES * WIDTH];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < channels; ++c) plane[c * WIDTH + r] = x[r * channels + c];
  }
  softmax_planes((planes){channels, WIDTH}, rows, plane, plane, top, sum);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < channels; ++c) y[r * channels + c] = plane[c * WIDTH + r];
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

int64_t cr_ref_softmax_blocks(const cr_split *s) {
  const int64_t rows = rows_together(s->channels);
  return s->inner == 1 ? (s->outer + rows - 1) / rows : s->outer * blocks_of(s);
}

void cr_ref_softmax_block(const cr_split *s, int64_t b, const cr_value *x, cr_value *y,
                          cr_softmax_block *out) {
  if (s->inner > 1) {
    out->count = block_at(s, b, &out->at);
    out->first = b / blocks_of(s) * s->inner + b % blocks_of(s) * WIDTH;
    softmax_planes((planes){s->channels, s->inner}, out->count, x + out->at, y + out->at, out->top,
                   out->sum);
    return;
  }
  const int64_t most = rows_together(s->channels), left = s->outer - b * most;
  const bool fetches = s->channels <= FETCHED && left >= 2 * most;
  out->first = b * most;
  out->at = out->first * s->channels;
  out->count = left < most ? left : most;
  if (s->channels < LANES) {
    softmax_short_rows(out->count, s->channels, x + out->at, y + out->at, out->top, out->sum);
    return;
  }
  softmax_rows(out->count, s->channels, fetches ? most * s->channels : 0, x + out->at, y + out->at,
               out->top, out->sum);
}

/* src, dst. */
static crema_status softmax_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, call->desc->u.axis);
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_value *dst = cr_as_values(call->buffer, 1);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= \
                                              CR_REF_PARALLEL_MIN / 4)
  for (int64_t b = 0; b < cr_ref_softmax_blocks(&s); ++b) {
    cr_softmax_block block;
    cr_ref_softmax_block(&s, b, src, dst, &block);
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
