#include "net/lifetimes.h"

#include <stdlib.h>

#include "core/fail.h"
#include "layers/common/layer_op.h"
#include "layers/common/layer_pair.h"
#include "net/graph.h"
#include "net/segments.h"

enum { NEVER = -1 };

/* The data or the gradients of one or more blobs. */
typedef struct storage {
  const void *id; /* cr_tensor_storage */
  cr_tensor *tensor;
  bool diff, kept;
  int first, last; /* layers that have it as a bottom or a top */
  int written;     /* the last layer that writes it */
  int needed;      /* the first layer whose backward pass uses it; NEVER: none */
  bool dropped;    /* see cr_net_end */
} storage;

typedef struct storages {
  storage *storage;
  int count;
} storages;

static int by_id(const void *a, const void *b) {
  const storage *x = a, *y = b;
  return x->id < y->id ? -1 : x->id > y->id;
}

static storage *find(const storages *all, const cr_tensor *tensor) {
  const storage key = {.id = cr_tensor_storage(tensor)};
  return bsearch(&key, all->storage, (size_t)all->count, sizeof key, by_id);
}

static void add(storages *all, cr_tensor *tensor, bool diff, bool kept) {
  all->storage[all->count++] = (storage){.id = cr_tensor_storage(tensor),
                                         .tensor = tensor,
                                         .diff = diff,
                                         .kept = kept,
                                         .first = NEVER,
                                         .last = NEVER,
                                         .written = NEVER,
                                         .needed = NEVER};
}

/* Sorts and brings together what has the same id. */
static void unite(storages *all) {
  int united = 0;
  qsort(all->storage, (size_t)all->count, sizeof *all->storage, by_id);
  for (int i = 0; i < all->count; ++i) {
    storage *before = united > 0 ? &all->storage[united - 1] : NULL;
    if (before != NULL && before->id == all->storage[i].id) {
      before->kept = before->kept || all->storage[i].kept;
    } else {
      all->storage[united++] = all->storage[i];
    }
  }
  all->count = united;
}

/* ---- who uses what ---- */

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

static bool backward_reads_bottom(const cr_net_layer *layer, int j) {
  const cr_layer *self = layer->layer;
  const cr_layer_class *kind = self->kind;
  if (kind->pair != NULL && j < 3) return pair_reads(layer, (cr_operand)(CR_X0 + j));
  if (j < 31 && (kind->no_gradient_bottoms >> j & 1u) != 0) return true;
  return kind->uses_bottom != NULL && kind->uses_bottom(self, j);
}

static bool backward_reads_top(const cr_net_layer *layer, int j) {
  const cr_layer *self = layer->layer;
  const cr_layer_class *kind = self->kind;
  if (kind->pair != NULL) return pair_reads(layer, j == 0 ? CR_Y : CR_Y1);
  return kind->uses_tops != NULL &&
         kind->uses_tops(self, self->bottoms > 0 && layer->bottom[0] == layer->top[0]) !=
             CR_VALUES_NONE;
}

static void note_touch(const storages *all, int index, const crema_blob *blob) {
  const cr_tensor *const tensor[] = {blob->data, blob->diff};
  for (int i = 0; i < 2; ++i) {
    storage *s = find(all, tensor[i]);
    if (s->first == NEVER) s->first = index;
    s->last = index;
  }
}

static void note_backward(const storages *all, int index, const cr_net_layer *layer) {
  for (int j = 0; j < layer->layer->bottoms; ++j) {
    storage *data = find(all, layer->bottom[j]->data), *diff = find(all, layer->bottom[j]->diff);
    if (data->needed == NEVER && backward_reads_bottom(layer, j)) data->needed = index;
    if (diff->needed == NEVER) diff->needed = index;
  }
  for (int j = 0; j < layer->layer->tops; ++j) {
    storage *data = find(all, layer->top[j]->data), *diff = find(all, layer->top[j]->diff);
    if (data->needed == NEVER && backward_reads_top(layer, j)) data->needed = index;
    if (diff->needed == NEVER) diff->needed = index;
  }
}

/* ---- what is kept ---- */

static void keep(const storages *all, const crema_blob *blob) {
  storage *data = find(all, blob->data), *diff = find(all, blob->diff);
  if (data != NULL) data->kept = true;
  if (diff != NULL) diff->kept = true;
}

/* What sources bring, and what they need not bring again; what is seeded once, and its value read
 * when all layers have run; parameters that are shown as blobs; and what layers of a program's own
 * read and make, whose functions may leave values as they were. */
static void keep_special(const storages *all, const crema_net *net) {
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    const cr_layer *self = layer->layer;
    for (int j = 0; j < self->tops; ++j) {
      const bool lasts =
          self->kind->memory.persistent != NULL && self->kind->memory.persistent(self, j);
      if (self->bottoms == 0 || self->kind->input != NULL || lasts || layer->has_loss ||
          layer->once || self->kind->memory.reshapes_always) {
        keep(all, layer->top[j]);
      }
    }
    for (int j = 0; self->kind->memory.reshapes_always && j < self->bottoms; ++j) {
      keep(all, layer->bottom[j]);
    }
    for (int p = 0; p < self->params; ++p) keep(all, self->blob[p]);
  }
  for (int i = 0; i < net->inputs; ++i) keep(all, net->blob[net->input[i]]);
  for (int i = 0; i < net->outputs; ++i) keep(all, net->blob[net->output[i]]);
}

/* ---- the plan ---- */

bool cr_net_is_replayed(const crema_net *net, int index) {
  return net->recomputes && net->segment[index] != net->segment[net->layers - 1];
}

/* What a Slice's tops may lie in is there until the last of them was read. */
static void note_parts(const storages *all, const crema_net *net) {
  for (int i = net->layers - 1; i >= 0; --i) {
    const cr_net_layer *layer = &net->layer[i];
    if (!layer->parts_in_place || layer->layer->bottoms != 1) continue;
    storage *whole = find(all, layer->bottom[0]->data);
    for (int j = 0; j < layer->layer->tops; ++j) {
      const storage *part = find(all, layer->top[j]->data);
      if (part->last > whole->last) whole->last = part->last;
    }
  }
}

static crema_status collect(const crema_net *net, storages *out) {
  size_t most = 2 * (size_t)net->blobs + 1;
  CR_TRY(CR_NEW(out->storage, most, "the lifetimes of blobs"));
  for (int i = 0; i < net->blobs; ++i) {
    bool kept = !net->plans || net->kept[i];
    add(out, net->blob[i]->data, false, kept);
    add(out, net->blob[i]->diff, true, kept);
  }
  unite(out);
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    for (int j = 0; j < layer->layer->bottoms; ++j) note_touch(out, i, layer->bottom[j]);
    for (int j = 0; j < layer->layer->tops; ++j) note_touch(out, i, layer->top[j]);
    if (cr_net_runs_backward(layer)) note_backward(out, i, layer);
  }
  note_parts(out, net);
  return CREMA_OK;
}

/* A layer in place, or one that makes the top; one that shows its bottom under another name writes
 * nothing. */
static void note_writes(const storages *all, const cr_net_layer *layer, int index) {
  for (int t = 0; t < layer->layer->tops; ++t) {
    bool view = false;
    for (int j = 0; j < layer->layer->bottoms; ++j) {
      view = view || (layer->top[t] != layer->bottom[j] &&
                      cr_tensor_shares_with(layer->top[t]->data, layer->bottom[j]->data));
    }
    if (!view) find(all, layer->top[t]->data)->written = index;
  }
}

/* Chooses segments; what is used in several of them stays until the first of those that are
 * computed again has been. */
static crema_status plan_segments(const storages *all, crema_net *net) {
  cr_net_span *span = NULL;
  int spans = 0;
  CR_TRY(CR_NEW(span, all->count + 1, "the segments of a net"));
  for (int i = 0; i < net->layers; ++i) note_writes(all, &net->layer[i], i);
  for (int n = 0; n < all->count; ++n) {
    const storage *s = &all->storage[n];
    const size_t width = crema_dtype_size(cr_tensor_type(s->tensor));
    if (s->diff || s->first == NEVER) continue;
    span[spans++] = (cr_net_span){.bytes = cr_tensor_count(s->tensor) * (int64_t)width,
                                  .first = s->first,
                                  .last = s->last,
                                  .written = s->written};
  }
  crema_status status = CREMA_OK;
  if (!net->segmented) status = cr_net_choose_segments(span, spans, net->layers, net->segment);
  net->segmented = status == CREMA_OK;
  free(span);
  for (int n = 0; n < all->count && status == CREMA_OK; ++n) {
    storage *s = &all->storage[n];
    if (s->diff || s->first == NEVER) continue;
    const cr_net_span own = {.first = s->first, .last = s->last};
    const int next = cr_net_next_segment(&own, net->segment);
    if (next < 0) s->dropped = cr_net_is_replayed(net, s->first);
    else s->needed = s->first;
  }
  return status;
}

static void note_ends(const storages *all, const crema_net *net, int index) {
  const cr_net_layer *layer = &net->layer[index];
  const int bottoms = layer->layer->bottoms;
  for (int j = 0; j < bottoms + layer->layer->tops; ++j) {
    const crema_blob *blob = j < bottoms ? layer->bottom[j] : layer->top[j - bottoms];
    const storage *data = find(all, blob->data);
    const bool last = data->last == index;
    layer->ends[j] = (cr_net_end){
        .forward = last, .backward = data->first == index, .dropped = last && data->dropped};
  }
}

/* The pass after whose layer the storage is let go of. Gradients that no pass touches are never
 * there. */
static int layer_of_end(const storage *s, bool *forward) {
  *forward = !s->diff && s->needed == NEVER;
  return *forward ? s->last : s->needed;
}

/* Shares net->passing out to the layers. */
static void list_ends(const storages *all, crema_net *net) {
  cr_tensor **next = net->passing;
  for (int i = 0; i < net->layers; ++i) net->layer[i].past = (cr_net_past){0};
  for (int n = 0; n < all->count; ++n) {
    bool forward;
    int end = layer_of_end(&all->storage[n], &forward);
    if (all->storage[n].kept || end == NEVER) continue;
    cr_net_past *past = &net->layer[end].past;
    *(forward ? &past->forward_count : &past->backward_count) += 1;
  }
  for (int i = 0; i < net->layers; ++i) {
    cr_net_past *past = &net->layer[i].past;
    past->forward = next;
    past->backward = next + past->forward_count;
    next += past->forward_count + past->backward_count;
    past->forward_count = past->backward_count = 0;
  }
  for (int n = 0; n < all->count; ++n) {
    const storage *s = &all->storage[n];
    bool forward;
    int end = layer_of_end(s, &forward);
    const bool passes = !s->kept && end != NEVER;
    cr_tensor_set_passing(s->tensor, passes);
    if (!passes) continue;
    cr_net_past *past = &net->layer[end].past;
    if (forward) past->forward[past->forward_count++] = s->tensor;
    else past->backward[past->backward_count++] = s->tensor;
  }
}

/* Whether the layer, which is not in place, alone has the values of its bottom j, once, and nobody
 * needs them after its forward pass. */
static bool is_spare(const storages *all, const crema_net *net, int index, int j) {
  const cr_net_layer *layer = &net->layer[index];
  const storage *s = find(all, layer->bottom[j]->data), *top = find(all, layer->top[0]->data);
  for (int k = 0; k < layer->layer->bottoms; ++k) {
    const storage *other = find(all, layer->bottom[k]->data);
    if (other == top || (k != j && other == s)) return false;
  }
  return !s->kept && s->last == index && s->needed == NEVER;
}

/* A sum can exchange its first two bottoms, if they are of one type. What segments drop is computed
 * again, from bottoms that must be there still. */
static void find_spare_bottom(const storages *all, const crema_net *net, int index) {
  const cr_net_layer *layer = &net->layer[index];
  cr_layer *self = layer->layer;
  const cr_layer_class *kind = self->kind;
  self->spare_bottom = -1;
  if (kind->memory.adds_bottom == NULL || !net->param->eltwise_mem_sharing || net->recomputes)
    return;
  if (!kind->memory.adds_bottom(self, 0) || !kind->memory.adds_bottom(self, 1)) return;
  for (int j = 1; j >= 0 && self->spare_bottom < 0; --j) {
    if (cr_tensor_type(layer->bottom[j]->data) != cr_tensor_type(layer->bottom[0]->data)) continue;
    if (is_spare(all, net, index, j)) self->spare_bottom = j;
  }
}

crema_status cr_net_plan_lifetimes(crema_net *net) {
  storages all = {0};
  net->planned = net->shapes;
  if (!net->plans && !net->settles) return CREMA_OK;
  crema_status status = collect(net, &all);
  if (status == CREMA_OK && net->plans) keep_special(&all, net);
  if (status == CREMA_OK && net->recomputes) status = plan_segments(&all, net);
  for (int i = 0; i < net->layers && status == CREMA_OK; ++i) note_ends(&all, net, i);
  if (status == CREMA_OK && net->plans) {
    list_ends(&all, net);
    for (int i = 0; i < net->layers; ++i) {
      cr_layer_set_passing(net->layer[i].layer);
      find_spare_bottom(&all, net, i);
    }
  }
  free(all.storage);
  return status;
}

void cr_net_keep_blob(crema_net *net, int blob) {
  if (!net->plans || net->kept[blob]) return;
  net->kept[blob] = true;
  net->parts_moved = true;
  cr_tensor_set_passing(net->blob[blob]->data, false);
  cr_tensor_set_passing(net->blob[blob]->diff, false);
}

/* ---- inputs that are made again ---- */

/* Whether the layer reads, in place, a blob that `before`, the last layer to have it, has made. */
static bool can_have_maker(const cr_net_layer *layer, const cr_net_layer *before) {
  const cr_layer *maker = before->layer;
  return layer->layer->kind->memory.makes_input_again && layer->need_backward &&
         layer->top[0] == layer->bottom[0] && maker->kind->memory.can_make_again != NULL &&
         before->top[0] == layer->bottom[0] && maker->kind->memory.can_make_again(maker);
}

crema_status cr_net_find_makers(crema_net *net) {
  int *last = NULL;
  crema_status status = CREMA_OK;
  CR_TRY(CR_NEW(last, net->blobs + 1, "the net's graph"));
  for (int i = 0; i < net->blobs; ++i) last[i] = NEVER;
  for (int i = 0; i < net->layers && status == CREMA_OK; ++i) {
    cr_net_layer *layer = &net->layer[i];
    const int bottoms = layer->layer->bottoms, tops = layer->layer->tops;
    const int from = bottoms > 0 && tops > 0 ? last[layer->bottom_id[0]] : NEVER;
    if (from != NEVER && can_have_maker(layer, &net->layer[from])) {
      const cr_net_layer *before = &net->layer[from];
      cr_layer_maker *maker = NULL;
      status = cr_net_allocate(&net->arena, &maker, 1, sizeof *maker);
      if (status == CREMA_OK) {
        *maker = (cr_layer_maker){before->layer, before->bottom, before->top};
        layer->layer->maker = maker;
        status = cr_net_fuse_scale(net, &net->layer[from], layer);
      }
    }
    for (int j = 0; j < bottoms; ++j) last[layer->bottom_id[j]] = i;
    for (int j = 0; j < tops; ++j) last[layer->top_id[j]] = i;
  }
  free(last);
  return status;
}

/* ---- after a layer ---- */

/* What backward needs later is held in one format meanwhile. */
static void keep_heads(const cr_net_layer *layer, bool replays) {
  const int bottoms = layer->layer->bottoms;
  for (int j = 0; j < bottoms + layer->layer->tops; ++j) {
    if (!layer->ends[j].forward) continue;
    cr_tensor *data = j < bottoms ? layer->bottom[j]->data : layer->top[j - bottoms]->data;
    if (layer->ends[j].dropped && !replays) cr_tensor_let_go(data);
    else cr_tensor_keep_head(data);
  }
}

static void drop_stale(const cr_net_layer *layer, bool diff) {
  for (int j = 0; j < layer->layer->bottoms; ++j) {
    cr_tensor_drop_stale(diff ? layer->bottom[j]->diff : layer->bottom[j]->data);
  }
  for (int j = 0; j < layer->layer->tops; ++j) {
    cr_tensor_drop_stale(diff ? layer->top[j]->diff : layer->top[j]->data);
  }
}

void cr_net_let_go_forward(const crema_net *net, int index) {
  const cr_net_layer *layer = &net->layer[index];
  if (!net->plans) return;
  for (int i = 0; i < layer->past.forward_count; ++i) cr_tensor_let_go(layer->past.forward[i]);
  keep_heads(layer, net->replays);
  drop_stale(layer, false);
  if (!cr_net_runs_backward(layer) || (cr_net_is_replayed(net, index) && !net->replays)) {
    cr_layer_let_go(layer->layer);
  }
}

void cr_net_let_go_backward(const crema_net *net, int index) {
  const cr_net_layer *layer = &net->layer[index];
  if (!net->plans) return;
  for (int i = 0; i < layer->past.backward_count; ++i) cr_tensor_let_go(layer->past.backward[i]);
  drop_stale(layer, true);
  cr_layer_let_go(layer->layer);
}
