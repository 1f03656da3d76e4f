/* The ops of losses that are made of several: each function describes one op of a layer. */
#ifndef CR_LAYERS_LOSS_LOSS_OPS_H
#define CR_LAYERS_LOSS_LOSS_OPS_H

#include "layers/common/layer_op.h"

/* z = a_scale x + b_scale y, element by element; arguments x, y, z. */
crema_status cr_loss_make_sum(cr_layer *layer, cr_layer_op *op, float a_scale, float b_scale,
                              const crema_shape *shape) CREMA_MUST_USE;

/* The product of `sources` arguments of that shape. */
crema_status cr_loss_make_product(cr_layer *layer, cr_layer_op *op, int sources,
                                  const crema_shape *shape) CREMA_MUST_USE;

/* The sum, or another reduction, of each of `rows` rows; arguments x (rows, width), y (rows). */
crema_status cr_loss_make_rows(cr_layer *layer, cr_layer_op *op, cr_reduction reduction,
                               int64_t rows, int64_t width) CREMA_MUST_USE;

/* Each of `rows` rows times its factor; arguments x (rows, width), factor (rows), none, y. */
crema_status cr_loss_make_scaled_rows(cr_layer *layer, cr_layer_op *op, int64_t rows,
                                      int64_t width) CREMA_MUST_USE;

/* An element-wise function of `count` values with its numbers, as op_desc.h defines it. */
crema_status cr_loss_make_function(cr_layer *layer, cr_layer_op *op, cr_unary function,
                                   const double numbers[3], int64_t count) CREMA_MUST_USE;

/* y = alpha x; arguments x, y of that shape. Run by cr_loss_run_scale. */
crema_status cr_loss_make_scale(cr_layer *layer, cr_layer_op *op,
                                const crema_shape *shape) CREMA_MUST_USE;
crema_status cr_loss_run_scale(cr_layer_op *op, crema_context *context, double alpha, cr_tensor *x,
                               cr_tensor *y) CREMA_MUST_USE;

#endif
