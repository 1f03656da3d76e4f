/* Which layers and blobs take part in the backward pass. */
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "net/graph.h"

/* Marks of a blob, going backwards through the layers. Because of splits each blob has one reader,
 * but in-place layers read and make the same blob. */
typedef struct blob_marks {
  bool under_loss;    /* a loss depends on it */
  bool skip_backward; /* its reader gives it no gradient */
} blob_marks;

static void prune_layer(cr_net_layer *layer, blob_marks *mark) {
  const cr_layer *self = layer->layer;
  bool contributes = false, skip = true;
  for (int j = 0; j < self->tops; ++j) {
    const blob_marks *top = &mark[layer->top_id[j]];
    if (self->loss_weight[j] != 0.0f || top->under_loss) contributes = true;
    if (!top->skip_backward) skip = false;
  }
  if (layer->need_backward && skip) {
    layer->need_backward = false;
    for (int j = 0; j < self->bottoms; ++j) layer->propagate_down[j] = false;
  }
  if (!contributes) layer->need_backward = false;
  for (int j = 0; j < self->bottoms; ++j) {
    blob_marks *bottom = &mark[layer->bottom_id[j]];
    if (contributes) bottom->under_loss = true;
    else layer->propagate_down[j] = false;
    if (!layer->propagate_down[j]) bottom->skip_backward = true;
  }
}

/* Every layer runs backward, and every bottom that can have a gradient gets one. */
static void force_layer(cr_net_layer *layer) {
  cr_layer *self = layer->layer;
  if (self->kind->graph.ends_gradient) return;
  layer->need_backward = true;
  for (int j = 0; j < self->bottoms; ++j) {
    bool allowed = j >= 32 || (self->kind->no_gradient_bottoms >> j & 1u) == 0;
    layer->propagate_down[j] = layer->propagate_down[j] || allowed;
  }
  for (int p = 0; p < self->params; ++p) self->param_propagate_down[p] = true;
}

crema_status cr_net_prune_backward(cr_net_build *build, bool force_backward) {
  crema_net *net = build->net;
  blob_marks *mark = NULL;
  CR_TRY(CR_NEW(mark, net->blobs + 1, "the net's graph"));
  for (int i = net->layers - 1; i >= 0; --i) {
    prune_layer(&net->layer[i], mark);
    cr_log_debug("%s %s backward computation.", net->layer[i].layer->name,
                 net->layer[i].need_backward ? "needs" : "does not need");
  }
  free(mark);
  for (int i = 0; i < net->layers; ++i) {
    if (force_backward) force_layer(&net->layer[i]);
    if (net->plans && net->phase == CREMA_TEST) net->layer[i].need_backward = false;
    net->layer[i].layer->needs_backward = net->layer[i].need_backward;
  }
  return CREMA_OK;
}
