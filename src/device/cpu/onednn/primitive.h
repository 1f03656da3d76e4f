/* A planned oneDNN primitive, which most rows of this folder keep in their plan, and its execution:
 * the memory objects and the stream.
 *
 * A row's plan() describes memory, asks oneDNN for a primitive descriptor and gives it to
 * cr_dnnl_prim_create with a list that binds the op's arguments to the primitive's. The rest
 * (formats, memory objects, scratchpad, execution) is common. */
#ifndef CR_DEVICE_CPU_ONEDNN_PRIMITIVE_H
#define CR_DEVICE_CPU_ONEDNN_PRIMITIVE_H

#include "device/backend/kernel.h"
#include "device/cpu/onednn/layout.h"

typedef enum cr_dnnl_how {
  CR_DNNL_FORMAT, /* in the layout that the primitive requests */
  CR_DNNL_AS_IS,  /* plain memory, which the primitive may interpret with other axes (a transposed
                     matrix) */
  CR_DNNL_NOTES   /* the library's own data, which only the library reads */
} cr_dnnl_how;

/* As cr_dnnl_bind.arg: the op's factors per channel. */
enum { CR_DNNL_NUMBERS = -2 };

/* Op argument `arg` is the primitive's argument `id` (DNNL_ARG_...). */
typedef struct cr_dnnl_bind {
  int arg;
  int id;
  cr_dnnl_how how;
} cr_dnnl_bind;

/* Fills env with the engine and the attributes: scratchpad from the caller; post operations and
 * factors of `desc`, NULL for none. Free with cr_dnnl_env_close. Errors: CREMA_E_UNSUPPORTED for
 * post operations that oneDNN lacks. */
crema_status cr_dnnl_env_open(cr_pd_env *env, const cr_op_desc *desc) CREMA_MUST_USE;
void cr_dnnl_env_close(cr_pd_env *env);

/* The arguments of a primitive with weights or windows; NULL for a missing argument. */
typedef struct cr_dnnl_operands {
  cr_pd_env env;
  cr_pd_window window;
  cr_md src, weights, bias, dst;
} cr_dnnl_operands;

void cr_dnnl_operands_close(cr_dnnl_operands *o);

/* Sets plan->format, plan->workspace_bytes and plan->state. Takes ownership of `pd`, also on
 * failure. Skips binds of absent arguments, and of a workspace that the primitive does not need.
 * Arguments without a bind keep the format in which they are held. Element types are the
 * primitive's. Errors: CREMA_E_UNSUPPORTED if oneDNN has only its slow reference implementation. */
crema_status cr_dnnl_prim_create(cr_plan *plan, dnnl_primitive_desc_t pd, const cr_dnnl_bind *bind,
                                 int binds) CREMA_MUST_USE;

/* True if the name of the implementation that oneDNN chose contains `part`. */
bool cr_dnnl_pd_named(const_dnnl_primitive_desc_t pd, const char *part);

/* Errors: CREMA_E_UNSUPPORTED if oneDNN implements it as a matrix product in portable code, as on
 * processors for which it generates none. crema's products are faster (kernels/tile_product.h).
 * Takes ownership of `pd` if it fails. */
crema_status cr_dnnl_pd_check_product(dnnl_primitive_desc_t pd) CREMA_MUST_USE;

/* The same for an op with post operations: its result is argument CR_ARG_RESULT, and the addend has
 * the result's format. Such a plan is run by cr_dnnl_prim_run_posts. */
crema_status cr_dnnl_prim_create_posts(cr_plan *plan, dnnl_primitive_desc_t pd,
                                       const cr_dnnl_bind *bind, int binds) CREMA_MUST_USE;

/* kernel.run for such plans. The library adds to the old content of the result's memory, so an
 * addend elsewhere is copied there. */
crema_status cr_dnnl_prim_run_posts(const cr_call *call);

/* Functions of kernels whose plans cr_dnnl_prim_create makes. */
crema_status cr_dnnl_prim_open(const cr_plan *plan, void **execution);
void cr_dnnl_prim_close(const cr_plan *plan, void *execution);
crema_status cr_dnnl_prim_run(const cr_call *call);
void cr_dnnl_prim_destroy(cr_plan *plan);

/* The fields of such a kernel but its plan and its run. */
#define CR_DNNL_PRIM                                                       \
  .library = true, .open = cr_dnnl_prim_open, .close = cr_dnnl_prim_close, \
  .destroy = cr_dnnl_prim_destroy

static inline bool cr_dnnl_absent(const cr_plan *plan, int arg) {
  return plan->desc->arg[arg].shape.axes < 0;
}

/* The library's generated code counts within a sample in 32 bits; convolutions of 2.6 crash beyond.
 * Errors: CREMA_E_UNSUPPORTED if a sample of argument `arg` (N,...) has more values. */
crema_status cr_dnnl_check_sample(const cr_plan *plan, int arg) CREMA_MUST_USE;

/* The element types of values: F16 if the library has code for the processor, which no release 2
 * has. */
#define CR_DNNL_TYPES (CR_TYPE(F32) | CR_TYPE(BF16) | CR_TYPE(F16))

/* The common type of all values of the op. Errors: CREMA_E_UNSUPPORTED if they differ. */
crema_status cr_dnnl_one_type(const cr_plan *plan, crema_dtype *out) CREMA_MUST_USE;

/* The type of the products of a convolution or a matrix product from argument `a` to `b` or of
 * both: F32, or the shorter type of one of them. Errors: CREMA_E_UNSUPPORTED for two shorter types,
 * and if the processor has no instructions for such products: F32 is faster then. */
crema_status cr_dnnl_product_type(const cr_plan *plan, int a, int b,
                                  crema_dtype *out) CREMA_MUST_USE;

/* The type of argument `arg`, which is added or is a sum of such products: its own, but F32 if
 * `product` is F32. */
crema_dtype cr_dnnl_sum_type(const cr_plan *plan, int arg, crema_dtype product);

/* The same for a large argument: a factor has type `product`, the result is a sum. Integers keep
 * their types. */
crema_dtype cr_dnnl_operand_type(const cr_plan *plan, int arg, crema_dtype product);

/* The descriptor of argument `arg`, as elements of `type`, that leaves the layout to the primitive.
 * Errors: CREMA_E_UNSUPPORTED for large samples, empty shapes, too many axes and element types
 * without support. */
crema_status cr_dnnl_md_any(const cr_plan *plan, int arg, crema_dtype type,
                            cr_md *out) CREMA_MUST_USE;

/* The layout in which argument `arg` is held if it has the argument's shape; else NULL. A tensor
 * that was reshaped after it was written still has a layout of its old shape. */
const cr_layout *cr_dnnl_held(const cr_plan *plan, int arg);

/* The descriptor of argument `arg` in the order in which argument `hinted` is held, if both shapes
 * allow that order; else in plain order. */
crema_status cr_dnnl_md_follow(const cr_plan *plan, int arg, int hinted, cr_md *out) CREMA_MUST_USE;

/* The descriptor of argument `arg`, as elements of `type`, in plain order. */
crema_status cr_dnnl_md_plain(const cr_plan *plan, int arg, crema_dtype type,
                              cr_md *out) CREMA_MUST_USE;

/* `window` from argument `src` (N,C,S...) to argument `dst` (N,O,S'...). The padding at the end
 * follows from their extents. Errors: CREMA_E_UNSUPPORTED unless there are 1 to 3 axes, and for
 * numbers that overflow the library's 32-bit products. */
crema_status cr_dnnl_window(const cr_plan *plan, const cr_window *window, int src, int dst,
                            cr_pd_window *out) CREMA_MUST_USE;

#endif
