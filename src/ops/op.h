/* Ops: planned once per shape, run many times.
 *
 * A layer describes a computation (cr_op_desc), creates an op and runs it on tensors. Running
 * converts each tensor to the format of the planned kernel. The tensors determine the element
 * types. The kernel is the first in the context's back end that accepts these types. If there is
 * none, it is the first that accepts the type of the arithmetic, to which tensors convert. If a
 * back end has no kernel, the op falls back to the CPU through the tensors' automaton. Fallbacks
 * are counted, and logged once per kind of op in a process. */
#ifndef CR_OPS_OP_H
#define CR_OPS_OP_H

#include "device/backend/op_desc.h"
#include "memory/tensor.h"

typedef struct cr_op cr_op;

/* A descriptor with the kind, type and parameters of `desc` and `args` arguments of the given
 * shapes, in the order of ops.inc. An optional argument without a shape is absent. There is one
 * `scale` per argument; NULL: all 1. Element types come from the tensors when the op runs; until
 * then they are F32. To be given to cr_op_create or freed. */
crema_status cr_op_describe(const cr_op_desc *desc, int args, const crema_shape *const *shape,
                            const float *scale, cr_op_desc **out) CREMA_MUST_USE;
/* As above, with `numbers` constants after the arguments. */
crema_status cr_op_describe_numbers(const cr_op_desc *desc, int args,
                                    const crema_shape *const *shape, const float *scale,
                                    int numbers, const float *number,
                                    cr_op_desc **out) CREMA_MUST_USE;
crema_status cr_op_desc_copy(const cr_op_desc *desc, cr_op_desc **out) CREMA_MUST_USE;
void cr_op_desc_free(cr_op_desc *desc);

/* Whether the two are the same to the byte. The first argument of cr_op_describe must have been
 * zeroed with its padding before it was set, or equal descriptions may differ. */
bool cr_op_desc_same(const cr_op_desc *a, const cr_op_desc *b);

/* Checks arity and takes `desc` over, also on failure; *desc is NULL then. The kernel is chosen at
 * the first run on a context. */
crema_status cr_op_create(cr_op_desc **desc, cr_op **out) CREMA_MUST_USE;

/* The description that the op was made for. */
const cr_op_desc *cr_op_made_for(const cr_op *op);
void cr_op_destroy(cr_op *op);

/* Runs on `context`. tensor[i] is argument i, NULL when absent; its count must fit the argument's
 * shape. `scalars` may be NULL for ops that read none. In the steady state no memory is allocated.
 * Errors carry the op's name. */
crema_status cr_op_run(cr_op *op, crema_context *context, cr_tensor *const *tensor,
                       const cr_op_scalars *scalars) CREMA_MUST_USE;

/* The name of the kernel that ran last; "" before the first run. */
const char *cr_op_kernel_name(const cr_op *op);

#endif
