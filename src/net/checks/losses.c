/* Warns about losses with unexpected results: unread fields of loss_param, a second softmax on
 * probabilities, and losses without a gradient. */
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "net/checks/checks.h"
#include "net/common/fail.h"
#include "proto/field.h"

static void warn_of_fields(const crema_net *net, int index) {
  const cr_layer *self = net->layer[index].layer;
  Caffe__LossParameter *param = net->param->layer[index]->loss_param;
  char line[CR_NET_LINE_TEXT];
  if (!self->kind->loss || self->kind->graph.reads_loss_param || param == NULL) return;
  const ProtobufCMessageDescriptor *type = param->base.descriptor;
  for (unsigned i = 0; i < type->n_fields; ++i) {
    if (cr_field_count(&param->base, &type->fields[i]) == 0) continue;
    cr_log_warning(
        "layer '%s' (%s)%s: %s of loss_param is not read and changes nothing; the divisor of "
        "the loss is fixed",
        self->name, self->kind->type, cr_net_line_text(net, (size_t)index, line),
        type->fields[i].name);
  }
}

/* The layer before layer `index` that makes the values of `blob`; layers in between that pass them
 * on under another name do not count. */
static const cr_layer *maker_of(const crema_net *net, int index, int blob) {
  while (--index >= 0) {
    const cr_net_layer *layer = &net->layer[index];
    for (int t = 0; t < layer->layer->tops; ++t) {
      if (layer->top_id[t] != blob) continue;
      if (layer->layer->bottoms == 0 || layer->bottom_id[0] == blob ||
          !cr_tensor_shares_with(layer->top[t]->data, layer->bottom[0]->data)) {
        return layer->layer;
      }
      blob = layer->bottom_id[0];
      break;
    }
  }
  return NULL;
}

static void warn_of_probabilities(const crema_net *net, int index) {
  const cr_net_layer *layer = &net->layer[index];
  const cr_layer *self = layer->layer;
  char line[CR_NET_LINE_TEXT];
  if (!self->kind->graph.takes_softmax) return;
  const cr_layer *maker = maker_of(net, index, layer->bottom_id[0]);
  if (maker == NULL || !maker->kind->graph.probabilities) return;
  cr_log_warning(
      "layer '%s' (%s)%s takes a softmax of bottom '%s', whose values are probabilities already: "
      "layer '%s' (%s) makes them; give it what that layer reads",
      self->name, self->kind->type, cr_net_line_text(net, (size_t)index, line),
      net->blob_name[layer->bottom_id[0]], maker->name, maker->kind->type);
}

void cr_net_warn_of_losses(const crema_net *net) {
  for (int i = 0; i < net->layers; ++i) {
    warn_of_fields(net, i);
    warn_of_probabilities(net, i);
  }
}

/* A loss weight in the prototxt file moves to a copy of the blob if other layers also read it (see
 * cr_net_insert_splits). A loss layer's default weight stays, as in Caffe, and the reader's
 * gradient replaces it. */
crema_status cr_net_warn_of_lost_losses(const crema_net *net) {
  int *reader = NULL; /* one per blob, the last layer that reads it */
  if (net->phase != CREMA_TRAIN) return CREMA_OK;
  CR_TRY(CR_NEW(reader, net->blobs + 1, "the net's graph"));
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    for (int j = 0; j < layer->layer->bottoms; ++j) reader[layer->bottom_id[j]] = i;
  }
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    const cr_layer *self = layer->layer;
    for (int j = 0; j < self->tops && layer->need_backward; ++j) {
      const int id = layer->top_id[j];
      if (self->loss_weight[j] == 0.0f || reader[id] <= i) continue;
      const cr_layer *other = net->layer[reader[id]].layer;
      cr_log_warning(
          "layer '%s' (%s): nothing learns from its loss itself, as layer '%s' (%s) reads "
          "blob '%s' and no loss_weight is given; write loss_weight: %g",
          self->name, self->kind->type, other->name, other->kind->type, net->blob_name[id],
          (double)self->loss_weight[j]);
    }
  }
  free(reader);
  return CREMA_OK;
}
