/* Crop: cuts a window out of a blob.
 *
 * Formula: top = the window of x that has the extents of the reference from axis on, beginning at
 * offset (one for all axes, or one per axis).
 * Shapes: x, reference (same number of axes) -> y: x's extents before axis, the reference's extents
 * starting at axis.
 * Fields: crop_param.
 * Caffe: the same as in BVLC Caffe 1.0. In older versions no offset meant the window of the same
 * pixels as the reference; a warning says if that differs.
 * Example, x 2 3 8 8, reference 2 3 5 5:
 *   layer { name: "crop" type: "Crop" bottom: "x" bottom: "reference" top: "y"
 *     crop_param { axis: 2 offset: 1 } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_pair.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_CROP_FWD, {CR_X0, CR_Y}},
    .backward = {CR_OP_CROP_BWD, {CR_DY, CR_DX}},
};

static crema_status check_lists(const cr_layer *layer, const Caffe__CropParameter *param,
                                const crema_shape *from, const crema_shape *like, int axis) {
  size_t cropped = (size_t)(from->axes - axis);
  if (from->axes != like->axes) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 has %d axes and bottom 1 has %d",
                         from->axes, like->axes);
  }
  if (param->n_offset > 1 && param->n_offset != cropped) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "offset must be given once or once per cropped axis (%zu); found %zu",
                         cropped, param->n_offset);
  }
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__CropParameter defaults = CAFFE__CROP_PARAMETER__INIT;
  const Caffe__CropParameter *param =
      layer->param->crop_param ? layer->param->crop_param : &defaults;
  const crema_shape *from = &bottom[0]->shape, *like = &bottom[1]->shape;
  crema_shape to = *from;
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, from, param->axis, "axis", &axis));
  CR_TRY(check_lists(layer, param, from, like, axis));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_CROP_FWD);
  for (int i = axis; i < from->axes; ++i) {
    size_t entry = param->n_offset == 1 ? 0 : (size_t)(i - axis);
    desc.u.offset[i] = param->n_offset ? param->offset[entry] : 0;
    to.dim[i] = like->dim[i];
    if (desc.u.offset[i] + to.dim[i] > from->dim[i]) {
      return cr_layer_fail(
          layer, CREMA_E_SHAPE, "offset %lld and extent %lld exceed axis %d of extent %lld",
          (long long)desc.u.offset[i], (long long)to.dim[i], i, (long long)from->dim[i]);
    }
  }
  CR_TRY(crema_blob_reshape(top[0], &to));
  return cr_layer_pair_make(layer, bottom, top, &desc, &(cr_pair_shapes){0});
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  /* Only the shape of bottom 1 matters. */
  if (propagate_down[1]) cr_tensor_set_zero(bottom[1]->diff);
  return cr_layer_pair_backward(layer, context, top, propagate_down, bottom);
}

const cr_layer_class cr_layer_crop = {
    CR_LAYER_PAIR("Crop", cr_layer_pair, 2), .setup = cr_layer_noop, .reshape = reshape,
    .forward = cr_layer_pair_forward,        .backward = backward,   .graph.crops = true,
};
