/* A matrix product of F32 or F64 for the plain kernels. */
#ifndef CR_DEVICE_CPU_KERNELS_GEMM_H
#define CR_DEVICE_CPU_KERNELS_GEMM_H

#include "device/cpu/kernels/element_type.h"

#define cr_ref_gemm CR_REF_NAME(cr_ref_gemm)

/* c = a b, or c += a b, all row-major: a is (m, k), b is (k, n), c is (m, n). */
typedef struct cr_gemm {
  int64_t m, n, k;
  const cr_real *a; /* element (i, p) at a[i * a_row + p * a_column] */
  int64_t a_row, a_column;
  const cr_real *b; /* element (p, j) at b[p * b_row + j], transposed: b[j * b_row + p] */
  int64_t b_row;
  bool b_transposed;
  cr_real *c; /* element (i, j) at c[i * c_row + j] */
  int64_t c_row;
  bool accumulate; /* c's old content is added to, else not read */
} cr_gemm;

/* Each element of c is summed in one fixed order, so that the result does not depend on the
 * number of threads. Extents of 0 are legal; k = 0 gives a product of zeros. */
void cr_ref_gemm(const cr_gemm *gemm);

#endif
