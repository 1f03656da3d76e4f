/* Bottoms of Concat layers that are stored in the top, and tops of Slice layers that are stored in
 * the bottom. */
#include "core/fail.h"
#include "net/run.h"

/* Whether a kept blob has the values. */
static bool is_kept(const crema_net *net, const cr_tensor *tensor) {
  for (int i = 0; net->plans && i < net->blobs; ++i) {
    if (net->kept[i] && cr_tensor_shares_with(net->blob[i]->data, tensor)) return true;
  }
  return false;
}

/* Whether a layer writes the values that `of` reads elsewhere. A layer that exposes them under
 * another name writes nothing. */
static bool is_written(const crema_net *net, const cr_net_layer *of, const cr_tensor *tensor) {
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    if (layer == of || layer->layer->kind->memory.shares != CR_SHARES_NOTHING) continue;
    for (int j = 0; j < layer->layer->tops; ++j) {
      if (cr_tensor_shares_with(layer->top[j]->data, tensor)) return true;
    }
  }
  return false;
}

/* The blobs that are parts, and the blob that is the whole. */
typedef struct sides {
  crema_blob *const *part, *whole;
  int parts;
  bool read; /* a Slice's */
} sides;

static sides sides_of(const cr_net_layer *layer) {
  const cr_layer *self = layer->layer;
  if (self->bottoms == 1) return (sides){layer->top, layer->bottom[0], self->tops, true};
  return (sides){layer->bottom, layer->top[0], self->bottoms, false};
}

/* The axis along which the parts form the whole: the first axis in which they differ from it. */
static int axis_of(const sides *s) {
  const crema_shape *part = &s->part[0]->shape, *whole = &s->whole->shape;
  int axis = 0;
  while (axis < part->axes && axis < whole->axes && part->dim[axis] == whole->dim[axis]) ++axis;
  return axis;
}

/* A kept blob must not share storage that is released with another. */
static bool can_be_in_place(const crema_net *net, const cr_net_layer *layer, const sides *s) {
  const int axis = axis_of(s);
  int64_t extent = 0;
  if (!layer->parts_in_place || net->context->device->backend->part == NULL) return false;
  const bool stays = s->read && is_kept(net, s->whole->data);
  if (axis >= s->whole->shape.axes) return false;
  for (int j = 0; j < s->parts; ++j) {
    const crema_dtype type = cr_tensor_type(s->part[j]->data);
    if (is_kept(net, s->part[j]->data) || axis >= s->part[j]->shape.axes) return false;
    if (type != cr_tensor_type(s->whole->data)) return false;
    if (stays && is_written(net, layer, s->part[j]->data)) return false;
    extent += s->part[j]->shape.dim[axis];
  }
  return s->parts > 1 && s->whole->shape.dim[axis] == extent;
}

static crema_status place(const sides *s, bool *done) {
  cr_part part = {.whole = s->whole->shape, .axis = axis_of(s)};
  int placed = 0;
  *done = true;
  for (; placed < s->parts && *done; ++placed) {
    part.shape = s->part[placed]->shape;
    CR_TRY(cr_tensor_alias_set(s->part[placed]->data, s->whole->data, &part, s->read, done));
    part.at += part.shape.dim[part.axis];
  }
  /* The last of them is a part of another blob, or of none. */
  for (int j = 0; !*done && j < placed - 1; ++j) cr_tensor_detach(s->part[j]->data);
  return CREMA_OK;
}

static crema_status place_layer(const crema_net *net, const cr_net_layer *layer) {
  const sides s = sides_of(layer);
  layer->layer->parts_in_place = false;
  if (!can_be_in_place(net, layer, &s)) return CREMA_OK;
  return place(&s, &layer->layer->parts_in_place);
}

/* Outer parts come before the parts of parts. */
crema_status cr_net_place_parts(crema_net *net) {
  if (!net->parts_moved) return CREMA_OK;
  net->parts_moved = false;
  for (int i = 0; i < net->layers; ++i) {
    const sides s = sides_of(&net->layer[i]);
    for (int j = 0; net->layer[i].parts_in_place && j < s.parts; ++j) {
      if (s.read || is_kept(net, s.part[j]->data)) cr_tensor_detach(s.part[j]->data);
    }
  }
  for (int i = net->layers - 1; i >= 0; --i) {
    const cr_net_layer *layer = &net->layer[i];
    if (layer->parts_in_place && !sides_of(layer).read) CR_TRY(place_layer(net, layer));
  }
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    if (layer->parts_in_place && sides_of(layer).read) CR_TRY(place_layer(net, layer));
  }
  return CREMA_OK;
}
