/* The solvers' rules; see cr_update_rule in device/backend/op_enums.h for the formulae. */
#ifndef CR_GPU_KERNELS_UPDATE_H
#define CR_GPU_KERNELS_UPDATE_H

#include "device/backend/op_enums.h"
#include "device/gpu/kernels/hd.h"

/* The number of segments that fit one launch, whose arguments have 4 KiB at most. */
enum { CR_GPU_SEGMENTS = 128 };

typedef struct cr_update_piece {
  int64_t begin, end; /* of elements */
  float rate, decay;
} cr_update_piece;

typedef struct cr_update_args {
  CR_GLOBAL float *w, *g, *h0, *h1; /* h1: NULL for rules with a single history */
  int rule;
  bool keep;      /* the step replaces the gradient */
  bool l1, apart; /* kinds of decay; apart: it is no part of the regularised gradient */
  float scale, momentum, momentum2, rms_decay, delta;
  int pieces; /* at least 1, in ascending order */
  cr_update_piece piece[CR_GPU_SEGMENTS];
} cr_update_args;

/* The last piece that begins at or before element i; the first piece begins at the first element of
 * the launch. */
CR_HD const cr_update_piece *cr_piece_of(const cr_update_args *a, int64_t i) {
  int low = 0, high = a->pieces;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (a->piece[middle].begin <= i) low = middle;
    else high = middle;
  }
  return &a->piece[low];
}

/* AdaGrad and RMSProp: h = old h + fresh g'^2. */
CR_HD float cr_step_scaled(const cr_update_args *a, float rate, int64_t i, float g, float old,
                           float fresh) {
  const float next = old * a->h0[i] + fresh * (g * g);
  a->h0[i] = next;
  return rate * (g / (sqrtf(next) + a->delta));
}

CR_HD float cr_step_adadelta(const cr_update_args *a, float rate, int64_t i, float g) {
  const float fresh = 1 - a->momentum;
  const float next = a->momentum * a->h0[i] + fresh * (g * g);
  const float step = g * sqrtf((a->h1[i] + a->delta) / (next + a->delta));
  a->h0[i] = next;
  a->h1[i] = a->momentum * a->h1[i] + fresh * (step * step);
  return rate * step;
}

CR_HD float cr_step_adam(const cr_update_args *a, float rate, int64_t i, float g) {
  const float first = a->momentum * a->h0[i] + (1 - a->momentum) * g;
  const float second = a->momentum2 * a->h1[i] + (1 - a->momentum2) * (g * g);
  a->h0[i] = first;
  a->h1[i] = second;
  return rate * first / (sqrtf(second) + a->delta);
}

/* The step that is subtracted from weight i, whose regularised gradient is g. */
CR_HD float cr_step_of(const cr_update_args *a, float rate, int64_t i, float g) {
  switch (a->rule) {
    case CR_UPDATE_SGD: {
      const float next = a->momentum * a->h0[i] + rate * g;
      a->h0[i] = next;
      return next;
    }
    case CR_UPDATE_NESTEROV: {
      const float old = a->h0[i], next = a->momentum * old + rate * g;
      a->h0[i] = next;
      return (1 + a->momentum) * next - a->momentum * old;
    }
    case CR_UPDATE_ADAGRAD: return cr_step_scaled(a, rate, i, g, 1, 1);
    case CR_UPDATE_RMSPROP: return cr_step_scaled(a, rate, i, g, a->rms_decay, 1 - a->rms_decay);
    case CR_UPDATE_ADADELTA: return cr_step_adadelta(a, rate, i, g);
    case CR_UPDATE_ADAM:
    case CR_UPDATE_DIRECTION: return cr_step_adam(a, rate, i, g);
    case CR_UPDATE_DESCENT: return rate * g;
    default: return 0;
  }
}

/* Number `i` counts from the beginning of the first piece; elements between pieces do not
 * change. */
CR_HD void cr_update_device(const void *args, int64_t i) {
  const cr_update_args *a = (const cr_update_args *)args;
  i += a->piece[0].begin;
  const cr_update_piece *piece = cr_piece_of(a, i);
  if (i >= piece->end) return;
  const float w = a->w[i];
  const float sign = w > 0 ? 1.0f : w < 0 ? -1.0f : 0.0f;
  const float decay = piece->decay * (a->l1 ? sign : w);
  const float slope = a->scale * a->g[i] + (a->apart ? 0 : decay);
  const float step = cr_step_of(a, piece->rate, i, slope) + (a->apart ? decay : 0);
  if (a->rule != CR_UPDATE_DIRECTION) a->w[i] = w - step;
  if (a->keep) a->g[i] = step;
}

#endif
