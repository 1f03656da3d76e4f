/* Layers of one op forward and one op backward.
 *
 * The layer file says in a table (cr_layer_class.pair) which ops these are and which of the layer's
 * blobs and tensors are their arguments. Its reshape sets the top's shape and calls
 * cr_layer_pair_make with the ops' parameters and the shapes of their arguments. The class
 * functions below do the rest. */
#ifndef CR_LAYERS_LAYER_PAIR_H
#define CR_LAYERS_LAYER_PAIR_H

#include "layers/common/layer_keep.h"
#include "layers/common/layer_op.h"

/* Which of the layer's blobs or tensors an argument of an op is. */
typedef enum cr_operand {
  CR_END = 0,
  CR_ABSENT, /* an optional argument that is absent */
  CR_X0,
  CR_X1,
  CR_X2,    /* the data of bottom 0, 1, 2 */
  CR_INPUT, /* backward: the values of bottom 0 before forward, also in place */
  CR_DX,    /* the diff of bottom 0, or of the requested bottom */
  CR_Y,
  CR_DY, /* data and diff of top 0 */
  CR_Y1, /* the data of top 1, absent if the layer has one top */
  CR_W0, /* the data of parameter 0 */
  CR_OWN0,
  CR_OWN1,
  CR_OWN2, /* float32 tensors of the layer, absent without a shape */
  CR_BYTES /* a tensor of bytes of the layer that backward reads */
} cr_operand;

enum { CR_PAIR_OPERANDS = 5, CR_PAIR_OWN = 3 };

typedef struct cr_pair_pass {
  cr_op_kind op;
  cr_operand operand[CR_PAIR_OPERANDS + 1]; /* in the order of the op's arguments, then CR_END */
} cr_pair_pass;

struct cr_layer_pair_table {
  cr_pair_pass forward, backward;
  /* Where no backward pass follows, the forward op runs without CR_BYTES, perhaps by a kernel that
   * gives other last bits. In phase TEST that would depend on the net's memory plan: there the
   * layer gives no shape for them. */
  bool bytes_for_backward;
};

/* The state of such a layer, or its first member. */
typedef struct cr_layer_pair {
  cr_layer_op forward, forward_only, backward;
  cr_layer_keep keep;
  cr_tensor *own[CR_PAIR_OWN], *bytes;
} cr_layer_pair;

/* The shapes for the ops of the layer's blobs and tensors. NULL for x and y: the blob's own shape;
 * for other operands: there is no such tensor. */
typedef struct cr_pair_shapes {
  const crema_shape *x[3], *y, *y1, *w, *own[CR_PAIR_OWN], *bytes;
  const cr_op_desc *backward; /* parameters of the backward op; NULL: as the forward op */
} cr_pair_shapes;

/* Makes the layer's own tensors and both ops, with the parameters of `desc` (its kind does not
 * matter). For reshape, the tops shaped. */
crema_status cr_layer_pair_make(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top,
                                const cr_op_desc *desc,
                                const cr_pair_shapes *shapes) CREMA_MUST_USE;

/* Runs the forward op, and the backward op for the gradient of bottom `index`. */
crema_status cr_layer_pair_run(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                               crema_blob *const *top, const cr_op_scalars *scalars) CREMA_MUST_USE;
crema_status cr_layer_pair_run_back(cr_layer *layer, crema_context *context, crema_blob *const *top,
                                    crema_blob *const *bottom, int index,
                                    const cr_op_scalars *scalars) CREMA_MUST_USE;

/* Class functions: the ops without scalars, backward for bottom 0. */
cr_layer_forward_fn cr_layer_pair_forward;
cr_layer_backward_fn cr_layer_pair_backward;

/* The members of classes with one op forward and one backward, `count` bottoms and one top. The
 * layer file calls its table `pair`. */
#define CR_LAYER_PAIR(type_name, state, count)                                              \
  .type = type_name, .state_size = sizeof(state), .pair = &pair, .bottoms = {count, count}, \
  .tops = {1, 1}

#endif
