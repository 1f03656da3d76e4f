/* Between queues and threads. */
#ifndef CR_CORE_THREAD_PRIVATE_H
#define CR_CORE_THREAD_PRIVATE_H

#include "core/queue.h"
#include "core/thread.h"

/* Records that the calling thread is about to wait on `queue`; NULL: the wait is over. Must not
 * hold the queue's lock. */
void cr_thread_waits_on(cr_queue *queue);

/* Wakes all threads that wait on the queue; they look again. */
void cr_queue_wake(cr_queue *queue);

#endif
