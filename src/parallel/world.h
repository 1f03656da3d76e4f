/* The processes that train one net together: started by `mpirun`, by a program that gives them
 * ranks and an id, or one alone.
 *
 * A process that mpirun (of Open MPI) or Slurm's srun started is told by its environment; libmpi is
 * opened at run time, so that one build serves machines with and without it.
 *
 * Any thread may use a world, but one at a time calls cr_world_agree, cr_world_broadcast and
 * cr_exchange_create_mpi. While they wait, ranks hear of a rank that fails, and notice when a
 * process of their own host is killed. Of one on another host mpirun makes an end; without it, NCCL
 * when it notices, or the limit of waiting. */
#ifndef CR_PARALLEL_WORLD_H
#define CR_PARALLEL_WORLD_H

#include "parallel/exchange.h"

typedef struct cr_world cr_world;

/* Whether the environment says that this process is one of several that were started together. */
bool cr_world_is_there(void);

/* Joins the other processes; all must call it. A process joins once. libmpi.so.40 is looked for in
 * the folder that CREMA_MPI_PATH names, else where the system looks for libraries. Errors:
 * CREMA_E_NOT_FOUND without libmpi; CREMA_E_UNSUPPORTED for a library that is not Open MPI's,
 * allows no threads or sees another number of processes than were started; CREMA_E_STATE when MPI
 * was initialized before; CREMA_E_IO. */
crema_status cr_world_join(cr_world **out) CREMA_MUST_USE;

/* A world of processes that mpirun did not start. */
typedef struct cr_nccl_world_options {
  const cr_group_id *id; /* which rank 0's host has made; the same in all processes */
  int rank, size;
  crema_device *device; /* that this process trains on, no other process's */
  double patience;      /* seconds after which waiting for the others is a failure */
} cr_nccl_world_options;

/* Joins the others, who talk by NCCL; all must call it. Errors: CREMA_E_UNSUPPORTED where there is
 * no NCCL for the device; CREMA_E_EXISTS for a rank that another process of this host has;
 * CREMA_E_DEVICE for those of NCCL, CREMA_E_IO for others that do not come in time, and what they
 * failed with. The processes of such a world are not ended when one fails: calls fail in all of
 * them. */
crema_status cr_world_join_nccl(const cr_nccl_world_options *options,
                                cr_world **out) CREMA_MUST_USE;

/* Waits for the others and leaves. When a rank fails meanwhile, its message is logged as an error.
 * After a failure nobody is waited for, except for a second at most for the others to have heard of
 * it; MPI is not finalized then, and the process should end soon, with an exit status other than 0:
 * that makes mpirun end the others. A process that gives up must have called cr_world_fail first.
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

/* Tells all other processes that this one failed with `status` and the thread's error text. They,
 * and other threads of this one, get that failure from every call of the world and of its exchange
 * that waits or comes later, with the text "rank N (host): text". Any thread may call it at any
 * time; the first failure stays. Accepts NULL. No-op for CREMA_OK. */
void cr_world_fail(cr_world *world, crema_status status);

/* This process's end of an exchange between the processes; `device` is the one that it trains on.
 * All processes must call it. The world must outlive it. Its calls wait for the other processes:
 * so sums belong into a thread of their own. Sums have the same bits in each run with the same
 * library and number of processes. */
crema_status cr_exchange_create_mpi(cr_world *world, crema_device *device,
                                    cr_exchange **out) CREMA_MUST_USE;

/* The same by NVIDIA's NCCL, from device to device; once cr_world_find_nccl says that it can be. A
 * failure ends all processes. */
crema_status cr_exchange_create_nccl_processes(cr_world *world, crema_device *device,
                                               cr_exchange **out) CREMA_MUST_USE;

/* Whether NCCL can exchange between all processes: it is there for each one's device, and no two
 * have the same device. All processes must call it, and get the same answer. Errors:
 * CREMA_E_UNSUPPORTED, the text says what is missing. */
crema_status cr_world_find_nccl(cr_world *world, crema_device *device) CREMA_MUST_USE;

#endif
