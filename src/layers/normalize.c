/* Normalize: vectors to Euclidean length 1, times a learnt scale (Liu et al., "ParseNet", 2015).
 *
 * Formula: y = scale * x / sqrt(sum of x^2 + eps). The sum is over the channels of each position
 * or, with across_spatial, over the sample.
 * Shapes: x (N, C, ...) -> y (as x). Parameter: scale, one per channel (C) or, with channel_shared,
 * one for all (a scalar); filled with 1 unless scale_filler says otherwise.
 * Fields: norm_param.
 * Caffe: as in Caffe-SSD, whose gradient of the bottom does not fit this formula if the scales of
 * channels differ.
 * Example, x 2 3 4 4:
 *   layer { name: "norm" type: "Normalize" bottom: "x" top: "y"
 *     norm_param { across_spatial: false channel_shared: false
 *       scale_filler { type: "constant" value: 20 } } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

typedef struct normalize_state {
  bool across, shared;
  float eps;
  cr_layer_op forward, backward, backward_scale, backward_data; /* of both, of one */
  cr_tensor *norm;                                              /* the divisor of x */
} normalize_state;

static const Caffe__NormalizeParameter *param_of(const cr_layer *layer) {
  static const Caffe__NormalizeParameter defaults = CAFFE__NORMALIZE_PARAMETER__INIT;
  return layer->param->norm_param ? layer->param->norm_param : &defaults;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__FillerParameter one = CR_CONSTANT_FILLER(1);
  normalize_state *s = layer->state;
  const Caffe__NormalizeParameter *param = param_of(layer);
  (void)top;
  CR_TRY(cr_layer_need_channels(layer, &bottom[0]->shape));
  if (!(param->eps >= 0 && param->eps < 1e30f)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "eps is %g, must be 0 or more", (double)param->eps);
  }
  s->across = param->across_spatial;
  s->shared = param->channel_shared;
  s->eps = param->eps;
  const crema_shape scale = s->shared ? cr_shape(0, NULL) : cr_shape_1(bottom[0]->shape.dim[1]);
  CR_TRY(cr_layer_set_params(layer, 1));
  return cr_layer_add_param(layer, 0, &scale, param->scale_filler ? param->scale_filler : &one);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  normalize_state *s = layer->state;
  const crema_shape *shape = &bottom[0]->shape, *scale = &layer->blob[0]->shape;
  CR_TRY(cr_layer_need_channels(layer, shape));
  const crema_shape x = cr_layer_fold(shape, 1, 2);
  const crema_shape norm = cr_shape_1(s->across ? x.dim[0] : x.dim[0] * x.dim[2]);
  const int64_t scales = crema_blob_count(layer->blob[0]);
  if (!s->shared && x.dim[1] != scales) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "there are scales for %lld channels, found %lld",
                         (long long)scales, (long long)x.dim[1]);
  }
  CR_TRY(crema_blob_reshape(top[0], shape));
  CR_TRY(cr_layer_tensor(layer, &s->norm, cr_layer_arithmetic(layer), norm.dim[0]));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_NORMALIZE_FWD);
  desc.u.normalize.across = s->across;
  desc.u.normalize.eps = s->eps;
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, &x, scale, &x, &norm));
  desc.kind = CR_OP_NORMALIZE_BWD;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward, &desc, &x, scale, &norm, &x, &x, scale));
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward_data, &desc, &x, scale, &norm, &x, &x, NULL));
  return CR_LAYER_MAKE(layer, &s->backward_scale, &desc, &x, scale, &norm, &x, NULL, scale);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  normalize_state *s = layer->state;
  return CR_LAYER_RUN(&s->forward, context, bottom[0]->data, layer->blob[0]->data, top[0]->data,
                      s->norm);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  normalize_state *s = layer->state;
  const bool data = propagate_down[0], scale = layer->param_propagate_down[0];
  cr_layer_op *op = data && scale ? &s->backward : data ? &s->backward_data : &s->backward_scale;
  if (!data && !scale) return CREMA_OK;
  return CR_LAYER_RUN(op, context, bottom[0]->data, layer->blob[0]->data, s->norm, top[0]->diff,
                      data ? bottom[0]->diff : NULL, scale ? layer->blob[0]->diff : NULL);
}

const cr_layer_class cr_layer_normalize = {
    CR_LAYER_OF_OPS("Normalize", sizeof(normalize_state), setup, reshape, forward, backward),
    .bottoms = {1, 1},
    .tops = {1, 1},
    .uses_bottom = cr_layer_always,
};
