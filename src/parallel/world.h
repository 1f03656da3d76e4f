/* The processes that train one net together: started by `mpirun`, or one alone.
 *
 * A process that mpirun (of Open MPI) started is told by its environment; libmpi is opened at run
 * time, so that one build serves machines with and without it. */
#ifndef CR_PARALLEL_WORLD_H
#define CR_PARALLEL_WORLD_H

#include "parallel/exchange.h"

typedef struct cr_world cr_world;

/* Whether the environment says that this process is one of several that mpirun started. */
bool cr_world_is_there(void);

/* Joins the other processes. One world at a time. Errors: CREMA_E_NOT_FOUND without libmpi,
 * CREMA_E_UNSUPPORTED for a library that is not Open MPI or allows no threads, CREMA_E_STATE. */
crema_status cr_world_join(cr_world **out) CREMA_MUST_USE;

/* Leaves. After a failure of any rank it ends what the library has under way without waiting.
 * Accepts NULL. */
void cr_world_leave(cr_world *world);

int cr_world_rank(const cr_world *world);       /* 0 for NULL */
int cr_world_size(const cr_world *world);       /* 1 for NULL */
int cr_world_local_rank(const cr_world *world); /* among the processes of this host */
int cr_world_local_size(const cr_world *world);

/* What the processes tell each other between iterations: each element of sum[] becomes the sum over
 * all processes (added in the order of ranks: the same bits everywhere), each of max[] the largest.
 * Waits for all. A no-op for NULL. Errors: what another rank failed with. */
crema_status cr_world_agree(cr_world *world, double *sum, int sums, int64_t *max,
                            int maxima) CREMA_MUST_USE;

/* bytes[0 .. size - 1] of rank 0 become those of all. */
crema_status cr_world_broadcast(cr_world *world, void *bytes, size_t size) CREMA_MUST_USE;

/* Tells all other processes that this one failed with `status` and the thread's error text; those
 * that wait in any call of the world or of its exchange return that failure within a second. */
void cr_world_fail(cr_world *world, crema_status status);

/* This process's end of an exchange between the processes; `device` is the one that it trains on.
 * The world must outlive it. Sums of different spans may be under way at once. */
crema_status cr_exchange_create_mpi(cr_world *world, crema_device *device,
                                    cr_exchange **out) CREMA_MUST_USE;

#endif
