/* Access to a net besides running it: its graph, parts of a pass, hooks. */
#include <stdlib.h>

#include "core/fail.h"
#include "layers/common/custom_layer.h"
#include "net/common/fail.h"
#include "net/graph.h"
#include "net/lifetimes.h"
#include "net/net.h"
#include "net/run.h"

crema_phase crema_net_phase(const crema_net *net) {
  return net == NULL ? CREMA_TRAIN : net->phase;
}

crema_blob *crema_net_blob_at(crema_net *net, int index) {
  if (net == NULL || index < 0 || index >= net->blobs) return NULL;
  cr_net_keep_blob(net, index);
  return net->blob[index];
}

static const cr_net_layer *layer_at(const crema_net *net, int layer) {
  return net == NULL || layer < 0 || layer >= net->layers ? NULL : &net->layer[layer];
}

float crema_net_blob_loss_weight(const crema_net *net, int index) {
  float weight = 0;
  for (int i = 0; net != NULL && i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    for (int j = 0; j < layer->layer->tops; ++j) {
      if (layer->top_id[j] == index) weight = layer->layer->loss_weight[j];
    }
  }
  return weight;
}

int crema_net_layer_bottom_count(const crema_net *net, int layer) {
  const cr_net_layer *found = layer_at(net, layer);
  return found == NULL ? 0 : found->layer->bottoms;
}

int crema_net_layer_bottom(const crema_net *net, int layer, int index) {
  if (index < 0 || index >= crema_net_layer_bottom_count(net, layer)) return -1;
  return net->layer[layer].bottom_id[index];
}

int crema_net_layer_top_count(const crema_net *net, int layer) {
  const cr_net_layer *found = layer_at(net, layer);
  return found == NULL ? 0 : found->layer->tops;
}

int crema_net_layer_top(const crema_net *net, int layer, int index) {
  if (index < 0 || index >= crema_net_layer_top_count(net, layer)) return -1;
  return net->layer[layer].top_id[index];
}

static crema_status message_text(const ProtobufCMessage *message, char **out) {
  cr_buffer text = {0};
  crema_status status = cr_text_print(message, &text);
  if (status == CREMA_OK) status = cr_buffer_append(&text, "", 0);
  if (status == CREMA_OK) *out = cr_buffer_take(&text);
  cr_buffer_free(&text);
  return status;
}

crema_status crema_net_layer_text(const crema_net *net, int layer, char **out) {
  CR_REQUIRE(net);
  CR_REQUIRE(out);
  const cr_net_layer *found = layer_at(net, layer);
  if (found == NULL) {
    return cr_fail(CREMA_E_RANGE, "layer %d of a net with %d layers", layer, net->layers);
  }
  return message_text(&found->layer->param->base, out);
}

/* Rules have been applied: with another level or other stages they would give another net. */
crema_status crema_net_text(const crema_net *net, char **out) {
  CR_REQUIRE(net);
  CR_REQUIRE(out);
  Caffe__NetParameter param = *net->param;
  Caffe__LayerParameter *layer = NULL, **list = NULL;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(CR_NEW(layer, param.n_layer + 1, "a net's text"), out);
  CR_TRY_GOTO(CR_NEW(list, param.n_layer + 1, "a net's text"), out);
  for (size_t i = 0; i < param.n_layer; ++i) {
    layer[i] = *param.layer[i];
    layer[i].n_include = layer[i].n_exclude = 0;
    list[i] = &layer[i];
  }
  param.layer = list;
  status = message_text(&param.base, out);
out:
  free((void *)list);
  free(layer);
  return status;
}

void *crema_net_layer_state(const crema_net *net, int layer) {
  const cr_net_layer *found = layer_at(net, layer);
  return found == NULL ? NULL : cr_custom_layer_state(found->layer);
}

/* As in Caffe: no layer is fused into another. */
static crema_status apart(crema_net *net, int first, int last) {
  const bool whole = first == 0 && last == net->layers - 1;
  return whole || net->fusions == 0 ? CREMA_OK : cr_net_undo_fusion(net);
}

crema_status crema_net_forward_range(crema_net *net, int first, int last, double *loss) {
  CR_REQUIRE(net);
  CR_TRY(apart(net, first, last));
  return cr_net_forward_range(net, first, last, loss);
}

crema_status crema_net_backward_range(crema_net *net, int first, int last) {
  CR_REQUIRE(net);
  CR_TRY(apart(net, first, last));
  return cr_net_backward_range(net, first, last);
}

crema_status crema_net_set_hooks(crema_net *net, const crema_net_hooks *hooks) {
  CR_REQUIRE(net);
  const crema_net_hooks none = {0};
  if (hooks != NULL && net->fusions > 0) CR_TRY(cr_net_undo_fusion(net));
  net->hooks = hooks == NULL ? none : *hooks;
  return CREMA_OK;
}
