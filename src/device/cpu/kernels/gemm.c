#include "device/cpu/kernels/gemm.h"

/* c_j (+)= sum of a_p b_pj over p, for row i of c. */
static void product_row(const cr_gemm *g, int64_t i) {
  const cr_real *a = g->a + i * g->a_row;
  cr_real *c = g->c + i * g->c_row;
  for (int64_t j = 0; j < g->n; ++j) c[j] = g->accumulate ? c[j] : 0;
  for (int64_t p = 0; p < g->k; ++p) {
    const cr_real factor = a[p * g->a_column], *b = g->b + p * g->b_row;
#pragma omp simd
    for (int64_t j = 0; j < g->n; ++j) c[j] += factor * b[j];
  }
}

/* Element (i, j) of c with b transposed: the product of two rows. */
static void product_of_rows(const cr_gemm *g, int64_t i, int64_t j) {
  const cr_real *a = g->a + i * g->a_row, *b = g->b + j * g->b_row;
  cr_real *c = g->c + i * g->c_row + j, sum = 0;
  if (g->a_column == 1) {
#pragma omp simd reduction(+ : sum)
    for (int64_t p = 0; p < g->k; ++p) sum += a[p] * b[p];
  } else {
    for (int64_t p = 0; p < g->k; ++p) sum += a[p * g->a_column] * b[p];
  }
  *c = g->accumulate ? *c + sum : sum;
}

void cr_ref_gemm(const cr_gemm *g) {
  if (g->b_transposed) {
#pragma omp parallel for collapse(2) schedule(static) if (g->m * g->n * g->k >= CR_REF_PARALLEL_MIN)
    for (int64_t j = 0; j < g->n; ++j) {
      for (int64_t i = 0; i < g->m; ++i) product_of_rows(g, i, j);
    }
  } else {
#pragma omp parallel for schedule(static) if (g->m * g->n * g->k >= CR_REF_PARALLEL_MIN)
    for (int64_t i = 0; i < g->m; ++i) product_row(g, i);
  }
}
