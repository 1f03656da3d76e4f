/* L1Loss: the mean absolute distance. Both bottoms have a gradient.
 *
 * Formula: loss = 1 / N * sum of |a - b|, N being the first extent.
 * Shapes: a (N, ...), b (as a) -> loss (a scalar).
 * Fields: none.
 * Caffe: as in NVIDIA Caffe.
 * Example, a 4 3, b 4 3:
 *   layer { name: "loss" type: "L1Loss" bottom: "a" bottom: "b" top: "loss" } */
#include "core/fail.h"
#include "layers/loss/layer_loss.h"

typedef struct l1_state {
  cr_layer_loss loss;
  cr_layer_op subtract, sum, sum_back, scale;
  cr_tensor *difference, *slope, *one;
} l1_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  l1_state *s = layer->state;
  float *one = NULL;
  (void)bottom, (void)top;
  CR_TRY(cr_layer_tensor(layer, &s->one, cr_layer_arithmetic(layer), 1));
  CR_TRY(cr_tensor_host_write_floats(s->one, &one));
  *one = 1;
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  l1_state *s = layer->state;
  const crema_shape *a = &bottom[0]->shape;
  const crema_dtype type = cr_layer_arithmetic(layer);
  const int64_t count = crema_blob_count(bottom[0]);
  if (a->axes < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottoms must have axes, found a scalar");
  }
  CR_TRY(cr_layer_same_shape(layer, "bottom 1", a, &bottom[1]->shape));
  const crema_shape flat = cr_shape_1(count), row = cr_shape_2(1, count), one = cr_shape_1(1);
  CR_TRY(cr_layer_loss_fix(layer, &s->loss, top[0], (double)a->dim[0]));
  CR_TRY(cr_layer_tensor(layer, &s->difference, type, count));
  CR_TRY(cr_layer_tensor(layer, &s->slope, type, count));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SUM);
  CR_TRY(cr_layer_op_make_scaled(layer, &s->subtract, &desc, 3,
                                 (const crema_shape *[]){&flat, &flat, &flat},
                                 (const float[]){1, -1, 1}));
  desc.kind = CR_OP_AXPBY;
  CR_TRY(cr_layer_op_make(layer, &s->scale, &desc, 2, (const crema_shape *[]){&flat, &flat}));
  desc.kind = CR_OP_ROW_REDUCE_FWD;
  desc.u.rows.reduction = CR_REDUCE_ASUM;
  desc.u.rows.coeff = 1;
  CR_TRY(cr_layer_op_make(layer, &s->sum, &desc, 2, (const crema_shape *[]){&row, &one}));
  desc.kind = CR_OP_ROW_REDUCE_BWD;
  return cr_layer_op_make(layer, &s->sum_back, &desc, 3, (const crema_shape *[]){&row, &one, &row});
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  l1_state *s = layer->state;
  CR_TRY(cr_layer_op_run(&s->subtract, context,
                         (cr_tensor *[]){bottom[0]->data, bottom[1]->data, s->difference}, NULL));
  CR_TRY(
      cr_layer_op_run(&s->sum, context, (cr_tensor *[]){s->difference, s->loss.pair.own[0]}, NULL));
  return cr_layer_loss_finish(&s->loss, context, top[0]);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  l1_state *s = layer->state;
  double factor = 0;
  CR_TRY(cr_layer_loss_factor(&s->loss, top[0], &factor));
  CR_TRY(cr_layer_op_run(&s->sum_back, context, (cr_tensor *[]){s->difference, s->one, s->slope},
                         NULL));
  return cr_layer_loss_difference(&s->scale, context, s->slope, factor, propagate_down, bottom);
}

const cr_layer_class cr_layer_l1_loss = {
    CR_LAYER_LOSS("L1Loss", 2, 2, 1),
    .state_size = sizeof(l1_state),
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
};
