/* A tile of a matrix product, in vectors of four floats that the compiler maps to the processor's.
 *
 * The tile has 8 rows by 12 columns: 24 vectors of sums, which with 3 vectors of b and 2 of a stay
 * in the 32 registers of 64-bit Arm. Files that include this are compiled with -ffp-contract=fast
 * (src/CMakeLists.txt). Each step is one fused instruction per vector, also for elements at the
 * edge, so the bits do not depend on an element's place. */
#ifndef CR_DEVICE_CPU_KERNELS_VECTOR_TILE_H
#define CR_DEVICE_CPU_KERNELS_VECTOR_TILE_H

#include <stdint.h>

#include "core/cpu_dispatch.h"

enum { CR_LANES = 4, CR_TILE_ROWS = 8, CR_TILE_VECTORS = 3, CR_TILE_COLUMNS = 12 };

/* Inside a larger function GCC keeps other values in registers, and moves sums to memory and back
 * in each step. */
#define CR_TILE_ALONE __attribute__((noinline))

typedef float cr_lanes __attribute__((vector_size(CR_LANES * sizeof(float))));
typedef int32_t cr_lanes_mask __attribute__((vector_size(CR_LANES * sizeof(int32_t))));

CR_INLINE cr_lanes cr_lanes_load(const float *from) {
  typedef float lanes __attribute__((vector_size(sizeof(cr_lanes)), aligned(4), may_alias));
  return *(const lanes *)(const void *)from;
}

CR_INLINE void cr_lanes_store(float *to, cr_lanes value) {
  typedef float lanes __attribute__((vector_size(sizeof(cr_lanes)), aligned(4), may_alias));
  *(lanes *)(void *)to = value;
}

CR_INLINE cr_lanes cr_lanes_all(float value) {
  return (cr_lanes){value, value, value, value};
}

CR_INLINE cr_lanes cr_lanes_choose(cr_lanes_mask which, cr_lanes a, cr_lanes b) {
  return (cr_lanes)((which & (cr_lanes_mask)a) | (~which & (cr_lanes_mask)b));
}

/* Limits a value; NaN stays NaN. */
CR_INLINE cr_lanes cr_lanes_limit(cr_lanes x, cr_lanes low, cr_lanes high) {
  x = cr_lanes_choose(x < low, low, x);
  return cr_lanes_choose(x > high, high, x);
}

/* sum += a b: a (depth, 8) holds the rows of the tile, b (depth, 12) its columns. */
CR_INLINE void cr_tile_add(cr_lanes sum[CR_TILE_ROWS][CR_TILE_VECTORS], const float *a,
                           const float *b, int64_t depth) {
#pragma GCC unroll 2
  for (int64_t k = 0; k < depth; ++k, a += CR_TILE_ROWS, b += CR_TILE_COLUMNS) {
    const cr_lanes a0 = cr_lanes_load(a), a1 = cr_lanes_load(a + CR_LANES);
    const cr_lanes b0 = cr_lanes_load(b), b1 = cr_lanes_load(b + CR_LANES),
                   b2 = cr_lanes_load(b + 2 * CR_LANES);
#pragma GCC unroll 8
    for (int i = 0; i < CR_TILE_ROWS; ++i) {
      const float factor = i < CR_LANES ? a0[i] : a1[i - CR_LANES];
      sum[i][0] += factor * b0;
      sum[i][1] += factor * b1;
      sum[i][2] += factor * b2;
    }
  }
}

#endif
