/* Shared code of the recurrences over time: sequences, products with the hidden state, and threads.
 * Each step has one cr_recurrent_product; the rest is element-wise. */
#ifndef CR_DEVICE_CPU_KERNELS_RECURRENT_H
#define CR_DEVICE_CPU_KERNELS_RECURRENT_H

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/product.h"
#include "device/cpu/kernels/vector_math.h"

/* T steps of N sequences, D units. */
typedef struct cr_recurrent_extents {
  int64_t steps, batch, units;
} cr_recurrent_extents;

/* `state`: the argument of shape (T,N,D). */
static inline cr_recurrent_extents cr_recurrent_extents_of(const cr_op_desc *desc, int state) {
  const cr_split s = cr_op_split(desc, state, 1);
  return (cr_recurrent_extents){s.outer, s.channels, s.inner};
}

/* Products: */

static inline void cr_recurrent_product(const cr_call *call, const cr_gemm *g) {
#ifdef CR_REF_F32
  if (call->plan->kernel->library) {
    const cr_gemm_f32 fast = cr_gemm_of_floats(g);
    cr_cpu_gemm_f32(&fast);
    return;
  }
#else
  (void)call;
#endif
  cr_ref_gemm(g);
}

/* Sequences: */

/* Some sequences, or all: they go through all steps independently of all other sequences. */
typedef struct cr_strand {
  int64_t begin, count;
} cr_strand;

/* The op on some sequences; `state` is shared by all of them. */
typedef void cr_strand_work(const cr_call *call, const cr_recurrent_extents *e, cr_strand of,
                            const void *state);

enum {
  FEWEST = 4 /* minimum number of sequences of a thread for which a cr_recurrent_product is not much
                slower */
};

/* Each thread has its own sequences and does not wait for other threads between steps. If there are
 * too few sequences, all threads share each product of each step. */
static inline void cr_recurrent_run_strands(const cr_call *call, const cr_recurrent_extents *e,
                                            const void *state, cr_strand_work *work) {
  const int64_t threads = call->plan->threads;
  const int64_t parts = threads > 1 && e->batch >= FEWEST * threads ? threads : 1;
#pragma omp parallel for schedule(static) if (parts > 1)
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t begin = e->batch * i / parts;
    work(call, e, (cr_strand){begin, e->batch * (i + 1) / parts - begin}, state);
  }
}

/* The hidden state: */

CR_INLINE void cr_recurrent_scale_row(int64_t units, cr_real cont, const cr_real *from,
                                      cr_real *to) {
#pragma omp simd
  for (int64_t d = 0; d < units; ++d) to[d] = cont == 0 ? 0 : cont * from[d];
}

/* to (rows, D) = cont (rows) * from (rows, D). */
static inline void cr_recurrent_scale_rows(int64_t rows, int64_t units, const cr_real *cont,
                                           const cr_real *from, cr_real *to) {
  for (int64_t n = 0; n < rows; ++n) {
    cr_recurrent_scale_row(units, cont[n], from + n * units, to + n * units);
  }
}

/* The weights of the hidden state, (G, D), for the forward steps. */
typedef struct cr_hidden {
  int64_t gates;
  const cr_real *weights;
  cr_real *scaled; /* space for cont h' */
} cr_hidden;

static inline cr_hidden cr_recurrent_hidden_of(const cr_call *call, int64_t gates) {
  return (cr_hidden){gates, cr_as_reals(call->buffer, 2), (cr_real *)call->workspace.address};
}

/* sums (N, G) += cont h' weights^T, for some of the N sequences. */
static inline void cr_recurrent_add_hidden(const cr_call *call, const cr_recurrent_extents *e,
                                           cr_strand of, const cr_hidden *w, const cr_real *cont,
                                           const cr_real *before, cr_real *sums) {
  const int64_t at = of.begin * e->units;
  cr_recurrent_scale_rows(of.count, e->units, cont + of.begin, before + at, w->scaled + at);
  const cr_gemm g = {.m = of.count,
                     .n = w->gates,
                     .k = e->units,
                     .a = w->scaled + at,
                     .a_row = e->units,
                     .a_column = 1,
                     .b = w->weights,
                     .b_row = e->units,
                     .b_transposed = true,
                     .c = sums + of.begin * w->gates,
                     .c_row = w->gates,
                     .accumulate = true};
  cr_recurrent_product(call, &g);
}

/* diff_before (N, D) = cont (diff_sums (N, G) weights (G, D)), for some of the N sequences. */
static inline void cr_recurrent_hidden_gradient(const cr_call *call, const cr_recurrent_extents *e,
                                                cr_strand of, int64_t gates, const cr_real *cont,
                                                const cr_real *diff_sums, const cr_real *weights,
                                                cr_real *diff_before) {
  cr_real *own = diff_before + of.begin * e->units;
  const cr_gemm g = {.m = of.count,
                     .n = e->units,
                     .k = gates,
                     .a = diff_sums + of.begin * gates,
                     .a_row = gates,
                     .a_column = 1,
                     .b = weights,
                     .b_row = e->units,
                     .c = own,
                     .c_row = e->units};
  cr_recurrent_product(call, &g);
  cr_recurrent_scale_rows(of.count, e->units, cont + of.begin, own, own);
}

#endif
