/* Matrix products: by CLBlast, or by crema's own kernel. */
#include "device/opencl/opencl_product.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/fail.h"

/* The tiles of product.cl; the options of its program say the same. */
typedef struct tile_shape {
  int rows, columns, lanes_down, lanes_across;
  const char *options;
} tile_shape;

static const tile_shape cpu_tile = {128, 64, 1, 1,
                                    " -D TM=128 -D TN=64 -D TK=64 -D WM=128 -D WN=64"};
static const tile_shape gpu_tile = {64, 64, 16, 16, " -D TM=64 -D TN=64 -D TK=16 -D WM=4 -D WN=4"};

static const tile_shape *tile_of(const cr_opencl_device *own) {
  return own->is_cpu || own->most_lanes < 256 ? &cpu_tile : &gpu_tile;
}

static crema_status find_kernel(crema_context *context, cr_product_kind kind, cr_gpu_form form,
                                cl_kernel *out) {
  const int function = CR_OPENCL_PRODUCT + (int)kind;
  cl_kernel *own = &cr_opencl_stream_of(context)->kernel[form][function].run;
  cl_program program = NULL;
  cl_int error = CL_SUCCESS;
  *out = *own;
  if (*own != NULL) return CREMA_OK;
  CR_TRY(cr_opencl_program(context->device, function, form, &program));
  *own = cr_cl.clCreateKernel(program, "run", &error);
  *out = *own;
  return cr_opencl_check(context->device, error, "product");
}

void cr_opencl_product_options(const cr_opencl_device *own, int function, char *text, size_t size) {
  snprintf(text, size, "%s -D KIND=%d", tile_of(own)->options, function - CR_OPENCL_PRODUCT);
}

/* The form for floats if the product's values are floats and its indices fit 31 bits. */
static cr_gpu_form form_of(const cr_product *p, int64_t groups) {
  const bool fits = p->m * p->k * groups <= INT32_MAX && p->k * p->n <= INT32_MAX &&
                    p->m * p->n * groups <= INT32_MAX;
  return fits && p->type == CREMA_F32 ? CR_FORM_F32 : CR_FORM_ANY;
}

crema_status cr_opencl_product(crema_context *context, cr_product_kind kind,
                               const cr_product *product, int64_t groups, const void *a,
                               const void *b, const void *bias, void *c) {
  cr_opencl_stream *stream = cr_opencl_stream_of(context);
  const tile_shape *tile = tile_of(cr_opencl_of(context->device));
  const uintptr_t address[4] = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)c, (uintptr_t)bias};
  cl_kernel kernel = NULL;
  if (product->m == 0 || product->n == 0 || groups == 0) return CREMA_OK;
  CR_TRY(find_kernel(context, kind, cr_opencl_form(context->device, form_of(product, groups)),
                     &kernel));
  cl_int error = cr_cl.clSetKernelArg(kernel, 0, sizeof *product, product);
  for (cl_uint i = 0; i < 4; ++i) {
    cr_opencl_place place = {.buffer = NULL};
    if (address[i] != 0) CR_TRY(cr_opencl_find(address[i], &place));
    const cl_long offset = (cl_long)place.offset;
    if (error == CL_SUCCESS) {
      error = cr_cl.clSetKernelArg(kernel, 2 * i + 1, sizeof(cl_mem), &place.buffer);
    }
    if (error == CL_SUCCESS) {
      error = cr_cl.clSetKernelArg(kernel, 2 * i + 2, sizeof offset, &offset);
    }
  }
  cr_gpu_count_launch(context);
  const size_t lanes[3] = {(size_t)tile->lanes_across, (size_t)tile->lanes_down, 1};
  const size_t all[3] = {(size_t)((product->n + tile->columns - 1) / tile->columns) * lanes[0],
                         (size_t)((product->m + tile->rows - 1) / tile->rows) * lanes[1],
                         (size_t)groups};
  if (error == CL_SUCCESS) {
    cr_opencl_lock();
    error = cr_cl.clEnqueueNDRangeKernel(stream->queue, kernel, 3, NULL, all, lanes, 0, NULL,
                                         cr_opencl_next(stream));
    cr_opencl_unlock();
  }
  return cr_opencl_queued(context, error, "product");
}

/* ---- the plans of rows ---- */

struct cr_gemm_plan {
  cr_gemm_shape shape;
  const cr_clblast *clblast; /* NULL: crema's own kernel */
};

crema_status cr_gemm_plan_create(crema_context *context, const cr_gemm_shape *shape,
                                 cr_gemm_plan **out, size_t *workspace) {
  (void)context;
  if (shape->m == 0 || shape->n == 0 || shape->k == 0) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "a product of %" PRId64 " x %" PRId64 " x %" PRId64 " is empty", shape->m,
                   shape->n, shape->k);
  }
  cr_gemm_plan *plan = calloc(1, sizeof *plan);
  if (plan == NULL) return cr_fail_memory(sizeof *plan, "a matrix product");
  plan->shape = *shape;
  /* CLBlast has no bfloat16, its halves need an extension, and it adds no bias. */
  if (shape->type == CREMA_F32 && !shape->bias) plan->clblast = cr_opencl_clblast();
  *workspace = 0;
  *out = plan;
  return CREMA_OK;
}

static crema_status run_clblast(const cr_gemm_plan *plan, crema_context *context, const void *a,
                                const void *b, bool accumulate, void *c) {
  enum { ROW_MAJOR = 101, NOT_TRANSPOSED = 111, TRANSPOSED = 112 };
  const cr_gemm_shape *s = &plan->shape;
  cr_opencl_stream *stream = cr_opencl_stream_of(context);
  cr_opencl_place left, right, to;
  CR_TRY(cr_opencl_find((uintptr_t)a, &left));
  CR_TRY(cr_opencl_find((uintptr_t)b, &right));
  CR_TRY(cr_opencl_find((uintptr_t)c, &to));
  const size_t m = (size_t)s->m, n = (size_t)s->n, k = (size_t)s->k;
  cr_gpu_count_launch(context);
  cr_opencl_lock();
  const int status = plan->clblast->Sgemm(
      ROW_MAJOR, s->a_transposed ? TRANSPOSED : NOT_TRANSPOSED,
      s->b_transposed ? TRANSPOSED : NOT_TRANSPOSED, m, n, k, 1, left.buffer,
      left.offset / sizeof(float), s->a_transposed ? m : k, right.buffer,
      right.offset / sizeof(float), s->b_transposed ? k : n, accumulate ? 1.0f : 0.0f, to.buffer,
      to.offset / sizeof(float), n, &stream->queue, cr_opencl_next(stream));
  cr_opencl_unlock();
  if (status == 0) return cr_opencl_queued(context, CL_SUCCESS, "product");
  return cr_fail(CREMA_E_DEVICE, "%s: CLBlast: a product of %zu x %zu x %zu fails: status %d",
                 cr_opencl_of(context->device)->name, m, n, k, status);
}

crema_status cr_gemm_plan_run(cr_gemm_plan *plan, crema_context *context, const void *a,
                              const void *b, const void *bias, bool accumulate, void *c,
                              crema_devptr workspace) {
  const cr_gemm_shape *s = &plan->shape;
  (void)workspace;
  if (plan->clblast != NULL) return run_clblast(plan, context, a, b, accumulate, c);
  const cr_product product = {.m = s->m,
                              .n = s->n,
                              .k = s->k,
                              .a_transposed = s->a_transposed,
                              .b_transposed = s->b_transposed,
                              .add = accumulate,
                              .type = (int32_t)s->type};
  return cr_opencl_product(context, CR_PRODUCT_PLAIN, &product, 1, a, b, bias, c);
}

void cr_gemm_plan_destroy(cr_gemm_plan *plan) {
  free(plan);
}
