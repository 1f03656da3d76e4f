/* Blocking queues: the only way to pass objects between threads.
 *
 * A queue holds untyped items in order of arrival and never looks into them. Any number of threads
 * may push and pop. A queue can be closed, which wakes everyone who waits on it. In a thread that
 * is asked to stop (core/thread.h) push, pop and peek fail at once with CREMA_E_INTERRUPTED, even
 * if it is waiting. The cr_queue_try_... calls still work. */
#ifndef CR_CORE_QUEUE_H
#define CR_CORE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema/status.h"

typedef struct cr_queue cr_queue;

/* Creates an empty queue for at most `capacity` items; 0: limited by memory only. Free with
 * cr_queue_destroy. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_queue_create(size_t capacity, cr_queue **out) CREMA_MUST_USE;

/* Frees the queue, not the items in it. No thread may be using it. Accepts NULL. */
void cr_queue_destroy(cr_queue *queue);

/* Appends `item`; waits while a bounded queue is full. Errors, with the item not taken: the reason
 * given to cr_queue_fail, CREMA_E_INTERRUPTED (the calling thread was asked to stop),
 * CREMA_E_NO_MEMORY (unbounded queues only). */
crema_status cr_queue_push(cr_queue *queue, void *item) CREMA_MUST_USE;

/* Appends `count` items in order, as cr_queue_push does, but wakes a sleeping popper only once.
 * After an error the first items may have been appended. */
crema_status cr_queue_push_all(cr_queue *queue, void *const *item, size_t count) CREMA_MUST_USE;

/* Removes the oldest item; waits while there is none. A closed queue is drained first.
 * `waiting_for` (may be NULL) is logged at debug level at every 1000th call that found the queue
 * empty. Errors, with *out unchanged: the reason given to cr_queue_fail; CREMA_E_INTERRUPTED when
 * the calling thread was asked to stop. */
crema_status cr_queue_pop(cr_queue *queue, const char *waiting_for, void **out) CREMA_MUST_USE;

/* As cr_queue_pop, but leaves the item in the queue. */
crema_status cr_queue_peek(cr_queue *queue, void **out) CREMA_MUST_USE;

/* Without waiting: true and the item, or false when there is none (or, for a push, no room or
 * the queue is closed). */
bool cr_queue_try_push(cr_queue *queue, void *item);
bool cr_queue_try_pop(cr_queue *queue, void **out);
bool cr_queue_try_peek(cr_queue *queue, void **out);

/* The number of items at this moment. */
size_t cr_queue_size(cr_queue *queue);

/* Closes the queue: pushers at once, and poppers once the queue is empty, fail with `code` and
 * `text` (NULL: the calling thread's failure). The first reason stays. */
void cr_queue_fail(cr_queue *queue, crema_status code, const char *text);

/* The number of pops that found the queue empty, and their total wait in seconds. */
typedef struct cr_queue_stalls {
  uint64_t count;
  double seconds;
} cr_queue_stalls;
cr_queue_stalls cr_queue_pop_stalls(cr_queue *queue);

/* Two queues through which a fixed set of elements circulates. The producer moves an element from
 * `free` to `full` and fills it; the consumer moves it back. Neither queue can overflow, so only
 * empty queues make anyone wait. */
typedef struct cr_queue_pair {
  cr_queue *free;
  cr_queue *full;
} cr_queue_pair;

/* Makes both queues and fills `free` with the `count` elements (count >= 1). A failure frees
 * everything, and the elements stay the caller's. */
crema_status cr_queue_pair_init(cr_queue_pair *pair, void *const *element,
                                size_t count) CREMA_MUST_USE;

/* Calls `free_element` (may be NULL) for every element that is in either queue, frees the queues
 * and zeroes *pair. Elements that a party holds at this time are the party's to free. No thread may
 * be using the pair. Accepts a zeroed pair. */
void cr_queue_pair_free(cr_queue_pair *pair, void (*free_element)(void *element));

#endif
