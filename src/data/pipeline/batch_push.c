#include "data/pipeline/batch_push.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/queue.h"
#include "core/thread.h"
#include "device/backend/order.h"
#include "device/memory/device_memory.h"

struct cr_batch_push {
  cr_push_options options;
  cr_pushed_batch *pushed; /* options.depth of them */
  cr_queue_pair pair;
  cr_thread *thread;
  /* What the source said to the thread, which is its consumer. */
  pthread_mutex_t lock;
  cr_input_stats below;
  uint64_t taken; /* the consumer's, as what follows */
  double wait_seconds;
  cr_series fill;
};

/* ---- making -------------------------------------------------------------- */

/* Device memory for a top of a batch; larger memory takes the place of smaller. */
static crema_status reserve(const cr_batch_push *push, cr_pushed_batch *pushed, int top,
                            size_t bytes) {
  crema_device *device = push->options.device;
  if (bytes <= pushed->capacity[top]) return CREMA_OK;
  crema_devptr memory = {0};
  CR_TRY(cr_device_alloc(device, bytes, &memory));
  cr_device_free_after(device, pushed->memory[top], pushed->user);
  pushed->memory[top] = memory;
  pushed->capacity[top] = bytes;
  return CREMA_OK;
}

/* All device memory is taken before the thread starts, so that nothing is allocated beside the
 * running net. */
static crema_status make_pushed(cr_batch_push *push, cr_pushed_batch *pushed) {
  const cr_push_options *options = &push->options;
  for (int i = 0; i < options->tops; ++i) CR_TRY(reserve(push, pushed, i, options->bytes[i]));
  return options->device->backend->event_create(options->device, &pushed->used);
}

crema_status cr_batch_push_create(const cr_push_options *options, cr_batch_push **out) {
  *out = NULL;
  cr_batch_push *push = calloc(1, sizeof *push);
  if (push == NULL) return cr_fail_memory(sizeof *push, "a batch pusher");
  crema_status status = CREMA_OK;
  pthread_mutex_init(&push->lock, NULL);
  push->options = *options;
  options->source->stats(options->user, &push->below);
  push->pushed = calloc((size_t)options->depth, sizeof *push->pushed);
  if (push->pushed == NULL) {
    status = cr_fail_memory((size_t)options->depth * sizeof *push->pushed, "a batch pusher");
    goto fail;
  }
  for (int i = 0; i < options->depth; ++i) CR_TRY_GOTO(make_pushed(push, &push->pushed[i]), fail);
  *out = push;
  return CREMA_OK;
fail:
  cr_batch_push_destroy(push);
  return cr_fail_in(status, "%d batches on %s:%d", options->depth, options->device->backend->name,
                    options->device->index);
}

void cr_batch_push_destroy(cr_batch_push *push) {
  if (push == NULL) return;
  cr_batch_push_stop(push);
  crema_device *device = push->options.device;
  for (int i = 0; push->pushed != NULL && i < push->options.depth; ++i) {
    cr_pushed_batch *pushed = &push->pushed[i];
    for (int k = 0; k < CR_PUSH_TOPS; ++k) {
      cr_device_free_after(device, pushed->memory[k], pushed->user);
    }
    if (pushed->used != NULL) device->backend->event_destroy(pushed->used);
  }
  free(push->pushed);
  pthread_mutex_destroy(&push->lock);
  free(push);
}

/* ---- the thread ---------------------------------------------------------- */

/* Copies a batch; what reads its memory's old content comes first. */
static crema_status push_one(cr_batch_push *push, crema_context *context, cr_pushed_batch *pushed) {
  const cr_push_options *options = &push->options;
  const cr_backend *backend = options->device->backend;
  cr_push_top top[CR_PUSH_TOPS] = {{0}};
  options->source->tops(pushed->batch, top);
  for (int i = 0; i < options->tops; ++i) CR_TRY(reserve(push, pushed, i, top[i].bytes));
  if (pushed->in_use) CR_TRY(backend->event_wait(context, pushed->used));
  pushed->in_use = false;
  for (int i = 0; i < options->tops; ++i) {
    CR_TRY(backend->copy(context, CR_COPY_HOST_TO_DEVICE, pushed->memory[i].address,
                         (uintptr_t)top[i].values, top[i].bytes));
  }
  return crema_context_finish(context);
}

static crema_status push_on(cr_batch_push *push, crema_context *context) {
  const cr_push_options *options = &push->options;
  for (;;) {
    void *item = NULL;
    CR_TRY(cr_queue_pop(push->pair.free, NULL, &item));
    cr_pushed_batch *pushed = item;
    CR_TRY(options->source->take(options->user, &pushed->batch));
    pthread_mutex_lock(&push->lock);
    options->source->stats(options->user, &push->below);
    pthread_mutex_unlock(&push->lock);
    CR_TRY(push_one(push, context, pushed));
    CR_TRY(cr_queue_push(push->pair.full, pushed));
  }
}

/* The stream lives as long as the thread. */
static crema_status push_for_ever(void *arg) {
  cr_batch_push *push = arg;
  crema_context *context = NULL;
  crema_status status = crema_context_create(push->options.device, 0, &context);
  if (status == CREMA_OK) status = push_on(push, context);
  if (status != CREMA_E_INTERRUPTED) cr_queue_fail(push->pair.full, status, NULL);
  crema_context_destroy(context);
  return status;
}

/* A batch that was taken back from the consumer may have work queued on it still. */
static crema_status take_back(cr_batch_push *push, cr_pushed_batch *pushed) {
  if (!pushed->lent) return CREMA_OK;
  pushed->lent = false;
  return cr_context_mark(push->options.device, pushed->user, &pushed->used, &pushed->in_use);
}

crema_status cr_batch_push_start(cr_batch_push *push) {
  if (push->thread != NULL) return cr_fail(CREMA_E_STATE, "batches are pushed already");
  size_t depth = (size_t)push->options.depth;
  for (size_t i = 0; i < depth; ++i) CR_TRY(take_back(push, &push->pushed[i]));
  void **element = calloc(depth, sizeof *element);
  if (element == NULL) return cr_fail_memory(depth * sizeof *element, "a queue of batches");
  for (size_t i = 0; i < depth; ++i) element[i] = &push->pushed[i];
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

crema_status cr_batch_push_take(cr_batch_push *push, const crema_context *context,
                                cr_pushed_batch **out) {
  void *item = NULL;
  size_t ready = cr_queue_size(push->pair.full);
  double start = cr_clock_seconds();
  CR_TRY(cr_queue_pop(push->pair.full, "a batch of data on the device", &item));
  *out = item;
  (*out)->lent = true;
  (*out)->user = context->id;
  /* Everybody waits for the first batch. */
  if (push->taken++ == 0) return CREMA_OK;
  if (ready == 0) push->wait_seconds += cr_clock_seconds() - start;
  cr_series_add(&push->fill, (double)ready);
  return CREMA_OK;
}

crema_status cr_batch_push_give_back(cr_batch_push *push, cr_pushed_batch *pushed,
                                     const crema_context *context) {
  const cr_push_options *options = &push->options;
  pushed->user = context->id;
  CR_TRY(cr_context_mark(options->device, pushed->user, &pushed->used, &pushed->in_use));
  pushed->lent = false;
  CR_TRY(options->source->give_back(options->user, pushed->batch));
  return cr_queue_push(push->pair.free, pushed);
}

void cr_batch_push_get_stats(cr_batch_push *push, cr_input_stats *out) {
  pthread_mutex_lock(&push->lock);
  *out = push->below;
  pthread_mutex_unlock(&push->lock);
  out->prefetch.batches = push->taken;
  out->prefetch.wait_seconds = push->wait_seconds;
  out->prefetch.fill = push->fill;
}
