/* What queues and threads share with each other. */
#ifndef CR_CORE_THREAD_PRIVATE_H
#define CR_CORE_THREAD_PRIVATE_H

#include "core/queue.h"
#include "core/thread.h"

/* Says that the calling thread is about to wait on `queue` (NULL: no longer). Not to be called
 * with the queue's lock held. */
void cr_thread_waits_on(cr_queue *queue);

/* Wakes everyone who waits on the queue, so that they look again. */
void cr_queue_wake(cr_queue *queue);

#endif
