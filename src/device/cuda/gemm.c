/* Matrix products over cuBLASLt.
 *
 * cuBLASLt works in column-major order: a row-major (r, c) matrix is its column-major (c, r) one.
 * The product c = op(a) op(b) is therefore computed as c^T = op(b)^T op(a)^T, with swapped
 * operands: the first is b, the second a. Full f32 arithmetic (no TF32), as on the CPU. For FP16
 * this holds for products and sums. Reductions with a varying order are excluded, so that equal
 * inputs give equal bits. A context with fast math allows TF32 and such reductions. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/fail.h"
#include "device/cuda/cuda_private.h"

/* The maximum scratchpad of an algorithm. */
static const size_t workspace_limit = (size_t)32 << 20;

/* Whole blobs have this alignment; images inside a batch may have a smaller one. */
enum { WIDE_ALIGNMENT = 16 };

struct cr_gemm_plan {
  const cr_cublaslt *blas;
  cr_gemm_shape shape;
  bool fast; /* see crema_math */
  /* Held from the moment when the bias' address is put into the descriptor until the work is
   * queued. */
  pthread_mutex_t lock;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t first, second, result;
  cublasLtMatmulAlgo_t wide, narrow; /* for aligned operands, and for any */
  size_t wide_bytes, narrow_bytes;
};

static crema_status check(cublasStatus_t status, const char *what) {
  if (status == CUBLAS_STATUS_SUCCESS) return CREMA_OK;
  /* What one version of cuBLASLt does not support is an invalid value to another. */
  const bool declined = status == CUBLAS_STATUS_NOT_SUPPORTED ||
                        status == CUBLAS_STATUS_INVALID_VALUE ||
                        status == CUBLAS_STATUS_ARCH_MISMATCH;
  crema_status code = declined ? CREMA_E_UNSUPPORTED : cr_cuda_library_failure();
  if (status == CUBLAS_STATUS_ALLOC_FAILED) code = CREMA_E_NO_MEMORY;
  return cr_fail(code, "cuBLASLt, %s: status %d", what, (int)status);
}

/* The cuBLASLt description of a row-major matrix of `rows` rows. */
static crema_status make_layout(const cr_gemm_plan *plan, int64_t rows, int64_t columns,
                                cublasLtMatrixLayout_t *out) {
  const crema_dtype own = plan->shape.type;
  const cudaDataType_t type = own == CREMA_F16    ? CUDA_R_16F
                              : own == CREMA_BF16 ? CUDA_R_16BF
                                                  : CUDA_R_32F;
  return check(
      plan->blas->cublasLtMatrixLayoutCreate(out, type, (uint64_t)columns, (uint64_t)rows, columns),
      "layout");
}

static crema_status set_attribute(const cr_gemm_plan *plan, cublasLtMatmulDescAttributes_t what,
                                  const void *value, size_t bytes) {
  return check(plan->blas->cublasLtMatmulDescSetAttribute(plan->desc, what, value, bytes),
               "attribute");
}

static crema_status make_descriptors(cr_gemm_plan *plan) {
  const cr_cublaslt *blas = plan->blas;
  const cr_gemm_shape *s = &plan->shape;
  const cublasOperation_t first = s->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = s->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasComputeType_t arithmetic =
      plan->fast && s->type == CREMA_F32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  CR_TRY(check(blas->cublasLtMatmulDescCreate(&plan->desc, arithmetic, CUDA_R_32F), "product"));
  CR_TRY(set_attribute(plan, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
  CR_TRY(set_attribute(plan, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
  if (s->bias) {
    /* n values down the columns of the transposed result: along the rows of ours. */
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    CR_TRY(set_attribute(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  }
  CR_TRY(make_layout(plan, s->b_transposed ? s->n : s->k, s->b_transposed ? s->k : s->n,
                     &plan->first));
  CR_TRY(make_layout(plan, s->a_transposed ? s->k : s->m, s->a_transposed ? s->m : s->k,
                     &plan->second));
  return make_layout(plan, s->m, s->n, &plan->result);
}

/* In place, the parts of a sum are added by atomic operations. */
static crema_status set_preferences(const cr_gemm_plan *plan, cublasLtMatmulPreference_t preference,
                                    uint32_t alignment) {
  const cr_cublaslt *blas = plan->blas;
  const uint32_t reductions = plan->fast ? (uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                                               CUBLASLT_REDUCTION_SCHEME_INPLACE
                                         : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  const uint64_t workspace = workspace_limit;
  static const cublasLtMatmulPreferenceAttributes_t ends[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  CR_TRY(
      check(blas->cublasLtMatmulPreferenceSetAttribute(
                preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
            "preference"));
  CR_TRY(check(
      blas->cublasLtMatmulPreferenceSetAttribute(
          preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions),
      "preference"));
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; ++i) {
    CR_TRY(check(blas->cublasLtMatmulPreferenceSetAttribute(preference, ends[i], &alignment,
                                                            sizeof alignment),
                 "preference"));
  }
  return CREMA_OK;
}

static crema_status choose(const cr_gemm_plan *plan, cublasLtHandle_t handle, uint32_t alignment,
                           cublasLtMatmulAlgo_t *algorithm, size_t *bytes) {
  const cr_cublaslt *blas = plan->blas;
  cublasLtMatmulPreference_t preference = NULL;
  cublasLtMatmulHeuristicResult_t result = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
  int found = 0;
  crema_status status;
  CR_TRY(check(blas->cublasLtMatmulPreferenceCreate(&preference), "preference"));
  CR_TRY_GOTO(set_preferences(plan, preference, alignment), done);
  if (plan->shape.bias) {
    /* Nothing is read while an algorithm is chosen, but an absent bias may be refused, and its
     * alignment counts. */
    const uintptr_t address = 4096 + alignment;
    CR_TRY_GOTO(set_attribute(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address, sizeof address),
                done);
  }
  CR_TRY_GOTO(check(blas->cublasLtMatmulAlgoGetHeuristic(handle, plan->desc, plan->first,
                                                         plan->second, plan->result, plan->result,
                                                         preference, 1, &result, &found),
                    "choice of an algorithm"),
              done);
  if (found == 0) result.state = CUBLAS_STATUS_NOT_SUPPORTED;
  CR_TRY_GOTO(check(result.state, "choice of an algorithm"), done);
  *algorithm = result.algo;
  *bytes = result.workspaceSize;
done:
  (void)blas->cublasLtMatmulPreferenceDestroy(preference);
  return status;
}

static crema_status choose_both(cr_gemm_plan *plan, crema_context *context) {
  cublasLtHandle_t handle = NULL;
  int before = -1;
  CR_TRY(cr_gpu_enter(context->device, &before));
  crema_status status = cr_cuda_blas_handle(context, &handle);
  if (status == CREMA_OK) {
    status = choose(plan, handle, WIDE_ALIGNMENT, &plan->wide, &plan->wide_bytes);
  }
  if (status == CREMA_OK) {
    status = choose(plan, handle, (uint32_t)crema_dtype_size(plan->shape.type), &plan->narrow,
                    &plan->narrow_bytes);
  }
  cr_gpu_leave(before);
  return status;
}

crema_status cr_gemm_plan_create(crema_context *context, const cr_gemm_shape *shape,
                                 cr_gemm_plan **out, size_t *workspace) {
  const cr_cublaslt *blas = NULL;
  crema_status status;
  CR_TRY(cr_cuda_cublaslt(&blas));
  if (shape->m == 0 || shape->n == 0 || shape->k == 0) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "a product of %" PRId64 " x %" PRId64 " x %" PRId64 " is empty", shape->m,
                   shape->n, shape->k);
  }
  cr_gemm_plan *plan = calloc(1, sizeof *plan);
  if (plan == NULL) return cr_fail_memory(sizeof *plan, "a matrix product");
  pthread_mutex_init(&plan->lock, NULL);
  plan->blas = blas;
  plan->shape = *shape;
  plan->fast = context->fast_math;
  CR_TRY_GOTO(make_descriptors(plan), fail);
  CR_TRY_GOTO(choose_both(plan, context), fail);
  *workspace = plan->wide_bytes > plan->narrow_bytes ? plan->wide_bytes : plan->narrow_bytes;
  *out = plan;
  return CREMA_OK;
fail:
  cr_gemm_plan_destroy(plan);
  return status;
}

void cr_gemm_plan_destroy(cr_gemm_plan *plan) {
  if (plan == NULL) return;
  const cr_cublaslt *blas = plan->blas;
  if (plan->result != NULL) (void)blas->cublasLtMatrixLayoutDestroy(plan->result);
  if (plan->second != NULL) (void)blas->cublasLtMatrixLayoutDestroy(plan->second);
  if (plan->first != NULL) (void)blas->cublasLtMatrixLayoutDestroy(plan->first);
  if (plan->desc != NULL) (void)blas->cublasLtMatmulDescDestroy(plan->desc);
  pthread_mutex_destroy(&plan->lock);
  free(plan);
}

crema_status cr_gemm_plan_run(cr_gemm_plan *plan, crema_context *context, const void *a,
                              const void *b, const void *bias, bool accumulate, void *c,
                              crema_devptr workspace) {
  const float one = 1, beta = accumulate ? 1 : 0;
  cublasLtHandle_t handle = NULL;
  CR_TRY(cr_cuda_blas_handle(context, &handle));
  cr_gpu_count_launch(context);
  const uintptr_t ends = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)bias;
  const bool wide = ends % WIDE_ALIGNMENT == 0;
  crema_status status = CREMA_OK;
  if (plan->shape.bias) {
    pthread_mutex_lock(&plan->lock);
    status = set_attribute(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
  }
  if (status == CREMA_OK) {
    status =
        check(plan->blas->cublasLtMatmul(
                  handle, plan->desc, &one, b, plan->first, a, plan->second, &beta, c, plan->result,
                  c, plan->result, wide ? &plan->wide : &plan->narrow,
                  (void *)workspace.address, /* NOLINT */
                  wide ? plan->wide_bytes : plan->narrow_bytes, cr_cuda_context(context)->stream),
              "product");
  }
  if (plan->shape.bias) pthread_mutex_unlock(&plan->lock);
  return status;
}
