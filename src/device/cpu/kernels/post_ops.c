/* Post operations, of values in full precision. */
#include "device/cpu/kernels/post_ops.h"

static void add(int64_t count, const cr_real *x, cr_real *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] += x[i];
}

static void apply(const cr_post *post, int64_t count, const cr_real *addend, cr_real *y) {
  if (post->kind == CR_POST_ADD) {
    add(count, addend, y);
  } else {
    cr_ref_unary(post, count, y);
  }
}

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
      apply(&posts->post[k], n, addend == NULL ? NULL : addend + at, value);
    }
    memcpy(dst + at, value, (size_t)n * sizeof *value);
  }
}
