/* Shared by the files of the plug-in that include CUDA headers. */
#ifndef CR_CUDA_CUDA_PRIVATE_H
#define CR_CUDA_CUDA_PRIVATE_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "device/backend/backend.h"
#include "device/gpu/plugin.h"
#include "device/gpu/rows.h"

/* The plug-in's state of a device: how threads wait for it (CREMA_CUDA_WAIT). */
typedef struct cuda_wait {
  const char *name;
  bool sleeps;
  unsigned event_flags;
} cuda_wait;

static inline const cuda_wait *cr_cuda_wait(const crema_device *device) {
  return device->state;
}

/* The plug-in's state of a context. */
typedef struct cuda_context {
  cudaStream_t queue;         /* of the context's work */
  cudaStream_t stream;        /* where the context's thread puts its work: `queue` or `recorder` */
  cudaEvent_t done;           /* on which a thread sleeps; NULL: threads wait for the stream */
  cr_gpu_fault *fault;        /* in page-locked memory */
  cr_gpu_fault *device_fault; /* the same, by its device address */
  cublasLtHandle_t blas;      /* made when first needed; NULL before */
  void *dnn;                  /* likewise; a cudnnHandle_t */
  /* Of cuda_graph.c: */
  cudaStream_t recorder; /* NULL: nothing was recorded yet */
  uint64_t *passes;      /* see cr_gpu_passes; device memory */
  bool counts;           /* work that is being recorded reads `passes` */
  const char *why;       /* the recording was interrupted */
  cr_device_graph *interrupted;
} cuda_context;

static inline cuda_context *cr_cuda_context(const crema_context *context) {
  return context->state;
}

/* CREMA_OK, or an error whose text is `what` and CUDA's own. Leaves no pending CUDA failure. */
crema_status cr_cuda_check(cudaError_t error, const char *what) CREMA_MUST_USE;

/* Whether the driver has been unloaded, as it is at the end of the process. */
bool cr_cuda_is_gone(void);

/* The status of a failure inside a library: CREMA_E_CLOSED if the driver has been unloaded, else
 * CREMA_E_DEVICE. */
crema_status cr_cuda_library_failure(void) CREMA_MUST_USE;

/* Whether this process has opened the device, in crema or elsewhere. Opens none. True if the driver
 * cannot be queried. */
bool cr_cuda_is_open(int index);

/* If the calling thread records work, of whatever context: ends the recording and starts the work,
 * as `why`, static text, says. Errors: CREMA_E_DEVICE; the work is lost. */
crema_status cr_cuda_interrupt(const char *why) CREMA_MUST_USE;

/* Frees the context's parts of cuda_graph.c; its work must be done. */
void cr_cuda_graph_close(cuda_context *state);

/* Loads the kernels of a device function, or of all, into the current device. The runtime otherwise
 * loads a kernel when it is first started. */
cudaError_t cr_cuda_load_kernel(int function);
crema_status cr_cuda_load_kernels(void) CREMA_MUST_USE;

/* Libraries that are opened at run time: */

/* Opens the library file `name`. It searches the folders of CREMA_CUDA_PATH, the loader's folders,
 * CUDA_HOME and CUDA's default folders. NULL if it is not found. Never closed. */
void *cr_cuda_open_library(const char *name);

#define CR_CUBLASLT_SYMBOLS(X)       \
  X(cublasLtCreate)                  \
  X(cublasLtDestroy)                 \
  X(cublasLtGetVersion)              \
  X(cublasLtMatmul)                  \
  X(cublasLtMatmulAlgoGetHeuristic)  \
  X(cublasLtMatmulDescCreate)        \
  X(cublasLtMatmulDescDestroy)       \
  X(cublasLtMatmulDescSetAttribute)  \
  X(cublasLtMatrixLayoutCreate)      \
  X(cublasLtMatrixLayoutDestroy)     \
  X(cublasLtMatmulPreferenceCreate)  \
  X(cublasLtMatmulPreferenceDestroy) \
  X(cublasLtMatmulPreferenceSetAttribute)

/* Pointers to the library's functions, called as in its documentation. */
typedef struct cr_cublaslt {
#define CR_FIELD(name) __typeof__(&name) name;
  CR_CUBLASLT_SYMBOLS(CR_FIELD)
#undef CR_FIELD
} cr_cublaslt;

/* The library, opened at the first call. Errors: CREMA_E_UNSUPPORTED; the text names the missing
 * part. Logged once, so that the log explains a slow run. */
crema_status cr_cuda_cublaslt(const cr_cublaslt **out) CREMA_MUST_USE;

/* The library as the loader knows it, opened if it can be found; NULL otherwise. */
void *cr_cuda_open_cublaslt(void);

/* The context's handle, made when first needed, with the context's device current. Errors: as
 * cr_cuda_cublaslt, also if the library exists but does not start; CREMA_E_NO_MEMORY. */
crema_status cr_cuda_blas_handle(crema_context *context, cublasLtHandle_t *out) CREMA_MUST_USE;

/* Destroys the handle that the context has, if any. The dnn calls exist if the build has cuDNN's
 * header, CREMA_CUDNN. */
void cr_cuda_close_blas(cuda_context *state);
void cr_cuda_close_dnn(cuda_context *state);

/* Convolutions that follow go to state->stream. */
crema_status cr_cuda_dnn_use_stream(const cuda_context *state) CREMA_MUST_USE;

/* "cuBLASLt 13.0" and "cuDNN 9.19.0", or the missing part. */
void cr_cuda_blas_text(char *text, size_t size);
void cr_cuda_dnn_text(char *text, size_t size);

/* The rows that need cuDNN, best first within an op: */

#define CR_CUDNN_ROWS(X)     \
  X(conv_fwd_f32_cudnn)      \
  X(conv_bwd_data_f32_cudnn) \
  X(conv_bwd_weights_f32_cudnn)

#define CR_CUDNN_DECLARE(name) extern const cr_gpu_row cr_##name;
CR_CUDNN_ROWS(CR_CUDNN_DECLARE)
#undef CR_CUDNN_DECLARE

#endif
