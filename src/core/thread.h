/* Threads with a name, a way to be stopped and an error that reaches the joiner. */
#ifndef CR_CORE_THREAD_H
#define CR_CORE_THREAD_H

#include <stdbool.h>

#include "crema/status.h"

typedef struct cr_thread cr_thread;

/* The work of a thread. Its status and the thread's error text reach the joiner. */
typedef crema_status (*cr_thread_fn)(void *arg);

/* Starts `fn(arg)` in a thread called `name` (the system shows 15 characters) and sets *thread.
 * `arg` stays the caller's and must live until the thread was joined. The new thread gets no
 * signals (core/signals.h). Errors: CREMA_E_STATE when *thread is not NULL (already started);
 * CREMA_E_NO_MEMORY. */
crema_status cr_thread_start(cr_thread **thread, const char *name, cr_thread_fn fn,
                             void *arg) CREMA_MUST_USE;

/* Asks the thread to stop and returns at once: cr_thread_must_stop() becomes true in it, and if it
 * waits on a queue, it wakes up with CREMA_E_INTERRUPTED. Accepts NULL. */
void cr_thread_request_stop(cr_thread *thread);

/* Waits for the end of the thread, frees it and sets *thread to NULL. Returns the status of `fn`
 * and copies its error text. CREMA_OK when *thread is NULL. */
crema_status cr_thread_join(cr_thread **thread);

/* cr_thread_request_stop, then cr_thread_join. CREMA_E_INTERRUPTED and CREMA_E_CLOSED, the usual
 * ends of a stopped thread, count as CREMA_OK and keep the caller's error text. Idempotent. */
crema_status cr_thread_stop(cr_thread **thread);

/* True when the calling thread was asked to stop. For loops that wait on no queue. */
bool cr_thread_must_stop(void);

#endif
