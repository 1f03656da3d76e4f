/* The replicas of one process at work: each in a thread of its own, the first in the caller's. */
#ifndef CR_SOLVER_TEAM_H
#define CR_SOLVER_TEAM_H

#include "solver/replica.h"

typedef struct cr_team cr_team;

/* What each replica does. A failure is told to the exchange, so that no replica waits for one that
 * has failed. */
typedef crema_status cr_team_work(void *user, cr_replica *replica);

/* Told of each failure in the thread of the replica that failed, which has its error text. */
typedef void cr_team_failed(void *user, crema_status status);

/* Starts a thread for each replica but the first, for which the device of the replica is current
 * (cr_device_current). The replicas must outlive the team. `failed` is told of failures, with
 * `user`. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_team_start(cr_replica *replica, int replicas, cr_team_failed *failed, void *user,
                           cr_team **out) CREMA_MUST_USE;

/* Ends the threads. Accepts NULL. */
void cr_team_stop(cr_team *team);

/* Does `work` for all replicas at once and returns when all have ended; the failure is that of the
 * replica that failed first. With a failed team nothing can be exchanged any more. */
crema_status cr_team_run(cr_team *team, cr_team_work *work, void *user) CREMA_MUST_USE;

#endif
