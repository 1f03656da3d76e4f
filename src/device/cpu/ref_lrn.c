/* Local response normalisation (Krizhevsky et al., 2012).
 *
 * s_i = k + alpha / n * (sum of x_j^2 over the window of i), y_i = x_i s_i^-beta; n is the window's
 * element count: size across channels, size^2 within one. The gradient is dx_i = dy_i s_i^-beta - 2
 * alpha beta / n * x_i * (sum of dy_j y_j / s_j over the windows j that see i). aux is not used: s
 * is cheaper to recompute than to keep.
 *
 * Either kind is a pass over lines, each of which is read once: across channels strips of one
 * channel after the other, within a channel its rows, where neighbours are summed up first. So that
 * lines are not short, they have the same strips of several images, or the same rows of several
 * channels: a line consists of segments. What later lines need is kept in rings, so that dst may be
 * src and diff_src diff_dst. */

#include <stdlib.h>

#include "core/clones.h"
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/lrn_power.h"
#include "device/cpu/ref_math.h"
#include "device/cpu/ref_type.h"

enum {
  LONG = 256,   /* elements of a line, more or less */
  SHORT = 64,   /* and where there are few lines for the threads */
  VECTOR = 16,  /* lines in a ring are a multiple of this apart */
  FETCH = 64,   /* bytes that memory gives at once */
  TOGETHER = 5, /* lines that are added at a time */
  LINES = 5     /* that an item needs beside its rings */
};

/* How far a window reaches from its element. */
typedef struct reach {
  int64_t before, after;
} reach;

/* What is worked on by itself, an item, is a strip of all channels of some images, or some planes.
 * An "image" is either. */
typedef struct lrn_state {
  int64_t images, image_step, together; /* `together` of them make an item */
  int64_t width, strips, strip;         /* of a channel's plane, or of a row, which is one strip */
  int64_t lines, line_step;             /* channels, or rows */
  reach line, column;                   /* cut to what there is; `column` is 0 across channels */
  int64_t segment;                      /* from one segment of a line to the next */
  int64_t kept, pitch;                  /* lines in a ring, and how far apart they are */
  int64_t items;
  int rings, parts; /* of the items, each with its own rings */
  size_t part_values;
  cr_real factor, k, beta;
} lrn_state;

/* ---- planning ------------------------------------------------------------ */

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static reach reach_of(int64_t size, int64_t count) {
  const int64_t before = (size - 1) / 2;
  return (reach){least(before, count - 1), least(size - 1 - before, count - 1)};
}

/* Into items that have about LONG elements of each line, and fewer where there would be few items.
 */
static void cut(lrn_state *s) {
  s->strips = s->column.before + s->column.after > 0 ? 1 : (s->width + LONG - 1) / LONG;
  while (s->strips > 1 && s->images * s->strips < CR_REF_PARTS &&
         s->width / s->strips >= 2 * SHORT) {
    s->strips *= 2;
  }
  s->strip = (s->width + s->strips - 1) / s->strips;
  if (s->strips > 1) s->strip = least((s->strip + VECTOR - 1) / VECTOR * VECTOR, s->width);
  s->strips = (s->width + s->strip - 1) / s->strip;
  /* Between two segments there are zeros for the windows of both. */
  s->segment = s->strip + (s->column.before > s->column.after ? s->column.before : s->column.after);
  s->together = s->strips > 1 || s->segment > LONG ? 1 : LONG / s->segment;
  while (s->together > 1 && s->images < CR_REF_PARTS * s->together &&
         s->together * s->segment >= 2 * SHORT) {
    s->together /= 2;
  }
  s->together = least(s->together, s->images);
  s->items = (s->images + s->together - 1) / s->together * s->strips;
}

static void fill_state(const cr_op_desc *desc, lrn_state *s) {
  const int64_t *dim = desc->arg[0].shape.dim;
  const cr_lrn_params *p = &desc->u.lrn;
  const cr_real size = (cr_real)p->size;
  s->factor = p->alpha / (p->within_channel ? size * size : size);
  s->k = p->k;
  s->beta = p->beta;
  s->images = p->within_channel ? dim[0] * dim[1] : dim[0];
  s->lines = p->within_channel ? dim[2] : dim[1];
  s->width = s->line_step = p->within_channel ? dim[3] : dim[2] * dim[3];
  s->image_step = s->lines * s->line_step;
  s->line = reach_of(p->size, s->lines);
  if (p->within_channel) s->column = reach_of(p->size, s->width);
  cut(s);
  s->kept = least(s->line.before + 1 + s->line.after, s->lines);
  s->pitch = s->together * s->segment + s->column.before + s->column.after;
  s->pitch = (s->pitch + VECTOR - 1) / VECTOR * VECTOR;
  s->parts = (int)least(CR_REF_PARTS, s->items);
  s->part_values = (size_t)((s->rings * s->kept + LINES) * s->pitch);
}

static crema_status make_plan(cr_plan *plan, int rings) {
  lrn_state state = {.rings = rings};
  CR_TRY(cr_check_lrn(plan));
  if (cr_op_arg_count(plan->desc, 0) == 0) return CREMA_OK;
  fill_state(plan->desc, &state);
  plan->workspace_bytes = (size_t)state.parts * state.part_values * sizeof(cr_real);
  plan->state = malloc(sizeof state);
  if (plan->state == NULL) return cr_fail_memory(sizeof state, "a plan");
  memcpy(plan->state, &state, sizeof state);
  return CREMA_OK;
}

static crema_status lrn_fwd_plan(cr_plan *plan) {
  return make_plan(plan, 1);
}
static crema_status lrn_bwd_plan(cr_plan *plan) {
  return make_plan(plan, 3);
}

static void destroy(cr_plan *plan) {
  free(plan->state);
  plan->state = NULL;
}

/* ---- sums over windows --------------------------------------------------- */

CR_INLINE void add_up(int lines, int64_t length, const cr_real *const *line, cr_real *sum) {
#pragma omp simd
  for (int64_t i = 0; i < length; ++i) {
    cr_real acc = line[0][i];
    for (int j = 1; j < lines; ++j) acc += line[j][i];
    sum[i] = acc;
  }
}

/* Sums of `count` terms, of which number n is values[n * step], from `first` on; behind number
 * `wrap
 * - 1` comes number 0. */
CR_INLINE void sum_terms(const cr_real *values, int64_t step, int64_t first, int64_t count,
                         int64_t wrap, int64_t length, cr_real *sum) {
  for (int64_t done = 0; done < count;) {
    const cr_real *line[TOGETHER];
    int lines = 0;
    if (done > 0) line[lines++] = sum;
    for (; lines < TOGETHER && done < count; ++done) {
      line[lines++] = values + first * step;
      first = first + 1 < wrap ? first + 1 : 0;
    }
    switch (lines) {
      case 1: add_up(1, length, line, sum); break;
      case 2: add_up(2, length, line, sum); break;
      case 3: add_up(3, length, line, sum); break;
      case 4: add_up(4, length, line, sum); break;
      default: add_up(TOGETHER, length, line, sum); break;
    }
  }
}

/* The sum of the lines from ... to - 1 of a ring. */
CR_INLINE void sum_lines(const lrn_state *s, const cr_real *ring, int64_t from, int64_t to,
                         int64_t length, cr_real *sum) {
  sum_terms(ring, s->pitch, from % s->kept, to - from, s->kept, length, sum);
}

/* Of neighbours in a row, which begins with as many zeros as its windows reach backwards. */
CR_INLINE void sum_columns(const lrn_state *s, int64_t length, const cr_real *row, cr_real *sum) {
  const int64_t size = s->column.before + 1 + s->column.after;
  sum_terms(row, 1, 0, size, size, length, sum);
}

/* ---- powers -------------------------------------------------------------- */

/* s of a line from its sums, and s^-beta: by way of the logarithm to 6e-8 times that. */
CR_INLINE void raise(const lrn_state *s, int64_t length, const cr_real *sum, cr_real *base,
                     cr_real *power) {
  const cr_real k = s->k, factor = s->factor, beta = s->beta;
#ifdef CR_REF_F64
  for (int64_t i = 0; i < length; ++i) {
    base[i] = k + factor * sum[i];
    power[i] = beta == 0.75 ? 1 / (sqrt(base[i]) * sqrt(sqrt(base[i]))) : pow(base[i], -beta);
  }
#else
  if (beta == 0.75f) {
#pragma omp simd
    for (int64_t i = 0; i < length; ++i) base[i] = k + factor * sum[i];
    cr_powers_of_minus_3_4(base, length, power);
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < length; ++i) {
    base[i] = k + factor * sum[i];
    power[i] = -beta * cr_ref_log(base[i]);
  }
#pragma omp simd
  for (int64_t i = 0; i < length; ++i) power[i] = cr_ref_exp(power[i]);
#endif
}

/* ---- items --------------------------------------------------------------- */

/* An item's extents and memory. */
typedef struct work {
  int64_t segments, width, length;           /* in all, of a segment, in the rings */
  cr_real *square, *ratio, *first;           /* rings */
  cr_real *sum, *base, *power, *row, *other; /* lines */
} work;

static work work_of(const lrn_state *s, int64_t item, cr_real *memory) {
  const int64_t ring = s->kept * s->pitch, image = item / s->strips * s->together;
  work w = {.segments = least(s->together, s->images - image),
            .width = least(s->strip, s->width - item % s->strips * s->strip)};
  w.length = (w.segments - 1) * s->segment + w.width;
  cr_real **const to[] = {&w.square, &w.ratio, &w.first};
  for (int i = 0; i < s->rings; ++i, memory += ring) *to[i] = memory;
  cr_real **const line[LINES] = {&w.sum, &w.base, &w.power, &w.row, &w.other};
  for (int i = 0; i < LINES; ++i, memory += s->pitch) *line[i] = memory;
  return w;
}

CR_INLINE bool is_within(const lrn_state *s) {
  return s->column.before + s->column.after > 0;
}

CR_INLINE void clear(const lrn_state *s, cr_real *line) {
  memset(line, 0, (size_t)s->pitch * sizeof *line);
}

/* The squares of a line, within a channel summed up along the rows. The next line is fetched, and
 * this line of the result y. */
CR_INLINE void put_squares(const lrn_state *s, const work *w, int64_t line, const cr_value *x,
                           const cr_value *y) {
  cr_real *kept = w->square + line % s->kept * s->pitch;
  cr_real *to = is_within(s) ? w->row + s->column.before : kept;
  const int64_t ahead = line + 1 < s->lines ? s->line_step : 0;
  for (int64_t k = 0; k < w->segments;
       ++k, x += s->image_step, y += s->image_step, to += s->segment) {
    for (int64_t i = 0; i < w->width; i += FETCH / (int64_t)sizeof *x) {
      __builtin_prefetch(x + ahead + i);
      __builtin_prefetch(y + i, 1);
    }
#pragma omp simd
    for (int64_t i = 0; i < w->width; ++i) {
      const cr_real value = cr_get(x, i);
      to[i] = value * value;
    }
  }
  if (is_within(s)) {
    sum_columns(s, w->length, w->row, kept);
  }
}

/* s and s^-beta of a line. */
CR_INLINE void put_powers(const lrn_state *s, const work *w, int64_t line) {
  const int64_t from = line < s->line.before ? 0 : line - s->line.before;
  sum_lines(s, w->square, from, least(line + s->line.after + 1, s->lines), w->length, w->sum);
  raise(s, w->length, w->sum, w->base, w->power);
}

/* x and y begin where the item does. */
CR_CLONES static void forward_item(const lrn_state *s, const work *w, const cr_value *x,
                                   cr_value *y) {
  clear(s, w->row);
  for (int64_t line = 0; line < s->lines + s->line.after; ++line) {
    if (line < s->lines) put_squares(s, w, line, x + line * s->line_step, y + line * s->line_step);
    if (line < s->line.after) continue;
    put_powers(s, w, line - s->line.after);
    int64_t at = (line - s->line.after) * s->line_step;
    const cr_real *power = w->power;
    for (int64_t k = 0; k < w->segments; ++k, at += s->image_step, power += s->segment) {
#pragma omp simd
      for (int64_t i = 0; i < w->width; ++i) cr_put(y + at, i, cr_get(x + at, i) * power[i]);
    }
  }
}

/* Of a line: dy s^-beta, and dy y / s, within a channel summed up along the rows. */
CR_INLINE void put_ratios(const lrn_state *s, const work *w, int64_t line, const cr_value *x,
                          const cr_value *dy) {
  const int64_t slot = line % s->kept * s->pitch;
  cr_real *first = w->first + slot, *kept = w->ratio + slot, *power = w->power;
  cr_real *to = is_within(s) ? w->other + s->column.after : kept, *quotient = w->base;
  put_powers(s, w, line);
#pragma omp simd
  for (int64_t i = 0; i < w->length; ++i) quotient[i] = power[i] / quotient[i];
  for (int64_t k = 0; k < w->segments; ++k, x += s->image_step, dy += s->image_step) {
    const int64_t skip = k * s->segment;
#pragma omp simd
    for (int64_t i = 0; i < w->width; ++i) {
      const cr_real slope = cr_get(dy, i);
      first[skip + i] = slope * power[skip + i];
      to[skip + i] = slope * quotient[skip + i] * cr_get(x, i);
    }
  }
  if (is_within(s)) {
    sum_columns(s, w->length, w->other, kept);
  }
}

/* The gradient of a line, which the windows of `after` lines before it and `before` lines behind it
 * see. */
CR_INLINE void put_gradient(const lrn_state *s, const work *w, int64_t line, const cr_value *x,
                            cr_value *dx) {
  const cr_real slope = 2 * s->factor * s->beta, *first = w->first + line % s->kept * s->pitch;
  const cr_real *sum = w->sum;
  const int64_t from = line < s->line.after ? 0 : line - s->line.after;
  sum_lines(s, w->ratio, from, least(line + s->line.before + 1, s->lines), w->length, w->sum);
  for (int64_t k = 0; k < w->segments; ++k, x += s->image_step, dx += s->image_step) {
#pragma omp simd
    for (int64_t i = 0; i < w->width; ++i) {
      cr_put(dx, i, first[i] - slope * cr_get(x, i) * sum[i]);
    }
    first += s->segment;
    sum += s->segment;
  }
}

/* x, dy and dx begin where the item does. */
CR_CLONES static void backward_item(const lrn_state *s, const work *w, const cr_value *x,
                                    const cr_value *dy, cr_value *dx) {
  const int64_t after = s->line.after, reaching = after + s->line.before;
  clear(s, w->row);
  clear(s, w->other);
  for (int64_t line = 0; line < s->lines + reaching; ++line) {
    if (line < s->lines) put_squares(s, w, line, x + line * s->line_step, dx + line * s->line_step);
    if (line >= after && line < s->lines + after) {
      const int64_t at = (line - after) * s->line_step;
      put_ratios(s, w, line - after, x + at, dy + at);
    }
    if (line < reaching) continue;
    const int64_t at = (line - reaching) * s->line_step;
    put_gradient(s, w, line - reaching, x + at, dx + at);
  }
}

/* ---- passes -------------------------------------------------------------- */

/* `dy` is NULL forward. */
static crema_status run(const cr_call *call, const cr_value *x, const cr_value *dy, cr_value *to) {
  const lrn_state *s = call->plan->state;
  if (s == NULL) return CREMA_OK;
#pragma omp parallel for schedule(static) if (s->images * s->image_step >= CR_REF_PARALLEL_MIN)
  for (int part = 0; part < s->parts; ++part) {
    cr_real *memory = cr_as_reals(&call->workspace, 0) + (size_t)part * s->part_values;
    for (int64_t i = s->items * part / s->parts; i < s->items * (part + 1) / s->parts; ++i) {
      const int64_t begin = i / s->strips * s->together * s->image_step + i % s->strips * s->strip;
      const work w = work_of(s, i, memory);
      if (dy == NULL) forward_item(s, &w, x + begin, to + begin);
      else backward_item(s, &w, x + begin, dy + begin, to + begin);
    }
  }
  return CREMA_OK;
}

/* src, dst, aux. */
static crema_status lrn_fwd(const cr_call *call) {
  return run(call, cr_as_values(call->buffer, 0), NULL, cr_as_values(call->buffer, 1));
}

/* src, dst, diff_dst, aux, diff_src. dst is made anew from src, because a layer in place may have
 * overwritten it. */
static crema_status lrn_bwd(const cr_call *call) {
  return run(call, cr_as_values(call->buffer, 0), cr_as_values(call->buffer, 2),
             cr_as_values(call->buffer, 4));
}

CR_REF_KERNEL(lrn_fwd, LRN_FWD, .plan = lrn_fwd_plan, .run = lrn_fwd, .destroy = destroy);
CR_REF_KERNEL(lrn_bwd, LRN_BWD, .plan = lrn_bwd_plan, .run = lrn_bwd, .destroy = destroy);
