/* Common parts of the two kinds of worlds: processes that mpirun started talk by MPI (mpi_world.c),
 * processes that a program started talk by NCCL (nccl_world.c). */
#ifndef CR_PARALLEL_WORLD_PRIVATE_H
#define CR_PARALLEL_WORLD_PRIVATE_H

#include <pthread.h>

#include "parallel/peer_watch.h"
#include "parallel/world.h"

enum { CR_WORLD_HOST = 64, CR_WORLD_REASON = 1024 };

/* Reports that a rank failed: the sender, or a peer that was killed. */
typedef struct cr_world_message {
  int32_t status;
  int32_t rank;
  char host[CR_WORLD_HOST];
  char reason[CR_WORLD_REASON];
} cr_world_message;

typedef struct cr_world_class {
  const char *name;
  /* Appends buffer[0 .. bytes - 1] of all ranks to this rank's, in the order of the ranks. */
  crema_status (*gather)(cr_world *world, size_t bytes);
  /* Copies buffer[0 .. bytes - 1] of rank 0 to all ranks. */
  crema_status (*broadcast)(cr_world *world, size_t bytes);
  /* See cr_world_hear, cr_world_fail (with a failure) and cr_world_leave (not NULL). */
  crema_status (*hear)(cr_world *world, double since);
  void (*fail)(cr_world *world, crema_status status);
  void (*announce_leave)(cr_world *world); /* NULL: leaving processes end in any case */
  void (*leave)(cr_world *world);
} cr_world_class;

/* The first member of a world of any class. */
struct cr_world {
  const cr_world_class *class;
  int rank, size, local_rank, local_size;
  pthread_mutex_t lock; /* guards the members below */
  crema_status failed;  /* of the first rank that failed */
  cr_world_message failure;
  cr_peer_watch peers;
  char *buffer; /* for gather and broadcast; used by one thread at a time */
  size_t buffer_bytes;
};

/* Sets up a zeroed world of one process; frees its members, but not the world itself. */
void cr_world_begin(cr_world *world, const cr_world_class *class);
void cr_world_end(cr_world *world);

/* Takes the lock. Errors, with the lock not taken: a rank's failure. */
crema_status cr_world_lock(cr_world *world) CREMA_MUST_USE;

/* Records that a rank has failed: for a reason found here, or by another process's message. With
 * the lock held. */
void cr_world_note(cr_world *world, int rank, crema_status status, const char *reason);
void cr_world_take(cr_world *world, const cr_world_message *message);

/* For a caller that has waited for other ranks since that time (cr_clock_seconds). Does not wait
 * itself. Errors: a rank's failure; a wait beyond the world's limit, if it has one. */
crema_status cr_world_hear(cr_world *world, double since) CREMA_MUST_USE;

/* Errors: CREMA_E_SHAPE, in all processes, when they do not all name the same spans. */
crema_status cr_world_same_spans(cr_world *world, const cr_exchange_span *span,
                                 int spans) CREMA_MUST_USE;

#endif
