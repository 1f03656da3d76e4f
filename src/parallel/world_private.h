/* What the files that call MPI share.
 *
 * Only one thread at a time calls MPI, and only calls that return soon: what takes long is started
 * and then asked for until it is done. Between two questions a failure message of another process
 * can be noticed. */
#ifndef CR_PARALLEL_WORLD_PRIVATE_H
#define CR_PARALLEL_WORLD_PRIVATE_H

#include <pthread.h>

#include "parallel/mpi_library.h"
#include "parallel/neighbours.h"
#include "parallel/world.h"

enum { CR_WORLD_HOST = 64, CR_WORLD_REASON = 1024 };

/* How a process tells the others that a rank failed: itself, or a neighbour that was killed. */
typedef struct cr_world_message {
  int32_t status;
  int32_t rank;
  char host[CR_WORLD_HOST];
  char reason[CR_WORLD_REASON];
} cr_world_message;

struct cr_world {
  cr_mpi mpi;
  int rank, size, local_rank, local_size;
  pthread_mutex_t lock; /* held during calls of MPI; guards what follows */
  crema_status failed;  /* of the first rank that failed */
  cr_world_message failure;
  cr_neighbours neighbours;
  cr_mpi_handle *told;     /* requests of our own message to the others; `size` of them */
  cr_mpi_handle control;   /* communicator of these messages */
  cr_mpi_handle agreeing;  /* of cr_world_agree and cr_world_broadcast */
  cr_mpi_handle request;   /* what is under way there */
  cr_mpi_handle duplicate; /* that it makes */
  char *buffer;            /* that it reads and writes */
  size_t buffer_bytes;
};

/* Before a call of MPI. Errors, with the lock not taken: a rank's failure. */
crema_status cr_world_lock(cr_world *world) CREMA_MUST_USE;

/* After a call of MPI that returned `code`; `call` names it. */
crema_status cr_world_unlock(cr_world *world, int code, const char *call) CREMA_MUST_USE;

/* Waits for a request, which is then mpi.request_null. After a failure MPI may go on using the
 * request's memory, which therefore must not be freed unless the request is mpi.request_null. */
crema_status cr_world_wait(cr_world *world, cr_mpi_handle *request) CREMA_MUST_USE;

/* Whether a rank has failed, for those who wait for something else than a request. Does not wait.
 * Errors: a rank's failure. */
crema_status cr_world_hear(cr_world *world) CREMA_MUST_USE;

/* Errors: CREMA_E_SHAPE, in all processes, when they do not all name the same spans. */
crema_status cr_world_same_spans(cr_world *world, const cr_span *span, int spans) CREMA_MUST_USE;

/* A communicator of all processes; every process has to call this. */
crema_status cr_world_duplicate(cr_world *world, cr_mpi_handle *out) CREMA_MUST_USE;

/* A communicator or an operation that is not used any more; left alone after a failure. */
void cr_world_free_communicator(cr_world *world, cr_mpi_handle *comm);
void cr_world_free_operation(cr_world *world, cr_mpi_handle *operation);

#endif
