/* Element-wise functions of one argument, and their gradients. */
#ifndef CR_CUDA_KERNELS_UNARY_H
#define CR_CUDA_KERNELS_UNARY_H

#include "device/backend/op_desc.h"
#include "device/cuda/kernels/thread_block.h"

typedef struct cr_unary_args {
  const float *x, *y, *dy;
  float *out; /* y or dx */
  int function;
  float alpha, beta, gamma;
} cr_unary_args;

CR_HD void cr_unary_fwd_device(const void *args, int64_t i) {
  const cr_unary_args *a = (const cr_unary_args *)args;
  const float x = a->x[i];
  float y = x;
  switch (a->function) {
    case CR_UNARY_RELU:
      /* A slope of 0 does not multiply, so that -infinity gives 0. */
      if (x < 0) y = a->alpha == 0 ? 0 : a->alpha * x;
      break;
    case CR_UNARY_SIGMOID: y = cr_sigmoid_of(x); break;
    case CR_UNARY_TANH: y = tanhf(x); break;
    default: break;
  }
  a->out[i] = y;
}

CR_HD void cr_unary_bwd_device(const void *args, int64_t i) {
  const cr_unary_args *a = (const cr_unary_args *)args;
  const float dy = a->dy[i];
  float dx = dy;
  switch (a->function) {
    case CR_UNARY_RELU: dx = a->x[i] > 0 ? dy : a->alpha * dy; break;
    case CR_UNARY_SIGMOID: dx = dy * a->y[i] * (1 - a->y[i]); break;
    case CR_UNARY_TANH: dx = dy * (1 - a->y[i] * a->y[i]); break;
    default: break;
  }
  a->out[i] = dx;
}

CR_HD float cr_power_of(float base, float power) {
  if (power == 1) return base;
  if (power == 2) return base * base;
  if (power == 3) return base * base * base;
  return power == 0 ? 1 : powf(base, power);
}

CR_HD float cr_function_value(const cr_unary_args *a, float x) {
  switch (a->function) {
    case CR_FUNCTION_POWER: return cr_power_of(a->beta * x + a->gamma, a->alpha);
    case CR_FUNCTION_EXP: return expf(a->alpha * (a->beta * x + a->gamma));
    case CR_FUNCTION_LOG: return a->alpha * logf(a->beta * x + a->gamma);
    case CR_FUNCTION_ABS: return fabsf(x);
    case CR_FUNCTION_ELU: return a->beta * (x > 0 ? x : a->alpha * expm1f(x));
    case CR_FUNCTION_BNLL: return (x > 0 ? x : 0) + log1pf(expf(-fabsf(x)));
    case CR_FUNCTION_THRESHOLD: return x > a->alpha ? 1 : 0;
    case CR_FUNCTION_CLIP: return x < a->alpha ? a->alpha : x > a->beta ? a->beta : x;
    case CR_FUNCTION_SWISH: return x * cr_sigmoid_of(a->alpha * x);
    default: return x;
  }
}

CR_HD float cr_power_slope(const cr_unary_args *a, float x) {
  const float base = a->beta * x + a->gamma, factor = a->alpha * a->beta;
  if (factor == 0) return 0;
  if (a->alpha == 1) return factor;
  return a->alpha == 2 ? factor * base : factor * powf(base, a->alpha - 1);
}

CR_HD float cr_swish_slope(const cr_unary_args *a, float x, float y) {
  const float s = cr_sigmoid_of(a->alpha * x);
  return a->alpha * y + s * (1 - a->alpha * y);
}

/* d y / d x. */
CR_HD float cr_function_slope(const cr_unary_args *a, float x, float y) {
  switch (a->function) {
    case CR_FUNCTION_POWER: return cr_power_slope(a, x);
    case CR_FUNCTION_EXP: return a->alpha * a->beta * y;
    case CR_FUNCTION_LOG: return a->alpha * a->beta / (a->beta * x + a->gamma);
    case CR_FUNCTION_ABS: return (float)((x > 0) - (x < 0));
    case CR_FUNCTION_ELU: return x > 0 ? a->beta : y + a->beta * a->alpha;
    case CR_FUNCTION_BNLL: return cr_sigmoid_of(x);
    case CR_FUNCTION_THRESHOLD: return 0;
    case CR_FUNCTION_CLIP: return x >= a->alpha && x <= a->beta ? 1 : 0;
    case CR_FUNCTION_SWISH: return cr_swish_slope(a, x, y);
    default: return 1;
  }
}

CR_HD void cr_function_fwd_device(const void *args, int64_t i) {
  const cr_unary_args *a = (const cr_unary_args *)args;
  a->out[i] = cr_function_value(a, a->x[i]);
}

CR_HD void cr_function_bwd_device(const void *args, int64_t i) {
  const cr_unary_args *a = (const cr_unary_args *)args;
  a->out[i] = a->dy[i] * cr_function_slope(a, a->x[i], a->y[i]);
}

#endif
