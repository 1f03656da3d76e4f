/* Reorg: moves pixels to channels (Redmon and Farhadi, "YOLO9000", 2017).
 *
 * Formula: let c' = C / stride^2. Read the bottom as a map (c', H stride, W stride). Its value (c,
 * y stride + o / stride, x stride + o % stride) becomes value (o c' + c, y, x) of a map of the
 * bottom's extents, which is the top's data. With reverse the mapping is inverted.
 * Shapes: x (N, C, H, W) -> y (N, C stride^2, H / stride, W / stride); with reverse (N, C /
 * stride^2, H stride, W stride).
 * Fields: reorg_param.
 * Caffe: as in Intel Caffe, after Darknet; the gradient follows the formula.
 * Example, x 2 4 6 6:
 *   layer { name: "reorg" type: "Reorg" bottom: "x" top: "y" reorg_param { stride: 2 } } */
#include "core/fail.h"
#include "layers/common/layer_pair.h"
#include "layers/common/layer_shape.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_PERMUTE, {CR_X0, CR_Y}},
    .backward = {CR_OP_PERMUTE, {CR_DY, CR_DX}},
};

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__ReorgParameter *param = layer->param->reorg_param;
  (void)bottom, (void)top;
  if (param != NULL && param->stride > 0 && param->stride < 65536) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_ARGUMENT, "reorg_param needs a stride of 1 or more");
}

static crema_status check(const cr_layer *layer, const crema_shape *shape, int64_t stride,
                          bool reverse) {
  char text[128];
  if (shape->axes == 4 && shape->dim[1] % (stride * stride) == 0 &&
      (reverse || (shape->dim[2] % stride == 0 && shape->dim[3] % stride == 0))) {
    return CREMA_OK;
  }
  return cr_layer_fail(
      layer, CREMA_E_SHAPE,
      "the bottom must have 4 axes; the stride %lld must divide the last two and its "
      "square the channels, found shape %s",
      (long long)stride, crema_shape_text(shape, text, sizeof text));
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const int order[2][6] = {{0, 3, 5, 1, 2, 4}, {0, 3, 4, 1, 5, 2}};
  const crema_shape *from = &bottom[0]->shape;
  const int64_t s = layer->param->reorg_param->stride;
  const bool reverse = layer->param->reorg_param->reverse;
  cr_op_desc there = cr_layer_op_desc(CR_OP_PERMUTE), back = there;
  CR_TRY(check(layer, from, s, reverse));
  const int64_t n = from->dim[0], c = from->dim[1] / (s * s), h = from->dim[2], w = from->dim[3];
  const crema_shape pixels = cr_shape(6, (const int64_t[]){n, c, h, s, w, s});
  const crema_shape channels = cr_shape(6, (const int64_t[]){n, s, s, c, h, w});
  crema_shape to = reverse ? cr_shape(4, (const int64_t[]){n, c, h, w})
                           : cr_shape(4, (const int64_t[]){n, from->dim[1], h / s, w / s});
  for (int i = 0; i < 2; ++i) CR_TRY(cr_layer_multiply(layer, s, &to.dim[reverse ? 2 + i : 1]));
  CR_TRY(crema_blob_reshape(top[0], &to));
  for (int i = 0; i < 6; ++i) {
    there.u.order[i] = order[reverse][i];
    back.u.order[i] = order[!reverse][i];
  }
  return cr_layer_pair_make(layer, bottom, top, &there,
                            &(cr_pair_shapes){.x = {reverse ? &channels : &pixels},
                                              .y = reverse ? &pixels : &channels,
                                              .backward = &back});
}

const cr_layer_class cr_layer_reorg = {
    CR_LAYER_PAIR("Reorg", cr_layer_pair, 1),
    .setup = setup,
    .reshape = reshape,
    .forward = cr_layer_pair_forward,
    .backward = cr_layer_pair_backward,
};
