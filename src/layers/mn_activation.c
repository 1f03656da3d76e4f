/* MnActivation: transfers values between machines. On one machine it does nothing.
 *
 * Formula: y = x.
 * Shapes: x (any) -> y (as x), a view of it.
 * Fields: mn_activation_param.
 * Caffe: as in Intel Caffe on one machine; several are refused.
 * Example, x 2 3:
 *   layer { name: "hand_over" type: "MnActivation" bottom: "x" top: "y" } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_shape.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__MnActivationParameter *p = layer->param->mn_activation_param;
  (void)bottom, (void)top;
  if (p == NULL || (p->num_nodes_in <= 1 && p->num_nodes_out <= 1)) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                       "num_nodes_in is %u and num_nodes_out is %u: a layer that is divided "
                       "between machines is not supported",
                       p->num_nodes_in, p->num_nodes_out);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)layer;
  return cr_layer_view(bottom[0], &bottom[0]->shape, top[0]);
}

const cr_layer_class cr_layer_mn_activation = {
    .type = "MnActivation",
    .bottoms = {1, 1},
    .tops = {1, 1},
    .memory.shares = CR_SHARES_BLOB,
    .setup = setup,
    .reshape = reshape,
    .forward = cr_layer_noop_forward,
    .backward = cr_layer_noop_backward,
};
