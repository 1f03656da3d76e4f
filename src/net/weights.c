/* A net's weights as a message and in files. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "net/build.h"

/* Frees a layer's message whose blobs hold the values of parameters. */
static void free_layer(Caffe__LayerParameter *message) {
  for (size_t p = 0; p < message->n_blobs; ++p) cr_blob_proto_free(message->blobs[p]);
  message->n_blobs = 0;
  cr_message_free(&message->base);
}

void cr_net_proto_free(Caffe__NetParameter *message) {
  if (message == NULL) return;
  for (size_t i = 0; i < message->n_layer; ++i) free_layer(message->layer[i]);
  message->n_layer = 0;
  cr_message_free(&message->base);
}

static crema_status layer_to_proto(const cr_layer *layer, unsigned save,
                                   Caffe__LayerParameter **out) {
  ProtobufCMessage *message = NULL;
  CR_TRY(cr_message_copy(&layer->param->base, &message));
  Caffe__LayerParameter *copy = (Caffe__LayerParameter *)message;
  crema_status status = CREMA_OK;
  copy->blobs = cr_proto_alloc((size_t)layer->params * sizeof *copy->blobs);
  if (copy->blobs == NULL) {
    status = cr_fail_memory((size_t)layer->params * sizeof *copy->blobs, "a layer's message");
    goto fail;
  }
  for (int p = 0; p < layer->params; ++p) {
    CR_TRY_GOTO(cr_blob_to_proto(layer->blob[p], save, &copy->blobs[p]), fail);
    copy->n_blobs += 1;
  }
  *out = copy;
  return CREMA_OK;
fail:
  free_layer(copy);
  return status;
}

crema_status cr_net_to_proto(crema_net *net, unsigned save, Caffe__NetParameter **out) {
  Caffe__NetParameter *message = cr_proto_alloc(sizeof *message);
  if (message == NULL) return cr_fail_memory(sizeof *message, "a net's message");
  caffe__net_parameter__init(message);
  crema_status status = CREMA_OK;
  size_t layers = (size_t)net->layers;
  message->name = cr_proto_strdup(net->name);
  message->layer = cr_proto_alloc(layers * sizeof *message->layer);
  if (message->name == NULL || message->layer == NULL) {
    status = cr_fail_memory(layers * sizeof *message->layer, "a net's message");
    goto fail;
  }
  for (int i = 0; i < net->layers; ++i) {
    CR_TRY_GOTO(layer_to_proto(net->layer[i].layer, save, &message->layer[i]), fail);
    message->n_layer += 1;
  }
  *out = message;
  return CREMA_OK;
fail:
  cr_net_proto_free(message);
  return status;
}

/* ---- loading ---- */

/* The last layer of that name, or -1. */
static int last_layer(const crema_net *net, const char *name) {
  int last = -1;
  for (int i = cr_net_find_layer(net, name); i >= 0; i = net->layer[i].next_same) last = i;
  return last;
}

/* Finds which layer takes the values of each source layer; -1: none. Where a file has more layers
 * of a name than the net (as two models have, one behind the other), the last one counts, as in
 * Caffe. A layer that needs no values may have none in the file.
 */
static crema_status match_layers(const crema_net *net, const Caffe__NetParameter *weights,
                                 int *target, cr_net_loading *loading) {
  crema_status status = CREMA_OK;
  int *cursor = calloc((size_t)net->layers + 1, sizeof *cursor);
  if (cursor == NULL)
    return cr_fail_memory((size_t)net->layers * sizeof *cursor, "matching layers");
  cr_net_match_start(net, cursor);
  for (size_t s = 0; s < weights->n_layer; ++s) {
    const char *name = cr_net_text(weights->layer[s]->name);
    target[s] = cr_net_match(net, name, cursor);
    if (target[s] < 0) target[s] = last_layer(net, name);
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
  if (matched > 0) return loading == NULL ? CREMA_OK : cr_net_check_complete(loading);
  return cr_fail(CREMA_E_NOT_FOUND,
                 "holds parameters for no layer of the net (whose first layer with parameters is "
                 "'%s'); layers are matched by name",
                 first->name);
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
    if (status != CREMA_OK) {
      (void)cr_fail_in(status, "parameter %d of layer '%s' (%s)", p, layer->name,
                       layer->kind->type);
      return cr_net_blame_layer(layer, status);
    }
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
    if (status != CREMA_OK) {
      (void)cr_fail_in(status, "parameter %d of layer '%s' (%s)", p, layer->name,
                       layer->kind->type);
      return cr_net_blame_layer(layer, status);
    }
  }
  return CREMA_OK;
}

crema_status cr_net_from_stored(crema_net *net, const cr_net_stored *stored,
                                cr_net_loading *loading) {
  const Caffe__NetParameter *weights = stored->net.param;
  int *target = calloc(weights->n_layer + 1, sizeof *target);
  if (target == NULL) return cr_fail_memory(weights->n_layer * sizeof *target, "matching layers");
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

crema_status cr_net_write(crema_net *net, cr_file_draft *draft, unsigned save) {
  CR_TRY(cr_net_take_views(net));
  if (cr_net_is_named_hdf5(draft->path) || (save & CR_SAVE_HDF5) != 0) {
    return cr_net_write_hdf5(net, draft, (save & CR_SAVE_DIFFS) != 0);
  }
  Caffe__NetParameter *message = NULL;
  CR_TRY(cr_net_to_proto(net, save, &message));
  crema_status status = cr_message_write(&message->base, draft);
  cr_net_proto_free(message);
  return status;
}

crema_status cr_net_save(crema_net *net, const char *path, unsigned save) {
  cr_file_draft draft;
  CR_TRY(cr_file_draft_begin(path, &draft));
  return cr_file_draft_end(&draft, cr_net_write(net, &draft, save));
}

void crema_save_options_init(crema_save_options *options) {
  if (options == NULL) return;
  *options = (crema_save_options){0};
}

unsigned cr_net_save_flags(const crema_save_options *options) {
  if (options == NULL) return 0;
  unsigned save = options->diffs ? CR_SAVE_DIFFS : 0;
  if (options->old_format) save |= CR_SAVE_OLD_FORMAT;
  return options->hdf5 ? save | CR_SAVE_HDF5 : save;
}

crema_status crema_net_save_weights(crema_net *net, const char *path) {
  CR_REQUIRE(net);
  CR_REQUIRE(path);
  return cr_net_save(net, path, 0);
}

crema_status crema_net_save_weights_with(crema_net *net, const char *path,
                                         const crema_save_options *options) {
  CR_REQUIRE(net);
  CR_REQUIRE(path);
  return cr_net_save(net, path, cr_net_save_flags(options));
}
