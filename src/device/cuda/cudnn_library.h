/* The functions of cuDNN that the plug-in calls. */
#ifndef CR_CUDA_CUDNN_LIBRARY_H
#define CR_CUDA_CUDNN_LIBRARY_H

#include <cudnn.h>

#include "device/cuda/cuda_private.h"

#define CR_CUDNN_SYMBOLS(X)                         \
  X(cudnnGetVersion)                                \
  X(cudnnGetErrorString)                            \
  X(cudnnCreate)                                    \
  X(cudnnDestroy)                                   \
  X(cudnnSetStream)                                 \
  X(cudnnCreateTensorDescriptor)                    \
  X(cudnnDestroyTensorDescriptor)                   \
  X(cudnnSetTensorNdDescriptor)                     \
  X(cudnnCreateFilterDescriptor)                    \
  X(cudnnDestroyFilterDescriptor)                   \
  X(cudnnSetFilterNdDescriptor)                     \
  X(cudnnCreateConvolutionDescriptor)               \
  X(cudnnDestroyConvolutionDescriptor)              \
  X(cudnnSetConvolutionNdDescriptor)                \
  X(cudnnSetConvolutionGroupCount)                  \
  X(cudnnSetConvolutionMathType)                    \
  X(cudnnGetConvolutionForwardAlgorithm_v7)         \
  X(cudnnGetConvolutionBackwardDataAlgorithm_v7)    \
  X(cudnnGetConvolutionBackwardFilterAlgorithm_v7)  \
  X(cudnnGetConvolutionForwardWorkspaceSize)        \
  X(cudnnGetConvolutionBackwardDataWorkspaceSize)   \
  X(cudnnGetConvolutionBackwardFilterWorkspaceSize) \
  X(cudnnConvolutionForward)                        \
  X(cudnnConvolutionBackwardData)                   \
  X(cudnnConvolutionBackwardFilter)

/* Pointers to the library's functions, called as in its documentation. */
typedef struct cr_cudnn {
#define CR_FIELD(name) __typeof__(&name) name;
  CR_CUDNN_SYMBOLS(CR_FIELD)
#undef CR_FIELD
} cr_cudnn;

/* The library, opened at the first call. Errors: CREMA_E_UNSUPPORTED, the text says what is
 * missing; logged once, so that the log explains a slow run. */
crema_status cr_cuda_cudnn(const cr_cudnn **out) CREMA_MUST_USE;

/* Whether cuDNN, or with `left` what CUDA's last error was, says that there is too little memory.
 */
bool cr_cudnn_lacks_memory(cudnnStatus_t status, cudaError_t left);

/* The context's handle, made when first needed, with the context's device current. Errors: as
 * above, also when cuDNN is there and does not start; CREMA_E_NO_MEMORY, after which it may well
 * start the next time. */
crema_status cr_cuda_dnn_handle(crema_context *context, cudnnHandle_t *out) CREMA_MUST_USE;

#endif
