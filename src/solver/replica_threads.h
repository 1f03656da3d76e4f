/* The replicas of one process at work, each in a separate thread, the first in the caller's. */
#ifndef CR_SOLVER_REPLICA_THREADS_H
#define CR_SOLVER_REPLICA_THREADS_H

#include "solver/replica.h"

typedef struct cr_replica_threads cr_replica_threads;

/* The work of each replica. A failure also fails the exchange, so that no replica waits for it. */
typedef crema_status cr_replica_work(void *user, cr_replica *replica);

/* Called for each failure in the failed replica's thread, which has the error text. */
typedef void cr_replica_failed(void *user, crema_status status);

/* Starts a thread for each replica but the first; its current device (cr_device_current) is the
 * replica's. The replicas must outlive the threads. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_replica_threads_start(cr_replica *replica, int replicas, cr_replica_failed *failed,
                                      void *user, cr_replica_threads **out) CREMA_MUST_USE;

/* Ends the threads. Accepts NULL. */
void cr_replica_threads_stop(cr_replica_threads *team);

/* Does `work` for all replicas at once, waits for all, and returns the first failure. After a
 * failure no exchange is possible. */
crema_status cr_replica_threads_run(cr_replica_threads *team, cr_replica_work *work,
                                    void *user) CREMA_MUST_USE;

#endif
