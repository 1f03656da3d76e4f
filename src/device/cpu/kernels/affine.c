/* y = x * scale + bias, one scale and one bias per channel; x and y are (outer, C, inner). */
#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/post_ops.h"

/* y[i] = x[i] * scale[c] + bias[c]; NULL: 1 and 0. */
static void apply(const cr_split *s, const cr_real *x, const cr_real *scale, const cr_real *bias,
                  cr_real *y) {
  const int64_t rows = s->inner == 1 ? s->outer : s->outer * s->channels;
  const int64_t length = s->inner == 1 ? s->channels : s->inner;
#pragma omp parallel for schedule(static) if (rows * length >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < rows; ++r) {
    const cr_real *from = x + r * length;
    cr_real *to = y + r * length;
    if (s->inner == 1) {
#pragma omp simd
      for (int64_t c = 0; c < length; ++c) {
        const cr_real factor = scale ? scale[c] : 1, shift = bias ? bias[c] : 0;
        to[c] = from[c] * factor + shift;
      }
    } else {
      const int64_t c = r % s->channels;
      const cr_real factor = scale ? scale[c] : 1, shift = bias ? bias[c] : 0;
#pragma omp simd
      for (int64_t i = 0; i < length; ++i) to[i] = from[i] * factor + shift;
    }
  }
}

static void apply_posts(const cr_posts *posts, int64_t count, cr_real *y) {
  enum { PIECE = 4096 };
  if (cr_posts_count(posts) == 0) return;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t at = 0; at < count; at += PIECE) {
    const int64_t n = count - at < PIECE ? count - at : PIECE;
    cr_ref_posts(posts, n, 0, y + at, NULL, y + at);
  }
}

/* x, scale, bias, y. */
static crema_status affine_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  apply(&s, cr_as_reals(call->buffer, 0), cr_as_reals(call->buffer, 1),
        cr_as_reals(call->buffer, 2), cr_as_reals(call->buffer, 3));
  apply_posts(cr_op_posts(call->desc), cr_op_arg_count(call->desc, 3),
              cr_as_reals(call->buffer, 3));
  return CREMA_OK;
}

/* diff_dst, scale, diff_src. */
static crema_status affine_bwd_data(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  apply(&s, cr_as_reals(call->buffer, 0), cr_as_reals(call->buffer, 1), NULL,
        cr_as_reals(call->buffer, 2));
  return CREMA_OK;
}

CR_REF_KERNEL(affine_fwd, AFFINE_FWD, .run = affine_fwd);
CR_REF_KERNEL(affine_bwd_data, AFFINE_BWD_DATA, .run = affine_bwd_data);
