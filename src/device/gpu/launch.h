/* How the rows of the GPU table reach the device: kernels, matrix products, faults. The rows
 * (rows_*.c) are plain C without headers of a GPU's libraries. Each plug-in has a driver, which
 * implements the calls that are marked (driver). The tests run every row on the host, over a
 * further implementation. */
#ifndef CR_GPU_LAUNCH_H
#define CR_GPU_LAUNCH_H

#include "device/backend/kernel.h"
#include "device/gpu/kernels/hd.h"

/* The forms in which device functions are compiled (kernels/hd.h). */
typedef enum cr_gpu_form {
  CR_FORM_ANY,
  CR_FORM_F32,
  CR_FORM_F16,
  CR_FORM_BF16,
  CR_FORMS
} cr_gpu_form;

typedef enum cr_device_function {
#define CR_EACH(name, args) CR_DEVICE_FUNCTION_##name,
#define CR_VALUE(name, args) CR_DEVICE_FUNCTION_##name,
#define CR_THREAD_BLOCK(name, args) CR_DEVICE_FUNCTION_##name,
#include "device/gpu/kernels/device_functions.inc"
#undef CR_EACH
#undef CR_VALUE
#undef CR_THREAD_BLOCK
  CR_BODIES
} cr_device_function;

/* The number of a launch: a device function, its form, and whether it works on packs
 * (kernels/pack.h). */
enum { CR_FORM_STEP = 1 << 16, CR_PACKED = 1 << 20 };
static inline int cr_gpu_function(cr_device_function function, cr_gpu_form form, bool packed) {
  return (int)function + (int)form * CR_FORM_STEP + (packed ? CR_PACKED : 0);
}
static inline int cr_gpu_number_of(int function) {
  return function % CR_FORM_STEP;
}
static inline cr_gpu_form cr_gpu_form_of(int function) {
  return (cr_gpu_form)(function % CR_PACKED / CR_FORM_STEP);
}
static inline bool cr_gpu_is_packed(int function) {
  return function >= CR_PACKED;
}

/* The form for values of an element type; CR_FORM_ANY: there is none. */
static inline cr_gpu_form cr_gpu_form_for(int type) {
  return type == CREMA_F32    ? CR_FORM_F32
         : type == CREMA_F16  ? CR_FORM_F16
         : type == CREMA_BF16 ? CR_FORM_BF16
                              : CR_FORM_ANY;
}

/* Whether a device function has forms for 16-bit types, and whether it has packs. */
bool cr_gpu_has_halves(cr_device_function function);
bool cr_gpu_has_packs(cr_device_function function);

/* The alignment of packs. */
enum { CR_PACK_BYTES = 16 };

/* (driver) Makes a device current for the calling thread until cr_gpu_leave(*before). */
crema_status cr_gpu_enter(const crema_device *device, int *before) CREMA_MUST_USE;
void cr_gpu_leave(int before);

/* The calls below need the context's device to be current. */

/* Counts a kernel, or a call of a library that computes (cr_device_launches). The calls below count
 * their own. */
static inline void cr_gpu_count_launch(const crema_context *context) {
  atomic_fetch_add_explicit(&context->device->launches, 1, memory_order_relaxed);
}

/* Queues `count` elements of a CR_EACH or CR_VALUE device function on the context's stream; `args`
 * is the device function's argument block and is copied. `function` is a cr_device_function or from
 * cr_gpu_function. count 0 does nothing. Errors: CREMA_E_DEVICE naming the device function. */
crema_status cr_gpu_each(crema_context *context, int function, const void *args,
                         int64_t count) CREMA_MUST_USE;

/* Queues `segments` segments of a CR_THREAD_BLOCK device function. `length` is the number of steps
 * that one lane would need for a segment; it chooses the size of the thread block. Errors: as
 * cr_gpu_each. */
crema_status cr_gpu_thread_blocks(crema_context *context, int function, const void *args,
                                  int64_t segments, int64_t length) CREMA_MUST_USE;

/* The name of a device function, of any form. */
const char *cr_gpu_function_name(int function);

typedef struct cr_gpu_launch {
  int function; /* from cr_gpu_function */
  const void *args;
  int64_t count; /* of elements or segments, at least 1 */
  int lanes;     /* of the thread block of a segment: 1, or a power of two from 32 to 1024; 0: the
                    device function has none */
} cr_gpu_launch;

/* (driver) Queues the launch on the context's stream. Copies the argument block. Errors: as
 * cr_gpu_each. */
crema_status cr_gpu_start(crema_context *context, const cr_gpu_launch *launch) CREMA_MUST_USE;

/* (driver) The device address of the context's record, in which kernels report invalid numbers. */
cr_gpu_fault *cr_gpu_fault_of(crema_context *context);

/* (driver) Where the kernels of a graph that is being recorded find the number of passes that follow
 * the recorded one; NULL: they run at once, and none follows. */
const uint64_t *cr_gpu_passes(crema_context *context);

/* Turns a kernel's fault into an error and clears it. Errors: CREMA_E_RANGE. */
crema_status cr_gpu_fault_take(cr_gpu_fault *fault) CREMA_MUST_USE;

/* A product of row-major matrices, c = op(a) op(b) + bias, or c += op(a) op(b). c is (m, n), op(a)
 * (m, k), op(b) (k, n). A transposed matrix is stored (k, m) or (n, k). Rows have no gaps. */
typedef struct cr_gemm_shape {
  crema_dtype type; /* of all matrices and the bias: F32, F16 or BF16; sums are in F32 */
  int64_t m, n, k;
  bool a_transposed, b_transposed;
  bool bias; /* n values, added to every row of c; never together with accumulate */
} cr_gemm_shape;

/* (driver) A plan and its calls. */
typedef struct cr_gemm_plan cr_gemm_plan;

/* Computes with the context's math. Errors: CREMA_E_UNSUPPORTED when the library is not there or
 * does not take the shape; CREMA_E_NO_MEMORY. *workspace receives the bytes of scratchpad of a run.
 */
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
