/* Starting kernels, which launch.cu holds, from C. */
#include "device/gpu/launch.h"

#include <stdio.h>

#include "core/fail.h"
#include "device/cuda/cuda_private.h"
#include "device/cuda/start.h"

/* Longer than every argument block. */
static const char no_args[8192];

static const cr_cuda_form *const forms[CR_FORMS] = {&cr_cuda_any, &cr_cuda_f32, &cr_cuda_f16,
                                                    &cr_cuda_bf16};

static cudaError_t load_form(const cr_cuda_form *form, int function) {
  const cudaError_t code[] = {form->each(function, NULL, no_args, 0),
                              form->packs(function, NULL, no_args, 0),
                              form->thread_blocks(function, NULL, no_args, 0, 1),
                              form->thread_blocks(function, NULL, no_args, 0, 32)};
  for (size_t i = 0; i < sizeof code / sizeof *code; ++i) {
    if (code[i] != cudaSuccess && code[i] != cudaErrorInvalidValue) return code[i];
  }
  return cudaSuccess;
}

cudaError_t cr_cuda_load_kernel(int function) {
  for (int form = 0; form < CR_FORMS; ++form) {
    const cudaError_t error = load_form(forms[form], function);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

crema_status cr_cuda_load_kernels(void) {
  for (int i = 0; i < CR_BODIES; ++i) {
    CR_TRY(cr_cuda_check(cr_cuda_load_kernel(i), "loading a kernel"));
  }
  return CREMA_OK;
}

crema_status cr_gpu_start(crema_context *context, const cr_gpu_launch *launch) {
  const cudaStream_t stream = cr_cuda_context(context)->stream;
  const int function = cr_gpu_number_of(launch->function);
  const cr_cuda_form *form = forms[cr_gpu_form_of(launch->function)];
  const cudaError_t error = launch->lanes > 0 ? form->thread_blocks(function, stream, launch->args,
                                                                    launch->count, launch->lanes)
                            : cr_gpu_is_packed(launch->function)
                                ? form->packs(function, stream, launch->args, launch->count)
                                : form->each(function, stream, launch->args, launch->count);
  if (error == cudaSuccess) return CREMA_OK;
  char what[64];
  snprintf(what, sizeof what, "starting kernel %s", cr_gpu_function_name(function));
  return cr_cuda_check(error, what);
}
