#include "core/queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/signals.h"
#include "core/thread_private.h"

enum { FIRST_CAPACITY = 16, LOG_EVERY = 1000, SPINS = 500, LOCK_TRIES = 100 };

/* A waiting thread spins while its patience lasts: a spin in vain takes one off, a spin that was
 * answered gives one back, up to PATIENCE. Without patience it spins only every TRY_EVERY times. */
enum { PATIENCE = 4, TRY_EVERY = 8 };

/* Items are in a ring. Two conditions, so that a push never wakes a pusher. A push wakes all
 * poppers, so that a peek cannot swallow the wake-up of a pop. A pop makes room for one item and
 * wakes one pusher. */
struct cr_queue {
  pthread_mutex_t lock;
  pthread_cond_t not_empty;
  pthread_cond_t not_full;
  int waiting_poppers;
  int waiting_pushers;
  void **item;
  size_t capacity; /* of the ring */
  size_t bound;    /* 0: the ring grows */
  size_t first;
  size_t size;
  /* Copies that are read without the lock, for spinning. */
  atomic_size_t seen_size;
  atomic_bool closed;
  /* Hints, which need not be exact: see PATIENCE. */
  atomic_int patience;
  atomic_uint spins_skipped;
  crema_status reason;
  cr_error *error; /* NULL: there was no memory for it */
  uint64_t empty_pops;
  cr_queue_stalls stalls;
};

crema_status cr_queue_create(size_t capacity, cr_queue **out) {
  cr_queue *queue = calloc(1, sizeof *queue);
  if (queue == NULL) return cr_fail_memory(sizeof *queue, "a queue");
  queue->bound = capacity;
  queue->capacity = capacity > 0 ? capacity : FIRST_CAPACITY;
  queue->patience = PATIENCE;
  queue->item = calloc(queue->capacity, sizeof *queue->item);
  if (queue->item == NULL) {
    free(queue);
    return cr_fail_memory(capacity * sizeof *queue->item, "a queue");
  }
  pthread_mutex_init(&queue->lock, NULL);
  pthread_cond_init(&queue->not_empty, NULL);
  pthread_cond_init(&queue->not_full, NULL);
  *out = queue;
  return CREMA_OK;
}

void cr_queue_destroy(cr_queue *queue) {
  if (queue == NULL) return;
  pthread_cond_destroy(&queue->not_full);
  pthread_cond_destroy(&queue->not_empty);
  pthread_mutex_destroy(&queue->lock);
  free(queue->error);
  free(queue->item);
  free(queue);
}

static void spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* The lock is held for some tens of nanoseconds, so trying again beats going to sleep. */
static void lock_queue(cr_queue *queue) {
  for (int i = 0; i < LOCK_TRIES; ++i) {
    if (pthread_mutex_trylock(&queue->lock) == 0) return;
    spin_pause();
  }
  pthread_mutex_lock(&queue->lock);
}

static void unlock_queue(cr_queue *queue) {
  pthread_mutex_unlock(&queue->lock);
}

static void set_size(cr_queue *queue, size_t size) {
  queue->size = size;
  atomic_store_explicit(&queue->seen_size, size, memory_order_release);
}

static bool is_full(const cr_queue *queue) {
  return queue->bound > 0 && queue->size == queue->bound;
}

static crema_status grow(cr_queue *queue) {
  size_t capacity = 2 * queue->capacity;
  void **item = malloc(capacity * sizeof *item);
  if (item == NULL) return cr_fail_memory(capacity * sizeof *item, "a queue");
  size_t tail = queue->capacity - queue->first;
  memcpy(item, queue->item + queue->first, tail * sizeof *item);
  memcpy(item + tail, queue->item, queue->first * sizeof *item);
  free(queue->item);
  queue->item = item;
  queue->capacity = capacity;
  queue->first = 0;
  return CREMA_OK;
}

static crema_status append(cr_queue *queue, void *item) {
  if (queue->size == queue->capacity) CR_TRY(grow(queue));
  queue->item[(queue->first + queue->size) % queue->capacity] = item;
  set_size(queue, queue->size + 1);
  if (queue->waiting_poppers > 0) pthread_cond_broadcast(&queue->not_empty);
  return CREMA_OK;
}

static void take(cr_queue *queue, void **out, bool remove) {
  *out = queue->item[queue->first];
  if (!remove) return;
  queue->first = (queue->first + 1) % queue->capacity;
  set_size(queue, queue->size - 1);
  if (queue->waiting_pushers > 0) pthread_cond_signal(&queue->not_full);
}

static crema_status closed_status(const cr_queue *queue) {
  if (queue->error != NULL) return cr_error_again(queue->reason, queue->error);
  return cr_fail(queue->reason, "the queue is closed");
}

static void set_patience(cr_queue *queue, int patience) {
  atomic_store_explicit(&queue->patience, patience, memory_order_relaxed);
}

/* Between busy threads the next item arrives within a microsecond, but sleeping and waking take
 * several. A thread therefore spins once before it sleeps, unless items arrive so slowly that
 * spinning only costs CPU time. */
static void spin_while_empty(cr_queue *queue) {
  if (atomic_load_explicit(&queue->seen_size, memory_order_acquire) > 0) return;
  const int patience = atomic_load_explicit(&queue->patience, memory_order_relaxed);
  if (patience == 0) {
    unsigned skipped = atomic_fetch_add_explicit(&queue->spins_skipped, 1, memory_order_relaxed);
    if (skipped % TRY_EVERY != TRY_EVERY - 1) return;
  }
  for (int i = 0; i < SPINS; ++i) {
    if (atomic_load_explicit(&queue->closed, memory_order_acquire)) return;
    if (atomic_load_explicit(&queue->seen_size, memory_order_acquire) > 0) {
      if (patience < PATIENCE) set_patience(queue, patience + 1);
      return;
    }
    spin_pause();
  }
  if (patience > 0) set_patience(queue, patience - 1);
}

static crema_status stop_status(void) {
  return cr_fail(CREMA_E_INTERRUPTED, "the thread was asked to stop");
}

/* Called before and after a wait, with the queue's lock held. It releases the lock in between,
 * because locks are taken in the order thread, then queue. A signal can interrupt the wait, even in
 * the middle of a pass. */
static void begin_wait(cr_queue *queue) {
  unlock_queue(queue);
  cr_thread_waits_on(queue);
  cr_signals_let_in();
  lock_queue(queue);
}

static void end_wait(cr_queue *queue) {
  unlock_queue(queue);
  cr_signals_let_no_more_in();
  cr_thread_waits_on(NULL);
  lock_queue(queue);
}

/* The slow path of push: the lock is held on entry and on return. */
static crema_status wait_for_room(cr_queue *queue) {
  while (is_full(queue) && !queue->closed) {
    begin_wait(queue);
    ++queue->waiting_pushers;
    while (is_full(queue) && !queue->closed && !cr_thread_must_stop()) {
      pthread_cond_wait(&queue->not_full, &queue->lock);
    }
    --queue->waiting_pushers;
    end_wait(queue);
    if (is_full(queue) && !queue->closed && cr_thread_must_stop()) return stop_status();
  }
  return CREMA_OK;
}

/* The slow path of pop: the lock is held on entry and on return. */
static crema_status wait_for_item(cr_queue *queue) {
  double start = cr_clock_seconds();
  crema_status status = CREMA_OK;
  while (queue->size == 0 && !queue->closed && status == CREMA_OK) {
    begin_wait(queue);
    ++queue->waiting_poppers;
    while (queue->size == 0 && !queue->closed && !cr_thread_must_stop()) {
      pthread_cond_wait(&queue->not_empty, &queue->lock);
    }
    --queue->waiting_poppers;
    end_wait(queue);
    if (queue->size == 0 && !queue->closed && cr_thread_must_stop()) status = stop_status();
  }
  ++queue->stalls.count;
  queue->stalls.seconds += cr_clock_seconds() - start;
  return status;
}

void cr_queue_wake(cr_queue *queue) {
  lock_queue(queue);
  pthread_cond_broadcast(&queue->not_empty);
  pthread_cond_broadcast(&queue->not_full);
  unlock_queue(queue);
}

crema_status cr_queue_push_all(cr_queue *queue, void *const *item, size_t count) {
  if (cr_thread_must_stop()) return stop_status();
  crema_status status = CREMA_OK;
  lock_queue(queue);
  for (size_t i = 0; i < count && status == CREMA_OK; ++i) {
    if (is_full(queue) && !queue->closed) status = wait_for_room(queue);
    if (status == CREMA_OK && queue->closed) status = closed_status(queue);
    if (status == CREMA_OK) status = append(queue, item[i]);
  }
  unlock_queue(queue);
  return status;
}

crema_status cr_queue_push(cr_queue *queue, void *item) {
  return cr_queue_push_all(queue, &item, 1);
}

static crema_status take_or_wait(cr_queue *queue, const char *waiting_for, bool remove,
                                 void **out) {
  if (cr_thread_must_stop()) return stop_status();
  crema_status status = CREMA_OK;
  bool say = false;
  spin_while_empty(queue);
  lock_queue(queue);
  if (queue->size == 0 && !queue->closed) {
    say = ++queue->empty_pops % LOG_EVERY == 0;
    status = wait_for_item(queue);
  }
  if (status == CREMA_OK && queue->size == 0) status = closed_status(queue);
  if (status == CREMA_OK) take(queue, out, remove);
  unlock_queue(queue);
  if (say && waiting_for != NULL) cr_log_debug("%s", waiting_for);
  return status;
}

crema_status cr_queue_pop(cr_queue *queue, const char *waiting_for, void **out) {
  return take_or_wait(queue, waiting_for, true, out);
}

crema_status cr_queue_peek(cr_queue *queue, void **out) {
  return take_or_wait(queue, NULL, false, out);
}

bool cr_queue_try_push(cr_queue *queue, void *item) {
  lock_queue(queue);
  bool done = !queue->closed && !is_full(queue) && append(queue, item) == CREMA_OK;
  unlock_queue(queue);
  return done;
}

static bool try_take(cr_queue *queue, bool remove, void **out) {
  lock_queue(queue);
  bool done = queue->size > 0;
  if (done) take(queue, out, remove);
  unlock_queue(queue);
  return done;
}

bool cr_queue_try_pop(cr_queue *queue, void **out) {
  return try_take(queue, true, out);
}

bool cr_queue_try_peek(cr_queue *queue, void **out) {
  return try_take(queue, false, out);
}

size_t cr_queue_size(cr_queue *queue) {
  return atomic_load_explicit(&queue->seen_size, memory_order_acquire);
}

void cr_queue_fail(cr_queue *queue, crema_status code, const char *text) {
  cr_error *error = text != NULL ? cr_error_of_text(text) : cr_error_keep();
  lock_queue(queue);
  if (!queue->closed) {
    queue->reason = code;
    queue->error = error;
    error = NULL;
    queue->closed = true;
    pthread_cond_broadcast(&queue->not_empty);
    pthread_cond_broadcast(&queue->not_full);
  }
  unlock_queue(queue);
  free(error);
}

cr_queue_stalls cr_queue_pop_stalls(cr_queue *queue) {
  lock_queue(queue);
  cr_queue_stalls stalls = queue->stalls;
  unlock_queue(queue);
  return stalls;
}

crema_status cr_queue_pair_init(cr_queue_pair *pair, void *const *element, size_t count) {
  *pair = (cr_queue_pair){0};
  if (count == 0) return cr_fail(CREMA_E_ARGUMENT, "a queue pair needs at least one element");
  crema_status status;
  CR_TRY_GOTO(cr_queue_create(count, &pair->free), fail);
  CR_TRY_GOTO(cr_queue_create(count, &pair->full), fail);
  for (size_t i = 0; i < count; ++i) CR_TRY_GOTO(cr_queue_push(pair->free, element[i]), fail);
  return CREMA_OK;
fail:
  cr_queue_pair_free(pair, NULL);
  return status;
}

static void drain(cr_queue *queue, void (*free_element)(void *element)) {
  void *element;
  while (queue != NULL && cr_queue_try_pop(queue, &element)) {
    if (free_element != NULL) free_element(element);
  }
  cr_queue_destroy(queue);
}

void cr_queue_pair_free(cr_queue_pair *pair, void (*free_element)(void *element)) {
  drain(pair->full, free_element);
  drain(pair->free, free_element);
  *pair = (cr_queue_pair){0};
}
