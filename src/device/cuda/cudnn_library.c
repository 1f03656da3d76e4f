/* cuDNN, opened at run time: without it convolutions are matrix products. Only this file,
 * cudnn_graph.c and conv_cudnn.c include its header. A build without the header omits them. */
#include <stdio.h>

#include "core/fail.h"
#include "device/cuda/cudnn_library.h"
#include "device/gpu/library.h"

static cr_cudnn cudnn;
static cr_library_answer answer = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Until 8 the major version is the thousands, since 9 the ten thousands. */
static void tell_version(size_t v, char *missing, size_t size) {
  const size_t major = v >= 90000 ? v / 10000 : v / 1000;
  const size_t minor = v >= 90000 ? v % 10000 / 100 : v % 1000 / 100;
  snprintf(missing, size, "cuDNN is version %zu.%zu, but crema was built for version %d", major,
           minor, CUDNN_MAJOR);
}

/* Another version is installed. */
static bool other_cudnn(char *missing, size_t size) {
  static const char *const names[] = {"libcudnn.so.8", "libcudnn.so"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    void *library = cr_cuda_open_library(names[i]);
    size_t (*version)(void) = NULL;
    if (library == NULL || !cr_library_symbol(library, "cudnnGetVersion", &version)) continue;
    tell_version(version(), missing, size);
    return true;
  }
  return false;
}

static void open_cudnn(char *missing, size_t size) {
  /* cuDNN opens cuBLASLt by its name, so it finds a library that is open already, wherever its file
   * is. */
  (void)cr_cuda_open_cublaslt();
  void *library = cr_cuda_open_library("libcudnn.so.9");
  if (library == NULL) {
    if (!other_cudnn(missing, size)) {
      snprintf(missing, size, "cuDNN (libcudnn.so.9) was not found");
    }
    return;
  }
#define CR_FIND(name)                                        \
  if (!cr_library_symbol(library, #name, &cudnn.name)) {     \
    snprintf(missing, size, "cuDNN has no function " #name); \
  }
  CR_CUDNN_SYMBOLS(CR_FIND)
#undef CR_FIND
  if (missing[0] == '\0' && cudnn.cudnnGetVersion() / 10000 != CUDNN_MAJOR) {
    tell_version(cudnn.cudnnGetVersion(), missing, size);
  }
}

crema_status cr_cuda_cudnn(const cr_cudnn **out) {
  CR_TRY(cr_library_ask(&answer, open_cudnn));
  *out = &cudnn;
  return CREMA_OK;
}

static cudnnStatus_t create(cudnnHandle_t *handle, cudaStream_t stream) {
  cudnnStatus_t status = cudnn.cudnnCreate(handle);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = cudnn.cudnnSetStream(*handle, stream);
  if (status != CUDNN_STATUS_SUCCESS) (void)cudnn.cudnnDestroy(*handle);
  return status;
}

bool cr_cudnn_lacks_memory(cudnnStatus_t status, cudaError_t left) {
  return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
         status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
         left == cudaErrorMemoryAllocation;
}

crema_status cr_cudnn_check(const cr_cudnn *dnn, cudnnStatus_t status, const char *what) {
  if (status == CUDNN_STATUS_SUCCESS) return CREMA_OK;
  const cudaError_t left = cudaGetLastError();
  crema_status code = CREMA_E_UNSUPPORTED;
  if (cr_cudnn_lacks_memory(status, left)) code = CREMA_E_NO_MEMORY;
  else if (CUDNN_STATUS_CATEGORY(status) != CUDNN_STATUS_NOT_SUPPORTED) {
    code = cr_cuda_library_failure();
  }
  return cr_fail(code, "cuDNN, %s: %s", what, dnn->cudnnGetErrorString(status));
}

crema_status cr_cuda_dnn_handle(crema_context *context, cudnnHandle_t *out) {
  cuda_context *state = cr_cuda_context(context);
  const cr_cudnn *dnn = NULL;
  cudnnHandle_t handle = NULL;
  *out = state->dnn;
  if (state->dnn != NULL) return CREMA_OK;
  CR_TRY(cr_cuda_cudnn(&dnn));
  (void)cudaGetLastError(); /* of other code */
  const cudnnStatus_t status = create(&handle, state->stream);
  if (status != CUDNN_STATUS_SUCCESS) {
    const cudaError_t left = cudaGetLastError();
    if (cr_cuda_is_gone()) return cr_fail(CREMA_E_CLOSED, "cuDNN does not start any more");
    if (cr_cudnn_lacks_memory(status, left)) {
      return cr_fail(CREMA_E_NO_MEMORY, "cuDNN does not start: no memory");
    }
    return cr_library_refuse(&answer, "cuDNN does not start: %s", dnn->cudnnGetErrorString(status));
  }
  state->dnn = *out = handle;
  return CREMA_OK;
}

crema_status cr_cuda_dnn_use_stream(const cuda_context *state) {
  if (state->dnn == NULL) return CREMA_OK;
  return cr_cudnn_check(&cudnn, cudnn.cudnnSetStream(state->dnn, state->stream), "a stream");
}

void cr_cuda_close_dnn(cuda_context *state) {
  if (state->dnn != NULL) (void)cudnn.cudnnDestroy(state->dnn);
  state->dnn = NULL;
}

void cr_cuda_dnn_text(char *text, size_t size) {
  const cr_cudnn *dnn = NULL;
  if (cr_cuda_cudnn(&dnn) != CREMA_OK) {
    snprintf(text, size, "no cuDNN");
    return;
  }
  const size_t v = dnn->cudnnGetVersion();
  snprintf(text, size, "cuDNN %zu.%zu.%zu", v / 10000, v % 10000 / 100, v % 100);
}
