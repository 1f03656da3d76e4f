/* cuBLASLt and cuDNN, opened at run time: a machine without them runs everything that needs
 * neither. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "device/cuda/cuda_private.h"

enum { PATH = 4096, TEXT = 256 };

/* ---- finding ---- */

/* Opens `name` where the loader looks, then under CUDA_HOME, then where CUDA installs itself. */
static void *open_library(const char *name) {
  static const char *const folders[] = {"lib64", "lib"};
  const char *home = getenv("CUDA_HOME");
  const char *roots[] = {home, "/usr/local/cuda"};
  char path[PATH];
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  for (size_t r = 0; library == NULL && r < sizeof roots / sizeof roots[0]; r++) {
    if (roots[r] == NULL || roots[r][0] == '\0') continue;
    for (size_t f = 0; library == NULL && f < sizeof folders / sizeof folders[0]; f++) {
      const int n = snprintf(path, sizeof path, "%s/%s/%s", roots[r], folders[f], name);
      if (n > 0 && (size_t)n < sizeof path) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
  }
  return library;
}

/* C has no conversion from an object's address to a function's. */
static bool find_symbol(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

/* What became of a library: asked for once a process. */
typedef struct library_answer {
  pthread_mutex_t lock;
  bool asked;
  char missing[TEXT]; /* why there is none; empty: it is there */
} library_answer;

typedef void library_opener(char *missing, size_t size);

static crema_status ask(library_answer *answer, library_opener *opener) {
  char missing[TEXT];
  pthread_mutex_lock(&answer->lock);
  if (!answer->asked) {
    opener(answer->missing, sizeof answer->missing);
    if (answer->missing[0] != '\0') cr_log_warning("%s", answer->missing);
    answer->asked = true;
  }
  memcpy(missing, answer->missing, sizeof missing);
  pthread_mutex_unlock(&answer->lock);
  return missing[0] == '\0' ? CREMA_OK : cr_fail(CREMA_E_UNSUPPORTED, "%s", missing);
}

/* ---- cuBLASLt ---- */

static cr_cublaslt cublaslt;

static void open_cublaslt(char *missing, size_t size) {
  void *library = open_library("libcublasLt.so.13");
  if (library == NULL) library = open_library("libcublasLt.so.12");
  if (library == NULL) {
    snprintf(missing, size, "cuBLASLt (libcublasLt.so.13) was not found");
    return;
  }
#define CR_FIND(name)                                           \
  if (!find_symbol(library, #name, &cublaslt.name)) {           \
    snprintf(missing, size, "cuBLASLt has no function " #name); \
  }
  CR_CUBLASLT_SYMBOLS(CR_FIND)
#undef CR_FIND
}

crema_status cr_cuda_cublaslt(const cr_cublaslt **out) {
  static library_answer answer = {.lock = PTHREAD_MUTEX_INITIALIZER};
  CR_TRY(ask(&answer, open_cublaslt));
  *out = &cublaslt;
  return CREMA_OK;
}

/* ---- cuDNN ---- */

static cr_cudnn cudnn;

/* Until 8 the major version is the thousands, since 9 the ten thousands. */
static void tell_version(size_t v, char *missing, size_t size) {
  const size_t major = v >= 90000 ? v / 10000 : v / 1000;
  const size_t minor = v >= 90000 ? v % 10000 / 100 : v % 1000 / 100;
  snprintf(missing, size, "cuDNN is version %zu.%zu, but crema was built for version %d", major,
           minor, CUDNN_MAJOR);
}

/* Another version is there: said in one sentence. */
static bool other_cudnn(char *missing, size_t size) {
  static const char *const names[] = {"libcudnn.so.8", "libcudnn.so"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    void *library = open_library(names[i]);
    size_t (*version)(void) = NULL;
    if (library == NULL || !find_symbol(library, "cudnnGetVersion", &version)) continue;
    tell_version(version(), missing, size);
    return true;
  }
  return false;
}

static void open_cudnn(char *missing, size_t size) {
  void *library = open_library("libcudnn.so.9");
  if (library == NULL) {
    if (!other_cudnn(missing, size)) {
      snprintf(missing, size, "cuDNN (libcudnn.so.9) was not found");
    }
    return;
  }
#define CR_FIND(name)                                        \
  if (!find_symbol(library, #name, &cudnn.name)) {           \
    snprintf(missing, size, "cuDNN has no function " #name); \
  }
  CR_CUDNN_SYMBOLS(CR_FIND)
#undef CR_FIND
  if (missing[0] == '\0' && cudnn.cudnnGetVersion() / 10000 != CUDNN_MAJOR) {
    tell_version(cudnn.cudnnGetVersion(), missing, size);
  }
}

crema_status cr_cuda_cudnn(const cr_cudnn **out) {
  static library_answer answer = {.lock = PTHREAD_MUTEX_INITIALIZER};
  CR_TRY(ask(&answer, open_cudnn));
  *out = &cudnn;
  return CREMA_OK;
}

/* ---- handles ---- */

crema_status cr_cuda_blas_handle(crema_context *context, cublasLtHandle_t *out) {
  cuda_context *state = cr_cuda_context(context);
  const cr_cublaslt *blas = NULL;
  CR_TRY(cr_cuda_cublaslt(&blas));
  if (state->blas == NULL) {
    const cublasStatus_t status = blas->cublasLtCreate(&state->blas);
    if (status != CUBLAS_STATUS_SUCCESS) {
      state->blas = NULL;
      return cr_fail(CREMA_E_DEVICE, "cuBLASLt does not start: status %d", (int)status);
    }
  }
  *out = state->blas;
  return CREMA_OK;
}

crema_status cr_cuda_dnn_handle(crema_context *context, cudnnHandle_t *out) {
  cuda_context *state = cr_cuda_context(context);
  const cr_cudnn *dnn = NULL;
  CR_TRY(cr_cuda_cudnn(&dnn));
  if (state->dnn == NULL) {
    cudnnHandle_t handle = NULL;
    cudnnStatus_t status = dnn->cudnnCreate(&handle);
    if (status == CUDNN_STATUS_SUCCESS) {
      status = dnn->cudnnSetStream(handle, state->stream);
      if (status != CUDNN_STATUS_SUCCESS) (void)dnn->cudnnDestroy(handle);
    }
    if (status != CUDNN_STATUS_SUCCESS) {
      return cr_fail(CREMA_E_DEVICE, "cuDNN does not start: %s", dnn->cudnnGetErrorString(status));
    }
    state->dnn = handle;
  }
  *out = state->dnn;
  return CREMA_OK;
}

void cr_cuda_close_handles(cuda_context *state) {
  if (state->dnn != NULL) (void)cudnn.cudnnDestroy(state->dnn);
  if (state->blas != NULL) (void)cublaslt.cublasLtDestroy(state->blas);
  state->dnn = NULL;
  state->blas = NULL;
}

void cr_cuda_library_text(char *text, size_t size) {
  const cr_cublaslt *blas = NULL;
  const cr_cudnn *dnn = NULL;
  char first[40] = "no cuBLASLt", second[40] = "no cuDNN";
  if (cr_cuda_cublaslt(&blas) == CREMA_OK) {
    const size_t v = blas->cublasLtGetVersion();
    snprintf(first, sizeof first, "cuBLASLt %zu.%zu", v / 10000, v % 10000 / 100);
  }
  if (cr_cuda_cudnn(&dnn) == CREMA_OK) {
    const size_t v = dnn->cudnnGetVersion();
    snprintf(second, sizeof second, "cuDNN %zu.%zu.%zu", v / 10000, v % 10000 / 100, v % 100);
  }
  snprintf(text, size, "%s, %s", first, second);
}
