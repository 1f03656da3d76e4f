/* The solvers' rules; the formulae are those of cr_update_rule in device/backend/op_desc.h. */
#ifndef CR_CUDA_KERNELS_UPDATE_H
#define CR_CUDA_KERNELS_UPDATE_H

#include "device/backend/op_desc.h"
#include "device/cuda/kernels/hd.h"

typedef struct cr_update_args {
  float *w, *g, *h0, *h1; /* h1: NULL for rules with a single history */
  int rule;
  bool keep; /* the step replaces the gradient */
  float scale, l1, l2, rate, momentum, momentum2, rms_decay, delta;
  float apart; /* factor of the decay that is no part of the regularised gradient */
} cr_update_args;

/* AdaGrad and RMSProp: h = old h + fresh g'^2. */
CR_HD float cr_step_scaled(const cr_update_args *a, int64_t i, float g, float old, float fresh) {
  const float next = old * a->h0[i] + fresh * (g * g);
  a->h0[i] = next;
  return a->rate * (g / (sqrtf(next) + a->delta));
}

CR_HD float cr_step_adadelta(const cr_update_args *a, int64_t i, float g) {
  const float fresh = 1 - a->momentum;
  const float next = a->momentum * a->h0[i] + fresh * (g * g);
  const float step = g * sqrtf((a->h1[i] + a->delta) / (next + a->delta));
  a->h0[i] = next;
  a->h1[i] = a->momentum * a->h1[i] + fresh * (step * step);
  return a->rate * step;
}

CR_HD float cr_step_adam(const cr_update_args *a, int64_t i, float g) {
  const float first = a->momentum * a->h0[i] + (1 - a->momentum) * g;
  const float second = a->momentum2 * a->h1[i] + (1 - a->momentum2) * (g * g);
  a->h0[i] = first;
  a->h1[i] = second;
  return a->rate * first / (sqrtf(second) + a->delta);
}

/* What is subtracted from weight i, whose regularised gradient is g. */
CR_HD float cr_step_of(const cr_update_args *a, int64_t i, float g) {
  switch (a->rule) {
    case CR_UPDATE_SGD: {
      const float next = a->momentum * a->h0[i] + a->rate * g;
      a->h0[i] = next;
      return next;
    }
    case CR_UPDATE_NESTEROV: {
      const float old = a->h0[i], next = a->momentum * old + a->rate * g;
      a->h0[i] = next;
      return (1 + a->momentum) * next - a->momentum * old;
    }
    case CR_UPDATE_ADAGRAD: return cr_step_scaled(a, i, g, 1, 1);
    case CR_UPDATE_RMSPROP: return cr_step_scaled(a, i, g, a->rms_decay, 1 - a->rms_decay);
    case CR_UPDATE_ADADELTA: return cr_step_adadelta(a, i, g);
    case CR_UPDATE_ADAM: return cr_step_adam(a, i, g);
    default: return 0;
  }
}

CR_HD void cr_update_device(const void *args, int64_t i) {
  const cr_update_args *a = (const cr_update_args *)args;
  const float w = a->w[i];
  const float sign = w > 0 ? 1.0f : w < 0 ? -1.0f : 0.0f;
  const float slope = a->scale * a->g[i] + (a->l2 * w + a->l1 * sign);
  const float step = cr_step_of(a, i, slope) + a->apart * w;
  a->w[i] = w - step;
  if (a->keep) a->g[i] = step;
}

#endif
