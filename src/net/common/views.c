/* Views of a net's values (crema_view), before and after the net computes. */
#include "memory/view.h"

#include "core/fail.h"
#include "net/common/net_struct.h"

typedef crema_status tensor_fn(cr_tensor *tensor);

static crema_status for_blob(tensor_fn *call, const crema_blob *blob) {
  CR_TRY(call(blob->data));
  return call(blob->diff);
}

static crema_status for_net(tensor_fn *call, const crema_net *net) {
  if (!cr_views_exist()) return CREMA_OK;
  for (int i = 0; i < net->blobs; ++i) CR_TRY(for_blob(call, net->blob[i]));
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    for (int p = 0; p < layer->params; ++p) CR_TRY(for_blob(call, layer->blob[p]));
  }
  return CREMA_OK;
}

crema_status cr_net_take_views(crema_net *net) {
  return for_net(cr_tensor_take_written, net);
}

crema_status cr_net_show_views(crema_net *net) {
  return for_net(cr_tensor_show_newest, net);
}
