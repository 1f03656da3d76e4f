/* The gradient of pooling over regions of interest. The largest values are found again, which takes
 * less time than reading an index for each of them.
 *
 * What regions give is summed strip by strip, from the first row of the map down: all rows of a
 * strip have the same number of columns, and what a part has not given to its rows so far is handed
 * down. A row of the map gets all that is left of the parts that end in it, and of the part that
 * goes on below, of which there is one at most, what belongs to values that no later row exceeds.
 */
#include "device/cpu/kernels/roi_pool.h"

void cr_roi_pool_fill_rows(const cr_roi_pool *p) {
  const cr_roi_extents *e = &p->e;
  const int64_t line = e->columns * CR_ROI_BLOCK, zeros = e->rows * line;
  for (int64_t r = 0; r < e->regions; ++r) {
    const cr_roi_span *y = cr_roi_pool_spans(p, r);
    const int64_t first = y[0].begin, count = y[e->rows - 1].end - first;
    cr_roi_row *rows = p->rows + r * e->height;
    for (int64_t i = 0; i < count; ++i) rows[i] = (cr_roi_row){zeros, zeros, 0, 1};
    for (int64_t i = 0; i < e->rows; ++i) {
      cr_roi_row *row = rows + y[i].begin - first;
      const int64_t height = cr_roi_length(y + i);
      if (height == 1) row->whole = i * line;
      if (height < 2) continue;
      row->begin = i * line;
      row->height = (int32_t)height;
      for (int64_t k = 0; height > 2 && k < height - 1; ++k) row[k].run = 0;
    }
    for (int64_t i = count - 2; i >= 0; --i) {
      if (rows[i].run > 0) rows[i].run += rows[i + 1].run;
    }
  }
}

/* ---- values of a line ---------------------------------------------------- */

/* See cr_roi_pool; by value, as sums might lie where that is, for all that compilers know. */
typedef struct constants {
  cr_real least, zero;
} constants;

/* What a row of the map gets, and what is left for those below. */
typedef struct share {
  cr_real given, rest;
} share;

/* mine: of parts that end in the row; other: of the one that goes on. is_all: none of its later
 * rows has a larger value. */
CR_INLINE share share_of(constants c, bool is_all, cr_real mine, cr_real other) {
  const cr_real both = mine + other;
  return (share){is_all ? both : mine, is_all ? c.zero : other};
}

/* left: of a part's gradient, to a column if that has the largest value. Returns what is left. */
CR_INLINE cr_real give_to_column(cr_real top, cr_real left, cr_real zero, const cr_real *map,
                                 const cr_real *before, cr_real *sum) {
  const cr_real there_is = *before, more = there_is + left;
  const bool is_here = *map == top;
  *sum = is_here ? more : there_is;
  return is_here ? zero : left;
}

/* All that is left to the first of `count` columns that has the largest value. */
CR_INLINE void give_to_columns(int count, cr_real top, cr_real left, cr_real zero,
                               const cr_real *map, const cr_real *before, cr_real *sum) {
  enum { B = CR_ROI_BLOCK };
  if (count > 1) left = give_to_column(top, left, zero, map, before, sum);
  if (count > 2) left = give_to_column(top, left, zero, map + B, before + B, sum + B);
  if (count > 3) left = give_to_column(top, left, zero, map + 2 * B, before + 2 * B, sum + 2 * B);
  sum[(count - 1) * B] += left;
}

/* top: the largest value of the row that comes next. rest: what the part above has not given. */
typedef struct handed {
  cr_real top, rest;
} handed;

/* Where a strip is in the map and in its gradient, from which sums are read at `before`. */
typedef struct place {
  const cr_real *map, *before;
  cr_real *sum;
} place;

CR_INLINE place place_at(const place *p, int64_t distance) {
  return (place){p->map + distance, p->before + distance, p->sum + distance};
}

/* A row whose parts have two rows at most. whole, begin: the gradients, see cr_roi_row; below: the
 * row of the map below. What is found there does not matter if no part begins; after the map's last
 * row it is a line of sums. */
CR_INLINE handed give_to_row(int count, constants c, handed h, cr_real whole, cr_real begin,
                             place at, int l, const cr_real *below) {
  const cr_real after = cr_roi_largest(count, below + l, c.least);
  const share s = share_of(c, after <= h.top, h.rest + whole, begin);
  give_to_columns(count, h.top, s.given, c.zero, at.map + l, at.before + l, at.sum + l);
  return (handed){after, s.rest};
}

/* ---- strips -------------------------------------------------------------- */

/* Rows of which the largest values are found once. */
enum { TOGETHER = 4 };

/* `rows` rows, one or TOGETHER; step: from a row of the map to the next. rest: a line. */
CR_INLINE void give_to_rows(int rows, int count, constants c, const cr_roi_row *row,
                            const cr_real *diff, place at, int64_t step, cr_real *rest) {
  const place next = place_at(&at, step), third = place_at(&next, step),
              last = place_at(&third, step);
  const cr_real *end = last.map + step;
  const cr_real *whole[TOGETHER], *begin[TOGETHER];
  for (int i = 0; i < rows; ++i) {
    whole[i] = diff + row[i].whole;
    begin[i] = diff + row[i].begin;
  }
#pragma omp simd
  for (int l = 0; l < CR_ROI_BLOCK; ++l) {
    handed h = {cr_roi_largest(count, at.map + l, c.least), rest[l]};
    h = give_to_row(count, c, h, whole[0][l], begin[0][l], at, l, next.map);
    if (rows == TOGETHER) {
      h = give_to_row(count, c, h, whole[1][l], begin[1][l], next, l, third.map);
      h = give_to_row(count, c, h, whole[2][l], begin[2][l], third, l, last.map);
      h = give_to_row(count, c, h, whole[3][l], begin[3][l], last, l, end);
    }
    rest[l] = h.rest;
  }
}

/* A row of which a part goes on for more than another row. most: the largest value of that part.
 * begins: in this row. */
CR_INLINE void give_to_tall(int count, bool begins, constants c, const cr_roi_row *row,
                            const cr_real *diff, place at, const cr_real *most, cr_real *rest) {
  const cr_real *whole = diff + row->whole, *begin = diff + row->begin;
#pragma omp simd
  for (int l = 0; l < CR_ROI_BLOCK; ++l) {
    const cr_real top = cr_roi_largest(count, at.map + l, c.least);
    const cr_real mine = begins ? rest[l] + whole[l] : c.zero, other = begins ? begin[l] : rest[l];
    const share s = share_of(c, most[l] <= top, mine, other);
    give_to_columns(count, top, s.given, c.zero, at.map + l, at.before + l, at.sum + l);
    rest[l] = s.rest;
  }
}

/* The largest value of `rows` rows. */
CR_INLINE void find_most(int count, constants c, const cr_real *map, int64_t rows, int64_t step,
                         cr_roi_line *most) {
  cr_roi_fill(1, c.least, most);
  for (int64_t i = 0; i < rows; ++i, map += step) {
#pragma omp simd
    for (int l = 0; l < CR_ROI_BLOCK; ++l) {
      most->value[l] = cr_roi_largest(count, map + l, most->value[l]);
    }
  }
}

/* What all strips of a region share. */
typedef struct giving {
  constants c;
  const cr_roi_line *diff; /* of all parts, then a row of zeros */
  const cr_roi_row *rows, *end;
  place at; /* the first row of the map */
  int64_t step;
  cr_roi_next *later;
} giving;

CR_INLINE void give_to_strips(int count, const cr_roi_strip *s, const cr_roi_strip *end,
                              const giving *g) {
  const constants c = g->c;
  const int64_t step = g->step;
  for (; s < end; ++s) {
    const cr_real *diff = g->diff[s->part].value;
    const cr_roi_row *row = g->rows;
    place at = place_at(&g->at, s->column);
    cr_roi_line rest = {{0}}, most;
    cr_roi_ask(g->later);
    while (row < g->end) {
      const cr_roi_row *next = row + row->run;
      for (; row + TOGETHER <= next; row += TOGETHER, at = place_at(&at, TOGETHER * step)) {
        give_to_rows(TOGETHER, count, c, row, diff, at, step, rest.value);
      }
      for (; row < next; ++row, at = place_at(&at, step)) {
        give_to_rows(1, count, c, row, diff, at, step, rest.value);
      }
      for (; row < g->end && row->run == 0; ++row, at = place_at(&at, step)) {
        if (row->height > 0) {
          find_most(count, c, at.map, row->height, step, &most);
          give_to_tall(count, true, c, row, diff, at, most.value, rest.value);
        } else {
          give_to_tall(count, false, c, row, diff, at, most.value, rest.value);
        }
      }
    }
  }
}

/* ---- wide strips --------------------------------------------------------- */

/* left: to the columns of a row, four at a time. */
CR_INLINE void give_to_fours(int64_t columns, constants c, const cr_real *top, place at,
                             cr_real *left) {
  for (int64_t k = 0; k < columns; k += CR_ROI_FOUR) {
    const place four = place_at(&at, cr_roi_four_at(columns, k));
#pragma omp simd
    for (int l = 0; l < CR_ROI_BLOCK; ++l) {
      enum { B = CR_ROI_BLOCK };
      const cr_real *map = four.map + l, *before = four.before + l;
      cr_real *sum = four.sum + l, rest = left[l];
      rest = give_to_column(top[l], rest, c.zero, map, before, sum);
      rest = give_to_column(top[l], rest, c.zero, map + B, before + B, sum + B);
      rest = give_to_column(top[l], rest, c.zero, map + 2 * B, before + 2 * B, sum + 2 * B);
      rest = give_to_column(top[l], rest, c.zero, map + 3 * B, before + 3 * B, sum + 3 * B);
      left[l] = rest;
    }
  }
}

/* A strip of more than four columns. */
CR_INLINE void give_to_wide(int64_t columns, const cr_roi_strip *strip, const giving *g) {
  const constants c = g->c;
  const cr_real *diff = g->diff[strip->part].value;
  place at = place_at(&g->at, strip->column);
  cr_roi_line rest = {{0}}, most = {{0}}, top, left;
  cr_roi_ask(g->later);
  for (const cr_roi_row *row = g->rows; row < g->end; ++row, at = place_at(&at, g->step)) {
    const bool goes_on = row->run == 0 && row->height == 0;
    const cr_real *whole = diff + row->whole, *begin = diff + row->begin;
    for (int64_t i = 0; i < row->height; ++i) {
      cr_roi_largest_wide(columns, at.map + i * g->step, c.least, i > 0, most.value);
    }
    cr_roi_largest_wide(columns, at.map, c.least, false, top.value);
#pragma omp simd
    for (int l = 0; l < CR_ROI_BLOCK; ++l) {
      const cr_real mine = goes_on ? 0 : rest.value[l] + whole[l];
      const cr_real other = goes_on ? rest.value[l] : begin[l];
      const share s = share_of(c, most.value[l] <= top.value[l], mine, other);
      left.value[l] = s.given;
      rest.value[l] = s.rest;
    }
    give_to_fours(columns, c, top.value, at, left.value);
  }
}

/* ---- regions ------------------------------------------------------------- */

/* What belongs to parts of row `i` whose first value is NaN goes to that. */
CR_INLINE void give_to_nans(const cr_roi_region *g, int64_t i, cr_roi_line *diff,
                            cr_roi_line *sums) {
  const int64_t row = g->y[i].begin * g->p->e.step;
  if (cr_roi_length(g->y + i) == 0) return;
  for (const cr_roi_strip *s = g->strips; s < g->strips + cr_roi_strips(g); ++s) {
    const cr_real *first = g->map[row].value + s->column;
    cr_real *from = diff[s->part].value, *to = sums[row].value + s->column;
#pragma omp simd
    for (int l = 0; l < CR_ROI_BLOCK; ++l) {
      to[l] += first[l] == first[l] ? 0 : from[l];
      from[l] = first[l] == first[l] ? from[l] : 0;
    }
  }
}

CR_INLINE void add_lines(int64_t count, const cr_roi_line *from, cr_roi_line *to) {
#pragma omp simd
  for (int64_t i = 0; i < count * CR_ROI_BLOCK; ++i) to->value[i] += from->value[i];
}

/* Of rows of parts that have the same single row of the map, the last one gets all gradients. */
CR_INLINE void unite_rows(const cr_roi_region *g, cr_roi_line *diff) {
  const int64_t columns = g->p->e.columns;
  for (int64_t i = 1; i < g->p->e.rows; ++i) {
    const cr_roi_span *y = g->y + i;
    if (cr_roi_length(y) != 1 || cr_roi_length(y - 1) != 1 || y[-1].begin != y->begin) continue;
    add_lines(columns, diff + (i - 1) * columns, diff + i * columns);
  }
}

/* rows: of the map, in the region; diff: for the region's gradients, before a row of zeros. */
CR_INLINE void back_of_region(const cr_roi_region *r, const cr_roi_row *rows, const cr_real *from,
                              int64_t planes, cr_roi_next *later, cr_roi_line *diff,
                              cr_roi_line *sums) {
  const cr_roi_pool *p = r->p;
  const cr_roi_extents *e = &p->e;
  const int64_t first = r->y[0].begin, at = first * e->step;
  cr_roi_get(e->rows * e->columns, planes, from, diff, later);
  for (int64_t i = 0; r->has_nan && i < e->rows; ++i) {
    give_to_nans(r, i, diff + i * e->columns, sums);
  }
  unite_rows(r, diff);
  const giving g = {
      .c = {p->least, p->zero},
      .diff = diff,
      .rows = rows,
      .end = rows + (r->y[e->rows - 1].end - first),
      .at = {r->map[at].value, sums[at].value + p->distance, sums[at].value},
      .step = e->step * CR_ROI_BLOCK,
      .later = later,
  };
  CR_ROI_BY_WIDTH(r, give_to_strips, &g)
  for (int64_t i = r->o->end[CR_ROI_WIDTHS - 2]; i < cr_roi_strips(r); ++i) {
    give_to_wide(cr_roi_length(r->x + r->strips[i].part), r->strips + i, &g);
  }
}

/* Lines for the map, its gradient, a region's gradients and a row of zeros. */
int64_t cr_roi_pool_back_lines(const cr_roi_extents *e) {
  return 2 * e->height * e->step + (e->rows + 1) * e->columns;
}

CR_CLONES void cr_roi_pool_back(const cr_roi_pool *p, int64_t image, int64_t first,
                                cr_roi_line *lines) {
  const cr_roi_extents *e = &p->e;
  const int64_t map = e->height * e->step, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first),
                pieces = e->columns + cr_roi_pieces(cells);
  const int64_t at = (image * e->channels + first) * e->height * e->width;
  const cr_roi_window reach = cr_roi_pool_reach(p, image);
  cr_roi_line *sums = lines + map, *diff = sums + map;
  cr_roi_to_lines(e, &reach, planes, p->src + at, lines);
  cr_roi_zero_lines(e, &reach, sums);
  cr_roi_fill(e->columns, 0, diff + cells);
  const bool has_nan = cr_roi_has_nan(e, &reach, lines);
  for (int64_t r = 0; r < e->regions; ++r) {
    if (!cr_roi_pool_is_of(p, r, image)) continue;
    const cr_roi_region region = cr_roi_region_of(p, r, lines, has_nan);
    cr_roi_next later = cr_roi_next_of(e, r, first, planes, pieces, p->diff_dst);
    back_of_region(&region, p->rows + r * e->height,
                   p->diff_dst + (r * e->channels + first) * cells, planes, &later, diff, sums);
  }
  cr_roi_to_planes(e, &reach, planes, sums, p->diff_src + at);
}
