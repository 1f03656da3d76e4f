/* cuBLASLt, opened at run time: a machine without it runs everything that needs no matrix product.
 */
#include <stdio.h>

#include "core/fail.h"
#include "device/cuda/cuda_private.h"
#include "device/gpu/library.h"

static cr_cublaslt cublaslt;
static cr_library_answer answer = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The toolkit's version comes first, because a driver that supports the toolkit supports this
 * version. */
void *cr_cuda_open_cublaslt(void) {
  static const int majors[] = {CUDART_VERSION / 1000, 13, 12, 11};
  char name[32];
  void *library = NULL;
  for (size_t i = 0; library == NULL && i < sizeof majors / sizeof majors[0]; ++i) {
    snprintf(name, sizeof name, "libcublasLt.so.%d", majors[i]);
    library = cr_cuda_open_library(name);
  }
  return library;
}

static void open_cublaslt(char *missing, size_t size) {
  void *library = cr_cuda_open_cublaslt();
  if (library == NULL) {
    snprintf(missing, size, "cuBLASLt (libcublasLt.so.%d) was not found", CUDART_VERSION / 1000);
    return;
  }
#define CR_FIND(name)                                           \
  if (!cr_library_symbol(library, #name, &cublaslt.name)) {     \
    snprintf(missing, size, "cuBLASLt has no function " #name); \
  }
  CR_CUBLASLT_SYMBOLS(CR_FIND)
#undef CR_FIND
}

crema_status cr_cuda_cublaslt(const cr_cublaslt **out) {
  CR_TRY(cr_library_ask(&answer, open_cublaslt));
  *out = &cublaslt;
  return CREMA_OK;
}

crema_status cr_cuda_blas_handle(crema_context *context, cublasLtHandle_t *out) {
  cuda_context *state = cr_cuda_context(context);
  const cr_cublaslt *blas = NULL;
  *out = state->blas;
  if (state->blas != NULL) return CREMA_OK;
  CR_TRY(cr_cuda_cublaslt(&blas));
  (void)cudaGetLastError(); /* of other code */
  const cublasStatus_t status = blas->cublasLtCreate(&state->blas);
  *out = state->blas;
  if (status == CUBLAS_STATUS_SUCCESS) return CREMA_OK;
  *out = state->blas = NULL;
  if (status == CUBLAS_STATUS_ALLOC_FAILED || cudaGetLastError() == cudaErrorMemoryAllocation) {
    return cr_fail(CREMA_E_NO_MEMORY, "cuBLASLt does not start: no memory");
  }
  if (cr_cuda_is_gone()) return cr_fail(CREMA_E_CLOSED, "cuBLASLt does not start any more");
  return cr_library_refuse(&answer, "cuBLASLt does not start: status %d", (int)status);
}

void cr_cuda_close_blas(cuda_context *state) {
  if (state->blas != NULL) (void)cublaslt.cublasLtDestroy(state->blas);
  state->blas = NULL;
}

void cr_cuda_blas_text(char *text, size_t size) {
  const cr_cublaslt *blas = NULL;
  if (cr_cuda_cublaslt(&blas) != CREMA_OK) {
    snprintf(text, size, "no cuBLASLt");
    return;
  }
  const size_t v = blas->cublasLtGetVersion();
  snprintf(text, size, "cuBLASLt %zu.%zu", v / 10000, v % 10000 / 100);
}
