/* How the plug-in is put together: the parts that know CUDA. */
#ifndef CR_CUDA_CUDA_PRIVATE_H
#define CR_CUDA_CUDA_PRIVATE_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "device/cuda/launch.h"
#include "device/device.h"

/* What the plug-in keeps for a context. */
typedef struct cuda_context {
  cudaStream_t stream;
  cr_cuda_fault *fault;        /* in page-locked memory */
  cr_cuda_fault *device_fault; /* the same, as the device sees it */
  cublasLtHandle_t blas;       /* made when first needed; NULL before */
  cudnnHandle_t dnn;           /* likewise */
} cuda_context;

cuda_context *cr_cuda_context(const crema_context *context);

/* CREMA_OK, or an error whose text is `what` and CUDA's own. Leaves no pending CUDA failure. */
crema_status cr_cuda_check(cudaError_t error, const char *what) CREMA_MUST_USE;

/* ---- cuda_libraries.c: the libraries that are opened at run time ---- */

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

#define CR_CUDNN_SYMBOLS(X)                        \
  X(cudnnGetVersion)                               \
  X(cudnnGetErrorString)                           \
  X(cudnnCreate)                                   \
  X(cudnnDestroy)                                  \
  X(cudnnSetStream)                                \
  X(cudnnCreateTensorDescriptor)                   \
  X(cudnnDestroyTensorDescriptor)                  \
  X(cudnnSetTensorNdDescriptor)                    \
  X(cudnnCreateFilterDescriptor)                   \
  X(cudnnDestroyFilterDescriptor)                  \
  X(cudnnSetFilterNdDescriptor)                    \
  X(cudnnCreateConvolutionDescriptor)              \
  X(cudnnDestroyConvolutionDescriptor)             \
  X(cudnnSetConvolutionNdDescriptor)               \
  X(cudnnSetConvolutionGroupCount)                 \
  X(cudnnSetConvolutionMathType)                   \
  X(cudnnGetConvolutionForwardAlgorithm_v7)        \
  X(cudnnGetConvolutionBackwardDataAlgorithm_v7)   \
  X(cudnnGetConvolutionBackwardFilterAlgorithm_v7) \
  X(cudnnConvolutionForward)                       \
  X(cudnnConvolutionBackwardData)                  \
  X(cudnnConvolutionBackwardFilter)

/* Pointers to the libraries' functions, called as in their documentation. */
typedef struct cr_cublaslt {
#define CR_FIELD(name) __typeof__(&name) name;
  CR_CUBLASLT_SYMBOLS(CR_FIELD)
} cr_cublaslt;
typedef struct cr_cudnn {
  CR_CUDNN_SYMBOLS(CR_FIELD)
#undef CR_FIELD
} cr_cudnn;

/* The library, opened at the first call. Errors: CREMA_E_UNSUPPORTED, the text says what is
 * missing; told in the log once, so that a slow run is no riddle. */
crema_status cr_cuda_cublaslt(const cr_cublaslt **out) CREMA_MUST_USE;
crema_status cr_cuda_cudnn(const cr_cudnn **out) CREMA_MUST_USE;

/* The context's handles, made when first needed. Errors: as above, CREMA_E_DEVICE. */
crema_status cr_cuda_blas_handle(crema_context *context, cublasLtHandle_t *out) CREMA_MUST_USE;
crema_status cr_cuda_dnn_handle(crema_context *context, cudnnHandle_t *out) CREMA_MUST_USE;

/* Destroys the handles that the context has. */
void cr_cuda_close_handles(cuda_context *state);

/* "cuBLASLt 13.0.2, cuDNN 9.19.0", or what is missing. */
void cr_cuda_library_text(char *text, size_t size);

/* ---- the table, in cuda_device.c ---- */

extern const cr_backend cr_backend_cuda;

#endif
