/* MVN: each image to mean 0 and variance 1.
 *
 * Formula: y = x - mean or, with normalize_variance, (x - mean) / (deviation + eps), for each
 * channel of each image or, with across_channels, for each image.
 * Shapes: x (N, C, ...) -> y (as x), also in place.
 * Fields: mvn_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "normal" type: "MVN" bottom: "x" top: "y" mvn_param { across_channels: true } }
 *
 * The gradient takes that divisor for the deviation, as Caffe does. */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_pair.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_MVN_FWD, {CR_X0, CR_Y, CR_OWN0}},
    .backward = {CR_OP_MVN_BWD, {CR_Y, CR_OWN0, CR_DY, CR_DX}},
};

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__MVNParameter defaults = CAFFE__MVNPARAMETER__INIT;
  const Caffe__MVNParameter *param = layer->param->mvn_param ? layer->param->mvn_param : &defaults;
  const crema_shape *shape = &bottom[0]->shape;
  int rows = param->across_channels ? 1 : 2;
  if (rows > shape->axes) rows = shape->axes;
  const crema_shape x =
      cr_shape_2(crema_shape_count(shape, 0, rows), crema_shape_count(shape, rows, shape->axes));
  const crema_shape divisors = cr_shape_1(x.dim[0]);
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], shape));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_MVN_FWD);
  desc.u.mvn.variance = param->normalize_variance;
  desc.u.mvn.eps = param->eps;
  return cr_layer_pair_make(layer, bottom, top, &desc,
                            &(cr_pair_shapes){.x = {&x}, .y = &x, .own = {&divisors}});
}

static cr_value_use uses_tops(const cr_layer *layer, bool in_place) {
  const Caffe__MVNParameter *param = layer->param->mvn_param;
  (void)in_place;
  return param == NULL || param->normalize_variance ? CR_VALUES_ALL : CR_VALUES_NONE;
}

const cr_layer_class cr_layer_mvn = {
    CR_LAYER_PAIR("MVN", cr_layer_pair, 1),
    .in_place = true,
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = cr_layer_pair_forward,
    .backward = cr_layer_pair_backward,
    .uses_tops = uses_tops,
};
