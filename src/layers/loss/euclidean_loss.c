/* EuclideanLoss: half the mean squared distance. Both bottoms have a gradient.
 *
 * Formula: loss = 1 / (2 N) * sum of (a - b)^2, N being the first extent.
 * Shapes: a (N, ...), b (as a) -> loss (a scalar).
 * Fields: none.
 * Caffe: the same.
 * Example, a 4 3, b 4 3:
 *   layer { name: "loss" type: "EuclideanLoss" bottom: "a" bottom: "b" top: "loss" } */
#include "core/fail.h"
#include "layers/loss/layer_loss.h"

typedef struct euclidean_state {
  cr_layer_loss loss;
  cr_layer_op subtract, square, scale;
  cr_tensor *difference;
} euclidean_state;

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  euclidean_state *s = layer->state;
  const crema_shape *a = &bottom[0]->shape, *b = &bottom[1]->shape;
  int64_t count = crema_blob_count(bottom[0]);
  if (a->axes < 1 || b->axes < 1 || a->dim[0] != b->dim[0] ||
      count != crema_blob_count(bottom[1])) {
    return cr_layer_same_shape(layer, "bottom 1", a, b);
  }
  const crema_shape flat = cr_shape_1(count), row = cr_shape_2(1, count), one = cr_shape_1(1);
  CR_TRY(cr_layer_loss_fix(layer, &s->loss, top[0], 2 * (double)a->dim[0]));
  CR_TRY(cr_layer_pass_tensor(layer, &s->difference, cr_layer_arithmetic(layer), count));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_AXPBY);
  CR_TRY(CR_LAYER_MAKE(layer, &s->scale, &desc, &flat, &flat));
  desc = cr_layer_op_desc(CR_OP_SUM);
  CR_TRY(cr_layer_op_make_scaled(layer, &s->subtract, &desc, 3,
                                 (const crema_shape *[]){&flat, &flat, &flat},
                                 (const float[]){1, -1, 1}));
  desc = cr_layer_op_desc(CR_OP_ROW_REDUCE_FWD);
  desc.u.rows.reduction = CR_REDUCE_SUMSQ;
  desc.u.rows.coeff = 1;
  return CR_LAYER_MAKE(layer, &s->square, &desc, &row, &one);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  euclidean_state *s = layer->state;
  CR_TRY(CR_LAYER_RUN(&s->subtract, context, bottom[0]->data, bottom[1]->data, s->difference));
  CR_TRY(CR_LAYER_RUN(&s->square, context, s->difference, s->loss.pair.own[0]));
  return cr_layer_loss_finish(&s->loss, context, top[0]);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  euclidean_state *s = layer->state;
  double factor = 0;
  CR_TRY(cr_layer_loss_factor(&s->loss, top[0], &factor));
  return cr_layer_loss_difference(&s->scale, context, s->difference, 2 * factor, propagate_down,
                                  bottom);
}

const cr_layer_class cr_layer_euclidean_loss = {
    CR_LAYER_LOSS("EuclideanLoss", 2, 2, 1),
    .state_size = sizeof(euclidean_state),
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
};
