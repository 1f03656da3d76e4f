/* Loading files of weights one after another. */
#include <stdlib.h>

#include "core/fail.h"
#include "device/backend/current.h"
#include "net/weights/weights.h"

/* Where weights are: in files, or (path NULL) in memory. */
typedef struct weights {
  const char *const *path;
  size_t count;
  const void *bytes;
  size_t size;
  const char *source;
} weights;

/* Loads a file in wire format, or (path NULL) the bytes in memory. */
static crema_status load_wire(crema_net *net, const weights *from, const char *path,
                              cr_net_loading *loading) {
  cr_net_stored stored = {0};
  crema_status status = CREMA_OK;
  if (path == NULL) {
    CR_TRY(cr_stored_net_of(from->bytes, from->size, CR_STORED_RUN, from->source, &stored.net));
  } else {
    CR_TRY(cr_net_stored_open(path, CR_STORED_RUN, &stored));
    if (net->phase == CREMA_TEST) status = cr_net_stored_use_once(&stored);
  }
  if (status == CREMA_OK && stored.net.param->n_layer == 0) {
    status = cr_fail(CREMA_E_CORRUPT, "holds no layers");
  }
  if (status == CREMA_OK) status = cr_net_from_stored(net, &stored, loading);
  cr_net_stored_close(&stored);
  return cr_fail_in(status, "%s", path == NULL ? from->source : path);
}

static crema_status load_all(crema_net *net, const weights *from, cr_net_loading *loading) {
  CR_TRY(cr_net_loading_begin(loading));
  for (size_t i = 0; i < from->count; ++i) {
    const char *path = from->path == NULL ? NULL : from->path[i];
    const bool hdf5 = path != NULL && (cr_net_is_named_hdf5(path) || cr_net_is_hdf5(path));
    loading->files += 1;
    loading->last = i + 1 == from->count;
    crema_status status =
        hdf5 ? cr_net_load_hdf5(net, path, loading) : load_wire(net, from, path, loading);
    CR_TRY(path == NULL ? status : cr_fail_where(status, &(cr_where){.file = path, .told = true}));
    CR_TRY(cr_net_report_ignored(loading, path == NULL ? from->source : path));
  }
  for (int i = 0; i < net->layers; ++i) CR_TRY(cr_net_settle_params(net, i));
  return cr_net_show_views(net);
}

/* `other` as in cr_net_load_files. */
static crema_status load(crema_net *net, const weights *from, cr_net_missing missing,
                         const crema_net *other) {
  cr_net_loading loading = {.net = net, .missing = missing};
  /* So that values that are read for the device get page-locked memory. */
  cr_device_guard guard;
  CR_TRY(cr_device_enter(net->context->device, &guard));
  crema_status status = load_all(net, from, &loading);
  if (status == CREMA_OK && missing != CR_MISSING_REFUSED) {
    cr_net_warn_of_missing(&loading, other);
  }
  cr_net_loading_end(&loading);
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
