/* The processes that train one net together: started by `mpirun`, by a program that gives them
 * ranks and an id, or a single one.
 *
 * The environment shows whether mpirun (of Open MPI) or Slurm's srun started a process. libmpi is
 * opened at run time, so one build serves machines with and without it.
 *
 * Any thread may use a world, but only one at a time calls cr_world_agree, cr_world_broadcast and
 * cr_exchange_create_mpi. While they wait, ranks hear of a rank that fails, and notice when a
 * process of the same host is killed. If one on another host is killed, mpirun ends the rest, or
 * NCCL reports it, or the wait reaches its limit. */
#ifndef CR_PARALLEL_WORLD_H
#define CR_PARALLEL_WORLD_H

#include "parallel/exchange.h"

typedef struct cr_world cr_world;

/* Whether the environment says that this process is one of several that were started together. */
bool cr_world_is_there(void);

/* Joins the other processes; all must call it once. The library libmpi.so.40 is searched for in the
 * folder CREMA_MPI_PATH, else in the system's library folders. Errors: CREMA_E_NOT_FOUND without
 * libmpi; CREMA_E_STATE if MPI is initialized already; CREMA_E_IO; CREMA_E_UNSUPPORTED for a
 * library that is not Open MPI's, allows no threads or sees a wrong number of processes. */
crema_status cr_world_join(cr_world **out) CREMA_MUST_USE;

/* A world of processes that mpirun did not start. */
typedef struct cr_nccl_world_options {
  const cr_group_id *id; /* made by rank 0's host; the same in all processes */
  int rank, size;
  crema_device *device; /* that this process trains on, no other process's */
  double patience;      /* seconds after which a wait fails */
} cr_nccl_world_options;

/* Joins the other processes by NCCL; all must call it. After a failure calls fail in all processes,
 * but no process is ended. Errors: CREMA_E_UNSUPPORTED without NCCL for the device; CREMA_E_EXISTS
 * if another process of this host has the rank; CREMA_E_DEVICE for NCCL's own. CREMA_E_IO for
 * processes that do not join in time; another rank's failure. */
crema_status cr_world_join_nccl(const cr_nccl_world_options *options,
                                cr_world **out) CREMA_MUST_USE;

/* Reports to the processes that still train that this one leaves, so that none waits for it. To be
 * called before the world's exchange is destroyed. Accepts NULL. */
void cr_world_announce_leave(cr_world *world);

/* Waits for all processes and leaves. If a rank fails in the meantime, its message is logged as an
 * error. After a failure it waits at most a second for the message to arrive everywhere and does
 * not finalize MPI. The process should then end soon, with an exit status other than 0, which makes
 * mpirun end the rest. A process that gives up must first call cr_world_fail. Accepts NULL. */
void cr_world_leave(cr_world *world);

int cr_world_rank(const cr_world *world);       /* 0 for NULL */
int cr_world_size(const cr_world *world);       /* 1 for NULL */
int cr_world_local_rank(const cr_world *world); /* among the processes of this host */
int cr_world_local_size(const cr_world *world);

/* Replaces each element of sum[] by its sum over all processes and each element of max[] by the
 * largest. Sums are added in the order of ranks: the same bits everywhere. Waits for all processes.
 * A no-op for NULL. Errors: another rank's failure. */
crema_status cr_world_agree(cr_world *world, double *sum, int sums, int64_t *max,
                            int maxima) CREMA_MUST_USE;

/* Copies bytes[0 .. size - 1] of rank 0 to all. */
crema_status cr_world_broadcast(cr_world *world, void *bytes, size_t size) CREMA_MUST_USE;

/* Reports to all processes that this one failed with `status` and the thread's error text. Present
 * and later calls of the world and its exchange fail with the text "rank N (host): text", here and
 * there. Any thread may call it at any time; the first failure stays. Accepts NULL. No-op for
 * CREMA_OK. */
void cr_world_fail(cr_world *world, crema_status status);

/* This process's end of an exchange between the processes, which trains on `device`. All processes
 * must call it. The world must outlive it. Its calls wait for the other processes, so sums belong
 * into a separate thread. Sums have the same bits in each run with the same library and number of
 * processes. */
crema_status cr_exchange_create_mpi(cr_world *world, crema_device *device,
                                    cr_exchange **out) CREMA_MUST_USE;

/* The same by NVIDIA's NCCL, from device to device, if cr_world_find_nccl succeeds. A failure ends
 * all processes. */
crema_status cr_exchange_create_nccl_processes(cr_world *world, crema_device *device,
                                               cr_exchange **out) CREMA_MUST_USE;

/* Whether NCCL can exchange between all processes: it works for all devices, and no two processes
 * use the same device. All processes must call it, and get the same answer. Errors:
 * CREMA_E_UNSUPPORTED; the text names the missing part. */
crema_status cr_world_find_nccl(cr_world *world, crema_device *device) CREMA_MUST_USE;

#endif
