/* Copies finished batches to a device, in a thread between the main thread's queue and the
 * consumer. */
#include "data/pipeline/pipeline_private.h"

#include "core/fail.h"
#include "core/timeline.h"
#include "device/backend/order.h"
#include "device/memory/device_memory.h"

static size_t bytes_of(const cr_batch_top *top) {
  return (size_t)crema_shape_count(&top->shape, 0, top->shape.axes) * sizeof(float);
}

/* Device memory for the values of a top; larger memory replaces smaller. */
static crema_status reserve(const cr_batch *batch, cr_batch_top *top) {
  size_t bytes = bytes_of(top);
  crema_devptr memory = {0};
  if (bytes <= top->bytes) return CREMA_OK;
  CR_TRY(cr_device_alloc(top->device, bytes, &memory));
  cr_device_free_after(top->device, top->memory, batch->user);
  top->memory = memory;
  top->bytes = bytes;
  return CREMA_OK;
}

/* Allocates all device memory before the thread starts, so that a running net allocates no memory.
 */
crema_status cr_pipeline_device_create(cr_pipeline *pipeline) {
  crema_device *device = pipeline->options.device;
  crema_status status = CREMA_OK;
  if (device == NULL) return CREMA_OK;
  for (int i = 0; i < pipeline->batches && status == CREMA_OK; ++i) {
    cr_batch *batch = &pipeline->batch[i];
    for (int k = 0; k < batch->tops && status == CREMA_OK; ++k) {
      status = reserve(batch, &batch->top[k]);
    }
    if (status == CREMA_OK) status = device->backend->event_create(device, &batch->used);
  }
  return cr_fail_in(status, "%d batches on %s:%d", pipeline->batches, device->backend->name,
                    device->index);
}

void cr_pipeline_device_destroy(cr_pipeline *pipeline) {
  crema_device *device = pipeline->options.device;
  for (int i = 0; device != NULL && i < pipeline->batches; ++i) {
    cr_batch *batch = &pipeline->batch[i];
    for (int k = 0; k < batch->tops; ++k) {
      cr_device_free_after(device, batch->top[k].memory, batch->user);
    }
    if (batch->used != NULL) device->backend->event_destroy(batch->used);
  }
}

/* Copies a batch after the work that reads the memory's old content. */
static crema_status copy_batch(crema_context *context, cr_batch *batch) {
  const cr_backend *backend = crema_context_device(context)->backend;
  for (int i = 0; i < batch->tops; ++i) CR_TRY(reserve(batch, &batch->top[i]));
  if (batch->in_use) CR_TRY(backend->event_wait(context, batch->used));
  batch->in_use = false;
  for (int i = 0; i < batch->tops; ++i) {
    const cr_batch_top *top = &batch->top[i];
    CR_TRY(backend->copy(context, CR_COPY_HOST_TO_DEVICE, top->memory.address,
                         (uintptr_t)top->values, bytes_of(top)));
  }
  return crema_context_finish(context);
}

static crema_status copy_batches(cr_pipeline *pipeline, crema_context *context) {
  for (;;) {
    void *item = NULL;
    CR_TRY(cr_queue_pop(pipeline->consumer[0].pair.full, NULL, &item));
    const double traced = cr_timeline_now();
    CR_TRY(copy_batch(context, item));
    if (traced > 0) cr_timeline_span(0, "copy", "batch to device", traced, "%s", "");
    CR_TRY(cr_queue_push(pipeline->copied, item));
  }
}

/* The thread has its own stream. */
static crema_status run_copier(void *arg) {
  cr_pipeline *pipeline = arg;
  crema_context *context = NULL;
  crema_status status = crema_context_create(pipeline->options.device, 0, &context);
  if (status == CREMA_OK) status = copy_batches(pipeline, context);
  if (status != CREMA_E_INTERRUPTED) cr_queue_fail(pipeline->copied, status, NULL);
  crema_context_destroy(context);
  return status;
}

crema_status cr_pipeline_device_start(cr_pipeline *pipeline) {
  crema_device *device = pipeline->options.device;
  if (device == NULL) return CREMA_OK;
  for (int i = 0; i < pipeline->batches; ++i) {
    cr_batch *batch = &pipeline->batch[i];
    if (!batch->held) continue;
    batch->held = false; /* taken back from the consumer; work may be queued on it */
    CR_TRY(cr_context_mark(device, batch->user, &batch->used, &batch->in_use));
  }
  CR_TRY(cr_queue_create((size_t)pipeline->batches, &pipeline->copied));
  pipeline->consumer[0].ready = pipeline->copied;
  return cr_thread_start(&pipeline->copier, "crema-copy", run_copier, pipeline);
}

void cr_pipeline_device_stop(cr_pipeline *pipeline) {
  (void)!cr_thread_stop(&pipeline->copier); /* the consumer knows of a failure in the thread */
  cr_queue_destroy(pipeline->copied);
  pipeline->copied = NULL;
}

void cr_pipeline_device_take(const cr_pipeline *pipeline, const crema_context *context,
                             cr_batch *batch) {
  if (pipeline->options.device == NULL) return;
  batch->held = true;
  batch->user = context->id;
}

crema_status cr_pipeline_device_give_back(const cr_pipeline *pipeline, const crema_context *context,
                                          cr_batch *batch) {
  crema_device *device = pipeline->options.device;
  if (device == NULL) return CREMA_OK;
  batch->user = context->id;
  CR_TRY(cr_context_mark(device, batch->user, &batch->used, &batch->in_use));
  batch->held = false;
  return CREMA_OK;
}
