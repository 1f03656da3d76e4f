/* Gradients of sums: a sum passes the gradient of its top on to each bottom, without a copy if the
 * layer that made the bottom can read it there. */
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

/* The layer whose backward pass follows the backward pass of layer `index` for its bottom `j`. */
static cr_net_layer *maker_of(const crema_net *net, int index, int j) {
  const crema_blob *bottom = net->layer[index].bottom[j];
  for (int i = index - 1; i >= 0; --i) {
    cr_net_layer *layer = &net->layer[i];
    for (int t = 0; t < layer->layer->tops; ++t) {
      if (layer->top[t] == bottom) return layer->backs != NULL ? layer->backs : layer;
    }
  }
  return NULL;
}

/* Lets a BatchNorm in place, which made bottom `j` of a sum, read the gradient of the sum's top.
 * Both gradients are equal, and the BatchNorm writes its result over the bottom's. Until then
 * nothing writes to the gradient of the top: bottoms that share it have no layer in place. */
static void read_top(crema_net *net, int index, int j) {
  const cr_net_layer *sum = &net->layer[index];
  const crema_blob *top = sum->top[0];
  cr_net_layer *maker = maker_of(net, index, j);
  if (sum->bottom[0] == top || !sum->propagate_down[j] || j >= CR_OMITTED_DIFFS || maker == NULL ||
      !maker->layer->kind->memory.reads_diff_source || maker->bottom[0] != sum->bottom[j] ||
      maker->top[0] != sum->bottom[j] || !maker->need_backward || !maker->propagate_down[0] ||
      cr_tensor_type(sum->bottom[j]->diff) != cr_tensor_type(top->diff)) {
    return;
  }
  maker->layer->diff_source = top->diff;
  sum->layer->omitted_diffs |= 1u << j;
  net->fusions += 1;
}

void cr_net_read_sums(crema_net *net) {
  for (int i = 0; i < net->layers && !net->debug_info; ++i) {
    const cr_layer *self = net->layer[i].layer;
    if (self->kind->memory.adds_bottom == NULL || !net->layer[i].need_backward) continue;
    for (int j = 0; j < self->bottoms; ++j) {
      if (self->kind->memory.adds_bottom(self, j)) read_top(net, i, j);
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
