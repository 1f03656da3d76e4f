/* Runs one reference kernel of f32 on arrays. */
#ifndef CR_TESTS_RUN_REF_H
#define CR_TESTS_RUN_REF_H

#include <stdlib.h>

#include "check.h"
#include "device/backend/kernel.h"
#include "device/device.h"

enum { ARGS_MAX = 10 };

/* Plans and runs a row on f32 arrays (or whatever `memory` is meant to hold). */
static inline crema_status run_ref(const cr_kernel *kernel, const cr_op_params *params,
                                   const crema_shape *const *shape, int args, void *const *memory,
                                   const cr_op_scalars *scalars) {
  cr_op_desc *made = calloc(1, cr_op_desc_bytes(args));
  cr_format format[ARGS_MAX], hint[ARGS_MAX];
  crema_devptr buffer[ARGS_MAX];
  const bool add[ARGS_MAX] = {false};
  assert_non_null(made);
  made->kind = kernel->op;
  made->type = kernel->type;
  made->args = args;
  made->u = *params;
  for (int i = 0; i < args; ++i) {
    made->arg[i] = (cr_op_arg){.type = CREMA_F32};
    if (shape[i]) made->arg[i].shape = *shape[i];
    else made->arg[i].shape.axes = -1;
    format[i] = hint[i] = CR_PLAIN_F32;
    buffer[i] = (crema_devptr){(uintptr_t)memory[i]};
  }
  cr_plan plan = {
      .desc = made, .context = cr_host_context(), .kernel = kernel, .hint = hint, .format = format};
  if (kernel->plan) {
    const crema_status status = kernel->plan(&plan);
    if (status != CREMA_OK) {
      free(made);
      return status;
    }
  }
  void *workspace = malloc(plan.workspace_bytes + 1);
  assert_non_null(workspace);
  const crema_status status = kernel->run(&(cr_call){.plan = &plan,
                                                     .desc = made,
                                                     .context = plan.context,
                                                     .buffer = buffer,
                                                     .accumulate = add,
                                                     .scalars = scalars,
                                                     .workspace = {(uintptr_t)workspace}});
  free(workspace);
  if (kernel->destroy) kernel->destroy(&plan);
  free(made);
  return status;
}

#endif
