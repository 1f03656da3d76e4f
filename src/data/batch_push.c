#include "data/batch_push.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/queue.h"
#include "core/thread.h"

struct cr_batch_push {
  cr_prefetch *prefetch;
  crema_device *device;
  int depth;
  cr_pushed_batch *pushed; /* `depth` of them */
  cr_queue_pair pair;
  cr_thread *thread;
  uint64_t user; /* id of the context that gave a batch back last */
  /* What the prefetcher said to the thread, which is its consumer. */
  pthread_mutex_t lock;
  cr_prefetch_stats below;
  uint64_t taken; /* the consumer's, as what follows */
  double wait_seconds;
  cr_series fill;
};

/* ---- making -------------------------------------------------------------- */

/* Device memory for the data of a batch; larger memory takes the place of smaller. */
static crema_status reserve(const cr_batch_push *push, cr_pushed_batch *pushed, size_t bytes) {
  if (bytes <= pushed->capacity) return CREMA_OK;
  crema_devptr memory = {0};
  CR_TRY(cr_device_alloc(push->device, bytes, &memory));
  cr_device_free_after(push->device, pushed->data, push->user);
  pushed->data = memory;
  pushed->capacity = bytes;
  return CREMA_OK;
}

static size_t data_bytes(const cr_batch *batch) {
  return (size_t)batch->items * (size_t)batch->channels * (size_t)batch->height *
         (size_t)batch->width * sizeof(float);
}

/* All device memory is taken before the thread starts, so that nothing is allocated beside the
 * running net. */
static crema_status make_pushed(cr_batch_push *push, cr_pushed_batch *pushed) {
  int shape[3];
  cr_prefetch_shape(push->prefetch, shape);
  size_t items = (size_t)cr_prefetch_batch_size(push->prefetch);
  const size_t item = (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2] * sizeof(float);
  CR_TRY(reserve(push, pushed, items * item));
  if (cr_prefetch_has_labels(push->prefetch)) {
    CR_TRY(cr_device_alloc(push->device, items * sizeof(float), &pushed->label));
  }
  return push->device->backend->event_create(push->device, &pushed->used);
}

crema_status cr_batch_push_create(cr_prefetch *prefetch, crema_device *device,
                                  cr_batch_push **out) {
  *out = NULL;
  cr_batch_push *push = calloc(1, sizeof *push);
  if (push == NULL) return cr_fail_memory(sizeof *push, "a batch pusher");
  crema_status status = CREMA_OK;
  pthread_mutex_init(&push->lock, NULL);
  push->prefetch = prefetch;
  push->device = device;
  push->depth = cr_prefetch_depth(prefetch);
  cr_prefetch_get_stats(prefetch, &push->below);
  push->pushed = calloc((size_t)push->depth, sizeof *push->pushed);
  if (push->pushed == NULL) {
    status = cr_fail_memory((size_t)push->depth * sizeof *push->pushed, "a batch pusher");
    goto fail;
  }
  for (int i = 0; i < push->depth; ++i) CR_TRY_GOTO(make_pushed(push, &push->pushed[i]), fail);
  *out = push;
  return CREMA_OK;
fail:
  cr_batch_push_destroy(push);
  return cr_fail_in(status, "%d batches on %s:%d", cr_prefetch_depth(prefetch),
                    device->backend->name, device->index);
}

void cr_batch_push_destroy(cr_batch_push *push) {
  if (push == NULL) return;
  cr_batch_push_stop(push);
  for (int i = 0; push->pushed != NULL && i < push->depth; ++i) {
    cr_pushed_batch *pushed = &push->pushed[i];
    cr_device_free_after(push->device, pushed->data, push->user);
    cr_device_free_after(push->device, pushed->label, push->user);
    if (pushed->used != NULL) push->device->backend->event_destroy(pushed->used);
  }
  free(push->pushed);
  pthread_mutex_destroy(&push->lock);
  free(push);
}

/* ---- the thread ---------------------------------------------------------- */

static crema_status copy(crema_context *context, crema_devptr to, const void *from, size_t bytes) {
  return context->device->backend->copy(context, CR_COPY_HOST_TO_DEVICE, to.address,
                                        (uintptr_t)from, bytes);
}

/* Copies a batch; what reads its memory's old content comes first. */
static crema_status push_one(cr_batch_push *push, crema_context *context, cr_pushed_batch *pushed) {
  const cr_batch *batch = pushed->batch;
  CR_TRY(reserve(push, pushed, data_bytes(batch)));
  if (pushed->in_use) CR_TRY(push->device->backend->event_wait(context, pushed->used));
  pushed->in_use = false;
  CR_TRY(copy(context, pushed->data, batch->data, data_bytes(batch)));
  if (batch->label != NULL) {
    CR_TRY(copy(context, pushed->label, batch->label, (size_t)batch->items * sizeof(float)));
  }
  return crema_context_finish(context);
}

static crema_status push_on(cr_batch_push *push, crema_context *context) {
  for (;;) {
    void *item = NULL;
    CR_TRY(cr_queue_pop(push->pair.free, NULL, &item));
    cr_pushed_batch *pushed = item;
    CR_TRY(cr_prefetch_take(push->prefetch, &pushed->batch));
    pthread_mutex_lock(&push->lock);
    cr_prefetch_get_stats(push->prefetch, &push->below);
    pthread_mutex_unlock(&push->lock);
    CR_TRY(push_one(push, context, pushed));
    CR_TRY(cr_queue_push(push->pair.full, pushed));
  }
}

/* The stream lives as long as the thread. */
static crema_status push_for_ever(void *arg) {
  cr_batch_push *push = arg;
  crema_context *context = NULL;
  crema_status status = crema_context_create(push->device, 0, &context);
  if (status == CREMA_OK) status = push_on(push, context);
  if (status != CREMA_E_INTERRUPTED) cr_queue_fail(push->pair.full, status, NULL);
  crema_context_destroy(context);
  return status;
}

crema_status cr_batch_push_start(cr_batch_push *push) {
  if (push->thread != NULL) return cr_fail(CREMA_E_STATE, "batches are pushed already");
  size_t depth = (size_t)push->depth;
  void **element = calloc(depth, sizeof *element);
  if (element == NULL) return cr_fail_memory(depth * sizeof *element, "a queue of batches");
  for (size_t i = 0; i < depth; ++i) {
    push->pushed[i].batch = NULL;
    element[i] = &push->pushed[i];
  }
  crema_status status = cr_queue_pair_init(&push->pair, element, depth);
  free(element);
  if (status != CREMA_OK) return status;
  status = cr_thread_start(&push->thread, "crema-push", push_for_ever, push);
  if (status != CREMA_OK) cr_queue_pair_free(&push->pair, NULL);
  return status;
}

void cr_batch_push_stop(cr_batch_push *push) {
  /* What went wrong in the thread was told to the consumer. */
  crema_status ended = cr_thread_stop(&push->thread);
  (void)ended;
  cr_queue_pair_free(&push->pair, NULL);
}

/* ---- the consumer -------------------------------------------------------- */

crema_status cr_batch_push_take(cr_batch_push *push, cr_pushed_batch **out) {
  void *item = NULL;
  size_t ready = cr_queue_size(push->pair.full);
  double start = cr_clock_seconds();
  CR_TRY(cr_queue_pop(push->pair.full, "a batch of data on the device", &item));
  *out = item;
  /* Everybody waits for the first batch. */
  if (push->taken++ == 0) return CREMA_OK;
  if (ready == 0) push->wait_seconds += cr_clock_seconds() - start;
  cr_series_add(&push->fill, (double)ready);
  return CREMA_OK;
}

crema_status cr_batch_push_give_back(cr_batch_push *push, cr_pushed_batch *pushed,
                                     const crema_context *context) {
  push->user = context->id;
  CR_TRY(cr_context_mark(push->device, context->id, &pushed->used, &pushed->in_use));
  CR_TRY(cr_prefetch_give_back(push->prefetch, pushed->batch));
  return cr_queue_push(push->pair.free, pushed);
}

void cr_batch_push_get_stats(cr_batch_push *push, cr_prefetch_stats *out) {
  pthread_mutex_lock(&push->lock);
  *out = push->below;
  pthread_mutex_unlock(&push->lock);
  out->batches = push->taken;
  out->wait_seconds = push->wait_seconds;
  out->fill = push->fill;
}
