/* Element-wise functions of one argument, and their gradients. */
#ifndef CR_GPU_KERNELS_UNARY_H
#define CR_GPU_KERNELS_UNARY_H

#include "device/backend/op_enums.h"
#include "device/gpu/kernels/pack.h"
#include "device/gpu/kernels/thread_block.h"

typedef struct cr_unary_args {
  cr_hd_values x, y, dy;
  cr_hd_values out; /* y or dx */
  int function;
  float alpha, beta, gamma;
} cr_unary_args;

CR_HD float cr_power_of(float base, float power) {
  if (power == 1) return base;
  if (power == 2) return base * base;
  if (power == 3) return base * base * base;
  return power == 0 ? 1 : powf(base, power);
}

/* The share of a normal distribution below x, by which GELU multiplies x. */
CR_HD float cr_normal_share(float x) {
  return 0.5f * erfcf(-0.70710678f * x);
}

/* 2 sqrt(2 / pi) (x + 0.044715 x^3): 1 + tanh(u) = 2 sigmoid(2 u). */
CR_HD float cr_gelu_argument(float x) {
  return 1.59576912f * x * (1 + 0.044715f * x * x);
}

CR_HD float cr_unary_value(const cr_unary_args *a, float x) {
  switch (a->function) {
    /* A slope of 0 does not multiply, so that -infinity gives 0. */
    case CR_UNARY_RELU: return x < 0 ? (a->alpha == 0 ? 0 : a->alpha * x) : x;
    case CR_UNARY_SIGMOID: return cr_sigmoid_of(x);
    case CR_UNARY_TANH: return tanhf(x);
    case CR_UNARY_POWER: return cr_power_of(a->beta * x + a->gamma, a->alpha);
    case CR_UNARY_EXP: return expf(a->alpha * (a->beta * x + a->gamma));
    case CR_UNARY_LOG: return a->alpha * logf(a->beta * x + a->gamma);
    case CR_UNARY_ABS: return fabsf(x);
    case CR_UNARY_ELU: return a->beta * (x > 0 ? x : a->alpha * expm1f(x));
    case CR_UNARY_BNLL: return (x > 0 ? x : 0) + log1pf(expf(-fabsf(x)));
    case CR_UNARY_THRESHOLD: return x > a->alpha ? 1 : 0;
    case CR_UNARY_CLIP: return x < a->alpha ? a->alpha : x > a->beta ? a->beta : x;
    case CR_UNARY_SWISH: return x * cr_sigmoid_of(a->alpha * x);
    case CR_UNARY_GELU: return x * cr_normal_share(x);
    case CR_UNARY_GELU_TANH: return x * cr_sigmoid_of(cr_gelu_argument(x));
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

CR_HD float cr_gelu_slope(float x) {
  return cr_normal_share(x) + 0.39894228f * x * expf(-0.5f * x * x);
}

CR_HD float cr_gelu_tanh_slope(float x) {
  const float s = cr_sigmoid_of(cr_gelu_argument(x));
  return s + x * s * (1 - s) * 1.59576912f * (1 + 0.134145f * x * x);
}

/* dy / dx of all but the three functions with a special product as gradient. */
CR_HD float cr_unary_slope(const cr_unary_args *a, float x, float y) {
  switch (a->function) {
    case CR_UNARY_POWER: return cr_power_slope(a, x);
    case CR_UNARY_EXP: return a->alpha * a->beta * y;
    case CR_UNARY_LOG: return a->alpha * a->beta / (a->beta * x + a->gamma);
    case CR_UNARY_ABS: return (float)((x > 0) - (x < 0));
    case CR_UNARY_ELU: return x > 0 ? a->beta : y + a->beta * a->alpha;
    case CR_UNARY_BNLL: return cr_sigmoid_of(x);
    case CR_UNARY_THRESHOLD: return 0;
    case CR_UNARY_CLIP:
      if (x == a->alpha || x == a->beta) return a->gamma;
      return x > a->alpha && x < a->beta ? 1 : 0;
    case CR_UNARY_SWISH: return cr_swish_slope(a, x, y);
    case CR_UNARY_GELU: return cr_gelu_slope(x);
    case CR_UNARY_GELU_TANH: return cr_gelu_tanh_slope(x);
    default: return 1;
  }
}

CR_HD float cr_unary_fwd_device(const void *args, int64_t i) {
  const cr_unary_args *a = (const cr_unary_args *)args;
  return cr_unary_value(a, cr_get(a->x, i));
}

CR_HD float cr_unary_bwd_device(const void *args, int64_t i) {
  const cr_unary_args *a = (const cr_unary_args *)args;
  const float x = cr_get(a->x, i), y = cr_get(a->y, i), dy = cr_get(a->dy, i);
  switch (a->function) {
    case CR_UNARY_SIGMOID: return dy * y * (1 - y);
    case CR_UNARY_TANH: return dy * (1 - y * y);
    default: return dy * cr_unary_slope(a, x, y);
  }
}

/* The commonest function, without branches for other functions. */
CR_HD float cr_relu_value(const cr_unary_args *a, float x) {
  return x < 0 ? (a->alpha == 0 ? 0 : a->alpha * x) : x;
}

CR_HD float cr_relu_fwd_device(const void *args, int64_t i) {
  const cr_unary_args *a = (const cr_unary_args *)args;
  return cr_relu_value(a, cr_get(a->x, i));
}

CR_HD void cr_relu_fwd_pack(const void *args, int64_t i) {
  const cr_unary_args *a = (const cr_unary_args *)args;
  cr_pack y = cr_get_pack(a->x, i);
  CR_FOR_PACK(k) y.of[k] = cr_relu_value(a, y.of[k]);
  cr_put_pack(a->out, i, y);
}

CR_HD float cr_relu_bwd_device(const void *args, int64_t i) {
  const cr_unary_args *a = (const cr_unary_args *)args;
  const float dy = cr_get(a->dy, i);
  return cr_get(a->x, i) > 0 ? dy : a->alpha * dy;
}

CR_HD void cr_relu_bwd_pack(const void *args, int64_t i) {
  const cr_unary_args *a = (const cr_unary_args *)args;
  const cr_pack x = cr_get_pack(a->x, i);
  cr_pack dx = cr_get_pack(a->dy, i);
  CR_FOR_PACK(k) dx.of[k] = x.of[k] > 0 ? dx.of[k] : a->alpha * dx.of[k];
  cr_put_pack(a->out, i, dx);
}

#endif
