#include "layers/loss/position_loss.h"

#include "core/fail.h"
#include "layers/loss/loss_ops.h"

crema_status cr_position_loss_setup(cr_layer *layer, crema_blob *const *bottom,
                                    crema_blob *const *top) {
  (void)bottom, (void)top;
  return cr_layer_loss_read(layer, layer->state, CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID);
}

crema_status cr_position_loss_make(cr_layer *layer, crema_blob *const *bottom,
                                   crema_blob *const *top, int axis) {
  cr_position_loss *s = layer->state;
  const crema_dtype type = cr_layer_arithmetic(layer);
  const crema_shape *scores = &bottom[0]->shape, folded = cr_layer_fold(scores, axis, axis + 1);
  const crema_shape positions = cr_shape_2(folded.dim[0], folded.dim[2]);
  CR_TRY(cr_softmax_loss_make(layer, bottom, top, axis, false, true));
  s->positions = positions.dim[0] * positions.dim[1];
  CR_TRY(cr_layer_tensor(layer, &s->each, type, s->positions));
  CR_TRY(cr_layer_tensor(layer, &s->term, type, s->positions));
  CR_TRY(cr_layer_pass_tensor(layer, &s->slope, type, s->positions));
  CR_TRY(cr_layer_tensor(layer, &s->tiled, type, crema_blob_count(bottom[0])));
  CR_TRY(cr_loss_make_rows(layer, &s->total, CR_REDUCE_SUM, 1, s->positions));
  CR_TRY(cr_loss_make_product(layer, &s->multiply, 2, &folded));
  const cr_op_desc desc = cr_layer_op_desc(CR_OP_TILE_FWD);
  return CR_LAYER_MAKE(layer, &s->tile, &desc, &positions, &folded);
}

crema_status cr_position_loss_find(cr_layer *layer, crema_context *context,
                                   crema_blob *const *bottom, crema_blob *const *top) {
  cr_position_loss *s = layer->state;
  return cr_softmax_loss_run(layer, context, bottom, top, NULL, s->each);
}

crema_status cr_position_loss_finish(cr_layer *layer, crema_context *context,
                                     crema_blob *const *top) {
  cr_position_loss *s = layer->state;
  CR_TRY(CR_LAYER_RUN(&s->total, context, s->term, s->softmax.loss.pair.own[0]));
  return cr_layer_loss_finish(&s->softmax.loss, context, top[0]);
}

/* d term / d score = slope times the gradient of -log p. */
crema_status cr_position_loss_backward(cr_layer *layer, crema_context *context,
                                       crema_blob *const *top, const bool *propagate_down,
                                       crema_blob *const *bottom) {
  cr_position_loss *s = layer->state;
  cr_tensor *diff = bottom[0]->diff;
  CR_TRY(cr_softmax_loss_run_back(layer, context, top, propagate_down, bottom, NULL, NULL));
  if (!propagate_down[0]) return CREMA_OK;
  CR_TRY(CR_LAYER_RUN(&s->tile, context, s->slope, s->tiled));
  return CR_LAYER_RUN(&s->multiply, context, diff, s->tiled, diff);
}
