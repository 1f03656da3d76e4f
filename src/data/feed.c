#include "data/feed.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/queue.h"
#include "core/thread.h"
#include "device/device.h"

struct cr_feed {
  cr_feed_options options;
  uint64_t next;        /* number of the batch to be filled */
  cr_feed_batch *batch; /* options.depth of them */
  cr_queue_pair pair;
  cr_thread *thread;
};

crema_status cr_feed_reserve(cr_feed_batch *batch, int top, const crema_shape *shape, float **out) {
  cr_feed_top *t = &batch->top[top];
  CR_TRY(crema_shape_check(shape));
  size_t count = (size_t)crema_shape_count(shape, 0, shape->axes);
  if (count > t->capacity || t->values == NULL) {
    void *memory = NULL;
    CR_TRY(cr_host_alloc(count * sizeof(float), &memory));
    cr_host_free(t->values);
    t->values = memory;
    t->capacity = count;
  }
  t->shape = *shape;
  if (out != NULL) *out = t->values;
  return CREMA_OK;
}

/* All memory is touched, so that no page is made beside the running net. */
static crema_status make_batch(const cr_feed_options *options, cr_feed_batch *batch) {
  batch->tops = options->tops;
  for (int i = 0; i < options->tops; ++i) {
    float *values = NULL;
    CR_TRY(cr_feed_reserve(batch, i, &options->shape[i], &values));
    memset(values, 0, batch->top[i].capacity * sizeof *values);
  }
  return CREMA_OK;
}

crema_status cr_feed_create(const cr_feed_options *options, cr_feed **out) {
  *out = NULL;
  if (options->depth < 1 || options->tops < 1 || options->tops > CR_FEED_TOPS) {
    return cr_fail(CREMA_E_ARGUMENT, "a feed of %d batches for %d tops", options->depth,
                   options->tops);
  }
  size_t depth = (size_t)options->depth;
  cr_feed *feed = calloc(1, sizeof *feed);
  if (feed == NULL) return cr_fail_memory(sizeof *feed, "a feed");
  crema_status status = CREMA_OK;
  feed->options = *options;
  feed->options.shape = NULL;
  feed->batch = calloc(depth, sizeof *feed->batch);
  if (feed->batch == NULL) {
    status = cr_fail_memory(depth * sizeof *feed->batch, "batches");
    goto fail;
  }
  for (size_t i = 0; i < depth; ++i) CR_TRY_GOTO(make_batch(options, &feed->batch[i]), fail);
  *out = feed;
  return CREMA_OK;
fail:
  cr_feed_destroy(feed);
  return status;
}

void cr_feed_destroy(cr_feed *feed) {
  if (feed == NULL) return;
  cr_feed_stop(feed);
  for (int i = 0; feed->batch != NULL && i < feed->options.depth; ++i) {
    for (int k = 0; k < CR_FEED_TOPS; ++k) cr_host_free(feed->batch[i].top[k].values);
    cr_buffer_free(&feed->batch[i].note);
  }
  free(feed->batch);
  free(feed);
}

static crema_status fill_batches(cr_feed *feed) {
  for (;;) {
    void *item = NULL;
    CR_TRY(cr_queue_pop(feed->pair.free, NULL, &item));
    cr_feed_batch *batch = item;
    batch->number = feed->next;
    cr_buffer_clear(&batch->note);
    CR_TRY(feed->options.fill(feed->options.user, batch));
    ++feed->next;
    CR_TRY(cr_queue_push(feed->pair.full, batch));
  }
}

static crema_status fill_for_ever(void *arg) {
  cr_feed *feed = arg;
  crema_status status = fill_batches(feed);
  if (status != CREMA_E_INTERRUPTED) cr_queue_fail(feed->pair.full, status, NULL);
  return status;
}

crema_status cr_feed_start(cr_feed *feed, uint64_t first) {
  if (feed->thread != NULL) return cr_fail(CREMA_E_STATE, "the feed runs already");
  size_t depth = (size_t)feed->options.depth;
  void **element = calloc(depth, sizeof *element);
  if (element == NULL) return cr_fail_memory(depth * sizeof *element, "a queue of batches");
  for (size_t i = 0; i < depth; ++i) element[i] = &feed->batch[i];
  crema_status status = cr_queue_pair_init(&feed->pair, element, depth);
  free(element);
  if (status != CREMA_OK) return status;
  feed->next = first;
  status = cr_thread_start(&feed->thread, "crema-feed", fill_for_ever, feed);
  if (status != CREMA_OK) cr_queue_pair_free(&feed->pair, NULL);
  return status;
}

void cr_feed_stop(cr_feed *feed) {
  /* What went wrong in the thread was told to the consumer. */
  crema_status ended = cr_thread_stop(&feed->thread);
  (void)ended;
  cr_queue_pair_free(&feed->pair, NULL);
}

crema_status cr_feed_take(cr_feed *feed, cr_feed_batch **out) {
  void *item = NULL;
  CR_TRY(cr_queue_pop(feed->pair.full, "a batch of data", &item));
  *out = item;
  return CREMA_OK;
}

crema_status cr_feed_give_back(cr_feed *feed, cr_feed_batch *batch) {
  return cr_queue_push(feed->pair.free, batch);
}
