#include <pthread.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "device/device.h"

static crema_status open_context(crema_context *context, crema_device *device, uint64_t seed) {
  context->device = device;
  cr_mt19937_seed(&context->rng, (uint32_t)(seed ^ (seed >> 32)));
  return device->backend->context_open(context);
}

static void close_context(crema_context *context) {
  const cr_backend *backend = context->device->backend;
  if (backend->finish(context) != CREMA_OK) {
    cr_log_warning("while a context was closed: %s", crema_error_text());
  }
  cr_device_free(context->device, context->workspace);
  backend->context_close(context);
}

crema_status crema_context_create(crema_device *device, uint64_t seed, crema_context **out) {
  crema_context *context = calloc(1, sizeof *context);
  if (context == NULL) return cr_fail_memory(sizeof *context, "a context");
  crema_status status = open_context(context, device, seed);
  if (status != CREMA_OK) {
    free(context);
    return cr_fail_in(status, "a context on %s:%d", device->backend->name, device->index);
  }
  *out = context;
  return CREMA_OK;
}

void crema_context_destroy(crema_context *context) {
  if (context == NULL) return;
  close_context(context);
  free(context);
}

crema_device *crema_context_device(const crema_context *context) {
  return context->device;
}

crema_status crema_context_finish(crema_context *context) {
  return context->device->backend->finish(context);
}

crema_status cr_context_workspace(crema_context *context, size_t bytes, crema_devptr *out) {
  if (bytes > context->workspace_bytes) {
    crema_device *device = context->device;
    /* Queued work may still use the old memory. */
    CR_TRY(device->backend->finish(context));
    crema_devptr memory = {0};
    CR_TRY(cr_device_alloc(device, bytes, &memory));
    cr_device_free(device, context->workspace);
    context->workspace = memory;
    context->workspace_bytes = bytes;
  }
  *out = context->workspace;
  return CREMA_OK;
}

/* ---- the thread's host context ---- */

static _Thread_local crema_context host_context;

static struct {
  pthread_once_t once;
  pthread_key_t key;
  bool usable;
} host_exit = {.once = PTHREAD_ONCE_INIT};

static void close_host_context(void *context) {
  close_context(context);
}

static void make_exit_key(void) {
  host_exit.usable = pthread_key_create(&host_exit.key, close_host_context) == 0;
}

crema_context *cr_host_context(void) {
  crema_context *context = &host_context;
  if (context->device == NULL) {
    /* The CPU's context needs nothing that could fail. */
    if (open_context(context, cr_cpu_device(), 1) != CREMA_OK) {
      cr_log_warning("host context: %s", crema_error_text());
    }
    pthread_once(&host_exit.once, make_exit_key);
    if (host_exit.usable) pthread_setspecific(host_exit.key, context);
  }
  return context;
}
