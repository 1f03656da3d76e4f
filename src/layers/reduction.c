/* Reduction: one number out of many.
 *
 * Formula: y = coeff * the sum (SUM), mean (MEAN), sum of absolute values (ASUM) or sum of squares
 * (SUMSQ) over all axes from axis on.
 * Shapes: x (any) -> y: the axes of x before axis; a scalar with axis 0.
 * Fields: reduction_param.
 * Caffe: the same.
 * Example, x 2 3 4:
 *   layer { name: "mean" type: "Reduction" bottom: "x" top: "y"
 *     reduction_param { operation: MEAN axis: 1 } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_pair.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_ROW_REDUCE_FWD, {CR_X0, CR_Y}},
    .backward = {CR_OP_ROW_REDUCE_BWD, {CR_X0, CR_DY, CR_DX}},
};

static cr_reduction reduction_of(Caffe__ReductionParameter__ReductionOp operation) {
  if (operation == CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__ASUM) return CR_REDUCE_ASUM;
  if (operation == CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__SUMSQ) return CR_REDUCE_SUMSQ;
  return CR_REDUCE_SUM;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__ReductionParameter defaults = CAFFE__REDUCTION_PARAMETER__INIT;
  const Caffe__ReductionParameter *param =
      layer->param->reduction_param ? layer->param->reduction_param : &defaults;
  const crema_shape *from = &bottom[0]->shape;
  int axis = 0;
  if (from->axes > 0) CR_TRY(cr_layer_axis(layer, from, param->axis, "axis", &axis));
  const int64_t width = crema_shape_count(from, axis, from->axes);
  const crema_shape to = cr_shape(axis, from->dim);
  const crema_shape x = cr_shape_2(crema_shape_count(from, 0, axis), width);
  const crema_shape y = cr_shape_1(x.dim[0]);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_ROW_REDUCE_FWD);
  desc.u.rows.reduction = reduction_of(param->operation);
  desc.u.rows.coeff = (double)param->coeff;
  if (param->operation == CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__MEAN && width > 0) {
    desc.u.rows.coeff /= (double)width;
  }
  CR_TRY(crema_blob_reshape(top[0], &to));
  return cr_layer_pair_make(layer, bottom, top, &desc, &(cr_pair_shapes){.x = {&x}, .y = &y});
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  static const Caffe__ReductionParameter defaults = CAFFE__REDUCTION_PARAMETER__INIT;
  const Caffe__ReductionParameter *param =
      layer->param->reduction_param ? layer->param->reduction_param : &defaults;
  (void)bottom;
  return reduction_of(param->operation) != CR_REDUCE_SUM;
}

const cr_layer_class cr_layer_reduction = {
    CR_LAYER_PAIR("Reduction", cr_layer_pair, 1),
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = cr_layer_pair_forward,
    .backward = cr_layer_pair_backward,
    .uses_bottom = uses_bottom,
};
