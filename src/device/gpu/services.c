/* The plug-in's entry, and the library's calls under their names in core/fail.h, core/log.h and
 * device/memory/scratchpad.h. The library hides its internal names, so they go through its
 * table. */
#include <stdarg.h>
#include <stdio.h>

#include "core/fail.h"
#include "core/log.h"
#include "device/gpu/plugin.h"

enum { TEXT = 1024 };

/* Set once, before anything else of the plug-in is called. */
static const cr_gpu_services *library;

crema_status cr_fail(crema_status code, const char *fmt, ...) {
  char text[TEXT];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return library->fail_text(code, text);
}

crema_status cr_fail_in(crema_status code, const char *fmt, ...) {
  char text[TEXT], whole[2 * TEXT];
  va_list args;
  if (code == CREMA_OK) return CREMA_OK;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  snprintf(whole, sizeof whole, "%s: %s", text, library->error_text());
  return library->fail_text(code, whole);
}

crema_status cr_fail_memory(size_t bytes, const char *what) {
  return cr_fail(CREMA_E_NO_MEMORY, "out of memory for %zu bytes of %s", bytes, what);
}

const char *crema_error_text(void) {
  return library->error_text();
}

void cr_log_at(crema_log_level level, const char *file, int line, const char *fmt, ...) {
  char text[TEXT];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  library->log_text(level, file, line, text);
}

crema_status cr_context_choose(crema_context *context, const cr_algorithm *table, int count,
                               int *id) {
  return library->choose(context, table, count, id);
}

static bool agrees(const cr_gpu_abi *a, const cr_gpu_abi *b) {
  return a->version == b->version && a->backend_bytes == b->backend_bytes &&
         a->context_bytes == b->context_bytes && a->device_bytes == b->device_bytes &&
         a->kernel_bytes == b->kernel_bytes && a->plan_bytes == b->plan_bytes &&
         a->desc_bytes == b->desc_bytes && a->arg_bytes == b->arg_bytes &&
         a->scalars_bytes == b->scalars_bytes && a->call_bytes == b->call_bytes &&
         a->algorithm_bytes == b->algorithm_bytes && a->info_bytes == b->info_bytes &&
         a->services_bytes == b->services_bytes && a->collectives_bytes == b->collectives_bytes &&
         a->ops == b->ops;
}

__attribute__((visibility("default"))) cr_gpu_entry crema_gpu_backend;

const cr_backend *crema_gpu_backend(const cr_gpu_abi *abi, const cr_gpu_services *services) {
  static const cr_gpu_abi own = CR_GPU_ABI_HERE;
  if (!agrees(abi, &own)) {
    char text[TEXT];
    snprintf(text, sizeof text, "libcrema-%s.so belongs to another version of crema",
             cr_gpu_backend.name);
    services->fail_text(CREMA_E_NO_DEVICE, text);
    return NULL;
  }
  library = services;
  return &cr_gpu_backend;
}
