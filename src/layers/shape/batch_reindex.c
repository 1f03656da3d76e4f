/* BatchReindex: picks items of a batch, in any order and repeatedly.
 *
 * Formula: item i of the top = item index[i] of x.
 * Shapes: x (N, ...), index (M), whole numbers from 0 to N - 1 -> y (M, ...).
 * Fields: none.
 * Caffe: the same; an index that is out of range is an error.
 * Example, x 4 3, index 2:
 *   layer { name: "pick" type: "BatchReindex" bottom: "x" bottom: "index" top: "y" } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_pair.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_GATHER_FWD, {CR_X0, CR_X1, CR_Y}},
    .backward = {CR_OP_GATHER_BWD, {CR_DY, CR_X1, CR_DX}},
};

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const crema_shape *from = &bottom[0]->shape, *index = &bottom[1]->shape;
  char text[128];
  if (from->axes < 1 || index->axes != 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the indices must have 1 axis, found shape %s",
                         crema_shape_text(index, text, sizeof text));
  }
  crema_shape to = *from;
  to.dim[0] = index->dim[0];
  CR_TRY(crema_blob_reshape(top[0], &to));
  const int64_t inner = crema_shape_count(from, 1, from->axes);
  const crema_shape x = cr_shape_2(from->dim[0], inner), y = cr_shape_2(index->dim[0], inner);
  const cr_op_desc desc = cr_layer_op_desc(CR_OP_GATHER_FWD);
  return cr_layer_pair_make(layer, bottom, top, &desc, &(cr_pair_shapes){.x = {&x}, .y = &y});
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  if (propagate_down[1]) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "indices (bottom 1) have no gradient");
  }
  /* An item that is picked twice gets the sum of both gradients. */
  if (propagate_down[0]) cr_tensor_set_zero(bottom[0]->diff);
  return cr_layer_pair_backward(layer, context, top, propagate_down, bottom);
}

const cr_layer_class cr_layer_batch_reindex = {
    CR_LAYER_PAIR("BatchReindex", cr_layer_pair, 2),
    .no_gradient_bottoms = 1u << 1,
    .graph.integer_bottoms = 1u << 1,
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = cr_layer_pair_forward,
    .backward = backward,
};
