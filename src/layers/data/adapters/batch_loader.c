#include "layers/data/adapters/batch_loader.h"

#include <stdlib.h>

#include "core/fail.h"

void cr_batch_loader_stop(cr_batch_loader *loader) {
  for (int i = 0; loader->held != NULL && i < loader->cursor.sharers; ++i) loader->held[i] = NULL;
  loader->running = false;
  if (loader->pipeline != NULL) cr_pipeline_stop(loader->pipeline);
}

crema_status cr_batch_loader_start(cr_batch_loader *loader, const cr_layer *layer) {
  if (loader->running) return CREMA_OK;
  /* All sharers have done the same number of steps. */
  CR_TRY(cr_pipeline_start(loader->pipeline, cr_layer_cursor_end(&loader->cursor, layer, 1)));
  loader->running = true;
  return CREMA_OK;
}

crema_status cr_batch_loader_open(cr_batch_loader *loader, const cr_layer *layer,
                                  const cr_pipeline_options *options, crema_blob *const *top) {
  cr_pipeline_options all = *options;
  all.consumers = cr_layer_sharers(layer);
  all.rank = layer->solver.rank;
  all.solvers = layer->solver.solvers;
  crema_device *device = crema_context_device(layer->context);
  if (!device->backend->host_memory && layer->share == NULL) all.device = device;
  for (int i = 0; i < options->tops; ++i) {
    CR_TRY(crema_blob_reshape(top[i], &options->shape[i]));
  }
  CR_TRY(cr_layer_cursor_open(&loader->cursor, layer));
  loader->held = calloc((size_t)all.consumers, sizeof(cr_batch *));
  if (loader->held == NULL) {
    return cr_fail_memory((size_t)all.consumers * sizeof(cr_batch *), "batches of solvers");
  }
  CR_TRY(cr_pipeline_create(&all, &loader->pipeline));
  return cr_batch_loader_start(loader, layer);
}

void cr_batch_loader_close(cr_batch_loader *loader) {
  cr_batch_loader_stop(loader);
  cr_pipeline_destroy(loader->pipeline);
  cr_layer_cursor_close(&loader->cursor);
  free(loader->held);
  *loader = (cr_batch_loader){0};
}

/* `take`: samples of the batch that the tops get; 0: all. */
static crema_status share_memory(crema_device *device, const cr_batch *batch, int64_t take,
                                 crema_blob *const *top) {
  for (int i = 0; i < batch->tops; ++i) {
    const cr_batch_top *from = &batch->top[i];
    crema_shape shape = from->shape;
    if (take > 0 && shape.axes > 0 && shape.dim[0] == batch->items) shape.dim[0] = take;
    if (!crema_shape_equal(crema_blob_shape(top[i]), &shape)) {
      cr_tensor_set_zero(top[i]->data); /* or the batch that was given back would be kept */
      CR_TRY(crema_blob_reshape(top[i], &shape));
    }
    CR_TRY(from->memory.address == 0
               ? cr_tensor_adopt_host(top[i]->data, from->values)
               : cr_tensor_adopt(top[i]->data, device, CREMA_F32, from->memory, from->values));
  }
  return CREMA_OK;
}

/* Work on the batch may still be queued on the device. Sharers do this at the same time. */
static crema_status give_back(cr_batch_loader *loader, int sharer, const crema_context *context) {
  cr_batch *held = loader->held[sharer];
  loader->held[sharer] = NULL;
  if (!loader->running) {
    return cr_fail(CREMA_E_STATE,
                   "nothing is read since the position in the data was not restored");
  }
  if (held == NULL) return CREMA_OK;
  return cr_pipeline_give_back(loader->pipeline, sharer, context, held);
}

crema_status cr_batch_loader_await(cr_batch_loader *loader, const cr_layer *layer) {
  int sharer = cr_layer_sharer(layer);
  CR_TRY(give_back(loader, sharer, layer->context));
  return cr_pipeline_await(loader->pipeline, sharer);
}

crema_status cr_batch_loader_next(cr_batch_loader *loader, const cr_layer *layer,
                                  crema_context *context, crema_blob *const *top,
                                  const cr_batch **out) {
  int sharer = cr_layer_sharer(layer);
  CR_TRY(give_back(loader, sharer, context));
  CR_TRY(cr_pipeline_take(loader->pipeline, sharer, context, &loader->held[sharer]));
  cr_layer_cursor_advance(&loader->cursor, layer);
  if (out != NULL) *out = loader->held[sharer];
  return share_memory(crema_context_device(context), loader->held[sharer], layer->take, top);
}

void cr_batch_loader_stats(const cr_batch_loader *loader, const cr_layer *layer,
                           cr_input_stats *out) {
  cr_pipeline_get_stats(loader->pipeline, cr_layer_sharer(layer), out);
}

crema_status cr_batch_loader_save(const cr_batch_loader *loader, const cr_layer *layer,
                                  uint64_t key, cr_buffer *out) {
  return cr_layer_cursor_print(key, "batch", cr_layer_cursor_end(&loader->cursor, layer, 1), out);
}

crema_status cr_batch_loader_restore(cr_batch_loader *loader, const char *bytes, size_t size,
                                     uint64_t *key) {
  uint64_t stream = 0, batch = 0;
  CR_TRY(cr_layer_cursor_parse(bytes, size, "batch", &stream, &batch));
  cr_batch_loader_stop(loader);
  cr_layer_cursor_set(&loader->cursor, batch);
  *key = stream; /* safe only now that the threads, which read it, have stopped */
  return CREMA_OK;
}

crema_status cr_batch_input_forward(cr_layer *layer, crema_context *context,
                                    crema_blob *const *bottom, crema_blob *const *top) {
  cr_batch_input *s = layer->state;
  (void)bottom;
  return cr_layer_in(layer, cr_batch_loader_next(&s->loader, layer, context, top, NULL));
}

static crema_status await(cr_layer *layer) {
  cr_batch_input *s = layer->state;
  return cr_layer_in(layer, cr_batch_loader_await(&s->loader, layer));
}

static crema_status save(cr_layer *layer, cr_buffer *out) {
  const cr_batch_input *s = layer->state;
  return cr_batch_loader_save(&s->loader, layer, s->key, out);
}

static crema_status restore(cr_layer *layer, const char *bytes, size_t size) {
  cr_batch_input *s = layer->state;
  bool done = false;
  CR_TRY(cr_layer_share_restore(layer, bytes, size, &done));
  if (done) return CREMA_OK;
  CR_TRY(cr_layer_in(layer, cr_batch_loader_restore(&s->loader, bytes, size, &s->key)));
  if (s->key_restored != NULL) s->key_restored(s);
  return cr_layer_in(layer, cr_batch_loader_start(&s->loader, layer));
}

static void stats(const cr_layer *layer, cr_input_stats *out) {
  const cr_batch_input *s = layer->state;
  cr_batch_loader_stats(&s->loader, layer, out);
}

const cr_input_class cr_batch_input_class = {
    .await = await, .save = save, .restore = restore, .stats = stats};

static uint64_t epoch(const cr_layer *layer) {
  const cr_batch_input *s = layer->state;
  return s->epoch;
}

const cr_input_class cr_batch_input_class_with_epochs = {.await = await,
                                                         .save = save,
                                                         .restore = restore,
                                                         .epoch = epoch,
                                                         .short_batches = true,
                                                         .stats = stats};
