/* Post operations, of values in full precision. */
#include "device/cpu/ref_posts.h"

static void rectify(int64_t count, cr_real slope, cr_real *y) {
  /* Without a product for slope 0, so that -infinity gives 0. */
  if (slope == 0) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = y[i] < 0 ? 0 : y[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = y[i] < 0 ? slope * y[i] : y[i];
  }
}

static void add(int64_t count, const cr_real *x, cr_real *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] += x[i];
}

static void apply(const cr_post *post, int64_t count, const cr_real *addend, cr_real *y) {
  const cr_real alpha = (cr_real)post->alpha, beta = (cr_real)post->beta;
  const cr_real gamma = (cr_real)post->gamma;
  if (post->kind == CR_POST_ADD) {
    add(count, addend, y);
  } else if (post->function == CR_UNARY_RELU) {
    rectify(count, alpha, y);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      y[i] = cr_ref_unary(post->function, alpha, beta, gamma, y[i]);
    }
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
