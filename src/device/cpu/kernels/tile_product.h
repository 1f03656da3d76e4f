/* A matrix product in single precision for processors for which oneDNN has portable code only. */
#ifndef CR_DEVICE_CPU_KERNELS_TILE_PRODUCT_H
#define CR_DEVICE_CPU_KERNELS_TILE_PRODUCT_H

#include "device/cpu/onednn/gemm.h"

/* See cr_cpu_gemm_f32. The result has the same bits for any number of threads. */
void cr_tile_product(const cr_gemm_f32 *gemm);

/* The same for few rows, without tiles; false, and nothing done, for more rows or if both matrices
 * are transposed. */
bool cr_few_rows_product(const cr_gemm_f32 *gemm);

#endif
