/* A matrix product of few rows: inner products of small batches, steps of recurrent layers.
 *
 * Gain over oneDNN 2.6 of Debian 12 on 64-bit Arm: 10x fewer instructions for 1 x 9,216 by
 * 9,216 x 4,096 (fc6 of AlexNet, one image), counted in qemu.
 *
 * Tiles (tile_product_fast.c) would pack the second matrix, although each of its elements is used
 * few times. Here 4 rows at a time read it in place. If it is stored as (n, k), a vector holds sums
 * over every fourth k of one output. If it is stored as (k, n), a vector holds 4 outputs, to which
 * 8 of its rows are added together. An element's bits do not depend on its place. */
#include <string.h>

#include "device/cpu/kernels/extent.h"
#include "device/cpu/kernels/tile_product.h"
#include "device/cpu/kernels/vector_tile.h"

enum {
  LINES_MOST = 12,  /* rows; with more, tiles take fewer instructions, if b is (n, k), */
  COLUMNS_MOST = 7, /* or if b is (k, n) */
  ROWS = 4,         /* together */
  OUTPUTS = 4,      /* together, of (n, k) */
  STEPS = 8,        /* together, of (k, n) */
  RANGE = 512,      /* columns of a task, of (k, n) */
  FEW = 16384       /* products; threads cost more */
};

/* The first `count` floats, then zeros. */
static cr_lanes load_some(const float *from, int64_t count) {
  float line[CR_LANES] = {0};
  memcpy(line, from, (size_t)count * sizeof *from);
  return cr_lanes_load(line);
}

/* sum[r] += row r of a times the lines of b, for CR_LANES values of each, or the last `count`. */
CR_INLINE void add_dots(cr_lanes sum[ROWS][OUTPUTS], const float *a, int64_t a_row, int rows,
                        const float *const line[OUTPUTS], int64_t k, int64_t count) {
  const bool full = count >= CR_LANES;
  cr_lanes b[OUTPUTS];
#pragma GCC unroll 4
  for (int o = 0; o < OUTPUTS; ++o) {
    b[o] = full ? cr_lanes_load(line[o] + k) : load_some(line[o] + k, count);
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
    const float *from = a + r * a_row + k;
    const cr_lanes x = full ? cr_lanes_load(from) : load_some(from, count);
#pragma GCC unroll 4
    for (int o = 0; o < OUTPUTS; ++o) sum[r][o] += x * b[o];
  }
}

/* Some rows of c from row i on, the columns from j on: b is (n, k). `rows` is a constant. */
CR_INLINE void multiply_lines(const cr_gemm_f32 *g, int64_t i, int rows, int64_t j) {
  const int64_t outputs = cr_least(OUTPUTS, g->n - j);
  const float *const a = g->a + i * g->a_row, *line[OUTPUTS];
  cr_lanes sum[ROWS][OUTPUTS];
  for (int o = 0; o < OUTPUTS; ++o) {
    line[o] = g->b + (j + cr_least(o, outputs - 1)) * g->b_row;
    for (int r = 0; r < rows; ++r) sum[r][o] = cr_lanes_all(0);
  }
  int64_t k = 0;
#pragma GCC unroll 2
  for (; k + CR_LANES <= g->k; k += CR_LANES) {
    add_dots(sum, a, g->a_row, rows, line, k, CR_LANES);
  }
  if (k < g->k) add_dots(sum, a, g->a_row, rows, line, k, g->k - k);
  for (int r = 0; r < rows; ++r) {
    float *c = g->c + (i + r) * g->c_row + j;
    for (int64_t o = 0; o < outputs; ++o) {
      const cr_lanes s = sum[r][o];
      c[o] = (g->accumulate ? c[o] : 0) + ((s[0] + s[2]) + (s[1] + s[3]));
    }
  }
}

CR_TILE_ALONE static void multiply_lines_1(const cr_gemm_f32 *g, int64_t i, int64_t j) {
  multiply_lines(g, i, 1, j);
}
CR_TILE_ALONE static void multiply_lines_2(const cr_gemm_f32 *g, int64_t i, int64_t j) {
  multiply_lines(g, i, 2, j);
}
CR_TILE_ALONE static void multiply_lines_3(const cr_gemm_f32 *g, int64_t i, int64_t j) {
  multiply_lines(g, i, 3, j);
}
CR_TILE_ALONE static void multiply_lines_4(const cr_gemm_f32 *g, int64_t i, int64_t j) {
  multiply_lines(g, i, 4, j);
}

static void multiply_by_lines(const cr_gemm_f32 *g) {
  static void (*const by_rows[ROWS])(const cr_gemm_f32 *, int64_t, int64_t) = {
      multiply_lines_1, multiply_lines_2, multiply_lines_3, multiply_lines_4};
#pragma omp parallel for schedule(static) if (g->m * g->n * g->k >= FEW)
  for (int64_t j = 0; j < g->n; j += OUTPUTS) {
    for (int64_t i = 0; i < g->m; i += ROWS) by_rows[cr_least(ROWS, g->m - i) - 1](g, i, j);
  }
}

/* c (rows, columns) += a (rows, steps) b (steps, columns) for some columns. `rows` and `steps` are
 * constants. */
CR_INLINE void add_steps(const cr_gemm_f32 *g, int64_t i, int rows, int64_t k, int steps,
                         int64_t from, int64_t end) {
  const int64_t row = g->a_transposed ? 1 : g->a_row, step = g->a_transposed ? g->a_row : 1;
  const float *line[STEPS];
  float *to[ROWS], factor[ROWS][STEPS] = {{0}};
  cr_lanes factors[ROWS][STEPS / CR_LANES];
  for (int s = 0; s < steps; ++s) line[s] = g->b + (k + s) * g->b_row;
  for (int r = 0; r < rows; ++r) {
    to[r] = g->c + (i + r) * g->c_row;
    for (int s = 0; s < steps; ++s) factor[r][s] = g->a[(i + r) * row + (k + s) * step];
    for (int v = 0; v < STEPS / CR_LANES; ++v) {
      factors[r][v] = cr_lanes_load(&factor[r][v * CR_LANES]);
    }
  }
  int64_t j = from;
  for (; j + CR_LANES <= end; j += CR_LANES) {
    cr_lanes sum[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) sum[r] = cr_lanes_load(to[r] + j);
#pragma GCC unroll 8
    for (int s = 0; s < steps; ++s) {
      const cr_lanes values = cr_lanes_load(line[s] + j);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) sum[r] += factors[r][s / CR_LANES][s % CR_LANES] * values;
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) cr_lanes_store(to[r] + j, sum[r]);
  }
  for (; j < end; ++j) {
    for (int s = 0; s < steps; ++s) {
      for (int r = 0; r < rows; ++r) to[r][j] += factor[r][s] * line[s][j];
    }
  }
}

CR_TILE_ALONE static void add_8_steps_to_1(const cr_gemm_f32 *g, int64_t i, int64_t k, int64_t from,
                                           int64_t end) {
  add_steps(g, i, 1, k, STEPS, from, end);
}
CR_TILE_ALONE static void add_8_steps_to_2(const cr_gemm_f32 *g, int64_t i, int64_t k, int64_t from,
                                           int64_t end) {
  add_steps(g, i, 2, k, STEPS, from, end);
}
CR_TILE_ALONE static void add_8_steps_to_3(const cr_gemm_f32 *g, int64_t i, int64_t k, int64_t from,
                                           int64_t end) {
  add_steps(g, i, 3, k, STEPS, from, end);
}
CR_TILE_ALONE static void add_8_steps_to_4(const cr_gemm_f32 *g, int64_t i, int64_t k, int64_t from,
                                           int64_t end) {
  add_steps(g, i, 4, k, STEPS, from, end);
}

/* Columns from..end of c. */
static void add_columns(const cr_gemm_f32 *g, int64_t from, int64_t end) {
  static void (*const by_rows[ROWS])(const cr_gemm_f32 *, int64_t, int64_t, int64_t, int64_t) = {
      add_8_steps_to_1, add_8_steps_to_2, add_8_steps_to_3, add_8_steps_to_4};
  for (int64_t i = 0; i < g->m && !g->accumulate; ++i) {
    memset(g->c + i * g->c_row + from, 0, (size_t)(end - from) * sizeof *g->c);
  }
  int64_t k = 0;
  for (; k + STEPS <= g->k; k += STEPS) {
    for (int64_t i = 0; i < g->m; i += ROWS) {
      by_rows[cr_least(ROWS, g->m - i) - 1](g, i, k, from, end);
    }
  }
  for (; k < g->k; ++k) {
    for (int64_t i = 0; i < g->m; ++i) add_steps(g, i, 1, k, 1, from, end);
  }
}

static void multiply_by_columns(const cr_gemm_f32 *g) {
#pragma omp parallel for schedule(static) if (g->m * g->n * g->k >= FEW)
  for (int64_t j = 0; j < g->n; j += RANGE) add_columns(g, j, cr_least(g->n, j + RANGE));
}

bool cr_few_rows_product(const cr_gemm_f32 *g) {
  if (g->m > (g->b_transposed ? LINES_MOST : COLUMNS_MOST)) return false;
  if (g->a_transposed && g->b_transposed) return false;
  if (g->b_transposed) {
    multiply_by_lines(g);
  } else {
    multiply_by_columns(g);
  }
  return true;
}
