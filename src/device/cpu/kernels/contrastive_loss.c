/* The contrastive loss of pairs of rows (Hadsell, Chopra and LeCun, "Dimensionality reduction by
 * learning an invariant mapping", 2006). Similar rows at distance d have the loss d^2, all other
 * rows max(0, margin - d)^2. In the legacy version the latter is max(0, margin - d^2). */
#include "device/cpu/kernels/loss.h"

/* Whether the integer part of a flag is not 0; NaN counts as similar. */
static bool is_similar(cr_real flag) {
  return !(fabs(flag) < 1);
}

/* a_i - b_i */
CR_INLINE double gap(const cr_real *a, const cr_real *b, int64_t i) {
  return (double)a[i] - (double)b[i];
}

CR_REF_CLONES static double square_distance(const cr_real *a, const cr_real *b, int64_t length) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < length; ++i) sum += gap(a, b, i) * gap(a, b, i);
  return sum;
}

/* The loss of a pair of rows. */
static double contrastive_loss(const cr_op_desc *desc, bool similar, double square) {
  const bool legacy = desc->u.contrastive.legacy;
  const double missing = (double)desc->u.contrastive.margin - (legacy ? square : sqrt(square));
  if (similar) return square;
  if (!(missing > 0)) return 0;
  return legacy ? missing : missing * missing;
}

/* a (N, C), b (N, C), similar (N), loss. */
static crema_status contrastive_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *a = cr_as_reals(call->buffer, 0), *b = cr_as_reals(call->buffer, 1);
  const cr_real *similar = cr_as_reals(call->buffer, 2);
  double loss[CR_REF_PARTS];
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    loss[p] = 0;
    for (int64_t n = cr_ref_part(s.outer, p); n < cr_ref_part(s.outer, p + 1); ++n) {
      const int64_t at = n * s.channels;
      const double square = square_distance(a + at, b + at, s.channels);
      loss[p] += contrastive_loss(call->desc, is_similar(similar[n]), square);
    }
  }
  *cr_as_reals(call->buffer, 3) = (cr_real)cr_loss_sum(loss);
  return CREMA_OK;
}

CR_REF_CLONES static void scale_gaps(const cr_real *a, const cr_real *b, int64_t count,
                                     double factor, cr_real *out) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) out[i] = (cr_real)(factor * gap(a, b, i));
}

/* a, b, similar, diff_loss, diff_a; the gradient of b is the opposite. The distance that divides
 * has 1e-4 added to avoid a division by 0, as in Caffe. */
static crema_status contrastive_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *a = cr_as_reals(call->buffer, 0), *b = cr_as_reals(call->buffer, 1);
  const cr_real *similar = cr_as_reals(call->buffer, 2);
  cr_real *da = cr_as_reals(call->buffer, 4);
  cr_real factor = 0;
  const double margin = (double)call->desc->u.contrastive.margin;
  const bool legacy = call->desc->u.contrastive.legacy;
  CR_TRY(cr_loss_factor(call->scalars, cr_as_reals(call->buffer, 3), &factor));
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t n = 0; n < s.outer; ++n) {
    const int64_t at = n * s.channels;
    double slope = 2;
    if (!is_similar(similar[n])) {
      const double square = square_distance(a + at, b + at, s.channels), distance = sqrt(square);
      const double missing = margin - (legacy ? square : distance);
      slope = missing > 0 ? (legacy ? -2 : -2 * missing / (distance + 1e-4)) : 0;
    }
    scale_gaps(a + at, b + at, s.channels, slope * (double)factor, da + at);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(contrastive_fwd, CONTRASTIVE_FWD, .run = contrastive_fwd);
CR_REF_KERNEL(contrastive_bwd, CONTRASTIVE_BWD, .run = contrastive_bwd);
