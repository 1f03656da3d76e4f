/* Shared by the files of this folder. */
#ifndef CR_OPS_OP_PRIVATE_H
#define CR_OPS_OP_PRIVATE_H

#include <stdatomic.h>

#include "device/backend/kernel.h"
#include "memory/tensor_source.h"
#include "ops/op.h"

/* Plans that an op keeps for alternating types, hints and devices; the oldest is dropped first. */
enum { CR_OP_PLANS = 4 };

/* The op, formats and device for which a plan is made. */
typedef struct cr_plan_key {
  const cr_op_desc *desc; /* with the element types of the tensors */
  const cr_format *hint;  /* the formats in which arguments are held */
  crema_device *device;
  int threads;    /* the most that may be used; 0: no limit */
  bool fast_math; /* the context's */
} cr_plan_key;

/* A kernel that was chosen for an op, with its plan. Immutable once made, and counted: ops and
 * caches hold references. */
typedef struct cr_op_plan {
  atomic_int references;
  cr_op_desc *asked; /* the key's */
  cr_format *hint;
  crema_device *device;
  int threads;
  bool fast_math;
  const cr_kernel *kernel;
  const cr_backend *backend; /* the kernel's */
  bool fallback;             /* planned for the CPU on behalf of another device */
  bool declined;             /* a kernel of a library, while the plan was made */
  int posts; /* the number of post operations that the kernel applies; the rest are ops */
  cr_plan plan;
  cr_op_desc *desc; /* for the kernel: with the element types that it accepts */
  cr_format *shown; /* the hints that the kernel got; tensors convert other formats first */
  cr_format *format;
} cr_op_plan;

/* A plan that an op keeps, with the op's own execution. `ran`: a run has found it before. */
typedef struct cr_op_slot {
  cr_op_plan *plan;
  void *execution;
  bool ran;
} cr_op_slot;

struct cr_op {
  cr_op_desc *desc; /* that it was made for; the element types are of the tensors given last */
  cr_op_desc *made_for;
  cr_op_use *use; /* one per argument */
  cr_op_slot slot[CR_OP_PLANS];
  int slots;
  const cr_kernel *last; /* that ran */
  /* Per run, one per argument. */
  crema_devptr *buffer;
  bool *accumulate;
  bool overwrites;         /* arguments that are updated are only written */
  cr_tensor_scratch *held; /* with the values of an argument during the run; NULL: none */
  int held_arg;            /* the argument, if the op writes it; -1 */
  cr_format *hint;
  /* For kernels that cannot accumulate: the fresh values, and the op that adds them. */
  cr_tensor **fresh;
  cr_op **add;
  cr_op *post[CR_POSTS]; /* post operations that no kernel applies; made when first needed */
};

static inline bool cr_op_is_absent(const cr_op_arg *arg) {
  return arg->shape.axes < 0;
}

/* Whether the plan does for the key. */
bool cr_op_plan_fits(const cr_op_plan *plan, const cr_plan_key *key);

/* Makes the plan of an op with such arguments for runs on `context`: the caller's reference.
 * Errors: CREMA_E_UNSUPPORTED when no kernel takes the op; errors of kernels and back ends. */
crema_status cr_op_plan_make(const cr_op_use *use, const cr_plan_key *key, crema_context *context,
                             cr_op_plan **out) CREMA_MUST_USE;
void cr_op_plan_retain(cr_op_plan *plan);
void cr_op_plan_release(cr_op_plan *plan); /* accepts NULL */

/* Whether the plan may be run now; see cr_backend.ready. */
crema_status cr_op_plan_ready(const cr_op_plan *plan) CREMA_MUST_USE;

/* The plan for a run on `context` with these tensors: a plan of the op, a plan of the context's
 * cache, or a new plan. The op keeps it. Errors: as cr_op_plan_make. */
crema_status cr_op_find_plan(cr_op *op, crema_context *context, cr_tensor *const *tensor,
                             cr_op_slot *out) CREMA_MUST_USE;

/* Drops all plans. */
void cr_op_drop_plans(cr_op *op);

#endif
