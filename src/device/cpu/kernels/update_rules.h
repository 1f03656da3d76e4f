/* The solvers' update rules, each in a single loop over weight, gradient and history.
 *
 * g' is grad_scale g + decay w (L1: decay sign(w)), and d is the step that is subtracted:
 *
 * - SGD: h = momentum h + rate g', d = h.
 * - Nesterov (Sutskever et al., 2013): n = momentum h + rate g', d = (1 + momentum) n - momentum h,
 *   h = n.
 * - AdaGrad (Duchi et al., 2011): h += g'^2, d = rate g' / (sqrt(h) + delta).
 * - RMSProp (Tieleman and Hinton, 2012): h = rms_decay h + (1 - rms_decay) g'^2, d as AdaGrad.
 * - AdaDelta (Zeiler, 2012): a = momentum a + (1 - momentum) g'^2, u = g' sqrt((b + delta) /
 *   (a + delta)), b = momentum b + (1 - momentum) u^2, d = rate u.
 * - Adam (Kingma and Ba, 2015): m = momentum m + (1 - momentum) g', v = momentum2 v + (1 -
 *   momentum2) g'^2, d = rate m / (sqrt(v) + delta).
 * - A direction (LAMB: You et al., 2020): the d of Adam, which replaces the gradient; w stays.
 * - A descent along a direction: d = rate g'.
 *
 * A decoupled decay (Loshchilov and Hutter, 2019) adds decay w to d and not to g'.
 *
 * The loops are bound by memory: one read and one write of weight and history, one read of the
 * gradient, and one write of it if the step is kept. */
#ifndef CR_DEVICE_CPU_KERNELS_UPDATE_RULES_H
#define CR_DEVICE_CPU_KERNELS_UPDATE_RULES_H

#include "device/cpu/kernels/element_type.h"

/* One run of elements. The arrays do not overlap. */
typedef struct update_run {
  cr_real *restrict w, *restrict g, *restrict h0, *restrict h1;
  cr_real scale, l1, l2, rate, momentum, momentum2, rms_decay, delta;
  cr_real apart; /* factor of the decay that is no part of g' */
} update_run;

/* g' */
CR_INLINE cr_real regularised(const update_run *u, cr_real g, cr_real w) {
  const cr_real sign = w > 0 ? 1.0f : w < 0 ? -1.0f : 0.0f;
  return u->scale * g + (u->l2 * w + u->l1 * sign);
}

CR_INLINE void take_step(const update_run *u, cr_real *w, cr_real *g, cr_real d, bool keep) {
  const cr_real step = d + u->apart * *w;
  *w -= step;
  if (keep) *g = step;
}

CR_INLINE void update_sgd(update_run u, bool keep, int64_t n) {
  cr_real *restrict w = u.w, *restrict g = u.g, *restrict h = u.h0;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const cr_real d = u.momentum * h[i] + u.rate * regularised(&u, g[i], w[i]);
    h[i] = d;
    take_step(&u, &w[i], &g[i], d, keep);
  }
}

CR_INLINE void update_nesterov(update_run u, bool keep, int64_t n) {
  cr_real *restrict w = u.w, *restrict g = u.g, *restrict h = u.h0;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const cr_real next = u.momentum * h[i] + u.rate * regularised(&u, g[i], w[i]);
    const cr_real d = (1 + u.momentum) * next - u.momentum * h[i];
    h[i] = next;
    take_step(&u, &w[i], &g[i], d, keep);
  }
}

/* AdaGrad and RMSProp: h = old h + fresh g'^2. */
CR_INLINE void update_scaled(update_run u, cr_real old, cr_real fresh, bool keep, int64_t n) {
  cr_real *restrict w = u.w, *restrict g = u.g, *restrict h = u.h0;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const cr_real slope = regularised(&u, g[i], w[i]);
    const cr_real next = old * h[i] + fresh * (slope * slope);
    const cr_real d = u.rate * (slope / (sqrt(next) + u.delta));
    h[i] = next;
    take_step(&u, &w[i], &g[i], d, keep);
  }
}

CR_INLINE void update_adadelta(update_run u, bool keep, int64_t n) {
  cr_real *restrict w = u.w, *restrict g = u.g, *restrict a = u.h0, *restrict b = u.h1;
  const cr_real fresh = 1 - u.momentum;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const cr_real slope = regularised(&u, g[i], w[i]);
    const cr_real next = u.momentum * a[i] + fresh * (slope * slope);
    const cr_real step = slope * sqrt((b[i] + u.delta) / (next + u.delta));
    const cr_real d = u.rate * step;
    a[i] = next;
    b[i] = u.momentum * b[i] + fresh * (step * step);
    take_step(&u, &w[i], &g[i], d, keep);
  }
}

/* `moves` and `keep` are constants in the callers that inline this function. */
CR_INLINE void update_adam(update_run u, bool keep, bool moves, int64_t n) {
  cr_real *restrict w = u.w, *restrict g = u.g, *restrict m = u.h0, *restrict v = u.h1;
  const cr_real fresh = 1 - u.momentum, fresh2 = 1 - u.momentum2;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const cr_real slope = regularised(&u, g[i], w[i]);
    const cr_real first = u.momentum * m[i] + fresh * slope;
    const cr_real second = u.momentum2 * v[i] + fresh2 * (slope * slope);
    const cr_real d = u.rate * first / (sqrt(second) + u.delta);
    m[i] = first;
    v[i] = second;
    if (moves) take_step(&u, &w[i], &g[i], d, keep);
    else g[i] = d + u.apart * w[i];
  }
}

CR_INLINE void update_descent(update_run u, bool keep, int64_t n) {
  cr_real *restrict w = u.w, *restrict g = u.g;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    take_step(&u, &w[i], &g[i], u.rate * regularised(&u, g[i], w[i]), keep);
  }
}

/* Inlined twice, with `keep` a constant: a store under a condition is not vectorised. */
CR_INLINE void update_by(cr_update_rule rule, update_run u, bool keep, int64_t n) {
  switch (rule) {
    case CR_UPDATE_SGD: update_sgd(u, keep, n); break;
    case CR_UPDATE_NESTEROV: update_nesterov(u, keep, n); break;
    case CR_UPDATE_ADAGRAD: update_scaled(u, 1, 1, keep, n); break;
    case CR_UPDATE_RMSPROP: update_scaled(u, u.rms_decay, 1 - u.rms_decay, keep, n); break;
    case CR_UPDATE_ADADELTA: update_adadelta(u, keep, n); break;
    case CR_UPDATE_ADAM: update_adam(u, keep, true, n); break;
    case CR_UPDATE_DIRECTION: update_adam(u, keep, false, n); break;
    case CR_UPDATE_DESCENT: update_descent(u, keep, n); break;
  }
}

#endif
