#include "device/cpu/onednn/gemm.h"

#include <dnnl.h>
#include <string.h>

#include "device/cpu/kernels/tile_product.h"

/* It fails only for lack of memory for packed copies, without which it is computed here. */
static void plain(const cr_gemm_f32 *g) {
  const int64_t a_row = g->a_transposed ? 1 : g->a_row, a_step = g->a_transposed ? g->a_row : 1;
  const int64_t b_row = g->b_transposed ? 1 : g->b_row, b_step = g->b_transposed ? g->b_row : 1;
  for (int64_t i = 0; i < g->m; ++i) {
    for (int64_t j = 0; j < g->n; ++j) {
      float *c = &g->c[i * g->c_row + j];
      float sum = g->accumulate ? *c : 0;
      for (int64_t p = 0; p < g->k; ++p) {
        sum += g->a[i * a_row + p * a_step] * g->b[p * b_row + j * b_step];
      }
      *c = sum;
    }
  }
}

/* True where oneDNN multiplies with portable code. */
static bool is_portable(void) {
#ifdef __x86_64__
  return false;
#else
  return true;
#endif
}

void cr_cpu_gemm_f32(const cr_gemm_f32 *g) {
  if (is_portable()) {
    cr_tile_product(g);
    return;
  }
  if (g->m > 0 && g->n > 0 && g->k > 0 &&
      dnnl_sgemm(g->a_transposed ? 'T' : 'N', g->b_transposed ? 'T' : 'N', g->m, g->n, g->k, 1,
                 g->a, g->a_row, g->b, g->b_row, g->accumulate ? 1 : 0, g->c,
                 g->c_row) == dnnl_success) {
    return;
  }
  plain(g);
}
