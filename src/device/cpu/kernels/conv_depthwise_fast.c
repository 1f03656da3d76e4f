/* Depthwise convolution over two axes, a window for each channel, and the deconvolution that
 * enlarges each plane by itself (bilinear interpolation, mostly). Planes lie in plain order.
 *
 * A row of the result is a sum over the taps of its windows,
 *   to[x] = sum over t of from[t][x] * weight[t][x % LANES].
 * Where a map is reduced (a convolution), from[t] is every stride-th value of a row of the image,
 * and all weights of a tap are the same. Where it is enlarged (a deconvolution, and the gradient of
 * a convolution), from[t] is a row of the map with each value repeated `stride` times, and the
 * weights are those of the tap for the columns of one stride, again and again. Rows of the source
 * are brought into that form once and kept while windows need them. The gradient of a weight is the
 * sum over x of from[t][x] times the gradient of the result.
 *
 * oneDNN brings planes into blocks of channels and back, which takes longer than the sums. For the
 * gradient of windows other than 3 x 3 it makes a matrix product for each channel, which is five to
 * ten times as slow. Products and sums are not fused: the bits are the same on every processor. */
#include <stdlib.h>
#include <string.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "device/cpu/kernels/extent.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/window.h"
#include "device/cpu/threads/threads.h"

enum {
  LANES = 8,        /* of a vector; a multiple of the stride along a row */
  VECTORS = 8,      /* of a result that are summed at once */
  KERNEL_MOST = 16, /* along an axis */
  TOGETHER = 5,     /* taps of a row whose gradients are summed at once, */
  ROWS = 2,         /* and of so many rows; */
  FEW = 3,          /* of so many taps or fewer, */
  MORE_ROWS = 3,    /* of one row more */
  WIDE = 32,        /* columns of a map from which on planes by themselves are faster: */
  WIDE_FWD = 20,    /* as a result; */
  WIDE_CLOSE = 48,  /* with windows of up to three columns, one column apart; */
  VERY_WIDE = 96,   /* the same, as the source of a gradient */
  LINE = 16,        /* floats of a cache line; where parts of rows begin */
  GAP = 16          /* floats between rows, so that they are not a multiple of 4096 bytes apart */
};

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

typedef struct depth {
  int64_t planes, channels; /* planes: of all samples */
  int64_t image[2], map[2], kernel[2], stride[2], pad[2];
  bool bias;                   /* has a gradient, too */
  bool enlarges;               /* the map to the image; else the image is the source */
  int64_t from[2];             /* extents of the source's planes */
  int64_t met;                 /* columns of it that windows meet */
  int64_t taps[2];             /* of a row or column of the image: kernel / stride, rounded up */
  int64_t kept;                /* rows of the source, of `row` floats */
  int64_t row;                 /* in parts of `part` if it is the image */
  int64_t part, lead;          /* before the first value of a row or part */
  int64_t offset[KERNEL_MOST]; /* of each tap of a row of windows: to what column 0 sees of a row */
  int64_t weights, line, slot; /* floats of a thread: its rows, then its weights, then a line */
  int64_t sums; /* part of the workspace: of each plane the gradient of its weights */
  int64_t slots;
} depth;

/* ---- sums ---------------------------------------------------------------- */

/* What a row of the result is made of: some rows of the source, of which column 0 sees what lies
 * `offset` behind their begins for each of `columns` taps. For each row columns x LANES weights, or
 * sums of their gradients. */
typedef struct taps {
  int64_t rows, columns;
  const int64_t *offset;
  const float *from[KERNEL_MOST];
  float *weight[KERNEL_MOST];
} taps;

CR_INLINE const lanes *values_at(const float *from) {
  return (const lanes *)(const void *)from;
}

CR_INLINE lanes *place_at(float *to) {
  return (lanes *)(void *)to;
}

/* `vectors`, a constant, of a row from column x on, of which the last one may be cut. GCC keeps the
 * sums in registers throughout where the loops are unrolled. */
CR_INLINE void put_vectors(const taps *of, float first, int64_t x, int vectors, int64_t width,
                           float *to) {
  lanes sum[VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) sum[v] = first - (lanes){0};
  for (int64_t y = 0; y < of->rows; ++y) {
    const float *weight = of->weight[y], *row = of->from[y] + x;
    for (int64_t t = 0; t < of->columns; ++t, weight += LANES) {
      const lanes factor = *values_at(weight);
      const float *from = row + of->offset[t];
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sum[v] += values_at(from)[v] * factor;
    }
  }
  const int64_t left = width - x - (vectors - 1) * LANES;
#pragma GCC unroll 8
  for (int v = 0; v < vectors - 1; ++v) place_at(to + x)[v] = sum[v];
  if (left >= LANES) place_at(to + x)[vectors - 1] = sum[vectors - 1];
  else memcpy(to + width - left, &sum[vectors - 1], (size_t)left * sizeof *to);
}

/* to (width) = `first` + the sum over all taps. */
CR_INLINE void put_row(const taps *of, float first, int64_t width, float *to) {
  int64_t x = 0;
  for (; width - x > (VECTORS - 1) * LANES; x += VECTORS * LANES) {
    put_vectors(of, first, x, VECTORS, width, to);
  }
  switch ((width - x + LANES - 1) / LANES) {
    case 7: put_vectors(of, first, x, 7, width, to); break;
    case 6: put_vectors(of, first, x, 6, width, to); break;
    case 5: put_vectors(of, first, x, 5, width, to); break;
    case 4: put_vectors(of, first, x, 4, width, to); break;
    case 3: put_vectors(of, first, x, 3, width, to); break;
    case 2: put_vectors(of, first, x, 2, width, to); break;
    case 1: put_vectors(of, first, x, 1, width, to); break;
    default: break;
  }
}

/* Of `together` columns from `first` on and of `rows` rows from `y` on, both constants. */
CR_INLINE void gather_columns(const taps *of, int64_t y, int rows, int64_t first, int together,
                              int64_t width, const float *diff) {
  const int64_t *offset = of->offset + first;
  lanes sum[MORE_ROWS][TOGETHER];
  for (int r = 0; r < rows; ++r) {
    for (int t = 0; t < together; ++t) sum[r][t] = (lanes){0};
  }
  for (int64_t x = 0; x < width; x += LANES) {
    const lanes value = *values_at(diff + x);
    for (int r = 0; r < rows; ++r) {
      const float *from = of->from[y + r] + x;
      for (int t = 0; t < together; ++t) sum[r][t] += value * *values_at(from + offset[t]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    lanes *to = place_at(of->weight[y + r] + first * LANES);
    for (int t = 0; t < together; ++t) to[t] += sum[r][t];
  }
}

CR_INLINE void gather_rows(const taps *of, int64_t y, int rows, int64_t width, const float *diff) {
  int64_t t = 0;
  for (; of->columns - t > TOGETHER; t += TOGETHER) {
    gather_columns(of, y, rows, t, TOGETHER, width, diff);
  }
  switch (of->columns - t) {
    case 5: gather_columns(of, y, rows, t, 5, width, diff); break;
    case 4: gather_columns(of, y, rows, t, 4, width, diff); break;
    case 3: gather_columns(of, y, rows, t, 3, width, diff); break;
    case 2: gather_columns(of, y, rows, t, 2, width, diff); break;
    default: gather_columns(of, y, rows, t, 1, width, diff); break;
  }
}

/* Windows of few columns leave registers for the sums of one more row. */
CR_INLINE void gather_few(const taps *of, int64_t y, int64_t width, const float *diff) {
  switch (of->columns) {
    case 3: gather_columns(of, y, MORE_ROWS, 0, 3, width, diff); break;
    case 2: gather_columns(of, y, MORE_ROWS, 0, 2, width, diff); break;
    default: gather_columns(of, y, MORE_ROWS, 0, 1, width, diff); break;
  }
}

/* Adds to the sums of each tap its products with diff (width, a whole number of vectors). */
CR_INLINE void gather_row(const taps *of, int64_t width, const float *diff) {
  int64_t y = 0;
  if (of->columns <= FEW) {
    for (; of->rows - y >= MORE_ROWS; y += MORE_ROWS) gather_few(of, y, width, diff);
  }
  for (; of->rows - y >= ROWS; y += ROWS) gather_rows(of, y, ROWS, width, diff);
  if (y < of->rows) gather_rows(of, y, 1, width, diff);
}

/* to (LANES) += values (width, a whole number of vectors). */
CR_INLINE void add_values(int64_t width, const float *values, float *to) {
  lanes sum = {0};
  for (int64_t x = 0; x < width; x += LANES) sum += *values_at(values + x);
  *place_at(to) += sum;
}

/* ---- rows of the source -------------------------------------------------- */

/* Without a call for each row, of which there are many and short ones. */
CR_INLINE void copy_row(int64_t count, const float *from, float *to) {
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) *place_at(to + i) = *values_at(from + i);
  for (; i < count; ++i) to[i] = from[i];
}

/* Each value `stride` times. */
CR_INLINE void repeat_by(int64_t count, int64_t stride, const float *restrict from,
                         float *restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t p = 0; p < stride; ++p) to[i * stride + p] = from[i];
  }
}

CR_INLINE void repeat(int64_t count, int64_t stride, const float *from, float *to) {
  switch (stride) {
    case 1: copy_row(count, from, to); break;
    case 2: repeat_by(count, 2, from, to); break;
    case 4: repeat_by(count, 4, from, to); break;
    default: repeat_by(count, LANES, from, to); break;
  }
}

/* Every second or fourth value, and those behind them, in parts of their own. Of 8 and more
 * kernels/conv_strided_fast.c divides images. GCC makes code of a loop over single values that
 * takes 16 of a part at a time, which leaves much of a row of 24 or of 56 to a slow rest. */
CR_INLINE void divide_by_2(int64_t count, const float *from, float *to, int64_t part) {
  int64_t i = 0;
  for (; i + 2 * LANES <= count; i += 2 * LANES) {
    const lanes one = *values_at(from + i), two = *values_at(from + i + LANES);
    *place_at(to + i / 2) = __builtin_shufflevector(one, two, 0, 2, 4, 6, 8, 10, 12, 14);
    *place_at(to + part + i / 2) = __builtin_shufflevector(one, two, 1, 3, 5, 7, 9, 11, 13, 15);
  }
  for (; i < count; ++i) to[i % 2 * part + i / 2] = from[i];
}

CR_INLINE void divide_by_4(int64_t count, const float *restrict from, float *restrict to,
                           int64_t part) {
  for (int64_t i = 0; i < count / 4; ++i) {
    for (int64_t p = 0; p < 4; ++p) to[p * part + i] = from[i * 4 + p];
  }
  for (int64_t i = count / 4 * 4; i < count; ++i) to[i % 4 * part + i / 4] = from[i];
}

CR_INLINE void divide(int64_t count, int64_t stride, const float *from, float *to, int64_t part) {
  switch (stride) {
    case 1: copy_row(count, from, to); break;
    case 2: divide_by_2(count, from, to, part); break;
    default: divide_by_4(count, from, to, part); break;
  }
}

/* Rows of a plane in the form in which they are summed, the last `kept` ones that were asked for,
 * one after the other in a ring; what lies beside the plane is 0. */
typedef struct source {
  const depth *d;
  const float *plane;
  float *rows;
  int64_t next, place; /* the row that was not asked for yet, and where in the ring it will be */
} source;

/* Brings rows `first` to `end` - 1 that are in the plane into form; each call's are not before the
 * last one's. */
CR_INLINE void ask_for(source *s, int64_t first, int64_t end) {
  const depth *d = s->d;
  s->next = cr_most(s->next, first);
  for (end = cr_least(end, d->from[0]); s->next < end; ++s->next) {
    const float *from = s->plane + s->next * d->from[1];
    float *to = s->rows + s->place * d->row + d->lead;
    if (d->enlarges) repeat(d->met, d->stride[1], from, to);
    else divide(d->met, d->stride[1], from, to, d->part);
    s->place = s->place + 1 < d->kept ? s->place + 1 : 0;
  }
}

/* The row `back` rows before the next one. */
CR_INLINE const float *row_before(const source *s, int64_t back) {
  const int64_t place = s->place - back;
  return s->rows + (place < 0 ? place + s->d->kept : place) * s->d->row;
}

/* ---- planes -------------------------------------------------------------- */

/* weights (K, K) as a map is enlarged with them: to (K, taps, LANES). */
CR_INLINE void repeat_weights(const depth *d, const float *weights, float *to) {
  for (int64_t ky = 0; ky < d->kernel[0]; ++ky) {
    for (int64_t t = 0; t < d->taps[1]; ++t) {
      for (int64_t l = 0; l < LANES; ++l) {
        const int64_t kx = (l + d->pad[1]) % d->stride[1] + t * d->stride[1];
        *to++ = kx < d->kernel[1] ? weights[ky * d->kernel[1] + kx] : 0;
      }
    }
  }
}

/* to (K, K, LANES). */
CR_INLINE void spread_weights(const depth *d, const float *weights, float *to) {
  repeat(d->kernel[0] * d->kernel[1], LANES, weights, to);
}

/* Row `y` of the image is made of rows of the map. */
CR_INLINE void find_map(source *s, int64_t y, float *weights, taps *out) {
  const depth *d = s->d;
  const int64_t row = (y + d->pad[0]) / d->stride[0], first = (y + d->pad[0]) % d->stride[0];
  ask_for(s, row - d->taps[0] + 1, row + 1);
  out->rows = 0;
  for (int64_t t = 0; first + t * d->stride[0] < d->kernel[0]; ++t) {
    if (row - t < 0 || row - t >= d->map[0]) continue;
    out->from[out->rows] = row_before(s, s->next - row + t);
    out->weight[out->rows++] = weights + (first + t * d->stride[0]) * out->columns * LANES;
  }
}

/* Row `y` of the map is made of rows of the image. */
CR_INLINE void find_image(source *s, int64_t y, float *weights, taps *out) {
  const depth *d = s->d;
  const int64_t first = y * d->stride[0] - d->pad[0];
  ask_for(s, first, first + d->kernel[0]);
  out->rows = 0;
  for (int64_t t = 0; t < d->kernel[0]; ++t) {
    if (first + t < 0 || first + t >= d->image[0]) continue;
    out->from[out->rows] = row_before(s, s->next - first - t);
    out->weight[out->rows++] = weights + t * out->columns * LANES;
  }
}

/* What a thread works with. */
typedef struct space {
  float *rows, *weights, *line;
} space;

/* What is done with a row is part of the next three functions, not called: rows are short, and
 * calls took an eighth of the time. */

CR_CLONES static void enlarge_plane(const depth *d, const space *w, const float *map,
                                    const float *weights, float *image) {
  taps of = {.columns = d->taps[1], .offset = d->offset};
  source s = {d, map, w->rows, 0, 0};
  repeat_weights(d, weights, w->weights);
  for (int64_t y = 0; y < d->image[0]; ++y) {
    find_map(&s, y, w->weights, &of);
    put_row(&of, 0, d->image[1], image + y * d->image[1]);
  }
}

CR_CLONES static void reduce_plane(const depth *d, const space *w, const float *image,
                                   const float *weights, float bias, float *map) {
  taps of = {.columns = d->kernel[1], .offset = d->offset};
  source s = {d, image, w->rows, 0, 0};
  spread_weights(d, weights, w->weights);
  for (int64_t y = 0; y < d->map[0]; ++y) {
    find_image(&s, y, w->weights, &of);
    put_row(&of, bias, d->map[1], map + y * d->map[1]);
  }
}

static float sum_of_lanes(const float *lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* sums (K, K and one more): the gradients of the weights, and of the bias. */
CR_CLONES static void gather_plane(const depth *d, const space *w, const float *image,
                                   const float *diff, float *sums) {
  const int64_t window = d->kernel[0] * d->kernel[1];
  const size_t bytes = (size_t)d->map[1] * sizeof *diff;
  const bool cut = d->map[1] % LANES != 0; /* a vector; zeros fill it up behind a copy */
  taps of = {.columns = d->kernel[1], .offset = d->offset};
  source s = {d, image, w->rows, 0, 0};
  memset(w->weights, 0, (size_t)((window + 1) * LANES) * sizeof *w->weights);
  for (int64_t y = 0; y < d->map[0]; ++y) {
    find_image(&s, y, w->weights, &of);
    const float *line = diff + y * d->map[1];
    if (cut) line = memcpy(w->line, line, bytes);
    gather_row(&of, d->map[1], line);
    if (d->bias) add_values(d->map[1], line, w->weights + window * LANES);
  }
  for (int64_t k = 0; k <= window; ++k) sums[k] = sum_of_lanes(w->weights + k * LANES);
}

/* ---- plans --------------------------------------------------------------- */

static crema_status check_windows(const cr_conv_params *p, const crema_shape *image,
                                  const crema_shape *map) {
  const cr_window *w = &p->window;
  if (p->group != image->dim[1] || p->group != map->dim[1]) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not a window for each channel");
  }
  if (w->kernel[0] > KERNEL_MOST || w->kernel[1] > KERNEL_MOST || LANES % w->stride[1] != 0) {
    return cr_fail(CREMA_E_UNSUPPORTED, "other strides, or a large window");
  }
  return CREMA_OK;
}

static void fill_depth(const cr_plan *plan, const crema_shape *image, const crema_shape *map,
                       depth *d) {
  const cr_window *w = &plan->desc->u.conv.window;
  d->enlarges = plan->desc->kind == CR_OP_CONV_BWD_DATA;
  d->channels = image->dim[1];
  d->planes = image->dim[0] * d->channels;
  for (int a = 0; a < 2; ++a) {
    d->image[a] = image->dim[a + 2];
    d->map[a] = map->dim[a + 2];
    d->kernel[a] = w->kernel[a];
    d->stride[a] = w->stride[a];
    d->pad[a] = w->pad[a];
    d->from[a] = d->enlarges ? d->map[a] : d->image[a];
    d->taps[a] = cr_pieces(d->kernel[a], d->stride[a]);
  }
}

/* Value i of the map lies in columns lead + i * stride and behind, so that column x of the image
 * sees its last tap from the row's begin on, if there is no padding. */
static void lay_out_map(depth *d) {
  const int64_t stride = d->stride[1], pad = d->pad[1];
  d->kept = d->taps[0];
  d->met = d->map[1];
  d->lead = (d->taps[1] - 1) * stride;
  d->row = d->lead + cr_most(pad + cr_whole(d->image[1], LANES), d->map[1] * stride);
  for (int64_t k = 0; k < d->taps[1]; ++k) d->offset[k] = d->lead + pad - k * stride;
}

/* Value i * stride + p of the image is number lead + i of part p. */
static void lay_out_image(depth *d) {
  const int64_t stride = d->stride[1], pad = d->pad[1];
  d->kept = d->kernel[0];
  d->met = cr_most(0, cr_least(d->image[1], (d->map[1] - 1) * stride + d->kernel[1] - pad));
  d->lead = cr_whole(cr_pieces(pad, stride), LINE);
  const int64_t read = d->taps[1] + cr_whole(d->map[1], LANES);
  d->part = cr_whole(d->lead + cr_most(read, cr_pieces(d->met, stride)), LINE);
  d->row = stride * d->part;
  for (int64_t k = 0; k < d->kernel[1]; ++k) {
    const int64_t at = k - pad + d->lead * stride; /* >= 0 */
    d->offset[k] = at % stride * d->part + at / stride;
  }
}

/* The workspace: for each thread rows of the source, weights and a line of the gradient. */
static void reserve(cr_plan *plan, depth *d) {
  if (d->enlarges) lay_out_map(d);
  else lay_out_image(d);
  d->row = cr_whole(d->row, LINE) + GAP;
  d->weights = d->kept * d->row;
  const int64_t window = d->kernel[0] * d->taps[1] * d->stride[1]; /* at least */
  d->line = d->weights + (window + 1) * LANES;
  d->slot = cr_whole(d->line + cr_whole(d->map[1], LANES), GAP);
  d->slots = plan->threads > 0 ? plan->threads : cr_cpu_threads_of(plan->context);
  d->sums = d->slots * d->slot;
  int64_t floats = d->sums;
  if (plan->desc->kind == CR_OP_CONV_BWD_WEIGHTS) {
    floats += d->planes * (d->kernel[0] * d->kernel[1] + 1);
  }
  plan->workspace_bytes = (size_t)floats * sizeof(float);
}

/* By measurement. oneDNN has fast code for channels-last and for blocks of channels, and brings
 * plain planes there and back; and for the gradient of windows of 3 x 3. Where strides are long
 * kernels/conv_strided_fast.c divides images faster. */
static bool is_faster(const cr_plan *plan, const depth *d) {
  const bool plain = plan->hint[0].layout == NULL, apart = d->stride[1] > 1 && d->taps[1] <= 2;
  const bool close = d->stride[1] == 1 && d->taps[1] <= 3;
  const int64_t columns = d->map[1];
  switch (plan->desc->kind) {
    case CR_OP_CONV_FWD:
      if (!plain || d->stride[1] == LANES) return false;
      return (apart && columns >= WIDE_FWD) || (close && columns >= WIDE_CLOSE);
    case CR_OP_CONV_BWD_DATA:
      return plain && ((apart && columns >= WIDE) || (close && columns >= VERY_WIDE));
    default:
      if (d->stride[1] == LANES) return false;
      if (d->kernel[0] != 3 || d->kernel[1] != 3) return true;
      if (!plain || plan->hint[1].layout != NULL) return false;
      return (apart && columns >= WIDE) || (close && columns >= WIDE_CLOSE);
  }
}

/* image, weights and map: the numbers of the arguments with these shapes. */
static crema_status plan_depth(cr_plan *plan, int image, int weights, int map) {
  const cr_op_arg *arg = plan->desc->arg;
  depth d = {0};
  cr_slide slide;
  CR_TRY(cr_slide_conv(plan->desc, image, weights, map, &slide));
  CR_TRY(check_windows(&plan->desc->u.conv, &arg[image].shape, &arg[map].shape));
  fill_depth(plan, &arg[image].shape, &arg[map].shape, &d);
  d.bias = plan->desc->kind == CR_OP_CONV_BWD_WEIGHTS && arg[3].shape.axes >= 0;
  if (!is_faster(plan, &d)) return cr_fail(CREMA_E_UNSUPPORTED, "planes that oneDNN is fast for");
  reserve(plan, &d);
  depth *kept = malloc(sizeof *kept);
  if (kept == NULL) return cr_fail_memory(sizeof *kept, "the plan of a convolution");
  *kept = d;
  plan->state = kept;
  return CREMA_OK;
}

static crema_status plan_fwd(cr_plan *plan) {
  if (cr_posts_count(cr_op_posts(plan->desc)) > 0) {
    return cr_fail(CREMA_E_UNSUPPORTED, "post operations");
  }
  return plan_depth(plan, 0, 1, 3);
}

static crema_status plan_bwd_data(cr_plan *plan) {
  return plan_depth(plan, 2, 1, 0);
}

static crema_status plan_bwd_weights(cr_plan *plan) {
  return plan_depth(plan, 0, 2, 1);
}

static void destroy(cr_plan *plan) {
  free(plan->state);
}

/* ---- runs ---------------------------------------------------------------- */

typedef void plane_work(const cr_call *call, const space *w, int64_t plane);

/* Each thread gets planes that follow one another. What lies beside a plane is 0 in all its rows.
 */
static void spread(const cr_call *call, plane_work *run) {
  const depth *d = call->plan->state;
#pragma omp parallel for schedule(static)
  for (int64_t slot = 0; slot < d->slots; ++slot) {
    float *at = cr_f32(&call->workspace, 0) + slot * d->slot;
    const space w = {at, at + d->weights, at + d->line};
    memset(at, 0, (size_t)d->slot * sizeof *at);
    for (int64_t i = d->planes * slot / d->slots; i < d->planes * (slot + 1) / d->slots; ++i) {
      run(call, &w, i);
    }
  }
}

static int64_t image_at(const depth *d, int64_t plane) {
  return plane * d->image[0] * d->image[1];
}

static int64_t map_at(const depth *d, int64_t plane) {
  return plane * d->map[0] * d->map[1];
}

static const float *weights_of(const depth *d, const float *weights, int64_t plane) {
  return weights + plane % d->channels * d->kernel[0] * d->kernel[1];
}

static void reduce(const cr_call *call, const space *w, int64_t plane) {
  const depth *d = call->plan->state;
  const float *bias = cr_f32(call->buffer, 2);
  reduce_plane(d, w, cr_f32(call->buffer, 0) + image_at(d, plane),
               weights_of(d, cr_f32(call->buffer, 1), plane),
               bias == NULL ? 0 : bias[plane % d->channels],
               cr_f32(call->buffer, 3) + map_at(d, plane));
}

static void enlarge(const cr_call *call, const space *w, int64_t plane) {
  const depth *d = call->plan->state;
  enlarge_plane(d, w, cr_f32(call->buffer, 0) + map_at(d, plane),
                weights_of(d, cr_f32(call->buffer, 1), plane),
                cr_f32(call->buffer, 2) + image_at(d, plane));
}

static float *sums_of(const cr_call *call, int64_t plane) {
  const depth *d = call->plan->state;
  return cr_f32(&call->workspace, 0) + d->sums + plane * (d->kernel[0] * d->kernel[1] + 1);
}

static void gather(const cr_call *call, const space *w, int64_t plane) {
  const depth *d = call->plan->state;
  gather_plane(d, w, cr_f32(call->buffer, 0) + image_at(d, plane),
               cr_f32(call->buffer, 1) + map_at(d, plane), sums_of(call, plane));
}

/* to = or += the sum over all samples of number `k` of a channel's sums. */
static void give_sum(const cr_call *call, int64_t channel, int64_t k, bool add, float *to) {
  const depth *d = call->plan->state;
  double sum = add ? (double)*to : 0;
  for (int64_t i = channel; i < d->planes; i += d->channels) sum += (double)sums_of(call, i)[k];
  *to = (float)sum;
}

/* src, weights, bias, dst. */
static crema_status run_fwd(const cr_call *call) {
  spread(call, reduce);
  return CREMA_OK;
}

/* diff_dst, weights, diff_src. */
static crema_status run_bwd_data(const cr_call *call) {
  spread(call, enlarge);
  return CREMA_OK;
}

/* src, diff_dst, diff_weights, diff_bias. */
static crema_status run_bwd_weights(const cr_call *call) {
  const depth *d = call->plan->state;
  const int64_t window = d->kernel[0] * d->kernel[1];
  float *weights = cr_f32(call->buffer, 2), *bias = cr_f32(call->buffer, 3);
  spread(call, gather);
#pragma omp parallel for schedule(static)
  for (int64_t c = 0; c < d->channels; ++c) {
    for (int64_t k = 0; k < window; ++k) {
      give_sum(call, c, k, call->accumulate[2], weights + c * window + k);
    }
    if (bias != NULL) give_sum(call, c, window, call->accumulate[3], bias + c);
  }
  return CREMA_OK;
}

CR_KERNEL(conv_fwd_depth, CONV_FWD, .follows_hints = true, .plan = plan_fwd, .run = run_fwd,
          .destroy = destroy);

CR_KERNEL(conv_bwd_data_depth, CONV_BWD_DATA, .follows_hints = true, .plan = plan_bwd_data,
          .run = run_bwd_data, .destroy = destroy);

CR_KERNEL(conv_bwd_weights_depth, CONV_BWD_WEIGHTS, .follows_hints = true, .can_accumulate = true,
          .plan = plan_bwd_weights, .run = run_bwd_weights, .destroy = destroy);
