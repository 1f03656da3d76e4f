/* The world that mpirun started, for the files that call MPI.
 *
 * One thread at a time calls MPI, and only functions that return soon: long operations are started
 * and then polled. Between two polls a failure message of another process can be noticed. */
#ifndef CR_PARALLEL_MPI_WORLD_H
#define CR_PARALLEL_MPI_WORLD_H

#include "parallel/mpi_library.h"
#include "parallel/world_private.h"

typedef struct cr_mpi_world {
  cr_world base; /* its lock is held during calls of MPI; guards the members below */
  cr_mpi mpi;
  cr_mpi_handle *told;     /* requests of our own failure message, one per process */
  cr_mpi_handle control;   /* communicator of these messages */
  cr_mpi_handle agreeing;  /* of cr_world_agree and cr_world_broadcast */
  cr_mpi_handle request;   /* the operation under way there */
  cr_mpi_handle duplicate; /* the communicator that it makes */
} cr_mpi_world;

/* NULL for NULL and for a world of another class. */
cr_mpi_world *cr_mpi_world_of(cr_world *world);

/* After cr_world_lock and a call of MPI that returned `code`; `call` names it. */
crema_status cr_mpi_world_unlock(cr_mpi_world *world, int code, const char *call) CREMA_MUST_USE;

/* Waits for a request, which is then mpi.request_null. After a failure MPI may still access the
 * request's memory. It must not change or be freed while the process lives. */
crema_status cr_mpi_world_wait(cr_mpi_world *world, cr_mpi_handle *request) CREMA_MUST_USE;

/* A communicator of all processes; every process must call this. */
crema_status cr_mpi_world_duplicate(cr_mpi_world *world, cr_mpi_handle *out) CREMA_MUST_USE;

/* Free an unused communicator or operation; a no-op after a failure. */
void cr_mpi_world_free_communicator(cr_mpi_world *world, cr_mpi_handle *comm);
void cr_mpi_world_free_operation(cr_mpi_world *world, cr_mpi_handle *operation);

#endif
