#include "layers/layer_feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"

crema_status cr_layer_in(const cr_layer *layer, crema_status status) {
  return cr_fail_in(status, "layer '%s' (%s)", layer->name, layer->class->type);
}

crema_status cr_layer_check_batch(const cr_layer *layer, const char *message, uint32_t batch_size) {
  if (batch_size >= 1 && batch_size <= INT32_MAX) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_ARGUMENT, "%s: batch_size must be 1 to %d, found %" PRIu32,
                       message, INT32_MAX, batch_size);
}

crema_status cr_layer_root_folder(const cr_layer *layer, const char *root, char **out) {
  char *found = NULL;
  cr_buffer text = {0};
  if (root == NULL || root[0] == '\0') {
    CR_TRY(cr_buffer_print(&text, "%s", ""));
    *out = cr_buffer_take(&text);
    return CREMA_OK;
  }
  CR_TRY(cr_file_resolve(layer->source_dir_file, root, &found));
  const char *slash = found[strlen(found) - 1] == '/' ? "" : "/";
  crema_status status = cr_buffer_print(&text, "%s%s", found, slash);
  *out = cr_buffer_take(&text);
  free(found);
  return status;
}

/* ---- running ------------------------------------------------------------- */

/* All sharers are as far as the first one. */
crema_status cr_layer_feed_start(cr_layer_feed *feed) {
  if (feed->running) return CREMA_OK;
  CR_TRY(cr_feed_start(feed->feed, feed->end[0]));
  feed->running = true;
  return CREMA_OK;
}

crema_status cr_layer_feed_open(cr_layer_feed *feed, const cr_layer *layer,
                                const cr_feed_options *options, crema_blob *const *top) {
  cr_feed_options all = *options;
  all.consumers = cr_layer_sharers(layer);
  all.rank = layer->solver.rank;
  all.solvers = layer->solver.solvers;
  size_t sharers = (size_t)all.consumers;
  for (int i = 0; i < options->tops; i++) {
    CR_TRY(crema_blob_reshape(top[i], &options->shape[i]));
  }
  feed->sharers = all.consumers;
  feed->held = calloc(sharers, sizeof(cr_feed_batch *));
  feed->end = calloc(sharers, sizeof *feed->end);
  if (feed->held == NULL || feed->end == NULL) {
    return cr_fail_memory(sharers * sizeof *feed->end, "places in the data");
  }
  CR_TRY(cr_feed_create(&all, &feed->feed));
  return cr_layer_feed_start(feed);
}

static crema_status lend(cr_feed_batch *batch, crema_blob *const *top) {
  for (int i = 0; i < batch->tops; i++) {
    const cr_feed_top *from = &batch->top[i];
    if (!crema_shape_equal(crema_blob_shape(top[i]), &from->shape)) {
      CR_TRY(crema_blob_reshape(top[i], &from->shape));
    }
    CR_TRY(cr_tensor_adopt_host(top[i]->data, from->values));
  }
  return CREMA_OK;
}

static crema_status give_back(cr_layer_feed *feed, int sharer) {
  cr_feed_batch *held = feed->held[sharer];
  feed->held[sharer] = NULL;
  return held == NULL ? CREMA_OK : cr_feed_give_back(feed->feed, sharer, held);
}

static crema_status check_running(const cr_layer_feed *feed) {
  if (feed->running) return CREMA_OK;
  return cr_fail(CREMA_E_STATE, "nothing is read since the place in the data was not restored");
}

crema_status cr_layer_feed_await(cr_layer_feed *feed, const cr_layer *layer) {
  int sharer = cr_layer_sharer(layer);
  CR_TRY(check_running(feed));
  CR_TRY(give_back(feed, sharer));
  return cr_feed_await(feed->feed, sharer);
}

crema_status cr_layer_feed_next(cr_layer_feed *feed, const cr_layer *layer,
                                crema_blob *const *top) {
  int sharer = cr_layer_sharer(layer);
  cr_feed_batch *batch = NULL;
  CR_TRY(check_running(feed));
  CR_TRY(give_back(feed, sharer));
  CR_TRY(cr_feed_take(feed->feed, sharer, &batch));
  feed->held[sharer] = batch;
  feed->end[sharer] =
      batch->number - (uint64_t)layer->solver.rank + (uint64_t)layer->solver.solvers;
  return lend(batch, top);
}

static void stop(cr_layer_feed *feed) {
  for (int i = 0; feed->held != NULL && i < feed->sharers; i++) feed->held[i] = NULL;
  feed->running = false;
  if (feed->feed != NULL) cr_feed_stop(feed->feed);
}

void cr_layer_feed_close(cr_layer_feed *feed, void (*free_item)(void *item)) {
  stop(feed);
  cr_feed_destroy(feed->feed, free_item);
  free(feed->end);
  free(feed->held);
  *feed = (cr_layer_feed){0};
}

/* ---- resuming ------------------------------------------------------------ */

crema_status cr_layer_feed_save(const cr_layer_feed *feed, const cr_layer *layer, uint64_t key,
                                cr_buffer *out) {
  return cr_buffer_print(out, "draws %" PRIx64 " batch %" PRIu64 ".", key,
                         feed->end[cr_layer_sharer(layer)]);
}

crema_status cr_layer_feed_restore(cr_layer_feed *feed, const char *bytes, size_t size,
                                   uint64_t *key) {
  char text[96] = "";
  uint64_t draws = 0, batch = 0;
  int used = 0;
  if (size < sizeof text) snprintf(text, sizeof text, "%.*s", (int)size, bytes);
  int found = sscanf(text, "draws %" SCNx64 " batch %" SCNu64 ".%n", &draws, &batch, &used);
  if (found != 2 || used == 0 || (size_t)used != size) {
    return cr_fail(CREMA_E_CORRUPT, "the saved place in the data cannot be read");
  }
  stop(feed);
  for (int i = 0; i < feed->sharers; i++) feed->end[i] = batch;
  *key = draws;
  return CREMA_OK;
}

void cr_layer_feed_stats(const cr_layer_feed *feed, const cr_layer *layer, cr_input_stats *out) {
  cr_feed_get_stats(feed->feed, cr_layer_sharer(layer), out);
}

/* ---- nothing to do ------------------------------------------------------- */

crema_status cr_layer_no_reshape(cr_layer *layer, crema_blob *const *bottom,
                                 crema_blob *const *top) {
  (void)layer;
  (void)bottom;
  (void)top;
  return CREMA_OK;
}

crema_status cr_layer_no_backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                                  const bool *propagate_down, crema_blob *const *bottom) {
  (void)layer;
  (void)context;
  (void)top;
  (void)propagate_down;
  (void)bottom;
  return CREMA_OK;
}
