/* The functions of cuDNN that the plug-in calls. */
#ifndef CR_CUDA_CUDNN_LIBRARY_H
#define CR_CUDA_CUDNN_LIBRARY_H

#include <cudnn_graph.h>

#include "device/cuda/cuda_private.h"

#define CR_CUDNN_SYMBOLS(X)        \
  X(cudnnGetVersion)               \
  X(cudnnGetErrorString)           \
  X(cudnnCreate)                   \
  X(cudnnDestroy)                  \
  X(cudnnSetStream)                \
  X(cudnnBackendCreateDescriptor)  \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendSetAttribute)      \
  X(cudnnBackendGetAttribute)      \
  X(cudnnBackendFinalize)          \
  X(cudnnBackendExecute)

/* Pointers to the library's functions, called as in its documentation. */
typedef struct cr_cudnn {
#define CR_FIELD(name) __typeof__(&name) name;
  CR_CUDNN_SYMBOLS(CR_FIELD)
#undef CR_FIELD
} cr_cudnn;

/* The library, opened at the first call. Errors: CREMA_E_UNSUPPORTED; the text names the missing
 * part. Logged once, so that the log explains a slow run. */
crema_status cr_cuda_cudnn(const cr_cudnn **out) CREMA_MUST_USE;

/* Whether cuDNN, or with `left` CUDA's last error, reports a lack of memory. */
bool cr_cudnn_lacks_memory(cudnnStatus_t status, cudaError_t left);

/* CREMA_OK, or an error whose text is `what` and cuDNN's own. Leaves no pending CUDA failure.
 * CREMA_E_UNSUPPORTED: cuDNN does not support it; the next row is tried silently. Other codes are
 * failures. A failure during planning is logged, and the next row is tried. */
crema_status cr_cudnn_check(const cr_cudnn *dnn, cudnnStatus_t status,
                            const char *what) CREMA_MUST_USE;

/* The context's handle, made when first needed, with the context's device current. Errors: as
 * above, also if cuDNN is installed but does not start; CREMA_E_NO_MEMORY, after which a later
 * start may succeed. */
crema_status cr_cuda_dnn_handle(crema_context *context, cudnnHandle_t *out) CREMA_MUST_USE;

#endif
