/* How the rows of the CUDA table reach the device: kernels, matrix products, faults. The rows
 * (rows_*.c) are plain C without CUDA headers: the tests run every row on the host, over a second
 * implementation of the calls below. */
#ifndef CR_CUDA_LAUNCH_H
#define CR_CUDA_LAUNCH_H

#include "device/backend/kernel.h"
#include "device/cuda/kernels/hd.h"

/* Added to a device function's number: as it is compiled for the common case (kernels/hd.h). */
enum { CR_COMMON = 1 << 16 };

typedef enum cr_device_function {
#define CR_EACH(name, args) CR_DEVICE_FUNCTION_##name,
#define CR_VALUE(name, args) CR_DEVICE_FUNCTION_##name,
#define CR_THREAD_BLOCK(name, args) CR_DEVICE_FUNCTION_##name,
#include "device/cuda/kernels/device_functions.inc"
#undef CR_EACH
#undef CR_VALUE
#undef CR_THREAD_BLOCK
  CR_BODIES
} cr_device_function;

/* Makes a device current for the calling thread until cr_cuda_leave(*before). */
crema_status cr_cuda_enter(const crema_device *device, int *before) CREMA_MUST_USE;
void cr_cuda_leave(int before);

/* The calls below need the context's device to be current. */

/* Queues `count` elements of a CR_EACH or CR_VALUE device function on the context's stream; `args`
 * is the device function's argument block and is copied. `function` may have CR_COMMON added. count
 * 0 does nothing. Errors: CREMA_E_DEVICE naming the device function. */
crema_status cr_cuda_each(crema_context *context, int function, const void *args,
                          int64_t count) CREMA_MUST_USE;

/* Queues `segments` segments of a CR_THREAD_BLOCK device function. `length` is the number of steps
 * that one lane would need for a segment; it chooses the size of the thread block. Errors: as
 * cr_cuda_each. */
crema_status cr_cuda_thread_blocks(crema_context *context, int function, const void *args,
                                   int64_t segments, int64_t length) CREMA_MUST_USE;

/* The device address of the context's record, in which kernels report invalid numbers. */
cr_cuda_fault *cr_cuda_fault_of(crema_context *context);

/* Turns a kernel's fault into an error and clears it. Errors: CREMA_E_RANGE. */
crema_status cr_cuda_fault_take(cr_cuda_fault *fault) CREMA_MUST_USE;

/* A product of row-major matrices, c = op(a) op(b) + bias, or c += op(a) op(b). c is (m, n), op(a)
 * (m, k), op(b) (k, n). A transposed matrix is stored (k, m) or (n, k). Rows have no gaps. */
typedef struct cr_gemm_shape {
  crema_dtype type; /* of all matrices and the bias: F32, F16 or BF16; sums are in F32 */
  int64_t m, n, k;
  bool a_transposed, b_transposed;
  bool bias; /* n values, added to every row of c; never together with accumulate */
} cr_gemm_shape;

typedef struct cr_gemm_plan cr_gemm_plan;

/* Errors: CREMA_E_UNSUPPORTED when the library is not there or does not take the shape;
 * CREMA_E_NO_MEMORY. *workspace receives the bytes of scratchpad of a run. */
crema_status cr_gemm_plan_create(crema_context *context, const cr_gemm_shape *shape,
                                 cr_gemm_plan **out, size_t *workspace) CREMA_MUST_USE;

/* Queues the product; from any thread. bias: address 0 unless the shape has one. Errors:
 * CREMA_E_DEVICE. */
crema_status cr_gemm_plan_run(cr_gemm_plan *plan, crema_context *context, const void *a,
                              const void *b, const void *bias, bool accumulate, void *c,
                              crema_devptr workspace) CREMA_MUST_USE;

/* Accepts NULL. */
void cr_gemm_plan_destroy(cr_gemm_plan *plan);

#endif
