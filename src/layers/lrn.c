/* LRN: local response normalisation (Krizhevsky, Sutskever and Hinton, 2012).
 *
 * Formula: y = x / (k + alpha / n * sum of x^2 over a window) ^ beta. The window has n = local_size
 * neighbouring channels. With WITHIN_CHANNEL it has n = local_size^2 positions of the same channel,
 * and k is 1.
 * Shapes: x (N, C, H, W) -> y (as x). Across channels, x has any number of spatial axes. Within a
 * channel it has two, because no Caffe defines a window over three.
 * Fields: lrn_param.
 * Caffe: needs two spatial axes.
 * Example, x 2 8 4 4:
 *   layer { name: "norm" type: "LRN" bottom: "x" top: "y"
 *     lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 } } */
#include <math.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_pair.h"

typedef struct lrn_state {
  cr_layer_pair pair;
  cr_lrn_params params;
  cr_layer_op quantize; /* instead of the pair's, if the top has integers */
} lrn_state;

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_LRN_FWD, {CR_X0, CR_Y, CR_BYTES}},
    .backward = {CR_OP_LRN_BWD, {CR_X0, CR_Y, CR_DY, CR_BYTES, CR_DX}},
    .bytes_for_backward = true,
};

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__LRNParameter defaults = CAFFE__LRNPARAMETER__INIT;
  lrn_state *s = layer->state;
  const Caffe__LRNParameter *param = layer->param->lrn_param ? layer->param->lrn_param : &defaults;
  (void)top, (void)bottom;
  if (param->local_size % 2 == 0) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "local_size is %u, must be odd", param->local_size);
  }
  s->params.within_channel = param->norm_region == CAFFE__LRNPARAMETER__NORM_REGION__WITHIN_CHANNEL;
  s->params.size = param->local_size;
  s->params.alpha = param->alpha;
  s->params.beta = param->beta;
  s->params.k = s->params.within_channel ? 1 : param->k;
  return CREMA_OK;
}

static bool makes_integers(const cr_layer *layer) {
  return !cr_dtype_is_floating(layer->types.forward);
}

static crema_status check_axes(const cr_layer *layer, const crema_shape *shape) {
  const lrn_state *s = layer->state;
  char text[128];
  if (s->params.within_channel ? shape->axes == 4 : shape->axes >= 2) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       s->params.within_channel
                           ? "norm_region WITHIN_CHANNEL needs a bottom of 4 axes (num, channels, "
                             "height, width), found %s"
                           : "the bottom must have 2 axes (num, channels) or more, found %s",
                       crema_shape_text(shape, text, sizeof text));
}

/* The shape as the ops expect it: spatial axes that are not two become one of them. */
static crema_shape fold(const crema_shape *shape) {
  if (shape->axes == 4) return *shape;
  return cr_shape_4(shape->dim[0], shape->dim[1], 1, crema_shape_count(shape, 2, shape->axes));
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  lrn_state *s = layer->state;
  const crema_shape *shape = &bottom[0]->shape;
  CR_TRY(check_axes(layer, shape));
  const crema_shape folded = fold(shape);
  CR_TRY(crema_blob_reshape(top[0], shape));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_LRN_FWD);
  desc.u.lrn = s->params;
  if (makes_integers(layer)) {
    desc.kind = CR_OP_LRN_QUANTIZE;
    return CR_LAYER_MAKE(layer, &s->quantize, &desc, &folded, &folded);
  }
  /* The library's values for its gradient are computed by training kernels, whose last bits differ.
   * In phase TEST there is none: with a memory plan, without a backward pass, the values would be
   * others. */
  const bool notes = layer->phase == CAFFE__PHASE__TRAIN;
  return cr_layer_pair_make(
      layer, bottom, top, &desc,
      &(cr_pair_shapes){.x = {&folded}, .y = &folded, .bytes = notes ? &folded : NULL});
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  lrn_state *s = layer->state;
  if (!makes_integers(layer)) return cr_layer_pair_forward(layer, context, bottom, top);
  return CR_LAYER_RUN(&s->quantize, context, bottom[0]->data, top[0]->data);
}

/* f x s^-beta = x (f^(-1/beta) s)^-beta, and s is made of k and alpha. Small powers would take that
 * out of the range of float. */
static bool rescale(Caffe__LayerParameter *param, float factor) {
  Caffe__LRNParameter *p = param->lrn_param;
  if (p == NULL || !(p->beta >= 0.25f) || p->local_size > CR_LRN_WINDOW_MAX ||
      p->norm_region != CAFFE__LRNPARAMETER__NORM_REGION__ACROSS_CHANNELS) {
    return false;
  }
  const float inner = powf(factor, -1 / p->beta);
  p->k *= inner;
  p->alpha *= inner;
  return true;
}

const cr_layer_class cr_layer_lrn = {
    CR_LAYER_PAIR("LRN", lrn_state, 1),
    .int8.takes_bf16 = true,
    .int8.rounds_tops = true,
    .int8.keeps_positive = true,
    .memory.runs_ops = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = cr_layer_pair_backward,
    .uses_bottom = cr_layer_always,
    .fusion.reach = cr_layer_reaches_sample,
    .int8.rescale = rescale,
};
