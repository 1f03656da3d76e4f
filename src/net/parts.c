/* Bottoms of Concat layers that lie in the top from the start. */
#include "core/fail.h"
#include "net/build.h"

/* Whether a blob is kept that has the values. */
static bool is_kept(const crema_net *net, const cr_tensor *tensor) {
  for (int i = 0; net->plans && i < net->blobs; ++i) {
    if (net->kept[i] && cr_tensor_shares_with(net->blob[i]->data, tensor)) return true;
  }
  return false;
}

/* A bottom that is kept outlives the top's memory; one of an int8 net has a scale of its own. */
static bool can_be_in_place(const crema_net *net, const cr_net_layer *layer) {
  const cr_layer *self = layer->layer;
  int64_t extent = 0;
  if (!layer->concat_in_place || net->context->device->backend->part == NULL) return false;
  for (int j = 0; j < self->bottoms; ++j) {
    const crema_dtype type = cr_tensor_type(layer->bottom[j]->data);
    if (is_kept(net, layer->bottom[j]->data) || layer->bottom[j]->shape.axes < 2) return false;
    if (type != CREMA_F32 && type != CREMA_BF16) return false;
    extent += layer->bottom[j]->shape.dim[1];
  }
  return self->bottoms > 1 && layer->top[0]->shape.axes >= 2 &&
         layer->top[0]->shape.dim[1] == extent;
}

static crema_status place(const cr_net_layer *layer) {
  cr_layer *self = layer->layer;
  int64_t at = 0;
  bool done = true;
  int placed = 0;
  for (; placed < self->bottoms && done; ++placed) {
    const crema_blob *bottom = layer->bottom[placed];
    CR_TRY(cr_tensor_set_home(bottom->data, &bottom->shape, layer->top[0]->data,
                              &layer->top[0]->shape, at, &done));
    at += bottom->shape.dim[1];
  }
  self->concat_in_place = done;
  /* The last one is in another Concat, or not at all. */
  for (int j = 0; !done && j < placed - 1; ++j) cr_tensor_leave_home(layer->bottom[j]->data);
  return CREMA_OK;
}

crema_status cr_net_place_parts(crema_net *net) {
  if (!net->parts_moved) return CREMA_OK;
  net->parts_moved = false;
  for (int i = net->layers - 1; i >= 0; --i) {
    const cr_net_layer *layer = &net->layer[i];
    if (!layer->concat_in_place) continue;
    layer->layer->concat_in_place = false;
    for (int j = 0; j < layer->layer->bottoms; ++j) {
      if (is_kept(net, layer->bottom[j]->data)) cr_tensor_leave_home(layer->bottom[j]->data);
    }
    if (can_be_in_place(net, layer)) CR_TRY(place(layer));
  }
  return CREMA_OK;
}
