#include "net/lifetimes.h"

#include <stdlib.h>

#include "core/fail.h"
#include "layers/common/layer_op.h"
#include "layers/common/layer_pair.h"
#include "net/graph.h"
#include "net/segments.h"

enum { NEVER = -1 };

/* The live range of a storage: the data or the gradients of one or more blobs. */
typedef struct live_range {
  const void *id; /* cr_tensor_storage */
  cr_tensor *tensor;
  bool diff, kept;
  int first, last; /* layers that have it as a bottom or a top */
  int written;     /* the last layer that writes it */
  int needed;      /* the first layer whose backward pass uses it; NEVER: none */
  bool dropped;    /* see cr_net_last_use */
} live_range;

typedef struct liveness {
  live_range *range; /* sorted by id */
  int count;
} liveness;

static int by_id(const void *a, const void *b) {
  const live_range *x = a, *y = b;
  return x->id < y->id ? -1 : x->id > y->id;
}

static live_range *find(const liveness *all, const cr_tensor *tensor) {
  const live_range key = {.id = cr_tensor_storage(tensor)};
  return bsearch(&key, all->range, (size_t)all->count, sizeof key, by_id);
}

static void add(liveness *all, cr_tensor *tensor, bool diff, bool kept) {
  all->range[all->count++] = (live_range){.id = cr_tensor_storage(tensor),
                                          .tensor = tensor,
                                          .diff = diff,
                                          .kept = kept,
                                          .first = NEVER,
                                          .last = NEVER,
                                          .written = NEVER,
                                          .needed = NEVER};
}

/* Sorts the ranges and merges ranges of the same storage. */
static void merge(liveness *all) {
  int merged = 0;
  qsort(all->range, (size_t)all->count, sizeof *all->range, by_id);
  for (int i = 0; i < all->count; ++i) {
    live_range *before = merged > 0 ? &all->range[merged - 1] : NULL;
    if (before != NULL && before->id == all->range[i].id) {
      before->kept = before->kept || all->range[i].kept;
    } else {
      all->range[merged++] = all->range[i];
    }
  }
  all->count = merged;
}

bool cr_net_has_gradient(const cr_net_layer *layer) {
  const cr_layer *self = layer->layer;
  for (int j = 0; j < self->bottoms; ++j) {
    if (layer->propagate_down[j]) return true;
  }
  for (int p = 0; p < self->params; ++p) {
    if (self->param_propagate_down[p]) return true;
  }
  return false;
}

bool cr_net_runs_backward(const cr_net_layer *layer) {
  return layer->need_backward && cr_net_has_gradient(layer) && layer->layer->kind->backward != NULL;
}

/* Whether the ops of a layer of the pair kind are given the values in backward. */
static bool pair_reads(const cr_net_layer *layer, cr_operand wanted) {
  const cr_operand *operand = layer->layer->kind->pair->backward.operand;
  const bool in_place = layer->bottom[0] == layer->top[0];
  for (; *operand != CR_END; ++operand) {
    if (*operand == wanted) return true;
    if (*operand == CR_INPUT && wanted == CR_X0 && !in_place) return true;
  }
  return false;
}

/* Whether the layer's backward pass reads the data of bottom or top `j` (see cr_net_layer_blob). */
static bool backward_reads(const cr_net_layer *layer, int j) {
  const cr_layer *self = layer->layer;
  const cr_layer_class *kind = self->kind;
  if (j < self->bottoms) {
    if (kind->pair != NULL && j < 3) return pair_reads(layer, (cr_operand)(CR_X0 + j));
    if (j < 31 && (kind->no_gradient_bottoms >> j & 1u) != 0) return true;
    return kind->uses_bottom != NULL && kind->uses_bottom(self, j);
  }
  if (kind->pair != NULL) return pair_reads(layer, j == self->bottoms ? CR_Y : CR_Y1);
  const bool in_place = self->bottoms > 0 && layer->bottom[0] == layer->top[0];
  return kind->uses_tops != NULL && kind->uses_tops(self, in_place) != CR_VALUES_NONE;
}

static void note_uses(const liveness *all, int index, const cr_net_layer *layer) {
  const bool backward = cr_net_runs_backward(layer);
  for (int j = 0; j < layer->layer->bottoms + layer->layer->tops; ++j) {
    const crema_blob *blob = cr_net_layer_blob(layer, j);
    live_range *range[] = {find(all, blob->data), find(all, blob->diff)};
    for (int i = 0; i < 2; ++i) {
      if (range[i]->first == NEVER) range[i]->first = index;
      range[i]->last = index;
      const bool needed = backward && (i == 1 || backward_reads(layer, j));
      if (needed && range[i]->needed == NEVER) range[i]->needed = index;
    }
  }
}

/* The memory that a Slice's tops may alias is live until the last of them was read. */
static void extend_sliced(const liveness *all, const crema_net *net) {
  for (int i = net->layers - 1; i >= 0; --i) {
    const cr_net_layer *layer = &net->layer[i];
    if (!layer->parts_in_place || layer->layer->bottoms != 1) continue;
    live_range *whole = find(all, layer->bottom[0]->data);
    for (int j = 0; j < layer->layer->tops; ++j) {
      const live_range *part = find(all, layer->top[j]->data);
      if (part->last > whole->last) whole->last = part->last;
    }
  }
}

/* A layer may read the gradient of another blob. */
static void extend_diff_sources(const liveness *all, const crema_net *net) {
  for (int i = net->layers - 1; i >= 0; --i) {
    cr_tensor *source = net->layer[i].layer->diff_source;
    if (source == NULL) continue;
    live_range *r = find(all, source);
    if (r->needed == NEVER || i < r->needed) r->needed = i;
  }
}

static crema_status find_ranges(const crema_net *net, liveness *out) {
  CR_TRY(CR_NEW(out->range, 2 * net->blobs + 1, "the lifetimes of blobs"));
  for (int i = 0; i < net->blobs; ++i) {
    bool kept = !net->plans || net->kept[i];
    add(out, net->blob[i]->data, false, kept);
    add(out, net->blob[i]->diff, true, kept);
  }
  merge(out);
  for (int i = 0; i < net->layers; ++i) note_uses(out, i, &net->layer[i]);
  extend_sliced(out, net);
  extend_diff_sources(out, net);
  return CREMA_OK;
}

static void keep(const liveness *all, const crema_blob *blob) {
  live_range *data = find(all, blob->data), *diff = find(all, blob->diff);
  if (data != NULL) data->kept = true;
  if (diff != NULL) diff->kept = true;
}

/* Never released:
 *   - tops of sources, and values that a layer does not make anew in each pass
 *   - losses, whose diffs are seeded once and whose values are read after all layers
 *   - parameters that are shown as blobs
 *   - bottoms and tops of custom layers, whose functions may leave values as they were
 *   - inputs and outputs */
static void keep_special(const liveness *all, const crema_net *net) {
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    const cr_layer *self = layer->layer;
    const cr_layer_memory_part *memory = &self->kind->memory;
    for (int j = 0; j < self->tops; ++j) {
      const bool lasts = memory->persistent != NULL && memory->persistent(self, j);
      if (self->bottoms == 0 || self->kind->input != NULL || lasts || layer->has_loss ||
          layer->once || memory->reshapes_always) {
        keep(all, layer->top[j]);
      }
    }
    for (int j = 0; memory->reshapes_always && j < self->bottoms; ++j) keep(all, layer->bottom[j]);
    for (int p = 0; p < self->params; ++p) keep(all, self->blob[p]);
  }
  for (int i = 0; i < net->inputs; ++i) keep(all, net->blob[net->input[i]]);
  for (int i = 0; i < net->outputs; ++i) keep(all, net->blob[net->output[i]]);
}

bool cr_net_is_replayed(const crema_net *net, int index) {
  return net->recomputes && net->replay.segment[index] != net->replay.segment[net->layers - 1];
}

/* A layer writes its tops, unless a top is its bottom under another name. */
static void note_writes(const liveness *all, const cr_net_layer *layer, int index) {
  for (int t = 0; t < layer->layer->tops; ++t) {
    bool view = false;
    for (int j = 0; j < layer->layer->bottoms; ++j) {
      view = view || (layer->top[t] != layer->bottom[j] &&
                      cr_tensor_shares_with(layer->top[t]->data, layer->bottom[j]->data));
    }
    if (!view) find(all, layer->top[t]->data)->written = index;
  }
}

/* Chooses segments. Values that several segments use stay until the first of those that are
 * computed again has been. */
static crema_status plan_segments(const liveness *all, crema_net *net) {
  cr_net_span *span = NULL;
  int spans = 0;
  CR_TRY(CR_NEW(span, all->count + 1, "the segments of a net"));
  for (int i = 0; i < net->layers; ++i) note_writes(all, &net->layer[i], i);
  for (int n = 0; n < all->count; ++n) {
    const live_range *r = &all->range[n];
    const size_t width = crema_dtype_size(cr_tensor_type(r->tensor));
    if (r->diff || r->first == NEVER) continue;
    span[spans++] = (cr_net_span){.bytes = cr_tensor_count(r->tensor) * (int64_t)width,
                                  .first = r->first,
                                  .last = r->last,
                                  .written = r->written};
  }
  crema_status status = CREMA_OK;
  if (!net->replay.chosen)
    status = cr_net_choose_segments(span, spans, net->layers, net->replay.segment);
  net->replay.chosen = status == CREMA_OK;
  free(span);
  for (int n = 0; n < all->count && status == CREMA_OK; ++n) {
    live_range *r = &all->range[n];
    if (r->diff || r->first == NEVER) continue;
    const cr_net_span own = {.first = r->first, .last = r->last};
    if (cr_net_next_segment(&own, net->replay.segment) < 0)
      r->dropped = cr_net_is_replayed(net, r->first);
    else r->needed = r->first;
  }
  return status;
}

static void note_last_uses(const liveness *all, const crema_net *net, int index) {
  const cr_net_layer *layer = &net->layer[index];
  for (int j = 0; j < layer->layer->bottoms + layer->layer->tops; ++j) {
    const live_range *data = find(all, cr_net_layer_blob(layer, j)->data);
    const bool last = data->last == index;
    layer->last_use[j] = (cr_net_last_use){
        .forward = last, .backward = data->first == index, .dropped = last && data->dropped};
  }
}

/* The layer after whose pass the range ends; NEVER for gradients that no pass touches. *forward:
 * after its forward pass. */
static int end_of(const live_range *r, bool *forward) {
  *forward = !r->diff && r->needed == NEVER;
  return *forward ? r->last : r->needed;
}

/* Makes the layers' release lists, whose arrays are parts of net->released. */
static void list_releases(const liveness *all, crema_net *net) {
  cr_tensor **next = net->released;
  bool forward;
  for (int i = 0; i < net->layers; ++i) net->layer[i].releases = (cr_net_releases){0};
  for (int n = 0; n < all->count; ++n) {
    const int end = end_of(&all->range[n], &forward);
    if (all->range[n].kept || end == NEVER) continue;
    cr_net_releases *list = &net->layer[end].releases;
    *(forward ? &list->forward_count : &list->backward_count) += 1;
  }
  for (int i = 0; i < net->layers; ++i) {
    cr_net_releases *list = &net->layer[i].releases;
    list->forward = next;
    list->backward = next + list->forward_count;
    next += list->forward_count + list->backward_count;
    list->forward_count = list->backward_count = 0;
  }
  for (int n = 0; n < all->count; ++n) {
    const live_range *r = &all->range[n];
    const int end = end_of(r, &forward);
    const bool transient = !r->kept && end != NEVER;
    cr_tensor_set_transient(r->tensor, transient);
    if (!transient) continue;
    cr_net_releases *list = &net->layer[end].releases;
    if (forward) list->forward[list->forward_count++] = r->tensor;
    else list->backward[list->backward_count++] = r->tensor;
  }
}

/* Whether the layer, which is not in place, is the last to use the values of bottom j, and no other
 * bottom has them. */
static bool is_spare(const liveness *all, const crema_net *net, int index, int j) {
  const cr_net_layer *layer = &net->layer[index];
  const live_range *r = find(all, layer->bottom[j]->data), *top = find(all, layer->top[0]->data);
  for (int k = 0; k < layer->layer->bottoms; ++k) {
    const live_range *other = find(all, layer->bottom[k]->data);
    if (other == top || (k != j && other == r)) return false;
  }
  return !r->kept && r->last == index && r->needed == NEVER;
}

/* A sum may write its top over one of its first two bottoms, which have one type. Values that
 * segments drop are computed again, from bottoms that must still exist. */
static void find_reusable_bottom(const liveness *all, const crema_net *net, int index) {
  const cr_net_layer *layer = &net->layer[index];
  cr_layer *self = layer->layer;
  const cr_layer_memory_part *memory = &self->kind->memory;
  self->reusable_bottom = -1;
  if (memory->adds_bottom == NULL || !net->param->eltwise_mem_sharing || net->recomputes) return;
  if (!memory->adds_bottom(self, 0) || !memory->adds_bottom(self, 1)) return;
  for (int j = 1; j >= 0 && self->reusable_bottom < 0; --j) {
    if (cr_tensor_type(layer->bottom[j]->data) != cr_tensor_type(layer->bottom[0]->data)) continue;
    if (is_spare(all, net, index, j)) self->reusable_bottom = j;
  }
}

crema_status cr_net_plan_lifetimes(crema_net *net) {
  liveness all = {0};
  net->planned = net->shapes;
  if (!net->plans && !net->settles) return CREMA_OK;
  crema_status status = find_ranges(net, &all);
  if (status == CREMA_OK && net->plans) keep_special(&all, net);
  if (status == CREMA_OK && net->recomputes) status = plan_segments(&all, net);
  for (int i = 0; i < net->layers && status == CREMA_OK; ++i) note_last_uses(&all, net, i);
  if (status == CREMA_OK && net->plans) {
    list_releases(&all, net);
    for (int i = 0; i < net->layers; ++i) {
      cr_layer_set_transient(net->layer[i].layer);
      find_reusable_bottom(&all, net, i);
    }
  }
  free(all.range);
  return status;
}

void cr_net_keep_blob(crema_net *net, int blob) {
  if (!net->plans || net->kept[blob]) return;
  net->kept[blob] = true;
  net->parts_moved = true;
  cr_tensor_set_transient(net->blob[blob]->data, false);
  cr_tensor_set_transient(net->blob[blob]->diff, false);
}

static void drop_stale(const cr_net_layer *layer, bool diff) {
  for (int j = 0; j < layer->layer->bottoms + layer->layer->tops; ++j) {
    const crema_blob *blob = cr_net_layer_blob(layer, j);
    cr_tensor_drop_stale(diff ? blob->diff : blob->data);
  }
}

void cr_net_release_after_forward(const crema_net *net, int index) {
  const cr_net_layer *layer = &net->layer[index];
  if (!net->plans) return;
  for (int i = 0; i < layer->releases.forward_count; ++i) {
    cr_tensor_release_in(net->context, layer->releases.forward[i]);
  }
  /* The backward pass needs the other values later: they are held in one format until then. */
  for (int j = 0; j < layer->layer->bottoms + layer->layer->tops; ++j) {
    cr_tensor *data = cr_net_layer_blob(layer, j)->data;
    if (!layer->last_use[j].forward) continue;
    if (layer->last_use[j].dropped && !net->replay.runs) cr_tensor_release_in(net->context, data);
    else cr_tensor_keep_head(data);
  }
  drop_stale(layer, false);
  if (!cr_net_runs_backward(layer) || (cr_net_is_replayed(net, index) && !net->replay.runs)) {
    cr_layer_release(layer->layer, net->context);
  }
}

void cr_net_release_after_backward(const crema_net *net, int index) {
  const cr_net_layer *layer = &net->layer[index];
  if (!net->plans) return;
  for (int i = 0; i < layer->releases.backward_count; ++i) {
    cr_tensor_release_in(net->context, layer->releases.backward[i]);
  }
  drop_stale(layer, true);
  cr_layer_release(layer->layer, net->context);
}

#ifdef CR_CHECKS
/* Whether the backward pass of layer `index` uses the storage, as a gradient or as data. */
static bool uses_in_backward(const crema_net *net, int index, const void *storage) {
  const cr_net_layer *layer = &net->layer[index];
  for (int j = 0; j < layer->layer->bottoms + layer->layer->tops; ++j) {
    const crema_blob *blob = cr_net_layer_blob(layer, j);
    if (cr_tensor_storage(blob->diff) == storage) return true;
    if (cr_tensor_storage(blob->data) == storage && backward_reads(layer, j)) return true;
  }
  return false;
}

static bool has_data(const cr_net_layer *layer, const void *storage) {
  for (int j = 0; j < layer->layer->bottoms + layer->layer->tops; ++j) {
    if (cr_tensor_storage(cr_net_layer_blob(layer, j)->data) == storage) return true;
  }
  return false;
}

bool cr_net_check(const crema_net *net) {
  for (int i = 0; net->plans && i < net->layers; ++i) {
    const cr_net_releases *list = &net->layer[i].releases;
    for (int n = 0; n < list->forward_count; ++n) {
      const void *storage = cr_tensor_storage(list->forward[n]);
      for (int k = 0; k < net->layers; ++k) {
        if (k > i && has_data(&net->layer[k], storage)) return false;
        if (!cr_net_runs_backward(&net->layer[k])) continue;
        if (uses_in_backward(net, k, storage)) return false;
      }
    }
    for (int n = 0; n < list->backward_count; ++n) {
      const void *storage = cr_tensor_storage(list->backward[n]);
      for (int k = 0; k < i; ++k) {
        const bool later =
            cr_net_is_replayed(net, k) && net->replay.segment[k] != net->replay.segment[i];
        if (later && has_data(&net->layer[k], storage)) return false;
        if (!cr_net_runs_backward(&net->layer[k])) continue;
        if (uses_in_backward(net, k, storage)) return false;
      }
    }
  }
  return true;
}
#endif
