/* Local response normalisation (Krizhevsky et al., 2012).
 *
 * s_i = k + alpha / n * (sum of x_j^2 over the window of i), y_i = x_i s_i^-beta; n is the window's
 * element count: size across channels, size^2 within one. The gradient is dx_i = dy_i s_i^-beta - 2
 * alpha beta / n * x_i * (sum of dy_j y_j / s_j over the windows j that see i). aux is not used: s
 * is cheaper to recompute than to keep.
 *
 * Across channels it is a pass over lines, each of which is read once: strips of one channel after
 * the other. So that lines are not short, they have the same strips of several images: a line
 * consists of segments. What later lines need is kept in rings, so that dst may be src, and
 * diff_src diff_dst or src. Within a channel (kernels/lrn_within.c) lines are rows, and neighbours
 * are summed up first. */

#include <stdlib.h>

#include "core/fail.h"
#include "core/prefetch.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/extent.h"
#include "device/cpu/kernels/lrn.h"

enum {
  LONG = 512, /* elements of a line, more or less */
  SHORT = 64, /* and where there are few lines for the threads */
  AHEAD = 2,  /* lines that are asked for before they are read or written */
  LINES = 4   /* that an item needs beside its rings */
};

/* What is worked on by itself, an item, is a strip of all channels of some images. */
typedef struct state {
  cr_lrn_formula formula;
  int64_t images, image_step, together; /* `together` of them make an item */
  int64_t width, strips, strip;         /* of a channel's plane */
  int64_t lines, line_step;             /* channels */
  cr_lrn_reach line;                    /* cut to what there is */
  int64_t segment;                      /* from one segment of a line to the next */
  int64_t kept, pitch;                  /* lines in a ring, and how far apart they are */
  int64_t items;
  int rings, parts; /* of the items, each with its own rings */
  size_t part_values;
} state;

/* ---- planning ------------------------------------------------------------ */

/* Into items that have about LONG elements of each line, and fewer where there would be few items.
 */
static void cut(state *s) {
  s->strips = (s->width + LONG - 1) / LONG;
  while (s->strips > 1 && s->images * s->strips < CR_REF_PARTS &&
         s->width / s->strips >= 2 * SHORT) {
    s->strips *= 2;
  }
  s->strip = (s->width + s->strips - 1) / s->strips;
  if (s->strips > 1) s->strip = cr_least(cr_whole(s->strip, CR_LRN_VECTOR), s->width);
  s->strips = (s->width + s->strip - 1) / s->strip;
  s->segment = s->strip >= CR_LRN_VECTOR ? cr_whole(s->strip, CR_LRN_VECTOR) : s->strip;
  s->together = s->strips > 1 || s->segment > LONG ? 1 : LONG / s->segment;
  while (s->together > 1 && s->images < CR_REF_PARTS * s->together &&
         s->together * s->segment >= 2 * SHORT) {
    s->together /= 2;
  }
  s->together = cr_least(s->together, s->images);
  s->items = (s->images + s->together - 1) / s->together * s->strips;
}

static void fill_state(const cr_op_desc *desc, state *s) {
  const int64_t *dim = desc->arg[0].shape.dim;
  s->images = dim[0], s->lines = dim[1];
  s->width = s->line_step = dim[2] * dim[3];
  s->image_step = s->lines * s->line_step;
  s->line = cr_lrn_reach_of(desc->u.lrn.size, s->lines);
  cut(s);
  /* One line more than a sum has: it is read when the next one is written. */
  s->kept = cr_least(s->line.before + 2 + s->line.after, s->lines);
  s->formula = cr_lrn_formula_of(&desc->u.lrn, s->kept);
  s->pitch = cr_whole(s->together * s->segment, CR_LRN_VECTOR);
  s->parts = (int)cr_least(CR_REF_PARTS, s->items);
  s->part_values = (size_t)((s->rings * s->kept + LINES) * s->pitch);
}

/* Of single elements there is nothing to sum along a row. */
static bool is_within(const cr_op_desc *desc) {
  return desc->u.lrn.within_channel && desc->u.lrn.size > 1;
}

static crema_status make_plan(cr_plan *plan, int rings) {
  state s = {.rings = rings};
  CR_TRY(cr_check_lrn(plan));
  if (cr_op_arg_count(plan->desc, 0) == 0) return CREMA_OK;
  if (is_within(plan->desc)) return cr_lrn_within_plan(plan, rings > 1);
  fill_state(plan->desc, &s);
  plan->workspace_bytes = (size_t)s.parts * s.part_values * sizeof(cr_real);
  plan->state = malloc(sizeof s);
  if (plan->state == NULL) return cr_fail_memory(sizeof s, "a plan");
  memcpy(plan->state, &s, sizeof s);
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

/* ---- items --------------------------------------------------------------- */

/* An item's extents and memory. */
typedef struct work {
  int64_t segments, width;             /* in all, of a segment */
  int64_t vectors;                     /* of a line in the rings */
  cr_real *square, *ratio, *first;     /* rings */
  cr_real *sum, *base, *power, *spare; /* lines */
} work;

static work work_of(const state *s, int64_t item, cr_real *memory) {
  const int64_t ring = s->kept * s->pitch, image = item / s->strips * s->together;
  work w = {.segments = cr_least(s->together, s->images - image),
            .width = cr_least(s->strip, s->width - item % s->strips * s->strip)};
  w.vectors = ((w.segments - 1) * s->segment + w.width + CR_LRN_VECTOR - 1) / CR_LRN_VECTOR;
  cr_real **const to[] = {&w.square, &w.ratio, &w.first};
  for (int i = 0; i < s->rings; ++i, memory += ring) *to[i] = memory;
  cr_real **const line[LINES] = {&w.sum, &w.base, &w.power, &w.spare};
  for (int i = 0; i < LINES; ++i, memory += s->pitch) *line[i] = memory;
  return w;
}

/* From a line to the one to ask for. */
CR_INLINE int64_t ahead(const state *s, int64_t line) {
  return line + AHEAD < s->lines ? AHEAD * s->line_step : 0;
}

/* The lines from ... to - 1 of a ring. */
CR_INLINE int lines_of(const state *s, const cr_real *ring, int64_t from, int64_t to, const work *w,
                       const cr_real **line) {
  return cr_lrn_terms(ring, s->pitch, from % s->kept, to - from, s->kept, w->vectors, w->sum, line);
}

/* ---- squares ---- */

CR_INLINE cr_real *squares_of(const state *s, const work *w, int64_t line) {
  return w->square + line % s->kept * s->pitch;
}

CR_INLINE uint32_t put_squares(const state *s, const work *w, int64_t line, const cr_value *x) {
  cr_real *to = squares_of(s, w, line);
  uint32_t most = 0;
  for (int64_t k = 0; k < w->segments; ++k, x += s->image_step, to += s->segment) {
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < w->width; ++i) cr_lrn_put_square(cr_get(x, i), to + i, &most);
  }
  return most;
}

/* ---- results ---- */

/* What a line of results, or of ratios backward, is made of, and the squares of a later line, which
 * are made meanwhile: one loop over much keeps the processor busy, while several short ones wait
 * for each other's last elements. */
typedef struct step {
  const cr_real *line[CR_LRN_TOGETHER]; /* whose sums make s, */
  const cr_real *base, *power;          /* or s and its power */
  const cr_value *x, *dy, *next;        /* next: whose squares are made */
  cr_value *y;
  cr_real *first, *ratio, *square;
  int64_t next_x, next_y; /* from x and from y, or dy, to what is asked for */
} step;

/* `count` elements from x[to] and line[at] on; without `lines`, s and its power are there. */
CR_INLINE void make_block(int lines, bool back, const state *s, const step *p, int64_t at,
                          int64_t to, int64_t count, uint32_t *most) {
  const cr_real factor = s->formula.factor, shift = s->formula.k;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real base =
        lines > 0 ? shift + factor * cr_lrn_sum_at(lines, p->line, at + i) : p->base[at + i];
    const cr_real power = lines > 0 ? cr_lrn_power_by_root(base) : p->power[at + i];
    const cr_real x = cr_get(p->x, to + i);
    cr_lrn_put_square(cr_get(p->next, to + i), p->square + at + i, most + i);
    if (back) {
      const cr_real slope = cr_get(p->dy, to + i);
      p->first[at + i] = slope * power;
      p->ratio[at + i] = slope * (power / base) * x;
    } else {
      cr_put(p->y, to + i, x * power);
    }
  }
}

/* Memory is asked for a few pieces at a time, as the processor can only wait for so many. A rest is
 * made with elements before it, a second time, to fill a vector; without `lines`, y may be x, and
 * it is made alone. Returns the largest of the squares. */
CR_INLINE uint32_t make_line(int lines, bool back, const state *s, const work *w, const step *p) {
  uint32_t most[CR_LRN_VECTOR] = {0}, largest = 0;
  for (int64_t k = 0; k < w->segments; ++k) {
    int64_t i = 0, at = k * s->segment, to = k * s->image_step;
    for (; i + CR_LRN_VECTOR <= w->width; i += CR_LRN_VECTOR) {
      __builtin_prefetch(p->x + p->next_x + to + i, 0, CR_SECOND_CACHE);
      if (back) __builtin_prefetch(p->dy + p->next_y + to + i, 0, CR_SECOND_CACHE);
      else __builtin_prefetch(p->y + p->next_y + to + i, 1, CR_SECOND_CACHE);
      make_block(lines, back, s, p, at + i, to + i, CR_LRN_VECTOR, most);
    }
    if (i == w->width) continue;
    if (lines == 0) {
      make_block(0, back, s, p, at + i, to + i, w->width - i, most);
    } else {
      i = w->width - CR_LRN_VECTOR;
      make_block(lines, back, s, p, at + i, to + i, CR_LRN_VECTOR, most);
    }
  }
#pragma omp simd reduction(max : largest)
  for (int i = 0; i < CR_LRN_VECTOR; ++i) largest = most[i] > largest ? most[i] : largest;
  return largest;
}

/* s and its power as lines. */
CR_INLINE void put_powers(const state *s, const work *w, bool by_root, int lines,
                          const cr_real *const *line) {
  switch (lines) {
    case 1: cr_lrn_put_bases(&s->formula, 1, w->vectors, line, w->base); break;
    case 2: cr_lrn_put_bases(&s->formula, 2, w->vectors, line, w->base); break;
    case 3: cr_lrn_put_bases(&s->formula, 3, w->vectors, line, w->base); break;
    case 4: cr_lrn_put_bases(&s->formula, 4, w->vectors, line, w->base); break;
    default: cr_lrn_put_bases(&s->formula, CR_LRN_TOGETHER, w->vectors, line, w->base); break;
  }
  if (by_root) cr_lrn_raise_by_root(w->vectors, w->base, w->power);
  else cr_lrn_raise(s->formula.beta, w->vectors, w->base, w->power);
}

/* One line, and the squares of the line that the next one needs. `most` is the largest square of
 * those before. */
CR_INLINE uint32_t make(bool back, const state *s, const work *w, int64_t line, uint32_t most,
                        step *p) {
  const int64_t from = line < s->line.before ? 0 : line - s->line.before;
  const int64_t end = line + s->line.after + 1, to = cr_least(end, s->lines);
  const int lines = lines_of(s, w->square, from, to, w, p->line);
  const bool by_root = s->formula.by_root && most <= s->formula.square_max;
  uint32_t largest = 0;
  p->base = w->base, p->power = w->power;
  p->next = end < s->lines ? p->x + (s->line.after + 1) * s->line_step : p->x;
  p->square = end < s->lines ? squares_of(s, w, end) : w->spare;
  p->next_x = ahead(s, line + s->line.after) + s->line.after * s->line_step;
  p->next_y = ahead(s, line);
  const bool rest = w->width % CR_LRN_VECTOR != 0;
  const bool at_once = by_root && w->width >= CR_LRN_VECTOR && (back || !rest || p->x != p->y);
  if (!at_once) put_powers(s, w, by_root, lines, p->line);
  switch (at_once ? lines : 0) {
    case 0: largest = make_line(0, back, s, w, p); break;
    case 1: largest = make_line(1, back, s, w, p); break;
    case 2: largest = make_line(2, back, s, w, p); break;
    case 3: largest = make_line(3, back, s, w, p); break;
    case 4: largest = make_line(4, back, s, w, p); break;
    default: largest = make_line(CR_LRN_TOGETHER, back, s, w, p); break;
  }
  return largest > most ? largest : most;
}

/* The squares that the first line needs; the largest of them. */
CR_INLINE uint32_t begin(const state *s, const work *w, const cr_value *x) {
  uint32_t most = 0;
  for (int64_t line = 0; line <= s->line.after; ++line) {
    const uint32_t here = put_squares(s, w, line, x + line * s->line_step);
    most = here > most ? here : most;
  }
  return most;
}

/* x and y begin where the item does. */
CR_CLONES static void forward_item(const state *s, const work *w, const cr_value *x, cr_value *y) {
  uint32_t most = begin(s, w, x);
  for (int64_t line = 0; line < s->lines; ++line) {
    step p = {.x = x + line * s->line_step, .y = y + line * s->line_step};
    most = make(false, s, w, line, most, &p);
  }
}

/* ---- gradients ---- */

CR_INLINE void subtract(int lines, int64_t count, cr_real slope, const cr_real *first,
                        const cr_real *const *line, int64_t at, const cr_value *x, cr_value *dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    cr_put(dx, i, first[at + i] - slope * cr_get(x, i) * cr_lrn_sum_at(lines, line, at + i));
  }
}

/* The gradient of a line from the lines of ratios; dx may be x. */
CR_INLINE void put_gradient(const state *s, const work *w, int lines, const cr_real *const *line,
                            const cr_real *first, const cr_value *x, int64_t next, cr_value *dx) {
  const cr_real slope = 2 * s->formula.factor * s->formula.beta;
  for (int64_t k = 0; k < w->segments; ++k) {
    int64_t i = 0, at = k * s->segment, to = k * s->image_step;
    for (; i + CR_LRN_VECTOR <= w->width; i += CR_LRN_VECTOR) {
      __builtin_prefetch(dx + next + to + i, 1, CR_SECOND_CACHE);
      subtract(lines, CR_LRN_VECTOR, slope, first, line, at + i, x + to + i, dx + to + i);
    }
    if (i == w->width) continue;
    const bool alone = w->width < CR_LRN_VECTOR || x == dx;
    if (alone) {
      subtract(lines, w->width - i, slope, first, line, at + i, x + to + i, dx + to + i);
    } else {
      i = w->width - CR_LRN_VECTOR;
      subtract(lines, CR_LRN_VECTOR, slope, first, line, at + i, x + to + i, dx + to + i);
    }
  }
}

/* Of a line, which the windows of `after` lines before it and `before` lines behind it see. */
CR_INLINE void put_gradients(const state *s, const work *w, int64_t line, const cr_value *x,
                             cr_value *dx) {
  const cr_real *first = w->first + line % s->kept * s->pitch;
  const int64_t from = line < s->line.after ? 0 : line - s->line.after;
  const int64_t to = cr_least(line + s->line.before + 1, s->lines);
  const int64_t next = ahead(s, line);
  const cr_real *line_of[CR_LRN_TOGETHER];
  switch (lines_of(s, w->ratio, from, to, w, line_of)) {
    case 1: put_gradient(s, w, 1, line_of, first, x, next, dx); break;
    case 2: put_gradient(s, w, 2, line_of, first, x, next, dx); break;
    case 3: put_gradient(s, w, 3, line_of, first, x, next, dx); break;
    case 4: put_gradient(s, w, 4, line_of, first, x, next, dx); break;
    default: put_gradient(s, w, CR_LRN_TOGETHER, line_of, first, x, next, dx); break;
  }
}

/* x, dy and dx begin where the item does. */
CR_CLONES static void backward_item(const state *s, const work *w, const cr_value *x,
                                    const cr_value *dy, cr_value *dx) {
  const int64_t before = s->line.before, step_of = s->line_step;
  uint32_t most = begin(s, w, x);
  for (int64_t line = 0; line < s->lines + before; ++line) {
    if (line < s->lines) {
      const int64_t slot = line % s->kept * s->pitch;
      step p = {.x = x + line * step_of, .dy = dy + line * step_of, .first = w->first + slot};
      p.ratio = w->ratio + slot;
      most = make(true, s, w, line, most, &p);
    }
    if (line < before) continue;
    put_gradients(s, w, line - before, x + (line - before) * step_of,
                  dx + (line - before) * step_of);
  }
}

/* ---- passes -------------------------------------------------------------- */

/* `dy` is NULL forward. */
static crema_status run(const cr_call *call, const cr_value *x, const cr_value *dy, cr_value *to) {
  const state *s = call->plan->state;
  if (s == NULL) return CREMA_OK;
  if (is_within(call->desc)) {
    cr_lrn_within(call, x, dy, to);
    return CREMA_OK;
  }
#pragma omp parallel for schedule(static) if (s->images * s->image_step >= CR_REF_PARALLEL_MIN)
  for (int part = 0; part < s->parts; ++part) {
    cr_real *memory = cr_as_reals(&call->workspace, 0) + (size_t)part * s->part_values;
    /* What lies between and behind segments stays 0: windows see it, and whole vectors hold it. */
    memset(memory, 0, s->part_values * sizeof *memory);
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
