/* GroupNorm: each group of channels of a sample to mean 0 and variance 1 (Wu and He, "Group
 * normalization", 2018).
 *
 * Formula: y = scale (x - mean) / sqrt(variance + eps) + bias, with the statistics of a group of C
 * / group neighbouring channels over all positions. With group_num instead of group there is no
 * scale and no bias.
 * Shapes: x (N, C, ...) -> y (as x), also in place. Parameters with group: 0 scale (1, C, 1, 1), 1
 * bias (1, C, 1, 1).
 * Fields: group_norm_param.
 * Caffe: as in two forks, which differ in the field for the groups. The fork with group has
 * parameters, the fork with group_num needs a Scale layer for them.
 * Example, x 2 6 4 4:
 *   layer { name: "norm" type: "GroupNorm" bottom: "x" top: "y"
 *     group_norm_param { group_num: 3 } } */
#include "core/fail.h"
#include "layers/common/layer_keep.h"
#include "layers/common/layer_noop.h"

typedef struct group_norm_state {
  int64_t groups;
  bool scales;
  float eps;
  cr_layer_op normalize, normalize_back;
  cr_layer_op scale, scale_back, add_scale, add_bias;
  cr_layer_keep keep;
  cr_tensor *mean, *variance, *normal;
} group_norm_state;

static crema_status add_params(cr_layer *layer, const Caffe__GroupNormParameter *param,
                               int64_t channels) {
  static const Caffe__FillerParameter one = CR_CONSTANT_FILLER(1);
  const crema_shape shape = cr_shape_4(1, channels, 1, 1);
  CR_TRY(cr_layer_set_params(layer, 2));
  CR_TRY(cr_layer_add_param(layer, 0, &shape, param->scale_filler ? param->scale_filler : &one));
  return cr_layer_add_param(layer, 1, &shape, param->bias_filler);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__GroupNormParameter defaults = CAFFE__GROUP_NORM_PARAMETER__INIT;
  group_norm_state *s = layer->state;
  const Caffe__GroupNormParameter *param =
      layer->param->group_norm_param ? layer->param->group_norm_param : &defaults;
  (void)top;
  if (param->has_group && param->has_group_num) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "either group or group_num can be given, not both");
  }
  s->scales = param->has_group || param->scale_filler != NULL || param->bias_filler != NULL;
  s->groups = param->has_group ? param->group : param->group_num;
  s->eps = param->eps;
  if (s->groups < 1) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "there are %lld groups, must be 1 or more",
                         (long long)s->groups);
  }
  CR_TRY(cr_layer_need_channels(layer, &bottom[0]->shape));
  return s->scales ? add_params(layer, param, bottom[0]->shape.dim[1]) : CREMA_OK;
}

static crema_status make_scale(cr_layer *layer, const crema_shape *shape) {
  group_norm_state *s = layer->state;
  const crema_shape x = cr_layer_fold(shape, 1, 2), channels = cr_shape_1(x.dim[1]);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_AFFINE_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->scale, &desc, &x, &channels, &channels, &x));
  desc.kind = CR_OP_AFFINE_BWD_DATA;
  CR_TRY(CR_LAYER_MAKE(layer, &s->scale_back, &desc, &x, &channels, &x));
  desc.kind = CR_OP_AFFINE_BWD_SCALE;
  CR_TRY(CR_LAYER_MAKE(layer, &s->add_scale, &desc, &x, &x, &channels));
  desc.kind = CR_OP_AFFINE_BWD_BIAS;
  CR_TRY(CR_LAYER_MAKE(layer, &s->add_bias, &desc, &x, &channels));
  return cr_layer_pass_tensor(layer, &s->normal, cr_layer_arithmetic(layer),
                              crema_shape_count(shape, 0, shape->axes));
}

/* Groups of all samples are the channels of a batch of one. */
static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  group_norm_state *s = layer->state;
  const crema_shape *shape = &bottom[0]->shape;
  const crema_dtype type = cr_layer_arithmetic(layer);
  char text[128];
  CR_TRY(cr_layer_need_channels(layer, shape));
  if (shape->dim[1] % s->groups != 0 ||
      (s->scales && crema_blob_count(layer->blob[0]) != shape->dim[1])) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "%lld groups and the parameters do not fit the channels of shape %s",
                         (long long)s->groups, crema_shape_text(shape, text, sizeof text));
  }
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], shape));
  const crema_shape groups = cr_shape_1(shape->dim[0] * s->groups);
  const crema_shape x = cr_shape_3(
      1, groups.dim[0], shape->dim[1] / s->groups * crema_shape_count(shape, 2, shape->axes));
  CR_TRY(cr_layer_pass_tensor(layer, &s->mean, type, groups.dim[0]));
  CR_TRY(cr_layer_pass_tensor(layer, &s->variance, type, groups.dim[0]));
  CR_TRY(cr_layer_keep_make(layer, &s->keep, bottom[0]));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_BN_FWD_TRAIN);
  desc.u.bn.eps = s->eps;
  CR_TRY(CR_LAYER_MAKE(layer, &s->normalize, &desc, &x, &x, &groups, &groups));
  desc.kind = CR_OP_BN_BWD;
  CR_TRY(CR_LAYER_MAKE(layer, &s->normalize_back, &desc, &x, &x, &groups, &groups, &x));
  return s->scales ? make_scale(layer, shape) : CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  group_norm_state *s = layer->state;
  cr_tensor *x = bottom[0]->data, *y = top[0]->data, *normal = s->scales ? s->normal : y;
  CR_TRY(cr_layer_keep_forward(layer, &s->keep, context, bottom[0], top[0], &x));
  CR_TRY(CR_LAYER_RUN(&s->normalize, context, x, normal, s->mean, s->variance));
  if (!s->scales) return CREMA_OK;
  return CR_LAYER_RUN(&s->scale, context, normal, layer->blob[0]->data, layer->blob[1]->data, y);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  group_norm_state *s = layer->state;
  cr_tensor *dy = top[0]->diff, *dx = bottom[0]->diff;
  if (s->scales && layer->param_propagate_down[0]) {
    CR_TRY(CR_LAYER_RUN(&s->add_scale, context, s->normal, dy, layer->blob[0]->diff));
  }
  if (s->scales && layer->param_propagate_down[1]) {
    CR_TRY(CR_LAYER_RUN(&s->add_bias, context, dy, layer->blob[1]->diff));
  }
  if (!propagate_down[0]) return CREMA_OK;
  if (s->scales) {
    CR_TRY(CR_LAYER_RUN(&s->scale_back, context, dy, layer->blob[0]->data, dx));
    dy = dx;
  }
  return CR_LAYER_RUN(&s->normalize_back, context, cr_layer_keep_input(&s->keep, bottom[0], top[0]),
                      dy, s->mean, s->variance, dx);
}

const cr_layer_class cr_layer_group_norm = {
    CR_LAYER_OF_OPS("GroupNorm", sizeof(group_norm_state), setup, reshape, forward, backward),
    .bottoms = {1, 1},
    .tops = {1, 1},
    .in_place = true,
    .uses_bottom = cr_layer_always,
    .fusion.reach = cr_layer_reaches_sample,
};
