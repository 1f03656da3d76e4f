/* What the files of this folder share. */
#ifndef CR_OPS_OP_PRIVATE_H
#define CR_OPS_OP_PRIVATE_H

#include "device/backend/kernel.h"
#include "ops/op.h"

/* Plans kept for alternating hints and devices; the oldest makes room. */
enum { CR_OP_PLANS = 4 };

/* A kernel that was chosen for the op, with its plan. */
typedef struct cr_op_planned {
  const cr_kernel *kernel;
  crema_device *device;
  bool fallback; /* planned for the CPU on behalf of another device */
  bool declined; /* a kernel of a library, while the plan was made */
  int posts;     /* how many of the op's post operations the kernel applies; the others are ops */
  cr_plan plan;
  cr_op_desc *desc; /* as the kernel sees it: with the element types that it takes */
  cr_format *hint;  /* the formats in which arguments were held */
  cr_format *shown; /* those of them that the kernel was told: the others are converted first */
  cr_format *format;
} cr_op_planned;

struct cr_op {
  cr_op_desc *desc; /* that it was made for */
  /* One per argument. */
  cr_op_use *use;
  crema_dtype *type; /* of the tensors given last */
  cr_op_planned *slot[CR_OP_PLANS];
  int slots;
  cr_op_planned *last;
  /* Per run, one per argument. */
  crema_devptr *buffer;
  bool *accumulate;
  cr_format *hint;
  /* For kernels that cannot accumulate: the fresh values, and the op that adds them. */
  cr_tensor **fresh;
  cr_op **add;
  cr_op *post[CR_POSTS]; /* post operations that no kernel applies; made when first needed */
  bool fallback_logged;
};

static inline bool cr_op_is_absent(const cr_op_arg *arg) {
  return arg->shape.axes < 0;
}

/* The plan for a run on `context` with these tensors: one that is kept, or a new one. The op keeps
 * it. Errors: CREMA_E_UNSUPPORTED when no kernel takes the op; those of kernels and backends. */
crema_status cr_op_find_plan(cr_op *op, crema_context *context, cr_tensor *const *tensor,
                             cr_op_planned **out) CREMA_MUST_USE;

/* Frees all plans. */
void cr_op_drop_plans(cr_op *op);

#endif
