/* Local response normalisation, line by line (ref_lrn.c): extents, sums over windows, powers. */
#ifndef CR_DEVICE_CPU_REF_LRN_H
#define CR_DEVICE_CPU_REF_LRN_H

#include "core/clones.h"
#include "device/cpu/lrn_power.h"
#include "device/cpu/ref_math.h"
#include "device/cpu/ref_type.h"

enum {
  CR_LRN_VECTOR = 16, /* lines in a ring are a multiple of this apart */
  CR_LRN_TOGETHER = 5 /* lines that are added at a time */
};

/* How far a window reaches from its element. */
typedef struct cr_lrn_reach {
  int64_t before, after;
} cr_lrn_reach;

/* What is worked on by itself, an item, is a strip of all channels of some images, or some planes.
 * An "image" is either. */
typedef struct cr_lrn_state {
  int64_t images, image_step, together; /* `together` of them make an item */
  int64_t width, strips, strip;         /* of a channel's plane, or of a row, which is one strip */
  int64_t lines, line_step;             /* channels, or rows */
  cr_lrn_reach line, column;            /* cut to what there is; `column` is 0 across channels */
  int64_t segment;                      /* from one segment of a line to the next */
  int64_t kept, pitch;                  /* lines in a ring, and how far apart they are */
  int64_t lead;                         /* zeros before and behind a row */
  int64_t items;
  int rings, parts; /* of the items, each with its own rings */
  size_t part_values;
  cr_real factor, k, beta;
  bool by_root;        /* beta is 3/4, for which s has to be normal, */
  uint32_t square_max; /* as it is if no square is above this: its bits */
} cr_lrn_state;

/* ---- sums over windows --------------------------------------------------- */

CR_INLINE cr_real cr_lrn_sum_at(int lines, const cr_real *const *line, int64_t i) {
  cr_real acc = line[0][i];
  for (int j = 1; j < lines; ++j) acc += line[j][i];
  return acc;
}

CR_INLINE void cr_lrn_add_up(int lines, int64_t vectors, const cr_real *const *line, cr_real *sum) {
#pragma omp simd
  for (int64_t i = 0; i < vectors * CR_LRN_VECTOR; ++i) sum[i] = cr_lrn_sum_at(lines, line, i);
}

/* Of `count` terms, of which number n is values[n * step], from `first` on; behind number `wrap -
 * 1` comes number 0: which lines they are. All but the last few become one, which is `sum`. */
CR_INLINE int cr_lrn_terms(const cr_real *values, int64_t step, int64_t first, int64_t count,
                           int64_t wrap, int64_t vectors, cr_real *sum, const cr_real **line) {
  int lines = 0;
  for (int64_t done = 0; done < count; ++done) {
    if (lines == CR_LRN_TOGETHER) {
      cr_lrn_add_up(CR_LRN_TOGETHER, vectors, line, sum);
      line[0] = sum;
      lines = 1;
    }
    line[lines++] = values + first * step;
    first = first + 1 < wrap ? first + 1 : 0;
  }
  return lines;
}

/* The lines from ... to - 1 of a ring. */
CR_INLINE int cr_lrn_lines(const cr_lrn_state *s, const cr_real *ring, int64_t from, int64_t to,
                           int64_t vectors, cr_real *sum, const cr_real **line) {
  return cr_lrn_terms(ring, s->pitch, from % s->kept, to - from, s->kept, vectors, sum, line);
}

/* Sums of neighbours in a row, which begins with as many zeros as its windows reach backwards. */
CR_INLINE void cr_lrn_sum_columns(const cr_lrn_state *s, int64_t vectors, const cr_real *row,
                                  cr_real *sum) {
  const int64_t size = s->column.before + 1 + s->column.after;
  const cr_real *line[CR_LRN_TOGETHER];
  switch (cr_lrn_terms(row, 1, 0, size, size, vectors, sum, line)) {
    case 1: cr_lrn_add_up(1, vectors, line, sum); break;
    case 2: cr_lrn_add_up(2, vectors, line, sum); break;
    case 3: cr_lrn_add_up(3, vectors, line, sum); break;
    case 4: cr_lrn_add_up(4, vectors, line, sum); break;
    default: cr_lrn_add_up(CR_LRN_TOGETHER, vectors, line, sum); break;
  }
}

/* ---- powers -------------------------------------------------------------- */

/* s^-3/4 where s is normal. */
CR_INLINE cr_real cr_lrn_power_by_root(cr_real base) {
#ifdef CR_REF_F64
  return 1 / (sqrt(base) * sqrt(sqrt(base)));
#else
  return cr_power_of_minus_3_4_normal(base);
#endif
}

/* s of a line from its sums. */
CR_INLINE void cr_lrn_put_bases(const cr_lrn_state *s, int lines, int64_t vectors,
                                const cr_real *const *line, cr_real *base) {
  const cr_real k = s->k, factor = s->factor;
#pragma omp simd
  for (int64_t i = 0; i < vectors * CR_LRN_VECTOR; ++i)
    base[i] = k + factor * cr_lrn_sum_at(lines, line, i);
}

CR_INLINE void cr_lrn_raise_by_root(int64_t vectors, const cr_real *base, cr_real *power) {
#pragma omp simd
  for (int64_t i = 0; i < vectors * CR_LRN_VECTOR; ++i) power[i] = cr_lrn_power_by_root(base[i]);
}

/* s^-beta of any s: by way of the logarithm to 6e-8 times that. */
CR_INLINE void cr_lrn_raise(cr_real beta, int64_t vectors, const cr_real *base, cr_real *power) {
#ifdef CR_REF_F64
  for (int64_t i = 0; i < vectors * CR_LRN_VECTOR; ++i) power[i] = pow(base[i], -beta);
#else
  if (beta == 0.75f) {
#pragma omp simd
    for (int64_t i = 0; i < vectors * CR_LRN_VECTOR; ++i) power[i] = cr_power_of_minus_3_4(base[i]);
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < vectors * CR_LRN_VECTOR; ++i) power[i] = -beta * cr_ref_log(base[i]);
#pragma omp simd
  for (int64_t i = 0; i < vectors * CR_LRN_VECTOR; ++i) power[i] = cr_ref_exp(power[i]);
#endif
}

#endif
