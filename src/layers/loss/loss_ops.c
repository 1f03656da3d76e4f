#include "layers/loss/loss_ops.h"

#include "core/fail.h"

crema_status cr_loss_make_sum(cr_layer *layer, cr_layer_op *op, float a_scale, float b_scale,
                              const crema_shape *shape) {
  const cr_op_desc desc = cr_layer_op_desc(CR_OP_SUM);
  return cr_layer_op_make_scaled(layer, op, &desc, 3, (const crema_shape *[]){shape, shape, shape},
                                 (const float[]){a_scale, b_scale, 1});
}

crema_status cr_loss_make_product(cr_layer *layer, cr_layer_op *op, int sources,
                                  const crema_shape *shape) {
  const cr_op_desc desc = cr_layer_op_desc(CR_OP_PROD);
  return cr_layer_op_make(layer, op, &desc, sources + 1,
                          (const crema_shape *[]){shape, shape, shape, shape});
}

crema_status cr_loss_make_rows(cr_layer *layer, cr_layer_op *op, cr_reduction reduction,
                               int64_t rows, int64_t width) {
  const crema_shape from = cr_shape_2(rows, width), to = cr_shape_1(rows);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_ROW_REDUCE_FWD);
  desc.u.rows.reduction = reduction;
  desc.u.rows.coeff = 1;
  return CR_LAYER_MAKE(layer, op, &desc, &from, &to);
}

crema_status cr_loss_make_scaled_rows(cr_layer *layer, cr_layer_op *op, int64_t rows,
                                      int64_t width) {
  const crema_shape x = cr_shape_3(1, rows, width), factor = cr_shape_1(rows);
  const cr_op_desc desc = cr_layer_op_desc(CR_OP_AFFINE_FWD);
  return CR_LAYER_MAKE(layer, op, &desc, &x, &factor, NULL, &x);
}

crema_status cr_loss_make_function(cr_layer *layer, cr_layer_op *op, cr_unary function,
                                   const double numbers[3], int64_t count) {
  const crema_shape shape = cr_shape_1(count);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_UNARY_FWD);
  desc.u.unary.function = function;
  desc.u.unary.alpha = numbers[0];
  desc.u.unary.beta = numbers[1];
  desc.u.unary.gamma = numbers[2];
  return CR_LAYER_MAKE(layer, op, &desc, &shape, &shape);
}

crema_status cr_loss_make_scale(cr_layer *layer, cr_layer_op *op, const crema_shape *shape) {
  const cr_op_desc desc = cr_layer_op_desc(CR_OP_AXPBY);
  return CR_LAYER_MAKE(layer, op, &desc, shape, shape);
}

crema_status cr_loss_run_scale(cr_layer_op *op, crema_context *context, double alpha, cr_tensor *x,
                               cr_tensor *y) {
  const cr_op_scalars scalars = {.alpha = alpha, .beta = 0};
  return cr_layer_op_run(op, context, (cr_tensor *[]){x, y}, &scalars);
}
