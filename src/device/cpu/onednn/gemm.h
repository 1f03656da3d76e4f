/* oneDNN's matrix product in single precision, for kernels that are more than one product. */
#ifndef CR_DEVICE_CPU_ONEDNN_GEMM_H
#define CR_DEVICE_CPU_ONEDNN_GEMM_H

#include <stdbool.h>
#include <stdint.h>

/* c = a b, or c += a b, all row-major: a is (m, k), transposed (k, m); b is (k, n), transposed
 * (n, k); c is (m, n). The rows are *_row elements apart. */
typedef struct cr_gemm_f32 {
  int64_t m, n, k;
  const float *a;
  int64_t a_row;
  bool a_transposed;
  const float *b;
  int64_t b_row;
  bool b_transposed;
  float *c;
  int64_t c_row;
  bool accumulate; /* c's old content is added to, else not read */
} cr_gemm_f32;

/* Extents of 0 are legal; k = 0 gives a product of zeros. */
void cr_cpu_gemm_f32(const cr_gemm_f32 *gemm);

#endif
