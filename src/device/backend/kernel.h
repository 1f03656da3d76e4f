/* Kernels: the computations of a back end.
 *
 * An op (ops/op.h) is planned when shapes are known and run many times. A kernel is one way of
 * running an op on one back end; the back end's table lists its kernels, best first. Kernels get
 * raw device addresses, never tensors.
 *
 * A plan does not change once it is made, and any number of threads may run it at once. Other
 * memory that a run changes belongs to an execution: each op that uses the plan has its own, and
 * runs it on one thread at a time. */
#ifndef CR_DEVICE_KERNEL_H
#define CR_DEVICE_KERNEL_H

#include <stddef.h>

#include "device/backend/backend.h"
#include "device/backend/op_desc.h"

/* A kernel's decisions at plan time. */
struct cr_plan {
  const cr_op_desc *desc;  /* the computation; outlives the plan */
  crema_context *context;  /* while plan() runs: on the device that the plan is for; then NULL */
  const cr_kernel *kernel; /* the kernel that plans */
  /* For each argument that is read: the format of its newest values when the plan is made. For all
   * other arguments: plain. */
  const cr_format *hint;
  /* For each argument: the format that run() requires. Starts as plain of the argument's type. */
  cr_format *format;
  /* Scratch memory that the caller provides at run time, shared between ops. */
  size_t workspace_bytes;
  int most_threads; /* that may be used; 0: the calling thread's maximum */
  int threads;      /* for planning and running; 0: not chosen yet */
  void *state;      /* the kernel's own; freed by destroy() */
};

/* One run of a planned op. */
typedef struct cr_call {
  const cr_plan *plan;
  void *execution;            /* made by open(); NULL without open() */
  const cr_op_desc *desc;     /* plan->desc */
  crema_context *context;     /* on the device of the plan */
  const crema_devptr *buffer; /* [i]: argument i in plan->format[i]; 0 for an absent argument */
  const bool *accumulate;     /* [i]: only for ACCUMULATE arguments */
  /* The op's run-time scalars (learning rate, seed; see op_desc.h); NULL for most ops. */
  const cr_op_scalars *scalars;
  /* plan->workspace_bytes, content undefined; where these are 0, cr_no_workspace for kernels that
   * run on the host. */
  crema_devptr workspace;
} cr_call;

/* An address of no bytes: a workspace has none for an empty shape, and kernels compute addresses in
 * it all the same, which is undefined for a null pointer. */
static inline crema_devptr cr_no_workspace(void) {
  static const max_align_t nothing;
  return (crema_devptr){(uintptr_t)&nothing};
}

struct cr_kernel {
  const char *name; /* "conv_fwd_dnnl" */
  cr_op_kind op;
  crema_dtype type; /* of the arithmetic: desc->type */
  /* The element types of an op's values that it takes unconverted: CR_TYPE bits; 0: only `type`. A
   * kernel with several also takes them mixed, or declines to plan. */
  unsigned types;
  /* The result depends on the hints: plan again when they change. */
  bool follows_hints;
  /* It takes arguments that are read in layouts with gaps (views: a part of a larger array), if the
   * hint says so. Other kernels get copies without gaps, and hints without gaps. */
  bool views;
  /* ACCUMULATE arguments: the kernel adds to them when `accumulate` says so. Kernels without this
   * only overwrite; the dispatcher adds through a temporary. */
  bool can_accumulate;
  /* Calls a library, which may fail for reasons that do not affect crema's kernels, mostly for lack
   * of memory (see `ready` in the back-end table). When it cannot plan, a warning is logged and the
   * next kernel is tried. */
  bool library;
  /* CREMA_E_UNSUPPORTED: the next kernel of the table is tried (not an error). Allocates
   * plan->state. May be NULL. */
  crema_status (*plan)(cr_plan *plan);
  /* Creates and frees an execution of the plan, for kernels whose run() changes state; both NULL
   * for other kernels. All executions are closed before the plan is destroyed. */
  crema_status (*open)(const cr_plan *plan, void **execution);
  void (*close)(const cr_plan *plan, void *execution);
  /* Allocates no memory; queues work on call->context. */
  crema_status (*run)(const cr_call *call);
  void (*destroy)(cr_plan *plan); /* may be NULL */
};

/* The bit of an element type in cr_kernel.types. */
#define CR_TYPE(type) (1u << CREMA_##type)

static inline bool cr_kernel_takes(const cr_kernel *kernel, crema_dtype type) {
  unsigned types = kernel->types != 0 ? kernel->types : 1u << kernel->type;
  return (types >> type & 1u) != 0;
}

/* Defines the kernel cr_<row> of an op with arithmetic in F32; further fields of cr_kernel follow.
 */
#define CR_KERNEL(row, OP, ...) \
  const cr_kernel cr_##row = {.name = #row, .op = CR_OP_##OP, .type = CREMA_F32, __VA_ARGS__}

/* For kernels on host memory: argument i as a pointer; NULL when absent. */
static inline float *cr_f32(const crema_devptr *buffer, int i) {
  return (float *)buffer[i].address; /* NOLINT: device addresses are host addresses here */
}

#endif
