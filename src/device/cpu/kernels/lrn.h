/* Local response normalisation, line by line (kernels/lrn.c): reach and sums of windows, powers;
 * and what does it within a channel. */
#ifndef CR_DEVICE_CPU_KERNELS_LRN_H
#define CR_DEVICE_CPU_KERNELS_LRN_H

#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/lrn_power.h"
#include "device/cpu/kernels/vector_math.h"

enum {
  CR_LRN_VECTOR = 16, /* lines in a ring are a multiple of this apart */
  CR_LRN_TOGETHER = 5 /* lines that are added at a time */
};

/* How far a window reaches from its element. */
typedef struct cr_lrn_reach {
  int64_t before, after;
} cr_lrn_reach;

static inline cr_lrn_reach cr_lrn_reach_of(int64_t size, int64_t count) {
  const int64_t before = (size - 1) / 2, after = size - 1 - before, most = count - 1;
  return (cr_lrn_reach){before < most ? before : most, after < most ? after : most};
}

/* s = k + factor * sum of squares, and its power -beta. */
typedef struct cr_lrn_formula {
  cr_real factor, k, beta;
  bool by_root;        /* beta is 3/4, for which s has to be normal, */
  uint32_t square_max; /* as it is if no square is above this: its bits as a float */
} cr_lrn_formula;

/* With so many squares in a sum. */
static inline cr_lrn_formula cr_lrn_formula_of(const cr_lrn_params *p, int64_t squares) {
  const cr_real size = (cr_real)p->size, most = FLT_MAX / 4;
  cr_lrn_formula f = {.k = p->k, .beta = p->beta};
  f.factor = p->alpha / (p->within_channel ? size * size : size);
  f.by_root =
      p->beta == 0.75f && f.k >= FLT_MIN && f.k <= most && f.factor >= 0 && f.factor <= most;
  f.square_max = cr_f32_bits((float)(most / (f.factor > 1 ? f.factor : 1) / (cr_real)squares));
  return f;
}

/* `most` becomes the largest square so far, as bits: those of nan are larger still. */
CR_INLINE void cr_lrn_put_square(cr_real value, cr_real *square, uint32_t *most) {
  const uint32_t bits = cr_f32_bits((float)(value * value));
  *square = value * value;
  *most = bits > *most ? bits : *most;
}

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

/* The sum of these lines. */
CR_INLINE void cr_lrn_add_terms(const cr_real *values, int64_t step, int64_t first, int64_t count,
                                int64_t wrap, int64_t vectors, cr_real *sum) {
  const cr_real *line[CR_LRN_TOGETHER];
  switch (cr_lrn_terms(values, step, first, count, wrap, vectors, sum, line)) {
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
CR_INLINE void cr_lrn_put_bases(const cr_lrn_formula *f, int lines, int64_t vectors,
                                const cr_real *const *line, cr_real *base) {
  const cr_real k = f->k, factor = f->factor;
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

/* ---- within a channel (kernels/lrn_within.c) --------------------------------- */

#define cr_lrn_within_plan CR_REF_NAME(cr_lrn_within_plan)
#define cr_lrn_within CR_REF_NAME(cr_lrn_within)

/* Makes plan->state, which free() releases. */
crema_status cr_lrn_within_plan(cr_plan *plan, bool back);

/* dst from src, or diff_src from src and diff_dst; `dy` is NULL forward. */
void cr_lrn_within(const cr_call *call, const cr_value *x, const cr_value *dy, cr_value *to);

#endif
