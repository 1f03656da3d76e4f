/* The part of NCCL that is used. Its header is not needed: these calls and numbers are the same in
 * version 2.14 and all later versions. NCCL is not part of the toolkit. */
#ifndef CR_CUDA_NCCL_LIBRARY_H
#define CR_CUDA_NCCL_LIBRARY_H

#include <cuda_runtime_api.h>

#include "core/fail.h"
#include "device/backend/collective.h"

enum { CR_NCCL_LEAST_VERSION = 21400 }; /* the first version in which calls need not wait */

/* Results, element types, operations. */
enum { CR_NCCL_SUCCESS = 0, CR_NCCL_IN_PROGRESS = 7 };
enum { CR_NCCL_FLOAT16 = 6, CR_NCCL_FLOAT32 = 7, CR_NCCL_FLOAT64 = 8, CR_NCCL_BFLOAT16 = 9 };
enum { CR_NCCL_SUM = 0 };

typedef struct cr_nccl_comm cr_nccl_comm; /* a communicator of NCCL */

/* The form of version 2.14; newer versions detect by `size` and `version` that the rest is missing.
 */
typedef struct cr_nccl_config {
  size_t size;
  unsigned magic, version;
  int blocking;
  int unused; /* fills the struct */
} cr_nccl_config;

#define CR_NCCL_CALLS_DO_NOT_WAIT                                                           \
  {                                                                                         \
    .size = sizeof(cr_nccl_config), .magic = 0xcafebeefU, .version = CR_NCCL_LEAST_VERSION, \
    .blocking = 0, .unused = (int)(-2147483647 - 1)                                         \
  }

/* Result, name without "nccl", parameters. */
#define CR_NCCL_SYMBOLS(X)                                                                  \
  X(int, GetVersion, (int *version))                                                        \
  X(int, GetUniqueId, (cr_group_id * id))                                                   \
  X(int, CommInitRankConfig,                                                                \
    (cr_nccl_comm * *comm, int ranks, cr_group_id id, int rank, cr_nccl_config *config))    \
  X(int, CommGetAsyncError, (cr_nccl_comm * comm, int *error))                              \
  X(int, CommFinalize, (cr_nccl_comm * comm))                                               \
  X(int, CommAbort, (cr_nccl_comm * comm))                                                  \
  X(int, CommDestroy, (cr_nccl_comm * comm))                                                \
  X(int, AllReduce,                                                                         \
    (const void *from, void *to, size_t count, int type, int operation, cr_nccl_comm *comm, \
     cudaStream_t stream))                                                                  \
  X(int, Broadcast,                                                                         \
    (const void *from, void *to, size_t count, int type, int root, cr_nccl_comm *comm,      \
     cudaStream_t stream))                                                                  \
  X(int, GroupStart, (void))                                                                \
  X(int, GroupEnd, (void))                                                                  \
  X(const char *, GetErrorString, (int result))

typedef struct cr_nccl {
#define CR_FIELD(result, name, parameters) result(*name) parameters;
  CR_NCCL_SYMBOLS(CR_FIELD)
#undef CR_FIELD
} cr_nccl;

extern const cr_collectives cr_cuda_collectives;

#endif
