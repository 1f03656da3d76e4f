/* Warns about values that a layer in place overwrites while other layers still use them. As in
 * Caffe, such a net runs, but with wrong gradients or wrong values.
 *
 * A top that shares its bottom's values (of Split, Flatten, ...) is in the same storage as the
 * bottom. */
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "net/checks/checks.h"

enum { NO_LAYER = -1, LEVELS = CR_VALUES_ALL + 1 };

/* One per blob. A storage has the index of the blob that made it; that blob's entry holds the
 * fields about the storage. */
typedef struct blob_notes {
  int storage;
  int version; /* of the storage's values, when the blob was made or last overwritten */
  int current; /* of a storage: the version that is in memory now */
  int writer;  /* of a storage: the layer that overwrote it last */
  int source;  /* of a storage: the layer that makes it, without filling it anew in each pass */
  /* The nearest preceding layer that preserves less than [level] of a storage. */
  int clobberer[LEVELS];
} blob_notes;

static bool is_in_place(const cr_net_layer *layer) {
  return layer->layer->bottoms > 0 && layer->layer->tops > 0 &&
         layer->top_id[0] == layer->bottom_id[0];
}

static cr_value_use preserved(const cr_layer *layer) {
  return layer->kind->memory.preserves == NULL ? CR_VALUES_NONE
                                               : layer->kind->memory.preserves(layer);
}

/* Whether the layer uses the values of bottom `j` after they were overwritten, and does not only
 * pass them on. */
static bool reads_too_late(const cr_net_layer *layer, const blob_notes *note, int j) {
  const blob_notes *bottom = &note[layer->bottom_id[j]];
  if (bottom->version == note[bottom->storage].current) return false;
  if (layer->layer->kind->graph.ignores_values) return false;
  for (int t = is_in_place(layer) ? 1 : 0; t < layer->layer->tops; ++t) {
    if (cr_tensor_shares_with(layer->top[t]->data, layer->bottom[j]->data)) return false;
  }
  return true;
}

static void check_reads(const crema_net *net, const blob_notes *note, int index) {
  const cr_net_layer *layer = &net->layer[index];
  for (int j = 0; j < layer->layer->bottoms; ++j) {
    if (!reads_too_late(layer, note, j)) continue;
    const blob_notes *storage = &note[note[layer->bottom_id[j]].storage];
    const cr_layer *writer = net->layer[storage->writer].layer;
    cr_log_warning(
        "layer '%s' (%s) reads blob '%s' after layer '%s' (%s) has overwritten its values "
        "in place, through another name of theirs; give '%s' its own top",
        layer->layer->name, layer->layer->kind->type, net->blob_name[layer->bottom_id[j]],
        writer->name, writer->kind->type, writer->name);
  }
}

static void check_persistent_source(const crema_net *net, const blob_notes *note, int index) {
  const cr_net_layer *layer = &net->layer[index];
  if (!is_in_place(layer) || preserved(layer->layer) == CR_VALUES_ALL) return;
  const blob_notes *storage = &note[note[layer->top_id[0]].storage];
  if (storage->source == NO_LAYER) return;
  const cr_layer *self = net->layer[index].layer, *source = net->layer[storage->source].layer;
  cr_log_warning(
      "layer '%s' (%s) overwrites in place the values of layer '%s' (%s), which does not make them "
      "anew for the next pass; give '%s' its own top",
      self->name, self->kind->type, source->name, source->kind->type, self->name);
}

static void note_tops(const crema_net *net, blob_notes *note, int index) {
  const cr_net_layer *layer = &net->layer[index];
  const cr_layer *self = layer->layer;
  const bool in_place = is_in_place(layer);
  for (int t = 0; t < self->tops; ++t) {
    const int id = layer->top_id[t];
    blob_notes *top = &note[id];
    if (in_place && t == 0) {
      blob_notes *storage = &note[top->storage];
      if (preserved(self) == CR_VALUES_ALL) continue;
      storage->writer = index;
      top->version = ++storage->current;
      continue;
    }
    int bottom = 0; /* whose values the top shares */
    while (bottom < self->bottoms &&
           !cr_tensor_shares_with(layer->top[t]->data, layer->bottom[bottom]->data)) {
      ++bottom;
    }
    const bool persistent =
        self->kind->memory.persistent != NULL && self->kind->memory.persistent(self, t);
    *top = (blob_notes){.storage = id, .writer = NO_LAYER, .source = persistent ? index : NO_LAYER};
    for (int level = 0; level < LEVELS; ++level) top->clobberer[level] = NO_LAYER;
    if (bottom == self->bottoms) continue;
    top->storage = note[layer->bottom_id[bottom]].storage;
    top->version = note[layer->bottom_id[bottom]].version;
  }
}

static bool gives_gradient(const cr_net_layer *layer, bool to_params) {
  const cr_layer *self = layer->layer;
  bool any = false;
  for (int j = 0; j < self->bottoms; ++j) any = any || layer->propagate_down[j];
  for (int p = 0; p < self->params && to_params; ++p) any = any || self->param_propagate_down[p];
  return any && layer->need_backward;
}

static void warn_of_use(const crema_net *net, int index, int blob, int writer) {
  const cr_layer *self = net->layer[index].layer, *other = net->layer[writer].layer;
  cr_log_warning(
      "layer '%s' (%s) computes its gradient from the values of blob '%s', which layer '%s' (%s) "
      "overwrites in place before that; give '%s' its own top",
      self->name, self->kind->type, net->blob_name[blob], other->name, other->kind->type,
      other->name);
}

/* Only the layer itself, or a layer that knows the values under another name, can overwrite the
 * values of a bottom. */
static void check_bottoms(const crema_net *net, const blob_notes *note, int index) {
  const cr_net_layer *layer = &net->layer[index];
  const cr_layer *self = layer->layer;
  if (self->kind->uses_bottom == NULL || !gives_gradient(layer, true)) return;
  for (int j = is_in_place(layer) ? 1 : 0; j < self->bottoms; ++j) {
    const int writer = note[note[layer->bottom_id[j]].storage].clobberer[CR_VALUES_ALL];
    if (writer == NO_LAYER || !self->kind->uses_bottom(self, j)) continue;
    warn_of_use(net, index, layer->bottom_id[j], writer);
  }
}

static void check_tops(const crema_net *net, const blob_notes *note, int index) {
  const cr_net_layer *layer = &net->layer[index];
  const cr_layer *self = layer->layer;
  if (self->kind->uses_tops == NULL || !gives_gradient(layer, false)) return;
  const cr_value_use uses = self->kind->uses_tops(self, is_in_place(layer));
  for (int t = self->kind->loss ? 1 : 0; t < self->tops && uses != CR_VALUES_NONE; ++t) {
    const int clobberer = note[note[layer->top_id[t]].storage].clobberer[uses];
    if (clobberer != NO_LAYER) warn_of_use(net, index, layer->top_id[t], clobberer);
  }
}

static void note_overwriting(const crema_net *net, blob_notes *note, int index) {
  const cr_net_layer *layer = &net->layer[index];
  if (!is_in_place(layer)) return;
  blob_notes *storage = &note[note[layer->top_id[0]].storage];
  for (int level = preserved(layer->layer) + 1; level < LEVELS; ++level) {
    storage->clobberer[level] = index;
  }
}

crema_status cr_net_warn_of_overwriting(const crema_net *net) {
  blob_notes *note = NULL;
  CR_TRY(CR_NEW(note, net->blobs + 1, "the net's graph"));
  for (int i = 0; i < net->layers; ++i) {
    check_reads(net, note, i);
    check_persistent_source(net, note, i);
    note_tops(net, note, i);
  }
  for (int i = net->layers - 1; i >= 0; --i) {
    check_tops(net, note, i);
    check_bottoms(net, note, i);
    note_overwriting(net, note, i);
  }
  free(note);
  return CREMA_OK;
}

crema_status cr_net_find_overwritten(const crema_net *net, bool *found) {
  blob_notes *note = NULL;
  bool *storage = NULL;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(CR_NEW(note, net->blobs + 1, "the net's graph"), out);
  CR_TRY_GOTO(CR_NEW(storage, net->blobs + 1, "the net's graph"), out);
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    for (int j = 0; j < layer->layer->bottoms; ++j) {
      if (reads_too_late(layer, note, j)) storage[note[layer->bottom_id[j]].storage] = true;
    }
    note_tops(net, note, i);
  }
  for (int b = 0; b < net->blobs; ++b) found[b] = storage[note[b].storage];
out:
  free(storage);
  free(note);
  return status;
}
