/* Open MPI, opened at run time: one build of crema serves machines with and without it, and needs
 * none of its headers.
 *
 * MPI_COMM_WORLD, MPI_FLOAT and so on of Open MPI's mpi.h are addresses of objects of the library,
 * which are looked up by name. Its numbers are the same in all versions of libmpi.so.40 (Open MPI 3
 * to 5). */
#ifndef CR_PARALLEL_MPI_LIBRARY_H
#define CR_PARALLEL_MPI_LIBRARY_H

#include "crema/status.h"
#include "crema/types.h"

typedef void *cr_mpi_handle; /* MPI_Comm, MPI_Datatype, MPI_Op, MPI_Request and their like */

typedef struct cr_mpi_status {
  int source, tag, error, cancelled;
  size_t bytes;
} cr_mpi_status;

typedef void cr_mpi_adder(void *in, void *sum, int *count, cr_mpi_handle *type);

enum {
  CR_MPI_SUCCESS = 0,
  CR_MPI_THREAD_SERIALIZED = 2,
  CR_MPI_COMM_TYPE_SHARED = 0,
  CR_MPI_ANY_SOURCE = -1,
  CR_MPI_TEXT = 256 /* of a version or an error */
};

/* X(name, parameters): the functions MPI_<name>. */
#define CR_MPI_FUNCTIONS(X)                                                                       \
  X(Get_library_version, (char *text, int *length))                                               \
  X(Initialized, (int *flag))                                                                     \
  X(Init_thread, (int *argc, char ***argv, int required, int *provided))                          \
  X(Finalize, (void))                                                                             \
  X(Error_string, (int code, char *text, int *length))                                            \
  X(Comm_rank, (cr_mpi_handle comm, int *rank))                                                   \
  X(Comm_size, (cr_mpi_handle comm, int *size))                                                   \
  X(Comm_dup, (cr_mpi_handle comm, cr_mpi_handle * out))                                          \
  X(Comm_idup, (cr_mpi_handle comm, cr_mpi_handle * out, cr_mpi_handle * request))                \
  X(Comm_split_type,                                                                              \
    (cr_mpi_handle comm, int type, int key, cr_mpi_handle info, cr_mpi_handle *out))              \
  X(Comm_free, (cr_mpi_handle * comm))                                                            \
  X(Comm_set_errhandler, (cr_mpi_handle comm, cr_mpi_handle handler))                             \
  X(Op_create, (cr_mpi_adder * adder, int commutes, cr_mpi_handle *out))                          \
  X(Op_free, (cr_mpi_handle * op))                                                                \
  X(Test, (cr_mpi_handle * request, int *done, cr_mpi_status *status))                            \
  X(Testall, (int count, cr_mpi_handle *request, int *done, cr_mpi_status *statuses))             \
  X(Iprobe, (int source, int tag, cr_mpi_handle comm, int *found, cr_mpi_status *status))         \
  X(Recv, (void *memory, int count, cr_mpi_handle type, int source, int tag, cr_mpi_handle comm,  \
           cr_mpi_status *status))                                                                \
  X(Issend, (const void *memory, int count, cr_mpi_handle type, int target, int tag,              \
             cr_mpi_handle comm, cr_mpi_handle *request))                                         \
  X(Ibarrier, (cr_mpi_handle comm, cr_mpi_handle * request))                                      \
  X(Ibcast, (void *memory, int count, cr_mpi_handle type, int root, cr_mpi_handle comm,           \
             cr_mpi_handle *request))                                                             \
  X(Iallgather, (const void *memory, int count, cr_mpi_handle type, void *all, int count_of_each, \
                 cr_mpi_handle type_of_all, cr_mpi_handle comm, cr_mpi_handle *request))          \
  X(Iallreduce, (const void *memory, void *sum, int count, cr_mpi_handle type, cr_mpi_handle op,  \
                 cr_mpi_handle comm, cr_mpi_handle *request))

/* X(member, symbol): objects of the library. */
#define CR_MPI_OBJECTS(X)                  \
  X(comm_world, ompi_mpi_comm_world)       \
  X(info_null, ompi_mpi_info_null)         \
  X(request_null, ompi_request_null)       \
  X(return_errors, ompi_mpi_errors_return) \
  X(byte, ompi_mpi_byte)                   \
  X(uint16, ompi_mpi_uint16_t)             \
  X(f32, ompi_mpi_float)                   \
  X(f64, ompi_mpi_double)                  \
  X(sum, ompi_mpi_op_sum)

typedef struct cr_mpi {
#define CR_MPI_FUNCTION(name, parameters) int(*name) parameters;
  CR_MPI_FUNCTIONS(CR_MPI_FUNCTION)
#undef CR_MPI_FUNCTION
#define CR_MPI_OBJECT(member, symbol) cr_mpi_handle member;
  CR_MPI_OBJECTS(CR_MPI_OBJECT)
#undef CR_MPI_OBJECT
} cr_mpi;

/* Opens libmpi.so.40: from the folder in the environment variable CREMA_MPI_PATH, else from the
 * system's library folders. It stays open. Errors: CREMA_E_NOT_FOUND, CREMA_E_UNSUPPORTED for a
 * library that is not Open MPI's. */
crema_status cr_mpi_open(cr_mpi *out) CREMA_MUST_USE;

#endif
