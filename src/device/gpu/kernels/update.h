/* The solvers' rules; see cr_update_rule in device/backend/op_enums.h for the formulae. */
#ifndef CR_GPU_KERNELS_UPDATE_H
#define CR_GPU_KERNELS_UPDATE_H

#include "device/backend/op_enums.h"
#include "device/gpu/kernels/pack.h"

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

/* The numbers of one element that a step reads and writes. */
typedef struct cr_update_values {
  float w, g, h0, h1;
} cr_update_values;

/* Whether the rule has a first and a second history. */
CR_HD bool cr_update_has_h0(const cr_update_args *a) {
  return a->rule != CR_UPDATE_DESCENT;
}
CR_HD bool cr_update_has_h1(const cr_update_args *a) {
  return a->rule == CR_UPDATE_ADADELTA || a->rule == CR_UPDATE_ADAM ||
         a->rule == CR_UPDATE_DIRECTION;
}

/* AdaGrad and RMSProp: h = h decay + g^2 fresh. */
CR_HD float cr_step_scaled(const cr_update_args *a, float rate, cr_update_values *v, float g,
                           float old, float fresh) {
  v->h0 = old * v->h0 + fresh * (g * g);
  return rate * (g / (sqrtf(v->h0) + a->delta));
}

CR_HD float cr_step_adadelta(const cr_update_args *a, float rate, cr_update_values *v, float g) {
  const float fresh = 1 - a->momentum;
  const float next = a->momentum * v->h0 + fresh * (g * g);
  const float step = g * sqrtf((v->h1 + a->delta) / (next + a->delta));
  v->h0 = next;
  v->h1 = a->momentum * v->h1 + fresh * (step * step);
  return rate * step;
}

CR_HD float cr_step_adam(const cr_update_args *a, float rate, cr_update_values *v, float g) {
  v->h0 = a->momentum * v->h0 + (1 - a->momentum) * g;
  v->h1 = a->momentum2 * v->h1 + (1 - a->momentum2) * (g * g);
  return rate * v->h0 / (sqrtf(v->h1) + a->delta);
}

/* The step that is subtracted from a weight, whose regularised gradient is g. */
CR_HD float cr_step_of(const cr_update_args *a, float rate, cr_update_values *v, float g) {
  switch (a->rule) {
    case CR_UPDATE_SGD: v->h0 = a->momentum * v->h0 + rate * g; return v->h0;
    case CR_UPDATE_NESTEROV: {
      const float old = v->h0, next = a->momentum * old + rate * g;
      v->h0 = next;
      return (1 + a->momentum) * next - a->momentum * old;
    }
    case CR_UPDATE_ADAGRAD: return cr_step_scaled(a, rate, v, g, 1, 1);
    case CR_UPDATE_RMSPROP: return cr_step_scaled(a, rate, v, g, a->rms_decay, 1 - a->rms_decay);
    case CR_UPDATE_ADADELTA: return cr_step_adadelta(a, rate, v, g);
    case CR_UPDATE_ADAM:
    case CR_UPDATE_DIRECTION: return cr_step_adam(a, rate, v, g);
    case CR_UPDATE_DESCENT: return rate * g;
    default: return 0;
  }
}

CR_HD void cr_update_values_of(const cr_update_args *a, const cr_update_piece *piece,
                               cr_update_values *v) {
  const float w = v->w, sign = w > 0 ? 1.0f : w < 0 ? -1.0f : 0.0f;
  const float decay = piece->decay * (a->l1 ? sign : w);
  const float slope = a->scale * v->g + (a->apart ? 0 : decay);
  const float step = cr_step_of(a, piece->rate, v, slope) + (a->apart ? decay : 0);
  v->w = w - step;
  v->g = step;
}

/* Number `i` counts from the beginning of the first piece; elements between pieces do not
 * change. */
CR_HD void cr_update_device(const void *args, int64_t i) {
  const cr_update_args *a = (const cr_update_args *)args;
  i += a->piece[0].begin;
  const cr_update_piece *piece = cr_piece_of(a, i);
  if (i >= piece->end) return;
  cr_update_values v;
  v.w = a->w[i];
  v.g = a->g[i];
  v.h0 = cr_update_has_h0(a) ? a->h0[i] : 0;
  v.h1 = cr_update_has_h1(a) ? a->h1[i] : 0;
  cr_update_values_of(a, piece, &v);
  if (cr_update_has_h0(a)) a->h0[i] = v.h0;
  if (cr_update_has_h1(a)) a->h1[i] = v.h1;
  if (a->rule != CR_UPDATE_DIRECTION) a->w[i] = v.w;
  if (a->keep) a->g[i] = v.g;
}

/* Four elements of one piece. */
CR_HD void cr_update_four(const cr_update_args *a, const cr_update_piece *piece, int64_t i) {
  float w[4], g[4], h0[4] = {0, 0, 0, 0}, h1[4] = {0, 0, 0, 0};
  cr_get_floats(a->w, i, w);
  cr_get_floats(a->g, i, g);
  if (cr_update_has_h0(a)) cr_get_floats(a->h0, i, h0);
  if (cr_update_has_h1(a)) cr_get_floats(a->h1, i, h1);
  for (int k = 0; k < 4; ++k) {
    cr_update_values v;
    v.w = w[k];
    v.g = g[k];
    v.h0 = h0[k];
    v.h1 = h1[k];
    cr_update_values_of(a, piece, &v);
    w[k] = v.w;
    g[k] = v.g;
    h0[k] = v.h0;
    h1[k] = v.h1;
  }
  if (cr_update_has_h0(a)) cr_put_floats(a->h0, i, h0);
  if (cr_update_has_h1(a)) cr_put_floats(a->h1, i, h1);
  if (a->rule != CR_UPDATE_DIRECTION) cr_put_floats(a->w, i, w);
  if (a->keep) cr_put_floats(a->g, i, g);
}

/* The first piece begins at a multiple of 16 bytes. All arrays are floats. */
CR_HD void cr_update_pack(const void *args, int64_t i) {
  const cr_update_args *a = (const cr_update_args *)args;
  const int64_t at = a->piece[0].begin + i;
  const cr_update_piece *piece = cr_piece_of(a, at);
  if (CR_PACK == 4 && at + 4 <= piece->end) {
    cr_update_four(a, piece, at);
    return;
  }
  for (int k = 0; k < CR_PACK; ++k) cr_update_device(a, i + k);
}

#endif
