/* What the worlds have in common, however the processes were started: that of mpirun, whose
 * processes talk by MPI (mpi_world.c), and that of a program which starts them itself, whose
 * processes talk by NCCL (nccl_world.c). */
#ifndef CR_PARALLEL_WORLD_PRIVATE_H
#define CR_PARALLEL_WORLD_PRIVATE_H

#include <pthread.h>

#include "parallel/peer_watch.h"
#include "parallel/world.h"

enum { CR_WORLD_HOST = 64, CR_WORLD_REASON = 1024 };

/* How a process tells the others that a rank failed: itself, or a peer that was killed. */
typedef struct cr_world_message {
  int32_t status;
  int32_t rank;
  char host[CR_WORLD_HOST];
  char reason[CR_WORLD_REASON];
} cr_world_message;

typedef struct cr_world_class {
  const char *name;
  /* buffer[0 .. bytes - 1] of all ranks come to lie behind each other, in order, after this
   * rank's. */
  crema_status (*gather)(cr_world *world, size_t bytes);
  /* buffer[0 .. bytes - 1] of rank 0 become those of all. */
  crema_status (*broadcast)(cr_world *world, size_t bytes);
  /* See cr_world_hear, cr_world_fail (with a failure) and cr_world_leave; of no NULL. */
  crema_status (*hear)(cr_world *world, double since);
  void (*fail)(cr_world *world, crema_status status);
  void (*leave)(cr_world *world);
} cr_world_class;

/* What a world of any class begins with. */
struct cr_world {
  const cr_world_class *class;
  int rank, size, local_rank, local_size;
  pthread_mutex_t lock; /* guards what follows */
  crema_status failed;  /* of the first rank that failed */
  cr_world_message failure;
  cr_peer_watch peers;
  char *buffer; /* what processes tell each other; of one thread at a time */
  size_t buffer_bytes;
};

/* Sets up a zeroed world, of one process; and frees what it has, but not itself. */
void cr_world_begin(cr_world *world, const cr_world_class *class);
void cr_world_end(cr_world *world);

/* Takes the lock. Errors, with the lock not taken: a rank's failure. */
crema_status cr_world_lock(cr_world *world) CREMA_MUST_USE;

/* Takes note that a rank has failed: with a reason found here, or with a message of another
 * process. With the lock held. */
void cr_world_note(cr_world *world, int rank, crema_status status, const char *reason);
void cr_world_take(cr_world *world, const cr_world_message *message);

/* Whether a rank has failed, for those who wait for something of the others since that time
 * (cr_clock_seconds). Does not wait. Errors: a rank's failure; that the others have been waited for
 * too long, where the world has a limit. */
crema_status cr_world_hear(cr_world *world, double since) CREMA_MUST_USE;

/* Errors: CREMA_E_SHAPE, in all processes, when they do not all name the same spans. */
crema_status cr_world_same_spans(cr_world *world, const cr_exchange_span *span,
                                 int spans) CREMA_MUST_USE;

#endif
