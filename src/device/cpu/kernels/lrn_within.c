/* Local response normalisation within a channel; the formulae are in kernels/lrn.c.
 *
 * A pass over the rows of some planes at once, so that lines are not short: a line has the same row
 * of several planes, with zeros between them for the windows of both. One loop makes a row of s and
 * what depends on it, the sums along the row that it still needs, and the squares of the row after
 * them: sums are loads for the most part and powers products, and the processor does both at once.
 * Squares and ratios are summed a line later than they were stored, as a load that differs from the
 * stores in its address waits for all of them.
 *
 * Rows that are shorter than a vector are copied to a line and back. So are others where the result
 * lies in the source: elsewhere the last elements of a row are made twice, to fill a vector. */

#include <stdlib.h>

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/extent.h"
#include "device/cpu/kernels/lrn.h"

enum {
  VECTOR = CR_LRN_VECTOR,
  HALF = VECTOR / 2,
  QUARTER = VECTOR / 4,
  LONG = 256, /* elements of a line, more or less */
  SHORT = 64, /* and where there are few planes for the threads */
  AHEAD = 3,  /* rows that are asked for before they are read or written */
  FEW = 3,    /* terms of a sum in the loop, */
  MANY = 5,   /* or so many; those of larger windows are added up before it */
  LINES = 12, /* that a part needs beside its rings, */
  COPIES = 2  /* and beside the ring of copied rows */
};

typedef struct state {
  cr_lrn_formula formula;
  int64_t planes, plane, rows, width;
  cr_lrn_reach reach;         /* in either direction, cut to what there is */
  int terms;                  /* FEW or MANY */
  int64_t segment, together;  /* from one row of a line to the next; so many make a line */
  int64_t kept, lead, pitch;  /* lines in a ring; zeros before and behind a line; between lines */
  int64_t items;              /* lines' worth of planes */
  int rings, parts;           /* of the items, each with its own memory */
  size_t line_values, values; /* of a part: without copied rows, and in all */
} state;

/* ---- planning ------------------------------------------------------------ */

static void fill_state(const cr_op_desc *desc, state *s) {
  const int64_t *dim = desc->arg[0].shape.dim;
  s->planes = dim[0] * dim[1], s->rows = dim[2], s->width = dim[3], s->plane = dim[2] * dim[3];
  const int64_t longest = s->rows > s->width ? s->rows : s->width;
  /* Of 2 and more elements, as sums have neighbours. */
  s->reach = cr_lrn_reach_of(desc->u.lrn.size, longest > 2 ? longest : 2);
  const int64_t before = s->reach.before, after = s->reach.after; /* the longer one */
  s->segment = s->width < VECTOR ? s->width + after : cr_whole(s->width + after, VECTOR);
  s->together = s->segment > LONG ? 1 : LONG / s->segment;
  while (s->together > 1 && s->planes < CR_REF_PARTS * s->together &&
         s->together * s->segment >= 2 * SHORT) {
    s->together /= 2;
  }
  s->together = cr_least(s->together, s->planes);
  s->items = (s->planes + s->together - 1) / s->together;
  s->kept = before + 1 + after;
  s->terms = s->kept <= FEW ? FEW : MANY;
  s->lead = cr_whole(after, VECTOR);
  s->pitch = cr_whole(s->together * s->segment, VECTOR) + 2 * s->lead;
  s->line_values = (size_t)((s->rings * s->kept + LINES) * s->pitch);
  s->values = s->line_values + (size_t)((s->kept + 2 + COPIES) * s->pitch);
  s->formula = cr_lrn_formula_of(&desc->u.lrn, (before + 1 + after) * (before + 1 + after));
}

crema_status cr_lrn_within_plan(cr_plan *plan, bool back) {
  state s = {.rings = back ? 3 : 1};
  fill_state(plan->desc, &s);
  /* Items do not depend on each other. Memory that a thread uses again stays in its cache. */
  s.parts = (int)cr_least(plan->threads > 0 ? plan->threads : 1, s.items);
  plan->workspace_bytes = (size_t)s.parts * s.values * sizeof(cr_real);
  plan->state = malloc(sizeof s);
  if (plan->state == NULL) return cr_fail_memory(sizeof s, "a plan");
  memcpy(plan->state, &s, sizeof s);
  return CREMA_OK;
}

/* ---- items --------------------------------------------------------------- */

/* An item's extents and memory. Lines are given by where their first row begins. */
typedef struct work {
  int64_t planes;
  bool copied; /* rows are copied: then a line is worked on as one row of whole vectors */
  int64_t rows_in_line, width, vectors;
  int64_t segment, plane; /* from one row to the next, in a line and in an array */
  int64_t beyond; /* from one of the last rows to the next item's to ask for; 0: there is none */
  cr_real *square[2], *ratio[2]; /* of two rows: those that are made and those that are summed */
  cr_real *squares, *ratios, *first; /* rings: sums along rows, dy s^-beta */
  cr_real *zero, *spare, *base, *power, *part[4];
  cr_value *x, *dy, *out; /* copies: a ring of `kept` + 2 rows, a row, a row */
} work;

static work work_of(const state *s, int64_t item, bool copied, cr_real *memory) {
  const int64_t ring = s->kept * s->pitch;
  work w = {.planes = cr_least(s->together, s->planes - item * s->together), .copied = copied};
  w.vectors = ((w.planes - 1) * s->segment + s->width + VECTOR - 1) / VECTOR;
  w.rows_in_line = copied ? 1 : w.planes;
  w.width = copied ? w.vectors * VECTOR : s->width;
  w.segment = copied ? 0 : s->segment, w.plane = copied ? 0 : s->plane;
  if ((item + 2) * s->together <= s->planes && s->rows > AHEAD) {
    w.beyond = (s->together - 1) * s->plane + AHEAD * s->width;
  }
  memory += s->lead;
  cr_real **const rings[] = {&w.squares, &w.ratios, &w.first};
  for (int i = 0; i < s->rings; ++i, memory += ring) *rings[i] = memory;
  cr_real **const lines[LINES] = {&w.square[0], &w.square[1], &w.ratio[0], &w.ratio[1],
                                  &w.zero,      &w.spare,     &w.base,     &w.power,
                                  &w.part[0],   &w.part[1],   &w.part[2],  &w.part[3]};
  for (int i = 0; i < LINES; ++i, memory += s->pitch) *lines[i] = memory;
  w.x = (cr_value *)memory;
  w.dy = (cr_value *)(memory + (s->kept + 2) * s->pitch);
  w.out = (cr_value *)(memory + (s->kept + 3) * s->pitch);
  return w;
}

CR_INLINE cr_real *line_of(const state *s, cr_real *ring, int64_t row) {
  return ring + row % s->kept * s->pitch;
}

CR_INLINE void copy_row(int64_t width, const cr_value *from, cr_value *to) {
  if (width >= VECTOR) {
    memcpy(to, from, (size_t)width * sizeof *to);
  } else if (width >= HALF) {
    memcpy(to, from, HALF * sizeof *to);
    memcpy(to + width - HALF, from + width - HALF, HALF * sizeof *to);
  } else if (width >= QUARTER) {
    memcpy(to, from, QUARTER * sizeof *to);
    memcpy(to + width - QUARTER, from + width - QUARTER, QUARTER * sizeof *to);
  } else {
    for (int64_t i = 0; i < width; ++i) to[i] = from[i];
  }
}

/* The row of each plane, between arrays in which they are so far apart. */
CR_INLINE void copy_rows(const state *s, const work *w, const cr_value *from, int64_t from_step,
                         cr_value *to, int64_t to_step) {
  for (int64_t k = 0; k < w->planes; ++k, from += from_step, to += to_step) {
    copy_row(s->width, from, to);
  }
}

/* Where to read a row of x. Copied rows are there from the time on when their squares are made. */
CR_INLINE const cr_value *x_row(const state *s, const work *w, const cr_value *x, int64_t row) {
  return w->copied ? w->x + row % (s->kept + 2) * s->pitch : x + row * s->width;
}

CR_INLINE const cr_value *next_x_row(const state *s, const work *w, const cr_value *x,
                                     int64_t row) {
  if (w->copied) {
    copy_rows(s, w, x + row * s->width, s->plane, w->x + row % (s->kept + 2) * s->pitch,
              s->segment);
  }
  return x_row(s, w, x, row);
}

/* ---- lines --------------------------------------------------------------- */

/* Terms of sums along a row and down the columns, and where the former go, which are the last term
 * of the latter. */
typedef struct sums {
  const cr_real *along[2]; /* those that follow the second one are terms, too */
  const cr_real *down[MANY - 1];
  cr_real *to;
} sums;

CR_INLINE cr_real sum_along(int terms, const sums *p, int64_t i) {
  cr_real acc = p->along[0][i];
  for (int k = 0; k < terms - 1; ++k) acc += p->along[1][i + k];
  return acc;
}

CR_INLINE cr_real sum_of(int terms, const sums *p, int64_t i) {
  const cr_real along = sum_along(terms, p, i);
  cr_real acc = p->down[0][i];
  for (int k = 1; k < terms - 1; ++k) acc += p->down[k][i];
  p->to[i] = along;
  return acc + along;
}

/* What a row of s, and of results or ratios, is made of. */
typedef struct step {
  sums squares;
  const cr_real *base, *power;   /* s and its power, if they are there */
  const cr_value *x, *dy, *next; /* next: whose squares are made */
  cr_real *next_square, *first, *ratio;
  cr_value *y;
  int64_t ask_next, ask_other; /* from `next`, and from dy or y, to what is asked for */
} step;

/* `count` elements from line[at] and array[to] on. */
CR_INLINE void make_block(int terms, bool by_root, bool back, const cr_lrn_formula *f,
                          const step *p, int64_t at, int64_t to, int64_t count, uint32_t *most) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real base =
        by_root ? f->k + f->factor * sum_of(terms, &p->squares, at + i) : p->base[at + i];
    const cr_real power = by_root ? cr_lrn_power_by_root(base) : p->power[at + i];
    cr_lrn_put_square(cr_get(p->next, to + i), p->next_square + at + i, most + i);
    if (back) {
      const cr_real first = cr_get(p->dy, to + i) * power;
      p->first[at + i] = first;
      p->ratio[at + i] = first / base * cr_get(p->x, to + i);
    } else {
      cr_put(p->y, to + i, cr_get(p->x, to + i) * power);
    }
  }
}

/* Returns the largest of the squares. */
CR_INLINE uint32_t make_line(int terms, bool by_root, bool back, const state *s, const work *w,
                             const step *p) {
  const cr_lrn_formula f = s->formula; /* which no store can change */
  uint32_t most[VECTOR] = {0}, largest = 0;
  for (int64_t k = 0; k < w->rows_in_line; ++k) {
    int64_t i = 0, at = k * w->segment, to = k * w->plane;
    for (; i + VECTOR <= w->width; i += VECTOR) {
      __builtin_prefetch(p->next + p->ask_next + to + i);
      if (back) __builtin_prefetch(p->dy + p->ask_other + to + i);
      else __builtin_prefetch(p->y + p->ask_other + to + i, 1);
      make_block(terms, by_root, back, &f, p, at + i, to + i, VECTOR, most);
    }
    const int64_t rest = w->width - i;
    if (rest > HALF) {
      i = w->width - VECTOR;
      make_block(terms, by_root, back, &f, p, at + i, to + i, VECTOR, most);
    } else if (rest > 0) {
      i = w->width - HALF;
      make_block(terms, by_root, back, &f, p, at + i, to + i, HALF, most);
    }
  }
#pragma omp simd reduction(max : largest)
  for (int i = 0; i < VECTOR; ++i) largest = most[i] > largest ? most[i] : largest;
  return largest;
}

/* What a row of the gradient is made of. */
typedef struct gradient {
  sums ratios;
  const cr_real *first;
  const cr_value *x;
  cr_value *dx;
  int64_t ask; /* from dx to what is asked for */
} gradient;

CR_INLINE void subtract_block(int terms, cr_real slope, const gradient *p, int64_t at, int64_t to,
                              int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real ratios = sum_of(terms, &p->ratios, at + i);
    cr_put(p->dx, to + i, p->first[at + i] - slope * cr_get(p->x, to + i) * ratios);
  }
}

CR_INLINE void subtract_line(int terms, const state *s, const work *w, const gradient *p) {
  const cr_real slope = 2 * s->formula.factor * s->formula.beta;
  for (int64_t k = 0; k < w->rows_in_line; ++k) {
    int64_t i = 0, at = k * w->segment, to = k * w->plane;
    for (; i + VECTOR <= w->width; i += VECTOR) {
      __builtin_prefetch(p->dx + p->ask + to + i, 1);
      subtract_block(terms, slope, p, at + i, to + i, VECTOR);
    }
    const int64_t rest = w->width - i;
    if (rest > HALF) {
      i = w->width - VECTOR;
      subtract_block(terms, slope, p, at + i, to + i, VECTOR);
    } else if (rest > 0) {
      i = w->width - HALF;
      subtract_block(terms, slope, p, at + i, to + i, HALF);
    }
  }
}

/* ---- sums ---------------------------------------------------------------- */

/* Of a row, the windows of whose elements begin `before` before them. What is too much is added up
 * to `part`. */
CR_INLINE void set_along(int terms, const state *s, const work *w, const cr_real *row,
                         int64_t before, cr_real *part, sums *to) {
  const int64_t size = s->reach.before + 1 + s->reach.after, added = size - (terms - 1);
  const cr_real *first = row - before;
  to->along[0] = added < 1 ? w->zero : first;
  to->along[1] = first + added;
  if (added <= 1) return;
  cr_lrn_add_terms(first, 1, 0, added, size, w->vectors, part);
  to->along[0] = part;
}

/* Of those of the rows from ... end - 1 of a ring that there are. */
CR_INLINE void set_down(int terms, const state *s, const work *w, cr_real *ring, int64_t from,
                        int64_t end, cr_real *part, sums *to) {
  const int64_t first = from < 0 ? 0 : from, last = cr_least(end, s->rows) - 1;
  const int64_t added = last + 1 - first - (terms - 2);
  for (int k = 0; k < terms - 1; ++k) {
    const int64_t row = last - (terms - 2) + k;
    to->down[k] = row < first ? w->zero : line_of(s, ring, row);
  }
  if (added <= 1) return;
  cr_lrn_add_terms(ring, s->pitch, first % s->kept, added, s->kept, w->vectors, part);
  to->down[0] = part;
}

CR_INLINE void put_sums_along(int terms, const state *s, const work *w, const cr_real *row,
                              int64_t before, cr_real *to) {
  sums p = {.to = to};
  set_along(terms, s, w, row, before, w->part[2], &p);
#pragma omp simd
  for (int64_t i = 0; i < w->vectors * VECTOR; ++i) to[i] = sum_along(terms, &p, i);
}

/* ---- steps --------------------------------------------------------------- */

/* s and its power as lines, where no root will do. Between rows there may be neither: there, 1
 * stands for both, as windows see what is made of it. */
CR_INLINE void put_powers(int terms, const state *s, const work *w, const step *p) {
  const cr_lrn_formula f = s->formula;
#pragma omp simd
  for (int64_t i = 0; i < w->vectors * VECTOR; ++i) {
    w->base[i] = f.k + f.factor * sum_of(terms, &p->squares, i);
  }
  for (int64_t k = 0; k < w->planes; ++k) {
    const int64_t begin = k * s->segment + s->width;
    const int64_t end = cr_least(begin - s->width + s->segment, w->vectors * VECTOR);
    for (int64_t i = begin; i < end; ++i) w->base[i] = 1;
  }
  cr_lrn_raise(s->formula.beta, w->vectors, w->base, w->power);
}

/* From a row to the one to ask for, behind the last one to the next item's. */
CR_INLINE int64_t ahead(const state *s, const work *w, int64_t row) {
  if (w->copied) return 0;
  return row + AHEAD < s->rows ? AHEAD * s->width : w->beyond;
}

/* For row `row` of results or ratios, whose sums want those along row `last`. */
CR_INLINE void set_row(int terms, const state *s, const work *w, int64_t row, const cr_value *x,
                       step *p) {
  const int64_t last = row + s->reach.after, next = last + 1;
  set_along(terms, s, w, last < s->rows ? w->square[last % 2] : w->zero, s->reach.before,
            w->part[0], &p->squares);
  set_down(terms, s, w, w->squares, row - s->reach.before, last, w->part[1], &p->squares);
  p->squares.to = line_of(s, w->squares, last);
  p->base = w->base, p->power = w->power;
  p->next = next < s->rows ? next_x_row(s, w, x, next) : x_row(s, w, x, row);
  p->next_square = next < s->rows ? w->square[next % 2] : w->spare;
  p->x = x_row(s, w, x, row);
  p->ask_next = ahead(s, w, next < s->rows ? next : row);
  p->ask_other = ahead(s, w, row);
}

/* The squares that the first row needs; the largest of them. */
CR_INLINE uint32_t begin(int terms, const state *s, const work *w, const cr_value *x) {
  uint32_t most = 0;
  for (int64_t row = 0; row <= s->reach.after && row < s->rows; ++row) {
    const cr_value *from = next_x_row(s, w, x, row);
    cr_real *to = w->square[row % 2];
    for (int64_t k = 0; k < w->rows_in_line; ++k, from += w->plane, to += w->segment) {
#pragma omp simd reduction(max : most)
      for (int64_t i = 0; i < w->width; ++i) cr_lrn_put_square(cr_get(from, i), to + i, &most);
    }
    if (row < s->reach.after) {
      put_sums_along(terms, s, w, w->square[row % 2], s->reach.before, line_of(s, w->squares, row));
    }
  }
  return most;
}

/* Makes a line by the shorter way if it can. `most` is the largest square of those before; returns
 * that of these, too. */
CR_INLINE uint32_t make(int terms, bool back, const state *s, const work *w, uint32_t most,
                        const step *p) {
  uint32_t largest;
  if (s->formula.by_root && most <= s->formula.square_max) {
    largest = make_line(terms, true, back, s, w, p);
  } else {
    put_powers(terms, s, w, p);
    largest = make_line(terms, false, back, s, w, p);
  }
  return largest > most ? largest : most;
}

/* x and y begin where the item does. */
CR_INLINE void forward(int terms, const state *s, const work *w, const cr_value *x, cr_value *y) {
  uint32_t most = begin(terms, s, w, x);
  for (int64_t row = 0; row < s->rows; ++row) {
    cr_value *to = y + row * s->width;
    step p = {.y = w->copied ? w->out : to};
    set_row(terms, s, w, row, x, &p);
    most = make(terms, false, s, w, most, &p);
    if (w->copied) copy_rows(s, w, w->out, s->segment, to, s->plane);
  }
}

CR_INLINE uint32_t put_ratios(int terms, const state *s, const work *w, int64_t row,
                              const cr_value *x, const cr_value *dy, uint32_t most) {
  const cr_value *from = dy + row * s->width;
  step p = {.dy = w->copied ? w->dy : from, .first = line_of(s, w->first, row)};
  p.ratio = w->ratio[row % 2];
  if (w->copied) copy_rows(s, w, from, s->plane, w->dy, s->segment);
  set_row(terms, s, w, row, x, &p);
  return make(terms, true, s, w, most, &p);
}

/* The sums along one more row of ratios complete it. A window that sees an element begins `after`
 * before it. */
CR_INLINE void put_gradient(int terms, const state *s, const work *w, int64_t row,
                            const cr_value *x, cr_value *dx) {
  const int64_t last = row + s->reach.before;
  cr_value *to = dx + row * s->width;
  gradient p = {.first = line_of(s, w->first, row), .x = x_row(s, w, x, row)};
  set_along(terms, s, w, last < s->rows ? w->ratio[last % 2] : w->zero, s->reach.after, w->part[2],
            &p.ratios);
  set_down(terms, s, w, w->ratios, row - s->reach.after, last, w->part[3], &p.ratios);
  p.ratios.to = line_of(s, w->ratios, last);
  p.dx = w->copied ? w->out : to;
  p.ask = ahead(s, w, row);
  subtract_line(terms, s, w, &p);
  if (w->copied) copy_rows(s, w, w->out, s->segment, to, s->plane);
}

/* x, dy and dx begin where the item does. */
CR_INLINE void backward(int terms, const state *s, const work *w, const cr_value *x,
                        const cr_value *dy, cr_value *dx) {
  const int64_t behind = s->reach.before + 1; /* a row of ratios waits before it is summed */
  uint32_t most = begin(terms, s, w, x);
  for (int64_t row = 0; row < s->rows + behind; ++row) {
    if (row < s->rows) most = put_ratios(terms, s, w, row, x, dy, most);
    if (row >= behind) {
      put_gradient(terms, s, w, row - behind, x, dx);
    } else if (row > 0 && row <= s->rows) {
      put_sums_along(terms, s, w, w->ratio[(row - 1) % 2], s->reach.after,
                     line_of(s, w->ratios, row - 1));
    }
  }
}

/* Compilers find registers for the few terms only where the many are not, too. */
CR_CLONES static void forward_few(const state *s, const work *w, const cr_value *x, cr_value *y) {
  forward(FEW, s, w, x, y);
}

CR_CLONES static void forward_many(const state *s, const work *w, const cr_value *x, cr_value *y) {
  forward(MANY, s, w, x, y);
}

CR_CLONES static void backward_few(const state *s, const work *w, const cr_value *x,
                                   const cr_value *dy, cr_value *dx) {
  backward(FEW, s, w, x, dy, dx);
}

CR_CLONES static void backward_many(const state *s, const work *w, const cr_value *x,
                                    const cr_value *dy, cr_value *dx) {
  backward(MANY, s, w, x, dy, dx);
}

static void run_item(const state *s, const work *w, const cr_value *x, const cr_value *dy,
                     cr_value *to) {
  const bool few = s->terms == FEW;
  if (dy == NULL) (few ? forward_few : forward_many)(s, w, x, to);
  else (few ? backward_few : backward_many)(s, w, x, dy, to);
}

/* ---- passes -------------------------------------------------------------- */

/* `dy` is NULL forward. */
void cr_lrn_within(const cr_call *call, const cr_value *x, const cr_value *dy, cr_value *to) {
  const state *s = call->plan->state;
  const bool copied = s->width < VECTOR || (x == to && s->width % VECTOR != 0);
#pragma omp parallel for schedule(static) if (s->planes * s->plane >= CR_REF_PARALLEL_MIN)
  for (int part = 0; part < s->parts; ++part) {
    cr_real *memory = cr_as_reals(&call->workspace, 0) + (size_t)part * s->values;
    for (int64_t i = s->items * part / s->parts; i < s->items * (part + 1) / s->parts; ++i) {
      const int64_t begin = i * s->together * s->plane;
      const work w = work_of(s, i, copied, memory);
      /* What lies between and behind rows stays 0: windows see it, and whole vectors hold it. */
      if (i == s->items * part / s->parts || w.planes < s->together) {
        memset(memory, 0, (copied ? s->values : s->line_values) * sizeof *memory);
      }
      run_item(s, &w, x + begin, dy == NULL ? NULL : dy + begin, to + begin);
    }
  }
}
