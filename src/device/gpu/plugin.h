/* The border between the library and a GPU plug-in (libcrema-cuda.so, libcrema-opencl.so).
 *
 * The library opens the plug-in with its first device and calls its one function. This checks
 * that both were built from the same headers and returns its table. The plug-in links against
 * neither the shared nor the static library. It also gets a table of the library's functions. */
#ifndef CR_GPU_PLUGIN_H
#define CR_GPU_PLUGIN_H

#include <stdarg.h>

#include "crema/log.h"
#include "device/backend/kernel.h"
#include "device/memory/scratchpad.h"

/* Grows with every change to the structs that both sides know. */
enum { CR_GPU_ABI = 17 };

/* The library's functions for the plug-in. Text is printf-formatted by the caller. */
typedef struct cr_gpu_services {
  /* Sets the calling thread's error text and returns `code`. */
  crema_status (*fail_text)(crema_status code, const char *text);
  /* The calling thread's error text. */
  const char *(*error_text)(void);
  void (*log_text)(crema_log_level level, const char *file, int line, const char *text);
  /* cr_context_choose. */
  crema_status (*choose)(crema_context *context, const cr_algorithm *table, int count, int *id);
} cr_gpu_services;

/* What both sides must agree on. */
typedef struct cr_gpu_abi {
  int version;
  size_t backend_bytes, context_bytes, device_bytes, kernel_bytes, plan_bytes, desc_bytes;
  size_t arg_bytes, scalars_bytes, call_bytes, algorithm_bytes, info_bytes, services_bytes;
  size_t collectives_bytes;
  int ops;
} cr_gpu_abi;

#define CR_GPU_ABI_HERE                                                                     \
  {                                                                                         \
    .version = CR_GPU_ABI, .backend_bytes = sizeof(cr_backend),                             \
    .context_bytes = sizeof(crema_context), .device_bytes = sizeof(crema_device),           \
    .kernel_bytes = sizeof(cr_kernel), .plan_bytes = sizeof(cr_plan),                       \
    .desc_bytes = sizeof(cr_op_desc), .arg_bytes = sizeof(cr_op_arg),                       \
    .scalars_bytes = sizeof(cr_op_scalars), .call_bytes = sizeof(cr_call),                  \
    .algorithm_bytes = sizeof(cr_algorithm), .info_bytes = sizeof(crema_device_info),       \
    .services_bytes = sizeof(cr_gpu_services), .collectives_bytes = sizeof(cr_collectives), \
    .ops = CR_OP_KINDS                                                                      \
  }

/* The plug-in's one function, called "crema_gpu_backend". NULL, with an error text through
 * `services`, when *abi is not the plug-in's own. The table is static and lives as long as the
 * plug-in, which is never unloaded. `services` must have the same lifetime. */
typedef const cr_backend *cr_gpu_entry(const cr_gpu_abi *abi, const cr_gpu_services *services);

/* (driver) The table of the plug-in's devices. */
extern const cr_backend cr_gpu_backend;

#endif
