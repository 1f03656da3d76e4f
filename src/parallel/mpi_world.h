/* What the files that call MPI share: the world that mpirun started.
 *
 * Only one thread at a time calls MPI, and only calls that return soon: what takes long is started
 * and then asked for until it is done. Between two questions a failure message of another process
 * can be noticed. */
#ifndef CR_PARALLEL_MPI_WORLD_H
#define CR_PARALLEL_MPI_WORLD_H

#include "parallel/mpi_library.h"
#include "parallel/world_private.h"

typedef struct cr_mpi_world {
  cr_world base; /* whose lock is held during calls of MPI; guards what follows */
  cr_mpi mpi;
  cr_mpi_handle *told;     /* requests of our own message to the others; one per process */
  cr_mpi_handle control;   /* communicator of these messages */
  cr_mpi_handle agreeing;  /* of cr_world_agree and cr_world_broadcast */
  cr_mpi_handle request;   /* what is under way there */
  cr_mpi_handle duplicate; /* that it makes */
} cr_mpi_world;

/* NULL for NULL and for a world of another class. */
cr_mpi_world *cr_mpi_world_of(cr_world *world);

/* After cr_world_lock and a call of MPI that returned `code`; `call` names it. */
crema_status cr_mpi_world_unlock(cr_mpi_world *world, int code, const char *call) CREMA_MUST_USE;

/* Waits for a request, which is then mpi.request_null. After a failure MPI goes on using the
 * request's memory, what it sends as well as what it receives, whenever another rank comes to its
 * part: it must not be freed or change as long as the process lives. */
crema_status cr_mpi_world_wait(cr_mpi_world *world, cr_mpi_handle *request) CREMA_MUST_USE;

/* A communicator of all processes; every process has to call this. */
crema_status cr_mpi_world_duplicate(cr_mpi_world *world, cr_mpi_handle *out) CREMA_MUST_USE;

/* A communicator or an operation that is not used any more; left alone after a failure. */
void cr_mpi_world_free_communicator(cr_mpi_world *world, cr_mpi_handle *comm);
void cr_mpi_world_free_operation(cr_mpi_world *world, cr_mpi_handle *operation);

#endif
