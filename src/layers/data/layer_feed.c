#include "layers/data/layer_feed.h"

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

/* ---- pushing ------------------------------------------------------------- */

/* The pusher is the feed's only consumer. */
static crema_status push_take(void *user, void **batch) {
  cr_feed_batch *taken = NULL;
  CR_TRY(cr_feed_take(user, 0, &taken));
  *batch = taken;
  return CREMA_OK;
}

static crema_status push_give_back(void *user, void *batch) {
  return cr_feed_give_back(user, 0, batch);
}

static void push_tops(const void *batch, cr_push_top top[CR_PUSH_TOPS]) {
  const cr_feed_batch *from = batch;
  for (int i = 0; i < from->tops; ++i) {
    const crema_shape *shape = &from->top[i].shape;
    size_t values = (size_t)crema_shape_count(shape, 0, shape->axes);
    top[i] = (cr_push_top){from->top[i].values, values * sizeof(float)};
  }
}

static void push_stats(void *user, cr_input_stats *out) {
  cr_feed_get_stats(user, 0, out);
}

static const cr_push_source feed_source = {push_take, push_give_back, push_tops, push_stats};

static crema_status open_push(cr_layer_feed *feed, const cr_feed_options *from) {
  _Static_assert((int)CR_PUSH_TOPS >= (int)CR_FEED_TOPS, "a feed's batch can be pushed");
  cr_push_options options = {.source = &feed_source,
                             .user = feed->feed,
                             .device = from->device,
                             .depth = from->depth,
                             .tops = from->tops};
  for (int i = 0; i < from->tops; ++i) {
    const crema_shape *shape = &from->shape[i];
    options.bytes[i] = (size_t)crema_shape_count(shape, 0, shape->axes) * sizeof(float);
  }
  return cr_batch_push_create(&options, &feed->push);
}

/* ---- running ------------------------------------------------------------- */

static void stop(cr_layer_feed *feed) {
  for (int i = 0; feed->held != NULL && i < feed->sharers; ++i) feed->held[i] = NULL;
  feed->held_pushed = NULL;
  feed->running = false;
  if (feed->push != NULL) cr_batch_push_stop(feed->push);
  if (feed->feed != NULL) cr_feed_stop(feed->feed);
}

/* All sharers are as far as the first one. */
crema_status cr_layer_feed_start(cr_layer_feed *feed) {
  if (feed->running) return CREMA_OK;
  crema_status status = cr_feed_start(feed->feed, feed->end[0]);
  if (status == CREMA_OK && feed->push != NULL) status = cr_batch_push_start(feed->push);
  if (status != CREMA_OK) {
    stop(feed);
    return status;
  }
  feed->running = true;
  return CREMA_OK;
}

crema_status cr_layer_feed_open(cr_layer_feed *feed, const cr_layer *layer,
                                const cr_feed_options *options, crema_blob *const *top) {
  cr_feed_options all = *options;
  all.consumers = cr_layer_sharers(layer);
  all.rank = layer->solver.rank;
  all.solvers = layer->solver.solvers;
  crema_device *device = crema_context_device(layer->context);
  if (!device->backend->host_memory && layer->share == NULL) all.device = device;
  size_t sharers = (size_t)all.consumers;
  for (int i = 0; i < options->tops; ++i) {
    CR_TRY(crema_blob_reshape(top[i], &options->shape[i]));
  }
  feed->sharers = all.consumers;
  feed->held = calloc(sharers, sizeof(cr_feed_batch *));
  feed->end = calloc(sharers, sizeof *feed->end);
  if (feed->held == NULL || feed->end == NULL) {
    return cr_fail_memory(sharers * sizeof *feed->end, "places in the data");
  }
  CR_TRY(cr_feed_create(&all, &feed->feed));
  if (all.device != NULL) CR_TRY(open_push(feed, &all));
  return cr_layer_feed_start(feed);
}

crema_status cr_layer_alias(crema_blob *top, crema_device *device, crema_devptr memory,
                            float *host) {
  return memory.address == 0 ? cr_tensor_adopt_host(top->data, host)
                             : cr_tensor_adopt_both(top->data, device, memory, host);
}

/* `pushed` NULL: the batch is on the host alone. */
static crema_status lend(crema_device *device, const cr_feed_batch *batch,
                         const cr_pushed_batch *pushed, crema_blob *const *top) {
  for (int i = 0; i < batch->tops; ++i) {
    const cr_feed_top *from = &batch->top[i];
    crema_devptr memory = {0};
    if (pushed != NULL) memory = pushed->memory[i];
    if (!crema_shape_equal(crema_blob_shape(top[i]), &from->shape)) {
      CR_TRY(crema_blob_reshape(top[i], &from->shape));
    }
    CR_TRY(cr_layer_alias(top[i], device, memory, from->values));
  }
  return CREMA_OK;
}

static crema_status give_back_pushed(cr_layer_feed *feed, const crema_context *context) {
  cr_pushed_batch *pushed = feed->held_pushed;
  feed->held_pushed = NULL;
  return pushed == NULL ? CREMA_OK : cr_batch_push_give_back(feed->push, pushed, context);
}

/* Work on the batch may still be queued on the device. Sharers do this at the same time. */
static crema_status give_back(cr_layer_feed *feed, int sharer, const crema_context *context) {
  cr_feed_batch *held = feed->held[sharer];
  feed->held[sharer] = NULL;
  if (feed->push != NULL) return give_back_pushed(feed, context);
  return held == NULL ? CREMA_OK : cr_feed_give_back(feed->feed, sharer, held);
}

static crema_status take(cr_layer_feed *feed, int sharer, const crema_context *context) {
  if (feed->push == NULL) return cr_feed_take(feed->feed, sharer, &feed->held[sharer]);
  CR_TRY(cr_batch_push_take(feed->push, context, &feed->held_pushed));
  feed->held[sharer] = feed->held_pushed->batch;
  return CREMA_OK;
}

static crema_status check_running(const cr_layer_feed *feed) {
  if (feed->running) return CREMA_OK;
  return cr_fail(CREMA_E_STATE, "nothing is read since the place in the data was not restored");
}

/* Of shared layers only, which have no pusher. */
crema_status cr_layer_feed_await(cr_layer_feed *feed, const cr_layer *layer) {
  int sharer = cr_layer_sharer(layer);
  CR_TRY(check_running(feed));
  CR_TRY(give_back(feed, sharer, layer->context));
  return feed->push == NULL ? cr_feed_await(feed->feed, sharer) : CREMA_OK;
}

crema_status cr_layer_feed_next(cr_layer_feed *feed, const cr_layer *layer, crema_context *context,
                                crema_blob *const *top) {
  int sharer = cr_layer_sharer(layer);
  CR_TRY(check_running(feed));
  CR_TRY(give_back(feed, sharer, context));
  CR_TRY(take(feed, sharer, context));
  const cr_feed_batch *batch = feed->held[sharer];
  feed->end[sharer] =
      batch->number - (uint64_t)layer->solver.rank + (uint64_t)layer->solver.solvers;
  return lend(crema_context_device(context), batch, feed->held_pushed, top);
}

void cr_layer_feed_close(cr_layer_feed *feed, void (*free_item)(void *item)) {
  stop(feed);
  cr_batch_push_destroy(feed->push);
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
  for (int i = 0; i < feed->sharers; ++i) feed->end[i] = batch;
  *key = draws;
  return CREMA_OK;
}

void cr_layer_feed_stats(const cr_layer_feed *feed, const cr_layer *layer, cr_input_stats *out) {
  if (feed->push != NULL) cr_batch_push_get_stats(feed->push, out);
  else cr_feed_get_stats(feed->feed, cr_layer_sharer(layer), out);
}
