/* Post operations in F32 or F64. */
#include "device/cpu/kernels/post_ops.h"

void cr_ref_posts(const cr_posts *posts, int64_t count, cr_real bias, const cr_real *from,
                  const cr_real *addend, cr_real *dst) {
  enum { PIECE = 256 };
  const int used = cr_posts_count(posts);
  cr_real value[PIECE];
  for (int64_t at = 0; at < count; at += PIECE) {
    const int64_t n = count - at < PIECE ? count - at : PIECE;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) value[i] = from[at + i] + bias;
    for (int k = 0; k < used; ++k) {
      if (posts->post[k].kind != CR_POST_ADD) {
        cr_ref_unary(&posts->post[k], n, value, value);
        continue;
      }
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) value[i] += addend[at + i];
    }
    memcpy(dst + at, value, (size_t)n * sizeof *value);
  }
}
