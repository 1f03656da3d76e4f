/* Which layers of a net get parameters from files of weights, and reports about missing ones. */
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/did_you_mean.h"
#include "core/fail.h"
#include "core/log.h"
#include "net/common/fail.h"
#include "net/weights/weights.h"

enum {
  NAMED_IN_ERROR = 4, /* layers that one message names */
  NAMED_IN_NOTE = 3,
  WARNED_BY_NAME = 32,
  MOST_SPARES = 4096 /* names kept for suggestions */
};

crema_status cr_net_loading_begin(cr_net_loading *loading) {
  const crema_net *net = loading->net;
  CR_TRY(CR_NEW(loading->given, net->learnables + 1, "matching layers"));
  for (int i = 0; i < net->params; ++i) {
    if (net->layer[net->net_param[i].layer].inline_params) cr_net_note_given(loading, i);
  }
  return CREMA_OK;
}

void cr_net_loading_end(cr_net_loading *loading) {
  for (size_t i = 0; i < loading->spares; ++i) free(loading->spare[i]);
  free((void *)loading->spare);
  free(loading->given);
}

void cr_net_note_given(cr_net_loading *loading, int entry) {
  loading->given[loading->net->net_param[entry].learnable] = true;
}

crema_status cr_net_note_spare(cr_net_loading *loading, const char *name) {
  cr_log_debug("Ignoring source layer %s", name);
  if (loading->missing == CR_MISSING_IGNORED) return CREMA_OK;
  ++loading->ignored;
  if (loading->spares == MOST_SPARES) return CREMA_OK;
  if (loading->spare == NULL) CR_TRY(CR_NEW(loading->spare, MOST_SPARES, "layer names"));
  char *copy = strdup(name);
  if (copy == NULL) return cr_fail_memory(strlen(name) + 1, "a layer's name");
  loading->spare[loading->spares++] = copy;
  return CREMA_OK;
}

crema_status cr_net_report_ignored(cr_net_loading *loading, const char *source) {
  cr_buffer names = {0};
  const size_t count = loading->ignored;
  const size_t kept = count < loading->spares ? count : loading->spares;
  crema_status status = CREMA_OK;
  loading->ignored = 0;
  if (count == 0) return CREMA_OK;
  for (size_t i = 0; i < kept && i < NAMED_IN_NOTE && status == CREMA_OK; ++i) {
    status = cr_buffer_print(&names, "%s%.100s", i == 0 ? ": " : ", ",
                             loading->spare[loading->spares - kept + i]);
  }
  if (status == CREMA_OK) {
    cr_log_info("%zu layer%s of %s %s not in the net%s%s", count, count == 1 ? "" : "s", source,
                count == 1 ? "is" : "are", kept == 0 ? "" : names.data,
                count > NAMED_IN_NOTE ? ", ..." : "");
  }
  cr_buffer_free(&names);
  return status;
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
  return cr_buffer_print(out, " (the file has a layer '%s', which the net lacks)", meant);
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

/* After the last file: rejects layers without weights if the caller requests it. */
static crema_status check_complete(const cr_net_loading *loading) {
  int missing = 0, all = 0;
  if (!loading->last || loading->missing != CR_MISSING_REFUSED) return CREMA_OK;
  for (int i = 0; i < loading->net->layers; ++i) {
    all += loading->net->layer[i].layer->params > 0;
    missing += is_missing(loading, i);
  }
  return missing == 0 ? CREMA_OK : fail_missing(loading, missing, all);
}

void cr_net_warn_of_missing(const cr_net_loading *loading, const crema_net *other) {
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
                   meant == NULL ? "" : meant, meant == NULL ? "" : "', which the net lacks");
  }
  if (missing > WARNED_BY_NAME) {
    cr_log_warning("%d more layers get no weights", missing - WARNED_BY_NAME);
  }
}

/* Finds the layer that takes the values of each source layer; -1: none. If a file has more layers
 * of a name than the net (such as two models, one after the other), the last layer counts, as in
 * Caffe. A layer that needs no values may have none in the file. */
static crema_status match_layers(const crema_net *net, const Caffe__NetParameter *weights,
                                 int *target, cr_net_loading *loading) {
  crema_status status = CREMA_OK;
  int *cursor = NULL;
  CR_TRY(CR_NEW(cursor, net->layers + 1, "matching layers"));
  cr_net_match_start(net, cursor);
  for (size_t s = 0; s < weights->n_layer; ++s) {
    const char *name = cr_net_text(weights->layer[s]->name);
    target[s] = cr_net_match(net, name, cursor);
    for (int i = target[s] < 0 ? cr_net_find_layer(net, name) : -1; i >= 0;
         i = net->layer[i].next_same) {
      target[s] = i;
    }
    if (target[s] >= 0 && weights->layer[s]->n_blobs == 0 &&
        !cr_layer_reads_params(net->layer[target[s]].layer)) {
      target[s] = -1;
      continue;
    }
    if (target[s] >= 0) continue;
    if (loading == NULL || weights->layer[s]->n_blobs == 0) {
      cr_log_debug("Ignoring source layer %s", name);
    } else {
      CR_TRY_GOTO(cr_net_note_spare(loading, name), out);
    }
  }
out:
  free(cursor);
  return status;
}

crema_status cr_net_check_matched(const crema_net *net, int matched,
                                  const cr_net_loading *loading) {
  const cr_layer *first = NULL;
  if (loading != NULL && loading->missing == CR_MISSING_IGNORED) return CREMA_OK;
  for (int i = 0; i < net->layers && first == NULL; ++i) {
    if (net->layer[i].layer->params > 0) first = net->layer[i].layer;
  }
  if (first == NULL) return CREMA_OK;
  if (matched > 0) return loading == NULL ? CREMA_OK : check_complete(loading);
  return cr_fail(CREMA_E_NOT_FOUND,
                 "holds parameters for no layer of the net (whose first layer with parameters is "
                 "'%s'); layers are matched by name",
                 first->name);
}

/* Adds the layer and its parameter to a failure. */
static crema_status fail_param(const cr_layer *layer, int param, crema_status status) {
  (void)cr_fail_in(status, "parameter %d of layer '%s' (%s)", param, layer->name,
                   layer->kind->type);
  return cr_net_blame_layer(layer, status);
}

crema_status cr_net_check_stored_layer(const cr_layer *layer, const Caffe__LayerParameter *source) {
  if ((size_t)layer->params != source->n_blobs) {
    crema_status status =
        cr_fail(CREMA_E_ARGUMENT,
                "incompatible number of blobs for layer '%s' (%s): the file has %zu, the net has "
                "%d",
                layer->name, layer->kind->type, source->n_blobs, layer->params);
    return cr_net_blame_layer(layer, status);
  }
  for (int p = 0; p < layer->params; ++p) {
    crema_shape shape;
    char text[2][256];
    crema_status status = cr_blob_proto_check(source->blobs[p], &shape);
    if (status != CREMA_OK) return fail_param(layer, p, status);
    if (cr_blob_proto_fits(source->blobs[p], &layer->blob[p]->shape)) continue;
    status = cr_fail(CREMA_E_SHAPE,
                     "cannot copy parameter %d of layer '%s' (%s): the file's shape is %s, the "
                     "net's is %s; to learn it from scratch, rename the layer",
                     p, layer->name, layer->kind->type,
                     crema_shape_text(&shape, text[0], sizeof text[0]),
                     crema_shape_text(&layer->blob[p]->shape, text[1], sizeof text[1]));
    return cr_net_blame_layer(layer, status);
  }
  return CREMA_OK;
}

crema_status cr_net_copy_stored_layer(const cr_layer *layer, const Caffe__LayerParameter *source,
                                      const cr_net_stored *stored) {
  for (int p = 0; p < layer->params; ++p) {
    crema_status status = cr_blob_from_stored(layer->blob[p], source->blobs[p], stored);
    if (status != CREMA_OK) return fail_param(layer, p, status);
  }
  return CREMA_OK;
}

crema_status cr_net_from_stored(crema_net *net, const cr_net_stored *stored,
                                cr_net_loading *loading) {
  const Caffe__NetParameter *weights = stored->net.param;
  int *target = NULL;
  CR_TRY(CR_NEW(target, weights->n_layer + 1, "matching layers"));
  int matched = 0;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(match_layers(net, weights, target, loading), out);
  for (size_t s = 0; s < weights->n_layer; ++s) {
    if (target[s] < 0) continue;
    CR_TRY_GOTO(cr_net_check_stored_layer(net->layer[target[s]].layer, weights->layer[s]), out);
    matched += weights->layer[s]->n_blobs > 0;
    for (int p = 0; loading != NULL && p < net->layer[target[s]].layer->params; ++p) {
      cr_net_note_given(loading, net->layer[target[s]].first_param + p);
    }
  }
  CR_TRY_GOTO(cr_net_check_matched(net, matched, loading), out);
  for (size_t s = 0; s < weights->n_layer; ++s) {
    if (target[s] < 0) continue;
    CR_TRY_GOTO(cr_net_copy_stored_layer(net->layer[target[s]].layer, weights->layer[s], stored),
                out);
  }
out:
  free(target);
  return status;
}
