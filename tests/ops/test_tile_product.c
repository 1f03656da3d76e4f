/* The matrix products in tiles and of few rows against sums in double. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "core/rng.h"
#include "device/cpu/kernels/tile_product.h"

enum { GUARD = 3 }; /* floats between rows, which the product leaves alone */

static float *random_floats(cr_mt19937 *rng, int64_t count) {
  float *values = malloc((size_t)count * sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < count; ++i) values[i] = cr_mt19937_uniform(rng) - 0.5f;
  return values;
}

static float element(const float *x, int64_t row, bool transposed, int64_t i, int64_t j) {
  return transposed ? x[j * row + i] : x[i * row + j];
}

static void check_row(const cr_gemm_f32 *g, const float *before, int64_t i) {
  for (int64_t j = 0; j < g->c_row; ++j) {
    const float found = g->c[i * g->c_row + j], old = before[i * g->c_row + j];
    double sum = g->accumulate ? (double)old : 0, size = fabs(sum);
    if (j >= g->n) {
      assert_true(found == old);
      continue;
    }
    for (int64_t k = 0; k < g->k; ++k) {
      const double term = (double)element(g->a, g->a_row, g->a_transposed, i, k) *
                          (double)element(g->b, g->b_row, g->b_transposed, k, j);
      sum += term;
      size += fabs(term);
    }
    /* Each of k additions rounds by at most half a unit of the largest partial sum. */
    assert_true(fabs((double)found - sum) <= size * (double)(g->k + 1) * 0x1p-24);
  }
}

/* kinds: bits for a transposed, b transposed, accumulate. */
static void check_product(cr_mt19937 *rng, int64_t m, int64_t n, int64_t k, unsigned kinds) {
  cr_gemm_f32 g = {.m = m, .n = n, .k = k, .c_row = n + GUARD};
  g.a_transposed = (kinds & 1) != 0;
  g.b_transposed = (kinds & 2) != 0;
  g.accumulate = (kinds & 4) != 0;
  g.a_row = (g.a_transposed ? m : k) + GUARD;
  g.b_row = (g.b_transposed ? k : n) + GUARD;
  float *a = random_floats(rng, (g.a_transposed ? k : m) * g.a_row + 1);
  float *b = random_floats(rng, (g.b_transposed ? n : k) * g.b_row + 1);
  float *c = random_floats(rng, m * g.c_row + 1), *before = random_floats(rng, m * g.c_row + 1);
  for (int64_t i = 0; i < m * g.c_row; ++i) before[i] = c[i];
  g.a = a;
  g.b = b;
  g.c = c;
  cr_tile_product(&g);
  for (int64_t i = 0; i < m; ++i) check_row(&g, before, i);
  free(before);
  free(c);
  free(b);
  free(a);
}

TEST(equals_sums_in_double) {
  /* Below, at and beyond a tile, a task and a step of the depth; few rows, by any number of lines
   * and steps. */
  static const int64_t extent[][3] = {{1, 1, 1},    {8, 12, 256},  {7, 11, 5},   {9, 13, 257},
                                      {16, 24, 30}, {1, 300, 600}, {130, 97, 2}, {128, 96, 3},
                                      {3, 5, 0},    {0, 4, 4},     {4, 0, 4},    {1, 513, 8},
                                      {2, 512, 9},  {3, 517, 15},  {4, 514, 16}, {5, 19, 17},
                                      {6, 3, 39},   {12, 7, 30},   {13, 9, 31}};
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 1703);
  for (size_t i = 0; i < sizeof extent / sizeof extent[0]; ++i) {
    for (unsigned kinds = 0; kinds < 8; ++kinds) {
      check_product(&rng, extent[i][0], extent[i][1], extent[i][2], kinds);
    }
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
