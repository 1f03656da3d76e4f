/* Softmax of floats, in vectors of several rows or positions and with fused multiply-adds.
 *
 * Gains over softmax.c on Sapphire Rapids, one thread (bench/layers): 3.4x for rows of 21 classes,
 * as SSD has, 1.15x for rows of 1024 classes, 1.1x for 21 planes of 224 x 224. The losses keep no
 * probabilities: 2.9x for MultiBoxLoss, 2.4x for InfogainLoss, 1.6x for SoftmaxWithLoss. */
#define CR_REF_F32

#include "device/cpu/kernels/softmax_fast.h"

#include "core/prefetch.h"
#include "device/cpu/kernels/fast_rows.h"

#include "device/cpu/kernels/transpose.h"
#include "device/cpu/kernels/vector_math.h"

/* Positions after the axis that are processed at a time: a few cache lines of each channel. */
enum { WIDTH = CR_SOFTMAX_POSITIONS };

/* Arrays (channels, width) whose neighbouring channels are `step` elements apart. */
typedef struct planes {
  int64_t channels, step;
} planes;

enum {
  ROWS = 32,   /* that go through each step together at most */
  STRIP = 64,  /* values whose powers are computed at a time */
  LANES = 16,  /* values of a vector */
  QUARTER = 4, /* partial sums of a row that remain for the final addition of all rows */
  /* Number of values of the rows that go through each step together. They fit the L1 cache, and
   * the latency of one row overlaps with the work of all other rows. */
  TOGETHER = 2048,
  /* Rows of at most this number of values are prefetched while earlier rows are computed. The
   * processor prefetches long rows by itself. */
  FETCHED = 4096,
  /* Prefetch distance in values for short rows whose probabilities are not kept. Such rows take so
   * little time that prefetching only the next rows would be too late. */
  FAR = 10000,
  /* Rows of fewer values are transposed to planes, because vectors along a row would be mostly
   * empty. */
  SHORT = 50
};

/* Prefetches `count` values of x and, unless y is NULL, the same number of y for writing. */
CR_INLINE void fetch(int count, const float *x, const float *y) {
  const int line = 64 / (int)sizeof *x;
  for (int c = 0; c < count; c += line) {
    __builtin_prefetch(x + c, 0, CR_SECOND_CACHE);
    if (y != NULL) __builtin_prefetch(y + c, 1, CR_SECOND_CACHE);
  }
}

/* A row of LANES values or more is processed in full vectors. The last vector, the row's end,
 * overlaps the preceding vector. Returns the number of values in the vectors without overlap. */
CR_INLINE int64_t before_end(int64_t channels) {
  return channels - channels % LANES;
}

CR_INLINE void get_end(int64_t channels, const float *x, float *end) {
  cr_get_all(x + channels - LANES, LANES, end);
}

CR_INLINE void put_end(int64_t channels, const float *end, float *y) {
  cr_put_all(end, LANES, y + channels - LANES);
}

/* How powers are computed: kept or only summed, and with fused multiply-adds. */
typedef struct manner {
  bool keeps, fused;
} manner;

CR_INLINE float top_of_row(int64_t channels, const float *x) {
  const int64_t whole = before_end(channels);
  float most[LANES], top = -INFINITY;
  int64_t done = 0;
  get_end(channels, x, most);
  for (; done + STRIP <= whole; done += STRIP) {
#pragma omp simd
    for (int c = 0; c < LANES; ++c) {
      const float one = x[done + c], two = x[done + LANES + c];
      const float three = x[done + 2 * LANES + c];
      const float four = x[done + 3 * LANES + c];
      const float of_two = one > two ? one : two, others = three > four ? three : four;
      const float more = of_two > others ? of_two : others;
      most[c] = more > most[c] ? more : most[c];
    }
  }
  for (; done < whole; done += LANES) {
#pragma omp simd
    for (int c = 0; c < LANES; ++c) {
      const float one = x[done + c];
      most[c] = one > most[c] ? one : most[c];
    }
  }
#pragma omp simd reduction(max : top)
  for (int c = 0; c < LANES; ++c) top = most[c] > top ? most[c] : top;
  return top;
}

/* Adds the sums of LANES lanes to QUARTER ones. */
CR_INLINE void add_lanes(const float *lane, double *sum) {
#pragma omp simd
  for (int c = 0; c < QUARTER; ++c) {
    sum[c] += (double)((lane[c] + lane[c + 4]) + (lane[c + 8] + lane[c + 12]));
  }
}

/* exp(x) for x <= 0. */
CR_INLINE float power_of(manner how, float x) {
  return how.keeps ? cr_ref_exp_below_0(how.fused, x) : cr_ref_add_exp(how.fused, x, 0);
}

/* Of STRIP values, whose powers are added to LANES sums. */
CR_INLINE void add_strip(manner how, const float *x, float top, float *y, float *part) {
  float power[STRIP];
  if (!how.keeps) {
#pragma omp simd
    for (int c = 0; c < LANES; ++c) {
      const float one = cr_ref_add_exp(how.fused, x[c] - top, 0);
      const float two = cr_ref_add_exp(how.fused, x[c + LANES] - top, one);
      const float three = cr_ref_add_exp(how.fused, x[c + 2 * LANES] - top, 0);
      const float four = cr_ref_add_exp(how.fused, x[c + 3 * LANES] - top, three);
      part[c] += two + four;
    }
    return;
  }
#pragma omp simd
  for (int c = 0; c < STRIP; ++c) {
    power[c] = power_of(how, x[c] - top);
    y[c] = power[c];
  }
#pragma omp simd
  for (int c = 0; c < LANES; ++c) {
    const float one = power[c] + power[c + LANES];
    part[c] += one + (power[c + 2 * LANES] + power[c + 3 * LANES]);
  }
}

CR_INLINE void powers_of_row_in(manner how, int64_t channels, int64_t ahead, const float *x,
                                float top, float *y, double *sum) {
  const int64_t whole = before_end(channels);
  const int32_t known = (int32_t)(whole - (channels - LANES));
  float end[LANES], part[LANES] = {0}, power[LANES];
  int64_t done = 0;
  get_end(channels, x, end);
  for (int c = 0; c < QUARTER; ++c) sum[c] = 0;
  for (; done + STRIP <= whole; done += STRIP) {
    if (ahead > 0) fetch(STRIP, x + ahead + done, how.keeps ? y + ahead + done : NULL);
    add_strip(how, x + done, top, how.keeps ? y + done : NULL, part);
    if ((done + STRIP) % (4 * STRIP) == 0) {
      add_lanes(part, sum);
      for (int c = 0; c < LANES; ++c) part[c] = 0;
    }
  }
  if (ahead > 0 && done < channels) {
    fetch(STRIP, x + ahead + done, how.keeps ? y + ahead + done : NULL);
  }
#pragma omp simd
  for (int32_t c = 0; c < LANES; ++c) {
    end[c] = power_of(how, end[c] - top);
    part[c] += c < known ? 0 : end[c];
  }
  for (; done < whole; done += LANES) {
#pragma omp simd
    for (int c = 0; c < LANES; ++c) {
      const float below = x[done + c] - top;
      power[c] = power_of(how, below);
      if (how.keeps) y[done + c] = power[c];
      part[c] += power[c];
    }
  }
  if (how.keeps) put_end(channels, end, y);
  add_lanes(part, sum);
}

/* Where they are kept, y = exp(x - top); sum: QUARTER parts of the sum. */
CR_INLINE void powers_of_row(int64_t channels, int64_t ahead, const float *x, float top, bool keeps,
                             float *y, double *sum) {
  if (cr_fuses()) powers_of_row_in((manner){keeps, true}, channels, ahead, x, top, y, sum);
  else powers_of_row_in((manner){keeps, false}, channels, ahead, x, top, y, sum);
}

CR_INLINE void scale_row(int64_t channels, float scale, float *y) {
  const int64_t whole = before_end(channels);
  float end[LANES];
  get_end(channels, y, end);
#pragma omp simd
  for (int64_t c = 0; c < whole; ++c) y[c] = y[c] * scale;
#pragma omp simd
  for (int c = 0; c < LANES; ++c) end[c] *= scale;
  put_end(channels, end, y);
}

CR_INLINE float sum_of_parts(const double *part) {
  return (float)((part[0] + part[1]) + (part[2] + part[3]));
}

/* The axis is the last one. If `ahead` is not 0, values at this distance are prefetched. */
CR_CLONES static void softmax_rows(int64_t rows, int64_t channels, int64_t ahead, const float *x,
                                   float *y, float *top, float *sum) {
  double part[ROWS][QUARTER];
  for (int64_t r = 0; r < rows; ++r) top[r] = top_of_row(channels, x + r * channels);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * channels;
    powers_of_row(channels, ahead, x + at, top[r], true, y + at, part[r]);
  }
  for (int64_t r = 0; r < rows; ++r) sum[r] = sum_of_parts(part[r]);
  for (int64_t r = 0; r < rows; ++r) scale_row(channels, 1 / sum[r], y + r * channels);
}

/* The same without the result. */
CR_CLONES static void sums_of_rows(int64_t rows, int64_t channels, int64_t ahead, const float *x,
                                   float *top, float *sum) {
  double part[ROWS][QUARTER];
  for (int64_t r = 0; r < rows; ++r) top[r] = top_of_row(channels, x + r * channels);
  for (int64_t r = 0; r < rows; ++r) {
    powers_of_row(channels, ahead, x + r * channels, top[r], false, NULL, part[r]);
  }
  for (int64_t r = 0; r < rows; ++r) sum[r] = sum_of_parts(part[r]);
}

/* The highest of two, of four and of eight neighbouring channels. */
CR_INLINE float top_of_2(const float *x, int64_t step, int64_t i) {
  const float a = x[i], b = x[step + i];
  return a > b ? a : b;
}

CR_INLINE float top_of_4(const float *x, int64_t step, int64_t i) {
  const float a = top_of_2(x, step, i), b = top_of_2(x + 2 * step, step, i);
  return a > b ? a : b;
}

CR_INLINE float top_of_8(const float *x, int64_t step, int64_t i) {
  const float a = top_of_4(x, step, i), b = top_of_4(x + 4 * step, step, i);
  return a > b ? a : b;
}

CR_INLINE void tops_of_planes(planes p, int64_t width, const float *x, float *top) {
  int64_t c = 0;
  for (int64_t i = 0; i < width; ++i) top[i] = -INFINITY;
  for (; c + 8 <= p.channels; c += 8, x += 8 * p.step) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const float more = top_of_8(x, p.step, i);
      top[i] = more > top[i] ? more : top[i];
    }
  }
  for (; c < p.channels; ++c, x += p.step) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const float more = x[i];
      top[i] = more > top[i] ? more : top[i];
    }
  }
}

/* exp(x - top) of one, two, four and eight neighbouring channels, y where it is kept; their sum. */
CR_INLINE float power_of_1(manner how, const float *x, int64_t i, float top, float *y) {
  const float power = power_of(how, x[i] - top);
  if (how.keeps) y[i] = power;
  return power;
}

/* NULL where nothing is kept. */
CR_INLINE float *behind(bool keeps, float *y, int64_t elements) {
  return keeps ? y + elements : NULL;
}

CR_INLINE float powers_of_2(manner how, const float *x, int64_t step, int64_t i, float top,
                            float *y) {
  const float one = power_of_1(how, x, i, top, y);
  if (!how.keeps) return cr_ref_add_exp(how.fused, x[step + i] - top, one);
  return one + power_of_1(how, x + step, i, top, y + step);
}

CR_INLINE float powers_of_4(manner how, const float *x, int64_t step, int64_t i, float top,
                            float *y) {
  const float two = powers_of_2(how, x, step, i, top, y);
  return two + powers_of_2(how, x + 2 * step, step, i, top, behind(how.keeps, y, 2 * step));
}

CR_INLINE float powers_of_8(manner how, const float *x, int64_t step, int64_t i, float top,
                            float *y) {
  const float four = powers_of_4(how, x, step, i, top, y);
  return four + powers_of_4(how, x + 4 * step, step, i, top, behind(how.keeps, y, 4 * step));
}

/* Where the next values are read and written, which are fetched meanwhile; NULL: nowhere. */
typedef struct next_values {
  const float *x, *y;
} next_values;

/* Of the values that are fetched, `count` channels. */
CR_INLINE void fetch_channels(next_values next, int64_t width, int64_t c, int count) {
  if (next.x == NULL) return;
  const int64_t at = c * width;
  fetch(count * (int)width, next.x + at, next.y == NULL ? NULL : next.y + at);
}

CR_INLINE void powers_of_planes_in(manner how, planes p, int64_t width, const float *x,
                                   const float *top, float *y, double *sum, next_values next) {
  int64_t c = 0;
  for (int64_t i = 0; i < width; ++i) sum[i] = 0;
  for (; c + 8 <= p.channels; c += 8, x += 8 * p.step, y = behind(how.keeps, y, 8 * p.step)) {
    fetch_channels(next, width, c, 8);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) sum[i] += (double)powers_of_8(how, x, p.step, i, top[i], y);
  }
  for (; c + 4 <= p.channels; c += 4, x += 4 * p.step, y = behind(how.keeps, y, 4 * p.step)) {
    fetch_channels(next, width, c, 4);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) sum[i] += (double)powers_of_4(how, x, p.step, i, top[i], y);
  }
  for (; c < p.channels; ++c, x += p.step, y = behind(how.keeps, y, p.step)) {
    fetch_channels(next, width, c, 1);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) sum[i] += (double)power_of_1(how, x, i, top[i], y);
  }
}

/* The sums of exp(x - top) over the channels, y where it is kept; x and y may be one. */
CR_INLINE void powers_of_planes(planes p, int64_t width, const float *x, const float *top,
                                bool keeps, float *y, double *sum, next_values next) {
  if (cr_fuses()) powers_of_planes_in((manner){keeps, true}, p, width, x, top, y, sum, next);
  else powers_of_planes_in((manner){keeps, false}, p, width, x, top, y, sum, next);
}

/* Without the result. */
CR_CLONES static void sums_of_planes(planes p, int64_t width, const float *x, float *top,
                                     float *all) {
  double sum[WIDTH];
  tops_of_planes(p, width, x, top);
  powers_of_planes(p, width, x, top, false, NULL, sum, (next_values){NULL, NULL});
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) all[i] = (float)sum[i];
}

CR_CLONES static void softmax_planes(planes p, int64_t width, const float *x, float *y, float *top,
                                     float *all) {
  float scale[WIDTH];
  double sum[WIDTH];
  tops_of_planes(p, width, x, top);
  powers_of_planes(p, width, x, top, true, y, sum, (next_values){NULL, NULL});
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    all[i] = (float)sum[i];
    scale[i] = (float)(1 / sum[i]);
  }
  for (int64_t c = 0; c < p.channels; ++c, y += p.step) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) y[i] = y[i] * scale[i];
  }
}

/* SIDE: rows that lie side by side. With fewer of them, vectors are loaded so soon after their
 * parts were stored that the load waits for the stores. */
enum { SIDE = 64, EIGHT = CR_EIGHT, FOUR = CR_QUAD };

#ifdef __x86_64__

/* FOUR values of each of EIGHT rows. */
CR_INLINE void turn_eight(const float *x, int64_t step, float *plane) {
  cr_eight v[FOUR];
  for (int k = 0; k < FOUR; ++k) cr_get_quads(x + k * step, x + (k + FOUR) * step, &v[k]);
  cr_turn_eights(v);
  for (int k = 0; k < FOUR; ++k) *(cr_eight *)(plane + k * SIDE) = v[k];
}

CR_INLINE void turn_eight_back(const float *plane, const float *scale, int64_t step, float *y) {
  cr_eight v[FOUR];
  for (int k = 0; k < FOUR; ++k) {
    v[k] = *(const cr_eight *)(plane + k * SIDE) * *(const cr_eight *)scale;
  }
  cr_turn_eights(v);
  for (int k = 0; k < FOUR; ++k) {
    *(cr_quad *)(y + k * step) = ((const cr_quad *)&v[k])[0];
    *(cr_quad *)(y + (k + FOUR) * step) = ((const cr_quad *)&v[k])[1];
  }
}

/* Rows handled in full vectors; the last vector overlaps its predecessor. */
CR_INLINE int64_t rows_in_eights(int64_t rows, int64_t channels) {
  return channels < FOUR ? 0 : rows - rows % EIGHT;
}

CR_INLINE int64_t turn_eights(int64_t rows, int64_t channels, const float *x, float *to) {
  const int64_t most = rows_in_eights(rows, channels), last = channels - FOUR;
  for (int64_t r = 0; r < most; r += EIGHT) {
    for (int64_t c = 0; c < last; c += FOUR) {
      turn_eight(x + r * channels + c, channels, to + c * SIDE + r);
    }
    turn_eight(x + r * channels + last, channels, to + last * SIDE + r);
  }
  return most;
}

CR_INLINE int64_t turn_eights_back(int64_t rows, int64_t channels, const float *from,
                                   const float *scale, float *y) {
  const int64_t most = rows_in_eights(rows, channels), last = channels - FOUR;
  for (int64_t r = 0; r < most; r += EIGHT) {
    for (int64_t c = 0; c < last; c += FOUR) {
      turn_eight_back(from + c * SIDE + r, scale + r, channels, y + r * channels + c);
    }
    turn_eight_back(from + last * SIDE + r, scale + r, channels, y + r * channels + last);
  }
  return most;
}

#else

CR_INLINE int64_t turn_eights(int64_t rows, int64_t channels, const float *x, float *to) {
  (void)rows, (void)channels, (void)x, (void)to;
  return 0;
}

CR_INLINE int64_t turn_eights_back(int64_t rows, int64_t channels, const float *from,
                                   const float *scale, float *y) {
  (void)rows, (void)channels, (void)from, (void)scale, (void)y;
  return 0;
}

#endif

CR_INLINE void turn_rows(int64_t rows, int64_t channels, const float *x, float *to) {
  for (int64_t r = turn_eights(rows, channels, x, to); r < rows; ++r) {
    for (int64_t c = 0; c < channels; ++c) to[c * SIDE + r] = x[r * channels + c];
  }
}

CR_INLINE void turn_rows_back(int64_t rows, int64_t channels, const float *from, const float *scale,
                              float *y) {
  for (int64_t r = turn_eights_back(rows, channels, from, scale, y); r < rows; ++r) {
    for (int64_t c = 0; c < channels; ++c) {
      y[r * channels + c] = from[c * SIDE + r] * scale[r];
    }
  }
}

/* At most SIDE rows; y may be NULL. If `ahead` is not 0, values at this distance are prefetched. */
CR_CLONES static void softmax_short_rows(int64_t rows, int64_t channels, int64_t ahead,
                                         const float *x, float *y, float *top, float *all) {
  float plane[SHORT * SIDE];
  float scale[SIDE], tops[SIDE];
  double sum[SIDE];
  const planes p = {channels, SIDE};
  const next_values next = {ahead > 0 ? x + ahead : NULL,
                            ahead > 0 && y != NULL ? y + ahead : NULL};
  if (rows < SIDE) memset(plane, 0, sizeof plane); /* the planes are worked on as a whole */
  turn_rows(rows, channels, x, plane);
  tops_of_planes(p, SIDE, plane, tops);
  if (y == NULL) powers_of_planes(p, SIDE, plane, tops, false, NULL, sum, next);
  else powers_of_planes(p, SIDE, plane, tops, true, plane, sum, next);
  for (int64_t r = 0; r < rows; ++r) {
    top[r] = tops[r];
    all[r] = (float)sum[r];
  }
  if (y == NULL) return;
#pragma omp simd
  for (int64_t i = 0; i < SIDE; ++i) scale[i] = (float)(1 / sum[i]);
  turn_rows_back(rows, channels, plane, scale, y);
}

/* Rows that go through each step together. */
static int64_t rows_together(int64_t channels) {
  if (channels < SHORT) return SIDE;
  const int64_t rows = TOGETHER / channels;
  return rows < 1 ? 1 : rows < ROWS ? rows : ROWS;
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

int64_t cr_softmax_fast_blocks(const cr_split *s) {
  const int64_t rows = rows_together(s->channels);
  return s->inner == 1 ? (s->outer + rows - 1) / rows : s->outer * blocks_of(s);
}

void cr_softmax_fast_place(const cr_split *s, int64_t b, cr_softmax_block *out) {
  if (s->inner > 1) {
    out->count = block_at(s, b, &out->at);
    out->first = b / blocks_of(s) * s->inner + b % blocks_of(s) * WIDTH;
    return;
  }
  const int64_t most = rows_together(s->channels), left = s->outer - b * most;
  out->first = b * most;
  out->at = out->first * s->channels;
  out->count = left < most ? left : most;
}

/* From rows that go through each step together to those that are fetched meanwhile; 0: none. */
static int64_t how_far_ahead(const cr_split *s, int64_t first, bool keeps) {
  const int64_t most = rows_together(s->channels), values = most * s->channels;
  if (values == 0) return 0;
  const int64_t steps = s->channels < SHORT && !keeps ? (FAR + values - 1) / values : 1;
  const bool fetches = s->channels <= FETCHED && s->outer - first >= (steps + 1) * most;
  return fetches ? steps * values : 0;
}

void cr_softmax_fast_block(const cr_split *s, int64_t b, const float *x, float *y,
                           cr_softmax_block *out) {
  cr_softmax_fast_place(s, b, out);
  x += out->at;
  if (y != NULL) y += out->at;
  if (s->inner > 1) {
    const planes p = {s->channels, s->inner};
    if (y == NULL) sums_of_planes(p, out->count, x, out->top, out->sum);
    else softmax_planes(p, out->count, x, y, out->top, out->sum);
    return;
  }
  const int64_t ahead = how_far_ahead(s, out->first, y != NULL);
  if (s->channels < SHORT) {
    softmax_short_rows(out->count, s->channels, ahead, x, y, out->top, out->sum);
  } else if (y == NULL) {
    sums_of_rows(out->count, s->channels, ahead, x, out->top, out->sum);
  } else {
    softmax_rows(out->count, s->channels, ahead, x, y, out->top, out->sum);
  }
}

/* src, dst. */
static crema_status softmax_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, call->desc->u.axis);
  const float *src = cr_as_reals(call->buffer, 0);
  float *dst = cr_as_reals(call->buffer, 1);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= \
                                              CR_REF_PARALLEL_MIN / 4)
  for (int64_t b = 0; b < cr_softmax_fast_blocks(&s); ++b) {
    cr_softmax_block block;
    cr_softmax_fast_block(&s, b, src, dst, &block);
  }
  return CREMA_OK;
}

CR_KERNEL(softmax_fwd_fast, SOFTMAX_FWD, .run = softmax_fwd);
