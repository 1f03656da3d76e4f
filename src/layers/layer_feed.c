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

static crema_status start(cr_layer_feed *feed) {
  if (feed->running) return CREMA_OK;
  CR_TRY(cr_feed_start(feed->feed, feed->next));
  feed->running = true;
  return CREMA_OK;
}

crema_status cr_layer_feed_open(cr_layer_feed *feed, const cr_feed_options *options,
                                crema_blob *const *top) {
  for (int i = 0; i < options->tops; i++) {
    CR_TRY(crema_blob_reshape(top[i], &options->shape[i]));
  }
  CR_TRY(cr_feed_create(options, &feed->feed));
  return start(feed);
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

crema_status cr_layer_feed_next(cr_layer_feed *feed, crema_blob *const *top) {
  CR_TRY(start(feed));
  if (feed->held != NULL) {
    cr_feed_batch *held = feed->held;
    feed->held = NULL;
    CR_TRY(cr_feed_give_back(feed->feed, held));
  }
  CR_TRY(cr_feed_take(feed->feed, &feed->held));
  feed->next = feed->held->number + 1;
  return lend(feed->held, top);
}

void cr_layer_feed_stop(cr_layer_feed *feed) {
  feed->held = NULL;
  feed->running = false;
  if (feed->feed != NULL) cr_feed_stop(feed->feed);
}

void cr_layer_feed_close(cr_layer_feed *feed) {
  cr_layer_feed_stop(feed);
  cr_feed_destroy(feed->feed);
  feed->feed = NULL;
}

crema_status cr_layer_feed_save(const cr_layer_feed *feed, uint64_t key, cr_buffer *out) {
  return cr_buffer_print(out, "draws %" PRIx64 " batch %" PRIu64 ".", key, feed->next);
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
  cr_layer_feed_stop(feed);
  feed->next = batch;
  *key = draws;
  return CREMA_OK;
}

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
