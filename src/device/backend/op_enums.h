/* Numbers of an op's description that device functions know, too. In the common subset of C, C++ and
 * OpenCL C. */
#ifndef CR_DEVICE_BACKEND_OP_ENUMS_H
#define CR_DEVICE_BACKEND_OP_ENUMS_H

/* The most spatial axes. */
enum { CR_MAX_SPATIAL = 8 };

typedef enum cr_unary {
  CR_UNARY_RELU,      /* x for x > 0, alpha x otherwise */
  CR_UNARY_SIGMOID,   /* 1 / (1 + exp(-x)) */
  CR_UNARY_TANH,      /* tanh(x) */
  CR_UNARY_POWER,     /* (beta x + gamma)^alpha */
  CR_UNARY_EXP,       /* exp(alpha (beta x + gamma)) */
  CR_UNARY_LOG,       /* alpha log(beta x + gamma) */
  CR_UNARY_ABS,       /* |x| */
  CR_UNARY_ELU,       /* beta x for x > 0, beta alpha (exp(x) - 1) otherwise */
  CR_UNARY_BNLL,      /* log(1 + exp(x)) */
  CR_UNARY_THRESHOLD, /* 1 for x > alpha, 0 otherwise */
  CR_UNARY_CLIP,      /* x cut to [alpha, beta]; its derivative at alpha and beta is gamma */
  CR_UNARY_SWISH,     /* x / (1 + exp(-alpha x)) */
  CR_UNARY_GELU,      /* x / 2 (1 + erf(x / sqrt(2))) */
  CR_UNARY_GELU_TANH, /* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
  CR_UNARY_FUNCTIONS
} cr_unary;

/* The most post operations of an op. */
enum { CR_POSTS = 4 };

typedef enum cr_reduction { CR_REDUCE_SUM, CR_REDUCE_ASUM, CR_REDUCE_SUMSQ } cr_reduction;

/* g' = grad_scale * g + decay term (L2: decay * w, L1: decay * sign(w)). A decoupled decay is no
 * part of g': decay * w is subtracted from w in addition to the rule's step. */
typedef enum cr_update_rule {
  CR_UPDATE_SGD,      /* h = momentum h + rate g'; w -= h */
  CR_UPDATE_NESTEROV, /* h' = momentum h + rate g'; w -= (1 + momentum) h' - momentum h */
  CR_UPDATE_ADAGRAD,  /* h += g'^2; w -= rate g' / (sqrt(h) + delta) */
  CR_UPDATE_RMSPROP,  /* h = rms_decay h + (1 - rms_decay) g'^2; as AdaGrad */
  CR_UPDATE_ADADELTA, /* h0: squared gradients, h1: squared steps */
  CR_UPDATE_ADAM,     /* h0: first, h1: second moment; rate holds the bias correction */
  /* For layer-wise rates, in two steps: the gradient becomes the step of Adam, decoupled decay
   * included, and w stays (only UPDATE_KEEP); then w -= rate g', and the history stays. */
  CR_UPDATE_DIRECTION,
  CR_UPDATE_DESCENT
} cr_update_rule;

#endif
