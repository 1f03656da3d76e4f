/* cuBLASLt on the host, column-major as its documentation has it, for testing how the plug-in calls
 * it. Attributes that the plug-in does not use are refused. */
#include <cublasLt.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device/gpu/kernels/values.h"
#include "fake_driver.h"

enum { NARROW = 4, WORKSPACE = 1000 };

typedef struct fake_layout {
  int64_t rows, cols, ld;
  crema_dtype type;
} fake_layout;

typedef struct fake_desc {
  cublasComputeType_t compute;
  cublasOperation_t op_a, op_b;
  cublasLtEpilogue_t epilogue;
  const void *bias;
  atomic_bool loaded; /* the code of the product */
} fake_desc;

typedef struct fake_preference {
  uint64_t workspace;
  uint32_t alignment[4], reductions;
} fake_preference;

/* What the heuristics decide is kept in the algorithm's opaque data. */
typedef struct fake_algorithm {
  uint32_t alignment, reductions, magic;
} fake_algorithm;

enum { MAGIC = 0x4372656d };

/* For tests. The arithmetic of the last product, and the reductions that its algorithm may use. */
int fake_last_compute(void);
int fake_last_reductions(void);

static struct { atomic_int compute, reductions; } last;

int fake_last_compute(void) {
  return last.compute;
}
int fake_last_reductions(void) {
  return last.reductions;
}

/* Like the real one, it needs a context of the calling thread, and makes none. FAKE_CUBLASLT_STATUS
 * is for a library that the driver cannot serve. */
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  const char *given = getenv("FAKE_CUBLASLT_STATUS");
  if (given != NULL && given[0] != '\0') return (cublasStatus_t)atoi(given);
  if (fake_works_on() || fake_bound() < 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = calloc(1, 8);
  fake_keep(*handle);
  return *handle != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (fake_unloaded()) abort();
  free(handle);
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion(void) {
  return 130000;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  const bool half = type == CUDA_R_16F || type == CUDA_R_16BF;
  if ((type != CUDA_R_32F && !half) || ld < (int64_t)rows || rows == 0 || cols == 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  fake_layout *layout = calloc(1, sizeof *layout);
  if (layout == NULL) return CUBLAS_STATUS_ALLOC_FAILED;
  *layout = (fake_layout){(int64_t)rows, (int64_t)cols, ld, CREMA_F32};
  if (half) layout->type = type == CUDA_R_16F ? CREMA_F16 : CREMA_BF16;
  *out = (cublasLtMatrixLayout_t)layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  free(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if ((compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32) ||
      scale != CUDA_R_32F) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  fake_desc *desc = calloc(1, sizeof *desc);
  if (desc == NULL) return CUBLAS_STATUS_ALLOC_FAILED;
  desc->compute = compute;
  desc->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  *out = (cublasLtMatmulDesc_t)desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  free(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t opaque,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes) {
  fake_desc *desc = (fake_desc *)opaque;
  void *to = NULL;
  size_t size = 0;
  switch (what) {
    case CUBLASLT_MATMUL_DESC_TRANSA: to = &desc->op_a, size = sizeof desc->op_a; break;
    case CUBLASLT_MATMUL_DESC_TRANSB: to = &desc->op_b, size = sizeof desc->op_b; break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: to = &desc->epilogue, size = sizeof desc->epilogue; break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: to = &desc->bias, size = sizeof desc->bias; break;
    default: break;
  }
  if (to == NULL || bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
  fake_preference *preference = calloc(1, sizeof *preference);
  if (preference == NULL) return CUBLAS_STATUS_ALLOC_FAILED;
  for (int i = 0; i < 4; ++i) preference->alignment[i] = 256;
  *out = (cublasLtMatmulPreference_t)preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  free(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t opaque,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t bytes) {
  fake_preference *p = (fake_preference *)opaque;
  void *to = NULL;
  size_t size = sizeof(uint32_t);
  switch (what) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      to = &p->workspace, size = sizeof p->workspace;
      break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: to = &p->reductions; break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: to = &p->alignment[0]; break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: to = &p->alignment[1]; break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: to = &p->alignment[2]; break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: to = &p->alignment[3]; break;
    default: break;
  }
  if (to == NULL || bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/* op(a) is (m, k), op(b) (k, n), the result (m, n). */
static bool shapes_fit(const fake_desc *d, const fake_layout *a, const fake_layout *b,
                       const fake_layout *c) {
  const bool ta = d->op_a == CUBLAS_OP_T, tb = d->op_b == CUBLAS_OP_T;
  if (d->compute == CUBLAS_COMPUTE_32F_FAST_TF32 && c->type != CREMA_F32) return false;
  return a->type == c->type && b->type == c->type && (ta ? a->cols : a->rows) == c->rows &&
         (tb ? b->rows : b->cols) == c->cols &&
         (ta ? a->rows : a->cols) == (tb ? b->cols : b->rows);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *result, int *found) {
  const fake_preference *p = (const fake_preference *)preference;
  if (fake_works_on()) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (fake_bound() < 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (handle == NULL || c != d || wanted != 1 || p->workspace < WORKSPACE ||
      !shapes_fit((const fake_desc *)desc, (const fake_layout *)a, (const fake_layout *)b,
                  (const fake_layout *)d)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  /* Stricter than the real one, so that the code for this case runs. */
  if (((const fake_desc *)desc)->epilogue == CUBLASLT_EPILOGUE_BIAS &&
      (((const fake_layout *)d)->cols == 1 || ((const fake_layout *)d)->rows == 1)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  fake_algorithm algorithm = {
      .alignment = p->alignment[0], .reductions = p->reductions, .magic = MAGIC};
  for (int i = 0; i < 4; ++i) {
    if (p->alignment[i] < algorithm.alignment) algorithm.alignment = p->alignment[i];
  }
  memset(result, 0, sizeof *result);
  memcpy(&result->algo, &algorithm, sizeof algorithm);
  result->workspaceSize = WORKSPACE;
  result->state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

/* Whether factors are rounded to TF32. As with NVIDIA's libraries, NVIDIA_TF32_OVERRIDE=0 turns it
 * off. */
static bool rounds(const fake_desc *d) {
  const char *given = getenv("NVIDIA_TF32_OVERRIDE");
  const bool off = given != NULL && strcmp(given, "0") == 0;
  return d->compute == CUBLAS_COMPUTE_32F_FAST_TF32 && !off;
}

/* A factor as the arithmetic has it: TF32 has 10 bits of fraction. */
static double factor(bool rounded, float value) {
  uint32_t bits;
  if (!rounded) return (double)value;
  memcpy(&bits, &value, sizeof bits);
  bits &= UINT32_C(0xffffe000);
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

static cr_hd_values values_of(const fake_layout *layout, const void *memory) {
  return (cr_hd_values){(void *)(uintptr_t)memory, (int32_t)layout->type}; /* NOLINT */
}

/* A product with its values. */
typedef struct fake_product {
  fake_desc desc;
  fake_layout a_layout, b_layout, d_layout;
  const void *a, *b;
  void *d, *workspace;
  float scale, old;
} fake_product;

static void run(const void *data) {
  const fake_product *product = data;
  const fake_desc *m = &product->desc;
  const fake_layout *la = &product->a_layout, *lb = &product->b_layout, *ld = &product->d_layout;
  const cr_hd_values fa = values_of(la, product->a), fb = values_of(lb, product->b);
  const cr_hd_values out = values_of(ld, product->d), bias = values_of(ld, m->bias);
  const float scale = product->scale, old = product->old;
  if (fake_is_idle()) return;
  const bool ta = m->op_a == CUBLAS_OP_T, tb = m->op_b == CUBLAS_OP_T;
  const bool rounded = rounds(m);
  const int64_t inner = ta ? la->rows : la->cols;
  for (int64_t j = 0; j < ld->cols; ++j) {
    for (int64_t i = 0; i < ld->rows; ++i) {
      double sum = 0;
      for (int64_t p = 0; p < inner; ++p) {
        const float left = cr_get(fa, ta ? i * la->ld + p : p * la->ld + i);
        const float right = cr_get(fb, tb ? p * lb->ld + j : j * lb->ld + p);
        sum += factor(rounded, left) * factor(rounded, right);
      }
      sum *= (double)scale;
      if (old != 0) sum += (double)old * (double)cr_get(out, j * ld->ld + i);
      if (m->epilogue == CUBLASLT_EPILOGUE_BIAS) sum += (double)cr_get(bias, i);
      cr_put(out, j * ld->ld + i, (float)sum);
    }
  }
  memset(product->workspace, 0xff, WORKSPACE);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t bytes, cudaStream_t stream) {
  fake_desc *m = (fake_desc *)desc;
  const fake_layout *la = (const fake_layout *)a_layout, *lb = (const fake_layout *)b_layout;
  const fake_layout *ld = (const fake_layout *)d_layout;
  fake_algorithm algorithm;
  memcpy(&algorithm, algo, sizeof algorithm);
  const uintptr_t ends = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d;
  if (fake_bound() < 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (handle == NULL || stream == NULL || c != d || c_layout != d_layout || workspace == NULL ||
      bytes < WORKSPACE || algorithm.magic != MAGIC || ends % algorithm.alignment != 0 ||
      !shapes_fit(m, la, lb, ld) || (m->epilogue == CUBLASLT_EPILOGUE_BIAS && m->bias == NULL)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  fake_load_code(&m->loaded);
  last.compute = (int)m->compute;
  last.reductions = (int)algorithm.reductions;
  const fake_product product = {.desc = *m,
                                .a_layout = *la,
                                .b_layout = *lb,
                                .d_layout = *ld,
                                .a = a,
                                .b = b,
                                .d = d,
                                .workspace = workspace,
                                .scale = *(const float *)alpha,
                                .old = *(const float *)beta};
  if (!fake_record(stream, run, &product, sizeof product)) run(&product);
  return CUBLAS_STATUS_SUCCESS;
}
