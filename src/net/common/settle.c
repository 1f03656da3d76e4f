/* Half-precision values while a net runs. */
#include "core/fail.h"
#include "layers/common/input_class.h"
#include "layers/common/layer_op.h"
#include "net/common/net_struct.h"

static bool is_half(const cr_tensor *tensor) {
  crema_dtype type = cr_tensor_type(tensor);
  return type == CREMA_F16 || type == CREMA_BF16;
}

void cr_net_plan_settling(crema_net *net) {
  net->settles = false;
  for (int i = 0; i < net->blobs && !net->settles; ++i) {
    net->settles = is_half(net->blob[i]->data) || is_half(net->blob[i]->diff);
  }
  for (int i = 0; i < net->params && !net->settles; ++i) {
    const cr_net_param *param = &net->net_param[i];
    net->settles = is_half(net->layer[param->layer].layer->blob[param->index]->data);
  }
}

/* Parameters that are trained, here or by a net that shares them, stay in full precision. A
 * library's format of them is recomputed after each update in any case. */
crema_status cr_net_settle_params(const crema_net *net, int index) {
  const cr_layer *layer = net->layer[index].layer;
  if (!net->settles) return CREMA_OK;
  for (int p = 0; p < layer->params; ++p) {
    cr_tensor *data = layer->blob[p]->data;
    if (cr_tensor_is_shared(data)) continue;
    if (net->phase == CREMA_TEST) CR_TRY(cr_tensor_settle(data, net->context));
    else if (is_half(data)) cr_tensor_drop_types(data);
  }
  return CREMA_OK;
}

crema_status cr_net_settle_forward(const crema_net *net, int index) {
  const cr_net_layer *layer = &net->layer[index];
  int bottoms = layer->layer->bottoms;
  if (!net->settles || layer->layer->kind->input != NULL) return CREMA_OK;
  for (int j = 0; j < bottoms; ++j) {
    if (layer->last_use[j].forward) CR_TRY(cr_tensor_settle(layer->bottom[j]->data, net->context));
  }
  for (int j = 0; j < layer->layer->tops; ++j) {
    CR_TRY(cr_tensor_settle(layer->top[j]->data, net->context));
  }
  CR_TRY(cr_layer_settle(layer->layer, net->context));
  return cr_net_settle_params(net, index);
}

crema_status cr_net_settle_backward(const crema_net *net, int index) {
  const cr_net_layer *layer = &net->layer[index];
  int bottoms = layer->layer->bottoms, tops = layer->layer->tops;
  if (!net->settles) return CREMA_OK;
  for (int j = 0; j < bottoms + tops; ++j) {
    crema_blob *blob = j < bottoms ? layer->bottom[j] : layer->top[j - bottoms];
    CR_TRY(cr_tensor_settle(blob->diff, net->context));
    if (layer->last_use[j].backward) CR_TRY(cr_tensor_settle(blob->data, net->context));
  }
  CR_TRY(cr_layer_settle(layer->layer, net->context));
  return cr_net_settle_params(net, index);
}
