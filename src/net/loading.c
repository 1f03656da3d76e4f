/* Loading files of weights, and reporting which layers get none. */
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/did_you_mean.h"
#include "core/fail.h"
#include "core/log.h"
#include "device/backend/current.h"
#include "net/build.h"

enum {
  NAMED_IN_ERROR = 4, /* layers that one message names */
  WARNED_BY_NAME = 32,
  MOST_SPARES = 4096 /* names kept for suggestions */
};

/* Parameters whose values are in the net's own text need none from a file. */
static crema_status start(cr_net_loading *loading) {
  const crema_net *net = loading->net;
  CR_TRY(CR_NEW(loading->given, net->learnables + 1, "matching layers"));
  for (int i = 0; i < net->params; ++i) {
    if (net->layer[net->net_param[i].layer].inline_params) cr_net_note_given(loading, i);
  }
  return CREMA_OK;
}

static void finish(cr_net_loading *loading) {
  for (size_t i = 0; i < loading->spares; ++i) free(loading->spare[i]);
  free((void *)loading->spare);
  free(loading->given);
}

void cr_net_note_given(cr_net_loading *loading, int entry) {
  loading->given[loading->net->net_param[entry].learnable] = true;
}

crema_status cr_net_note_spare(cr_net_loading *loading, const char *name) {
  if (loading->missing == CR_MISSING_IGNORED) {
    cr_log_debug("Ignoring source layer %s", name);
    return CREMA_OK;
  }
  cr_log_info("Ignoring source layer %s", name);
  if (loading->spares == MOST_SPARES) return CREMA_OK;
  if (loading->spare == NULL) {
    loading->spare = malloc(MOST_SPARES * sizeof(char *));
    if (loading->spare == NULL) return cr_fail_memory(MOST_SPARES * sizeof(char *), "layer names");
  }
  char *copy = strdup(name);
  if (copy == NULL) return cr_fail_memory(strlen(name) + 1, "a layer's name");
  loading->spare[loading->spares++] = copy;
  return CREMA_OK;
}

/* Whether the layer has a parameter, its own or one that it shares, that no file has given. */
static bool is_missing(const cr_net_loading *loading, int index) {
  const cr_net_layer *layer = &loading->net->layer[index];
  if (!cr_layer_reads_params(layer->layer)) return false;
  for (int p = 0; p < layer->layer->params; ++p) {
    int id = loading->net->net_param[layer->first_param + p].learnable;
    if (!loading->given[id]) return true;
  }
  return false;
}

/* The layer of the files that may have been meant, or NULL. */
static const char *suggestion(const cr_net_loading *loading, int index) {
  if (loading->spares == 0) return NULL;
  return cr_did_you_mean(loading->net->layer[index].layer->name,
                         (const char *const *)loading->spare, loading->spares);
}

static crema_status print_missing(const cr_net_loading *loading, int index, cr_buffer *out) {
  const cr_layer *layer = loading->net->layer[index].layer;
  const char *meant = suggestion(loading, index);
  CR_TRY(cr_buffer_print(out, "%s'%.100s' (%s)", out->size == 0 ? "" : ", ", layer->name,
                         layer->kind->type));
  if (meant == NULL) return CREMA_OK;
  return cr_buffer_print(out, " (the file has a layer '%s', which the net has not)", meant);
}

static crema_status fail_missing(const cr_net_loading *loading, int missing, int all) {
  cr_buffer names = {0};
  crema_status status = CREMA_OK;
  int named = 0;
  for (int i = 0; i < loading->net->layers && named < NAMED_IN_ERROR; ++i) {
    if (!is_missing(loading, i)) continue;
    CR_TRY_GOTO(print_missing(loading, i, &names), out);
    ++named;
  }
  if (missing > named) {
    CR_TRY_GOTO(cr_buffer_print(&names, " and %d more", missing - named), out);
  }
  status = cr_fail(CREMA_E_NOT_FOUND,
                   "%s no parameters for %d of the net's %d layers that have some: %s; layers are "
                   "matched by name, and allow_missing lets these keep their initial values",
                   loading->files > 1 ? "this file and those before it hold" : "holds", missing,
                   all, names.data);
out:
  cr_buffer_free(&names);
  return status;
}

crema_status cr_net_check_complete(const cr_net_loading *loading) {
  int missing = 0, all = 0;
  if (!loading->last || loading->missing != CR_MISSING_REFUSED) return CREMA_OK;
  for (int i = 0; i < loading->net->layers; ++i) {
    all += loading->net->layer[i].layer->params > 0;
    missing += is_missing(loading, i);
  }
  return missing == 0 ? CREMA_OK : fail_missing(loading, missing, all);
}

static void warn_of_missing(const cr_net_loading *loading, const crema_net *other) {
  const crema_net *net = loading->net;
  int missing = 0;
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    if (!is_missing(loading, i)) continue;
    if (other != NULL && cr_net_find_layer(other, layer->name) >= 0) continue;
    if (++missing > WARNED_BY_NAME) continue;
    const char *meant = suggestion(loading, i);
    cr_log_warning("layer '%s' (%s) gets no weights and keeps its initial values%s%s%s",
                   layer->name, layer->kind->type, meant == NULL ? "" : "; the file has a layer '",
                   meant == NULL ? "" : meant, meant == NULL ? "" : "', which the net has not");
  }
  if (missing > WARNED_BY_NAME) {
    cr_log_warning("%d more layers get no weights", missing - WARNED_BY_NAME);
  }
}

static crema_status load_stored(crema_net *net, const cr_net_stored *stored,
                                cr_net_loading *loading) {
  if (stored->net.param->n_layer == 0) return cr_fail(CREMA_E_CORRUPT, "holds no layers");
  return cr_net_from_stored(net, stored, loading);
}

static crema_status load_binary(crema_net *net, const char *path, cr_net_loading *loading) {
  cr_net_stored stored;
  CR_TRY(cr_net_stored_open(path, CR_STORED_RUN, &stored));
  crema_status status = net->phase == CREMA_TEST ? cr_net_stored_use_once(&stored) : CREMA_OK;
  if (status == CREMA_OK) status = load_stored(net, &stored, loading);
  cr_net_stored_close(&stored);
  return cr_fail_in(status, "%s", path);
}

/* What is left to do when the last values are loaded. */
static crema_status settle(crema_net *net) {
  for (int i = 0; i < net->layers; ++i) CR_TRY(cr_net_settle_params(net, i));
  return cr_net_show_views(net);
}

/* Where weights are: in files, or (path NULL) in memory. */
typedef struct weights {
  const char *const *path;
  size_t count;
  const void *bytes;
  size_t size;
  const char *source;
} weights;

static crema_status load_one(crema_net *net, const char *path, cr_net_loading *loading) {
  bool hdf5 = cr_net_is_named_hdf5(path) || cr_net_is_hdf5(path);
  crema_status status =
      hdf5 ? cr_net_load_hdf5(net, path, loading) : load_binary(net, path, loading);
  return cr_fail_where(status, &(cr_where){.file = path, .told = true});
}

static crema_status load_bytes(crema_net *net, const weights *from, cr_net_loading *loading) {
  cr_net_stored stored = {0};
  CR_TRY(cr_stored_net_of(from->bytes, from->size, CR_STORED_RUN, from->source, &stored.net));
  crema_status status = load_stored(net, &stored, loading);
  cr_net_stored_close(&stored);
  return cr_fail_in(status, "%s", from->source);
}

static crema_status load_all(crema_net *net, const weights *from, cr_net_loading *loading) {
  CR_TRY(start(loading));
  for (size_t i = 0; i < from->count; ++i) {
    loading->files += 1;
    loading->last = i + 1 == from->count;
    CR_TRY(from->path != NULL ? load_one(net, from->path[i], loading)
                              : load_bytes(net, from, loading));
  }
  return settle(net);
}

/* `other` as in cr_net_load_files. */
static crema_status load(crema_net *net, const weights *from, cr_net_missing missing,
                         const crema_net *other) {
  cr_net_loading loading = {.net = net, .missing = missing};
  /* So that values that are read for the device get page-locked memory. */
  cr_device_guard guard;
  CR_TRY(cr_device_enter(net->context->device, &guard));
  crema_status status = load_all(net, from, &loading);
  if (status == CREMA_OK && missing != CR_MISSING_REFUSED) warn_of_missing(&loading, other);
  finish(&loading);
  cr_device_leave(guard);
  return status;
}

crema_status cr_net_load_files(crema_net *net, const char *const *path, size_t count,
                               cr_net_missing missing, const crema_net *other) {
  return load(net, &(weights){.path = path, .count = count}, missing, other);
}

crema_status cr_net_load_bytes(crema_net *net, const void *bytes, size_t size, const char *source,
                               cr_net_missing missing) {
  const char *name = source == NULL ? "the bytes given" : source;
  const weights from = {.count = 1, .bytes = bytes, .size = size, .source = name};
  return load(net, &from, missing, NULL);
}

void crema_weights_options_init(crema_weights_options *options) {
  if (options == NULL) return;
  *options = (crema_weights_options){0};
}

static cr_net_missing missing_of(const crema_weights_options *options) {
  bool allow = options != NULL && options->allow_missing;
  return allow ? CR_MISSING_WARNED : CR_MISSING_REFUSED;
}

crema_status crema_net_load_weights(crema_net *net, const char *path) {
  CR_REQUIRE(net);
  CR_REQUIRE(path);
  crema_weights_options options;
  crema_weights_options_init(&options);
  options.allow_missing = net->phase == CREMA_TRAIN;
  return crema_net_load_weights_with(net, path, &options);
}

crema_status crema_net_load_weights_with(crema_net *net, const char *path,
                                         const crema_weights_options *options) {
  CR_REQUIRE(net);
  CR_REQUIRE(path);
  return cr_net_load_files(net, &path, 1, missing_of(options), NULL);
}

crema_status crema_net_load_weights_memory(crema_net *net, const void *bytes, size_t size,
                                           const char *source,
                                           const crema_weights_options *options) {
  CR_REQUIRE(net);
  CR_REQUIRE(bytes);
  return cr_net_load_bytes(net, bytes, size, source, missing_of(options));
}
