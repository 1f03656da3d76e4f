/* Flip: mirrors maps.
 *
 * Formula: y[i][j] = x[H - 1 - i][W - 1 - j]; with flip_height: false i stays, with flip_width:
 * false j stays.
 * Shapes: x (N, C, H, W) -> y (as x).
 * Fields: flip_param.
 * Caffe: as in the forks for face recognition (NormFace). There is no gradient in these; here it
 * is mirrored, too.
 * Example, x 2 3 4 4:
 *   layer { name: "mirror" type: "Flip" bottom: "x" top: "y" flip_param { flip_width: true } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_pair.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_FLIP, {CR_X0, CR_Y}},
    .backward = {CR_OP_FLIP, {CR_DY, CR_DX}},
};

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__FlipParameter defaults = CAFFE__FLIP_PARAMETER__INIT;
  const Caffe__FlipParameter *param =
      layer->param->flip_param ? layer->param->flip_param : &defaults;
  const crema_shape *shape = &bottom[0]->shape;
  char text[128];
  if (shape->axes != 4) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottom must be a map of 4 axes, found shape %s",
                         crema_shape_text(shape, text, sizeof text));
  }
  cr_op_desc desc = cr_layer_op_desc(CR_OP_FLIP);
  desc.u.flipped = (param->flip_height ? 1u << 2 : 0) | (param->flip_width ? 1u << 3 : 0);
  CR_TRY(crema_blob_reshape(top[0], shape));
  return cr_layer_pair_make(layer, bottom, top, &desc, &(cr_pair_shapes){0});
}

const cr_layer_class cr_layer_flip = {
    CR_LAYER_PAIR("Flip", cr_layer_pair, 1),
    .int8.keeps_positive = true,
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = cr_layer_pair_forward,
    .backward = cr_layer_pair_backward,
    .fusion.reach = cr_layer_reaches_sample,
};
