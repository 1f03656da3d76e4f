/* Normalize: vectors to Euclidean length 1, times a learnt scale (Liu et al., "ParseNet", 2015).
 *
 * Formula: y = scale * x / sqrt(sum of x^2 + eps), the sum over the channels of each position or,
 * with across_spatial, over the whole sample.
 * Shapes: x (N, C, ...) -> y (as x). Parameter: scale, one per channel (C) or, with channel_shared,
 * one for all (a scalar); filled with 1 unless scale_filler says otherwise.
 * Fields: norm_param.
 * Caffe: as in Caffe-SSD, whose gradient of the bottom is not that of this formula where the scales
 * of channels differ.
 * Example, x 2 3 4 4:
 *   layer { name: "norm" type: "Normalize" bottom: "x" top: "y"
 *     norm_param { across_spatial: false channel_shared: false
 *       scale_filler { type: "constant" value: 20 } } } */
#include "core/fail.h"
#include "layers/common/layer_op.h"

typedef struct normalize_state {
  bool across, shared;
  float eps;
  cr_layer_op forward, scale, backward, scale_back, weights;
  cr_tensor *unit, *diff_unit, *norm; /* x of length 1, and what it was divided by */
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
  const crema_shape *shape = &bottom[0]->shape;
  const int64_t count = crema_blob_count(bottom[0]);
  const crema_dtype type = cr_layer_arithmetic(layer);
  CR_TRY(cr_layer_need_channels(layer, shape));
  const crema_shape x = cr_layer_fold(shape, 1, 2);
  const crema_shape all = s->shared ? cr_shape_3(1, 1, count) : x;
  const crema_shape c = cr_shape_1(crema_blob_count(layer->blob[0]));
  const crema_shape norm = cr_shape_1(s->across ? x.dim[0] : x.dim[0] * x.dim[2]);
  if (all.dim[1] != c.dim[0]) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "there are scales for %lld channels, found %lld",
                         (long long)c.dim[0], (long long)all.dim[1]);
  }
  CR_TRY(crema_blob_reshape(top[0], shape));
  CR_TRY(cr_layer_tensor(layer, &s->unit, type, count));
  CR_TRY(cr_layer_tensor(layer, &s->diff_unit, type, count));
  CR_TRY(cr_layer_tensor(layer, &s->norm, type, norm.dim[0]));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_NORMALIZE_FWD);
  desc.u.normalize.across = s->across;
  desc.u.normalize.eps = s->eps;
  CR_TRY(cr_layer_op_make(layer, &s->forward, &desc, 3, (const crema_shape *[]){&x, &x, &norm}));
  desc.kind = CR_OP_NORMALIZE_BWD;
  CR_TRY(
      cr_layer_op_make(layer, &s->backward, &desc, 4, (const crema_shape *[]){&x, &norm, &x, &x}));
  desc = cr_layer_op_desc(CR_OP_AFFINE_FWD);
  CR_TRY(
      cr_layer_op_make(layer, &s->scale, &desc, 4, (const crema_shape *[]){&all, &c, NULL, &all}));
  desc.kind = CR_OP_AFFINE_BWD_DATA;
  CR_TRY(
      cr_layer_op_make(layer, &s->scale_back, &desc, 3, (const crema_shape *[]){&all, &c, &all}));
  desc.kind = CR_OP_AFFINE_BWD_SCALE;
  return cr_layer_op_make(layer, &s->weights, &desc, 3, (const crema_shape *[]){&all, &all, &c});
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  normalize_state *s = layer->state;
  CR_TRY(cr_layer_op_run(&s->forward, context, (cr_tensor *[]){bottom[0]->data, s->unit, s->norm},
                         NULL));
  return cr_layer_op_run(&s->scale, context,
                         (cr_tensor *[]){s->unit, layer->blob[0]->data, NULL, top[0]->data}, NULL);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  normalize_state *s = layer->state;
  if (layer->param_propagate_down[0]) {
    CR_TRY(cr_layer_op_run(&s->weights, context,
                           (cr_tensor *[]){s->unit, top[0]->diff, layer->blob[0]->diff}, NULL));
  }
  if (!propagate_down[0]) return CREMA_OK;
  CR_TRY(cr_layer_op_run(&s->scale_back, context,
                         (cr_tensor *[]){top[0]->diff, layer->blob[0]->data, s->diff_unit}, NULL));
  return cr_layer_op_run(&s->backward, context,
                         (cr_tensor *[]){s->unit, s->norm, s->diff_unit, bottom[0]->diff}, NULL);
}

const cr_layer_class cr_layer_normalize = {
    .type = "Normalize",
    .state_size = sizeof(normalize_state),
    .bottoms = {1, 1},
    .tops = {1, 1},
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
};
