/* Local response normalisation (Krizhevsky et al., 2012):
 *
 *     s_i = k + alpha / n * (sum of x_j^2 over the window W(i))
 *     y_i = x_i s_i^-beta
 *     dx_i = dy_i s_i^-beta - 2 alpha beta / n * x_i * (sum of dy_j y_j / s_j over j, i in W(j))
 *
 * n is the number of elements of a window: size across channels, size^2 within one. Each loop over
 * the tensor ends before the next one begins. dst may therefore be src, and diff_src may be src or
 * diff_dst. aux is not used. */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/extent.h"

typedef struct lrn {
  int64_t images, channels, height, width;
  bool within;
  int64_t before, after; /* elements of a window on either side of its centre */
  cr_real k, factor, beta;
} lrn;

static lrn lrn_of(const cr_op_desc *desc) {
  const cr_lrn_params *p = &desc->u.lrn;
  const int64_t *dim = desc->arg[0].shape.dim;
  const cr_real n = (cr_real)p->size * (p->within_channel ? (cr_real)p->size : 1);
  lrn l = {dim[0], dim[1], dim[2], dim[3], .within = p->within_channel};
  l.before = (p->size - 1) / 2, l.after = p->size - 1 - l.before;
  l.k = (cr_real)p->k, l.factor = (cr_real)p->alpha / n, l.beta = (cr_real)p->beta;
  return l;
}

/* Indices first to end - 1 along one axis. */
typedef struct range {
  int64_t first, end;
} range;

static range range_of(int64_t i, int64_t before, int64_t after, int64_t extent) {
  return (range){cr_most(i - before, 0), cr_least(i + after + 1, extent)};
}

/* The sum over the window of element i of x^2, or of x if `square` is false. */
static cr_real window_sum(const lrn *l, int64_t before, int64_t after, int64_t i, bool square,
                          const cr_real *x) {
  const int64_t w = i % l->width, h = i / l->width % l->height;
  const int64_t c = i / l->width / l->height % l->channels;
  const range row = range_of(h, l->within ? before : 0, l->within ? after : 0, l->height);
  const range column = range_of(w, l->within ? before : 0, l->within ? after : 0, l->width);
  const range channel = range_of(c, l->within ? 0 : before, l->within ? 0 : after, l->channels);
  const int64_t image = i - (c * l->height + h) * l->width - w;
  cr_real sum = 0;
  for (int64_t d = channel.first; d < channel.end; ++d) {
    for (int64_t y = row.first; y < row.end; ++y) {
      for (int64_t z = column.first; z < column.end; ++z) {
        const cr_real value = x[image + (d * l->height + y) * l->width + z];
        sum += square ? value * value : value;
      }
    }
  }
  return sum;
}

/* The workspace has s, and backward also dy y / s. */
static crema_status plan_fwd(cr_plan *plan) {
  CR_TRY(cr_check_lrn(plan));
  plan->workspace_bytes = (size_t)cr_op_arg_count(plan->desc, 0) * sizeof(cr_real);
  return CREMA_OK;
}

static crema_status plan_bwd(cr_plan *plan) {
  CR_TRY(plan_fwd(plan));
  plan->workspace_bytes *= 2;
  return CREMA_OK;
}

static void find_s(const lrn *l, int64_t count, const cr_real *x, cr_real *s) {
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 4)
  for (int64_t i = 0; i < count; ++i) {
    s[i] = l->k + l->factor * window_sum(l, l->before, l->after, i, true, x);
  }
}

/* src, dst, aux. */
static crema_status lrn_fwd(const cr_call *call) {
  const lrn l = lrn_of(call->desc);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const cr_real *x = cr_as_reals(call->buffer, 0);
  cr_real *y = cr_as_reals(call->buffer, 1), *s = cr_as_reals(&call->workspace, 0);
  find_s(&l, count, x, s);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 4)
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * pow(s[i], -l.beta);
  return CREMA_OK;
}

/* src, dst, diff_dst, aux, diff_src; dst may have been overwritten by a layer in place. */
static crema_status lrn_bwd(const cr_call *call) {
  const lrn l = lrn_of(call->desc);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const cr_real *x = cr_as_reals(call->buffer, 0), *dy = cr_as_reals(call->buffer, 2);
  cr_real *dx = cr_as_reals(call->buffer, 4);
  cr_real *s = cr_as_reals(&call->workspace, 0), *ratio = s + count;
  const cr_real slope = 2 * l.factor * l.beta;
  find_s(&l, count, x, s);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 4)
  for (int64_t i = 0; i < count; ++i) ratio[i] = dy[i] * x[i] * (pow(s[i], -l.beta) / s[i]);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 4)
  for (int64_t i = 0; i < count; ++i) {
    /* A window that has element i begins at most `after` elements before it. */
    const cr_real sum = window_sum(&l, l.after, l.before, i, false, ratio);
    dx[i] = dy[i] * pow(s[i], -l.beta) - slope * x[i] * sum;
  }
  return CREMA_OK;
}

CR_REF_KERNEL(lrn_fwd, LRN_FWD, .plan = plan_fwd, .run = lrn_fwd);
CR_REF_KERNEL(lrn_bwd, LRN_BWD, .plan = plan_bwd, .run = lrn_bwd);
