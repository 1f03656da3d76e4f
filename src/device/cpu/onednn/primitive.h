/* A planned oneDNN primitive: what most rows of this folder's dnnl_ files keep in their plan, and
 * its execution, the memory objects and the stream.
 *
 * A row's plan() describes memory, asks oneDNN for a primitive descriptor and hands it to
 * cr_dnnl_prim_create with a list that says which of the op's arguments is which of the
 * primitive's. The rest (formats, memory objects, scratchpad, execution) is common. */
#ifndef CR_DEVICE_CPU_ONEDNN_PRIMITIVE_H
#define CR_DEVICE_CPU_ONEDNN_PRIMITIVE_H

#include "device/backend/kernel.h"
#include "device/cpu/onednn/layout.h"

typedef enum cr_dnnl_how {
  CR_DNNL_FORMAT, /* in the layout that the primitive asks for */
  CR_DNNL_AS_IS,  /* the primitive's view describes the argument's plain memory, though it is not
                     row-major for the primitive's axes (a transposed matrix) */
  CR_DNNL_NOTES   /* the library's own data, which nobody else reads */
} cr_dnnl_how;

/* In place of an argument: the op's numbers. */
enum { CR_DNNL_NUMBERS = -2 };

/* Op argument `arg` is the primitive's argument `id` (DNNL_ARG_...). */
typedef struct cr_dnnl_bind {
  int arg;
  int id;
  cr_dnnl_how how;
} cr_dnnl_bind;

/* Fills env with the engine and attributes (scratchpad from the caller; post operations and numbers
 * of `desc`, NULL for none). Free with cr_dnnl_env_close. Errors: CREMA_E_UNSUPPORTED for post
 * operations that oneDNN lacks. */
crema_status cr_dnnl_env_open(cr_pd_env *env, const cr_op_desc *desc) CREMA_MUST_USE;
void cr_dnnl_env_close(cr_pd_env *env);

/* Sets plan->format, plan->workspace_bytes and plan->state. Takes `pd` over, also on failure. Binds
 * of absent arguments, and of a workspace that the primitive does without, are skipped. What is
 * bound to nothing is left in the format in which it is held. Element types are the primitive's:
 * what is held in another one is converted. Errors: CREMA_E_UNSUPPORTED when oneDNN has only its
 * slow reference implementation. */
crema_status cr_dnnl_prim_create(cr_plan *plan, dnnl_primitive_desc_t pd, const cr_dnnl_bind *bind,
                                 int binds) CREMA_MUST_USE;

/* Whether the name of the implementation that oneDNN chose has `part` in it. */
bool cr_dnnl_pd_named(const_dnnl_primitive_desc_t pd, const char *part);

/* The same for an op with post operations: its result is argument CR_ARG_RESULT, and the addend is
 * taken in the result's format. To be run by cr_dnnl_prim_run_posts. */
crema_status cr_dnnl_prim_create_posts(cr_plan *plan, dnnl_primitive_desc_t pd,
                                       const cr_dnnl_bind *bind, int binds) CREMA_MUST_USE;

/* kernel.run for such plans. The library adds to what the result's memory holds: unless the addend
 * lies there, it is copied. */
crema_status cr_dnnl_prim_run_posts(const cr_call *call);

/* Functions of kernels whose plans are made by cr_dnnl_prim_create. */
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

/* The library's generated code counts within a sample in 32 bits: convolutions of 2.6 crash beyond.
 * Errors: CREMA_E_UNSUPPORTED when a sample of argument `arg` (N,...) has more values. */
crema_status cr_dnnl_check_sample(const cr_plan *plan, int arg) CREMA_MUST_USE;

/* The element types that the rows take for values: F16 where the library has code for the
 * processor, which it has in none of its releases 2. */
#define CR_DNNL_TYPES (CR_TYPE(F32) | CR_TYPE(BF16) | CR_TYPE(F16))

/* The type that all values of the op have.
 * Errors: CREMA_E_UNSUPPORTED when they differ. */
crema_status cr_dnnl_one_type(const cr_plan *plan, crema_dtype *out) CREMA_MUST_USE;

/* The type of the products that lead from argument `a` to argument `b` or take both: F32, or the
 * shorter type of one of them. Errors: CREMA_E_UNSUPPORTED when they have two shorter types, and
 * where the processor has no instructions for such products: in F32 they are faster. */
crema_status cr_dnnl_product_type(const cr_plan *plan, int a, int b,
                                  crema_dtype *out) CREMA_MUST_USE;

/* The type in which a convolution or a matrix product with factors of `product` adds argument `arg`
 * or gives it as a sum: its own, but F32 if `product` is. */
crema_dtype cr_dnnl_sum_type(const cr_plan *plan, int arg, crema_dtype product);

/* The same for one of its three large arguments, two of which are factors and the third, which is
 * written, the sum. */
crema_dtype cr_dnnl_operand_type(const cr_plan *plan, int arg, crema_dtype product);

/* The descriptor of argument `arg`, as elements of `type`, that leaves the layout to the primitive.
 * Errors: CREMA_E_UNSUPPORTED for large samples, empty shapes, too many axes and element types
 * without support. */
crema_status cr_dnnl_md_any(const cr_plan *plan, int arg, crema_dtype type,
                            cr_md *out) CREMA_MUST_USE;

/* The layout that argument `arg` is held in where that is one of the argument's own shape; else
 * NULL. Values that were given another shape since they were written are still held in a layout of
 * the old one, whose axes say nothing about the argument's. */
const cr_layout *cr_dnnl_held(const cr_plan *plan, int arg);

/* The descriptor of argument `arg` in the order in which argument `hinted` is held now, when that
 * is an order of (N,C,S...) that both shapes allow; else in plain order. */
crema_status cr_dnnl_md_follow(const cr_plan *plan, int arg, int hinted, cr_md *out) CREMA_MUST_USE;

/* The descriptor of argument `arg`, as elements of `type`, in plain order. */
crema_status cr_dnnl_md_plain(const cr_plan *plan, int arg, crema_dtype type,
                              cr_md *out) CREMA_MUST_USE;

/* `window` as it slides over argument `src` (N,C,S...) and gives argument `dst` (N,O,S'...), from
 * whose extents the padding behind the last element follows.
 * Errors: CREMA_E_UNSUPPORTED for any but 1 to 3 axes, and for numbers that the library's 32-bit
 * products could not hold. */
crema_status cr_dnnl_window(const cr_plan *plan, const cr_window *window, int src, int dst,
                            cr_pd_window *out) CREMA_MUST_USE;

#endif
