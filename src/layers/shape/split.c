/* Split: one blob for several readers. The net inserts it if a blob is read more than once.
 *
 * Formula: each top = x; the gradient of x is the sum of theirs.
 * Shapes: x (any) -> tops (as x) that share its data.
 * Fields: none.
 * Caffe: the same.
 * Example, x 2 3:
 *   layer { name: "split" type: "Split" bottom: "x" top: "a" top: "b" } */
#include "core/fail.h"
#include "layers/common/layer_args.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

typedef struct split_state {
  cr_layer_op backward;
  cr_layer_args args; /* of the sum: tops, then the bottom */
} split_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  split_state *s = layer->state;
  (void)bottom, (void)top;
  return cr_layer_args_make(layer, &s->args, layer->tops + 1);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  split_state *s = layer->state;
  const crema_shape *shape = &bottom[0]->shape;
  for (int i = 0; i < layer->tops; ++i) {
    CR_TRY(crema_blob_reshape(top[i], shape));
    CR_TRY(cr_blob_share_data(top[i], bottom[0]));
  }
  for (int i = 0; i <= layer->tops; ++i) s->args.shape[i] = shape;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SUM);
  return cr_layer_op_make(layer, &s->backward, &desc, s->args.count, s->args.shape);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  split_state *s = layer->state;
  if (!propagate_down[0]) return CREMA_OK;
  for (int i = 0; i < layer->tops; ++i) s->args.tensor[i] = top[i]->diff;
  s->args.tensor[layer->tops] = bottom[0]->diff;
  return cr_layer_op_run(&s->backward, context, s->args.tensor, NULL);
}

const cr_layer_class cr_layer_split = {
    CR_LAYER_OF_OPS("Split", sizeof(split_state), setup, reshape, cr_layer_noop_forward, backward),
    .bottoms = {1, 1},
    .tops = {1, CR_ANY},
    .graph.integer_bottoms = CR_ALL_BOTTOMS,
    .memory.shares = CR_SHARES_DATA,
    .int8.keeps_positive = true,
    .fusion.reach = cr_layer_reaches_position,
    .int8.carries_integers = cr_layer_carries,
};
