/* Helpers for layer files that keep ops in step with shapes and resolve axes. The ops, tensors and
 * memory that a layer makes here belong to it and are freed with it. */
#ifndef CR_LAYERS_LAYER_OP_H
#define CR_LAYERS_LAYER_OP_H

#include "layers/common/layer.h"

/* An op of a layer. Zero-initialised: no op yet. */
struct cr_layer_op {
  cr_op *op;
  bool listed; /* in the layer's list of ops */
  cr_layer_op *next;
};

/* Describes an op of `kind` with all parameters zero. */
cr_op_desc cr_layer_op_desc(cr_op_kind kind);

/* Makes `slot` hold the op that `desc` (kind, u; no arguments) describes for `args` arguments of
 * the shapes given. shape[i] NULL: an optional argument that is absent. The op takes its element
 * types from its tensors, and its arithmetic from the layer. Keeps the existing op when kind,
 * shapes and parameters are the same. */
crema_status cr_layer_op_make(cr_layer *layer, cr_layer_op *slot, const cr_op_desc *desc, int args,
                              const crema_shape *const *shape) CREMA_MUST_USE;

/* The same for shapes that are listed: CR_LAYER_MAKE(layer, &slot, &desc, &x, NULL, &y). */
#define CR_LAYER_MAKE(layer, slot, desc, ...)                                                   \
  cr_layer_op_make(layer, slot, desc,                                                           \
                   (int)(sizeof((const crema_shape *[]){__VA_ARGS__}) / sizeof(crema_shape *)), \
                   (const crema_shape *[]){__VA_ARGS__})

/* The same with a scale per argument (cr_op_arg). */
crema_status cr_layer_op_make_scaled(cr_layer *layer, cr_layer_op *slot, const cr_op_desc *desc,
                                     int args, const crema_shape *const *shape,
                                     const float *scale) CREMA_MUST_USE;

/* And with numbers, as cr_op_describe_numbers. */
crema_status cr_layer_op_make_numbers(cr_layer *layer, cr_layer_op *slot, const cr_op_desc *desc,
                                      int args, const crema_shape *const *shape, const float *scale,
                                      int numbers, const float *number) CREMA_MUST_USE;

/* Runs the slot's op on tensor[i] = argument i; see cr_op_run. Errors: CREMA_E_STATE while the
 * slot is empty. */
crema_status cr_layer_op_run(cr_layer_op *slot, crema_context *context, cr_tensor *const *tensor,
                             const cr_op_scalars *scalars) CREMA_MUST_USE;

/* The same for tensors that are listed, without scalars: CR_LAYER_RUN(&slot, context, x, NULL, y).
 */
#define CR_LAYER_RUN(slot, context, ...) \
  cr_layer_op_run(slot, context, (cr_tensor *[]){__VA_ARGS__}, NULL)

/* The members of a class whose layers run ops, with their four functions. */
#define CR_LAYER_OF_OPS(type_name, state_bytes, setup_fn, reshape_fn, forward_fn, backward_fn) \
  .type = type_name, .state_size = state_bytes, .setup = setup_fn, .reshape = reshape_fn,      \
  .forward = forward_fn, .backward = backward_fn

/* Brings an internal tensor to `count` elements of `type`, making it on first use. */
crema_status cr_layer_tensor(cr_layer *layer, cr_tensor **tensor, crema_dtype type,
                             int64_t count) CREMA_MUST_USE;

/* The same for values of one pass: they are dead after the layer's backward pass or, without one,
 * after its forward pass. */
crema_status cr_layer_pass_tensor(cr_layer *layer, cr_tensor **tensor, crema_dtype type,
                                  int64_t count) CREMA_MUST_USE;

/* Marks all such tensors of the layer transient; releases them in a pass of the context. */
void cr_layer_set_transient(const cr_layer *layer);
void cr_layer_release(const cr_layer *layer, crema_context *context);

/* Brings them back to their own element types (cr_tensor_settle). */
crema_status cr_layer_settle(const cr_layer *layer, crema_context *context) CREMA_MUST_USE;

/* Gives the layer `bytes` of zeroed memory. */
crema_status cr_layer_memory(cr_layer *layer, size_t bytes, void **out) CREMA_MUST_USE;

/* Frees all ops, then all tensors and memory of the layer: the state must not be used any more. */
void cr_layer_free_owned(cr_layer *layer);

/* Resolves a possibly negative axis of `shape`; `field` names the parameter in the error.
 * Errors: CREMA_E_RANGE. */
crema_status cr_layer_axis(const cr_layer *layer, const crema_shape *shape, int axis,
                           const char *field, int *out) CREMA_MUST_USE;

/* Fails unless the bottom that a post operation adds, if there is one, has the shape `top`. */
crema_status cr_layer_check_addend(const cr_layer *layer, crema_blob *const *bottom,
                                   const crema_shape *top) CREMA_MUST_USE;

/* Whether the top is the bottom, so that the layer overwrites its input. */
bool cr_layer_in_place(const crema_blob *bottom, const crema_blob *top);

/* (product before axis `from`, product of from..to-1, product from `to` on): three axes. */
crema_shape cr_layer_fold(const crema_shape *shape, int from, int to);

/* Fails unless `found` has the shape `expected`; `what` names the blob, such as "bottom 1". */
crema_status cr_layer_same_shape(const cr_layer *layer, const char *what,
                                 const crema_shape *expected,
                                 const crema_shape *found) CREMA_MUST_USE;

/* Fails unless a bottom of `shape` has axis 1, the channels. */
crema_status cr_layer_need_channels(const cr_layer *layer, const crema_shape *shape) CREMA_MUST_USE;

#endif
