/* A plain kernel's matrix product for the fast products of floats. */
#ifndef CR_DEVICE_CPU_KERNELS_PRODUCT_H
#define CR_DEVICE_CPU_KERNELS_PRODUCT_H

#include "device/cpu/kernels/gemm.h"
#include "device/cpu/kernels/tile_product.h"
#include "device/cpu/onednn/gemm.h"

#ifdef CR_REF_F32

static inline cr_gemm_f32 cr_gemm_of_floats(const cr_gemm *g) {
  return (cr_gemm_f32){.m = g->m,
                       .n = g->n,
                       .k = g->k,
                       .a = g->a,
                       .a_row = g->a_column == 1 ? g->a_row : g->a_column,
                       .a_transposed = g->a_column != 1,
                       .b = g->b,
                       .b_row = g->b_row,
                       .b_transposed = g->b_transposed,
                       .c = g->c,
                       .c_row = g->c_row,
                       .accumulate = g->accumulate};
}

static inline void cr_multiply_in_tiles(const cr_gemm *g) {
  const cr_gemm_f32 floats = cr_gemm_of_floats(g);
  cr_tile_product(&floats);
}

#endif

#endif
