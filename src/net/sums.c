/* Gradients of sums: a sum passes the gradient of its top on to each bottom. */
#include <stdlib.h>

#include "core/fail.h"
#include "net/graph.h"
#include "net/lifetimes.h"

/* For each blob, whether a layer in place writes to its gradient. */
static void find_written(const crema_net *net, bool *written) {
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    for (int j = 0; j < layer->layer->bottoms; ++j) {
      for (int k = 0; k < layer->layer->tops; ++k) {
        if (layer->bottom_id[j] == layer->top_id[k]) written[layer->bottom_id[j]] = true;
      }
    }
  }
}

/* No other layer may use either gradient until it is read. A blob that already shares the bottom's
 * gradient, such as the top of a Flatten, would also need to share the top's. */
static crema_status share(const cr_net_layer *layer, int j, const bool *written) {
  const crema_blob *bottom = layer->bottom[j], *top = layer->top[0];
  /* An in-place sum has the gradient of a bottom, which other layers may write to earlier. */
  if (layer->bottom[0] == top) return CREMA_OK;
  if (!layer->propagate_down[j] || written[layer->bottom_id[j]]) return CREMA_OK;
  if (cr_tensor_is_shared(bottom->diff)) return CREMA_OK;
  if (cr_tensor_count(bottom->diff) != cr_tensor_count(top->diff)) return CREMA_OK;
  if (cr_tensor_type(bottom->diff) != cr_tensor_type(top->diff)) return CREMA_OK;
  return cr_blob_share_diff(layer->bottom[j], layer->top[0]);
}

/* From the last layer to the first, because a sum of sums shares the gradient that its top then
 * shares. */
crema_status cr_net_share_sums(crema_net *net) {
  bool *written = NULL;
  crema_status status = CREMA_OK;
  /* A program may give a blob a gradient and start a backward pass there: bottoms of sums that
   * share gradients would all get it. If memory is planned, programs do not look at inner blobs. */
  const Caffe__NetParameter *param = net->param;
  if (!(param->has_eltwise_mem_sharing ? param->eltwise_mem_sharing : net->plans)) return CREMA_OK;
  CR_TRY(CR_NEW(written, net->blobs + 1, "the net's graph"));
  find_written(net, written);
  for (int i = net->layers - 1; i >= 0 && status == CREMA_OK; --i) {
    const cr_net_layer *layer = &net->layer[i];
    const cr_layer *self = layer->layer;
    if (self->kind->memory.adds_bottom == NULL || !layer->need_backward) continue;
    for (int j = 0; j < self->bottoms && status == CREMA_OK; ++j) {
      if (self->kind->memory.adds_bottom(self, j)) status = share(layer, j, written);
    }
  }
  free(written);
  return status;
}
