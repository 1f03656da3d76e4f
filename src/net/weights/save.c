/* A net's weights as a message and in files. */
#include <stdlib.h>

#include "core/fail.h"
#include "net/weights/weights.h"
#include "proto/field.h"

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
  Caffe__LayerParameter *copy = NULL;
  crema_status status = CREMA_OK;
  CR_TRY(cr_message_copy(&layer->param->base, &copy));
  CR_TRY_GOTO(cr_message_reserve(&copy->base, "blobs", (size_t)layer->params), fail);
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
  Caffe__NetParameter *message = NULL;
  crema_status status = CREMA_OK;
  CR_TRY(cr_message_new(&caffe__net_parameter__descriptor, &message));
  message->name = cr_proto_strdup(net->name);
  if (message->name == NULL) status = cr_fail_memory(1, "a net's name");
  if (status == CREMA_OK) {
    status = cr_message_reserve(&message->base, "layer", (size_t)net->layers);
  }
  for (int i = 0; i < net->layers && status == CREMA_OK; ++i) {
    status = layer_to_proto(net->layer[i].layer, save, &message->layer[i]);
    message->n_layer += status == CREMA_OK;
  }
  if (status == CREMA_OK) *out = message;
  else cr_net_proto_free(message);
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

/* The sum of CR_SAVE_DIFFS and so on for options (may be NULL). */
static unsigned save_flags(const crema_save_options *options) {
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
  return cr_net_save(net, path, save_flags(options));
}

crema_status crema_net_save_weights_memory(crema_net *net, const crema_save_options *options,
                                           void **out, size_t *size) {
  CR_REQUIRE(net);
  CR_REQUIRE(out);
  CR_REQUIRE(size);
  Caffe__NetParameter *message = NULL;
  cr_buffer bytes = {0};
  if (options != NULL && options->hdf5) {
    return cr_fail(CREMA_E_UNSUPPORTED, "weights in HDF5 are written to files only");
  }
  CR_TRY(cr_net_take_views(net));
  CR_TRY(cr_net_to_proto(net, save_flags(options), &message));
  crema_status status = cr_wire_print(&message->base, &bytes);
  cr_net_proto_free(message);
  if (status == CREMA_OK) {
    *size = bytes.size;
    *out = cr_buffer_take(&bytes);
  }
  cr_buffer_free(&bytes);
  return status;
}
