#include "device/cpu/kernels/gemm.h"

#include "device/cpu/kernels/extent.h"

enum { TILE_ROWS = 4, TILE_COLUMNS = 64 };

static void store(const cr_gemm *g, int64_t i, int64_t j, int64_t columns, const cr_real *sum) {
  cr_real *c = g->c + i * g->c_row + j;
  if (g->accumulate) {
    for (int64_t x = 0; x < columns; ++x) c[x] += sum[x];
  } else {
    memcpy(c, sum, (size_t)columns * sizeof *c);
  }
}

/* A tile of c from row i0 and column j0 on: k updates by one row of b. */
static void tile_plain(const cr_gemm *g, int64_t i0, int64_t j0) {
  const int64_t rows = cr_least(TILE_ROWS, g->m - i0);
  const int64_t columns = cr_least(TILE_COLUMNS, g->n - j0);
  cr_real sum[TILE_ROWS][TILE_COLUMNS] = {{0}};
  for (int64_t p = 0; p < g->k; ++p) {
    const cr_real *b = g->b + p * g->b_row + j0;
    for (int64_t i = 0; i < rows; ++i) {
      const cr_real a = g->a[(i0 + i) * g->a_row + p * g->a_column];
      cr_real *s = sum[i];
      if (columns == TILE_COLUMNS) {
#pragma omp simd
        for (int j = 0; j < TILE_COLUMNS; ++j) s[j] += a * b[j];
      } else {
        for (int64_t j = 0; j < columns; ++j) s[j] += a * b[j];
      }
    }
  }
  for (int64_t i = 0; i < rows; ++i) store(g, i0 + i, j0, columns, sum[i]);
}

static cr_real dot(int64_t k, const cr_real *a, int64_t a_step, const cr_real *b) {
  cr_real sum = 0;
  if (a_step == 1) {
#pragma omp simd reduction(+ : sum)
    for (int64_t p = 0; p < k; ++p) sum += a[p] * b[p];
  } else {
    for (int64_t p = 0; p < k; ++p) sum += a[p * a_step] * b[p];
  }
  return sum;
}

/* The same with b transposed: each element is the product of two rows. */
static void tile_transposed(const cr_gemm *g, int64_t i0, int64_t j0) {
  const int64_t rows = cr_least(TILE_ROWS, g->m - i0);
  const int64_t columns = cr_least(TILE_COLUMNS, g->n - j0);
  cr_real sum[TILE_ROWS][TILE_COLUMNS];
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      sum[i][j] = dot(g->k, g->a + (i0 + i) * g->a_row, g->a_column, g->b + (j0 + j) * g->b_row);
    }
  }
  for (int64_t i = 0; i < rows; ++i) store(g, i0 + i, j0, columns, sum[i]);
}

void cr_ref_gemm(const cr_gemm *g) {
  const int64_t tile_rows = cr_pieces(g->m, TILE_ROWS);
  const int64_t tile_columns = cr_pieces(g->n, TILE_COLUMNS);
#pragma omp parallel for collapse(2) schedule(static) if (g->m * g->n * g->k >= CR_REF_PARALLEL_MIN)
  for (int64_t j = 0; j < tile_columns; ++j) {
    for (int64_t i = 0; i < tile_rows; ++i) {
      if (g->b_transposed) {
        tile_transposed(g, i * TILE_ROWS, j * TILE_COLUMNS);
      } else {
        tile_plain(g, i * TILE_ROWS, j * TILE_COLUMNS);
      }
    }
  }
}
