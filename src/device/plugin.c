#include "device/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/module.h"
#include "device/gpu/plugin.h"

/* A plug-in, and the answer to the first request for it. */
typedef struct gpu_plugin {
  crema_device_type type;
  const char *none;     /* the start of the message without its devices */
  const char *file;     /* of the plug-in */
  const char *variable; /* of the environment: another path */
  bool asked;
  const cr_backend *backend;
  crema_status status;
  char text[1024];
} gpu_plugin;

static struct {
  pthread_mutex_t lock;
  gpu_plugin plugin[2];
} loader = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .plugin = {{.type = CREMA_DEVICE_CUDA,
                        .none = "no CUDA devices",
                        .file = "libcrema-cuda.so",
                        .variable = "CREMA_CUDA_PLUGIN"},
                       {.type = CREMA_DEVICE_OPENCL,
                        .none = "no OpenCL devices",
                        .file = "libcrema-opencl.so",
                        .variable = "CREMA_OPENCL_PLUGIN"}}};
enum { PLUGINS = sizeof loader.plugin / sizeof loader.plugin[0] };

static void log_text(crema_log_level level, const char *file, int line, const char *text) {
  cr_log_at(level, file, line, "%s", text);
}

static const cr_gpu_services services = {.fail_text = cr_fail_text,
                                         .error_text = crema_error_text,
                                         .log_text = log_text,
                                         .choose = cr_context_choose};

static crema_status load(const gpu_plugin *p, const cr_backend **out) {
  static const cr_gpu_abi abi = CR_GPU_ABI_HERE;
  void *library = NULL;
  if (cr_module_open(p->file, p->variable, &library) != CREMA_OK) {
    return cr_fail_in(CREMA_E_NO_DEVICE, "%s", p->none);
  }
  /* C has no conversion from an object's address to a function's. */
  void *symbol = dlsym(library, "crema_gpu_backend");
  cr_gpu_entry *entry = NULL;
  memcpy(&entry, &symbol, sizeof entry);
  *out = entry == NULL ? NULL : entry(&abi, &services);
  /* A table that was handed over is used for ever. */
  if (*out != NULL && (*out)->type == p->type) return CREMA_OK;
  crema_status status =
      entry == NULL || *out != NULL
          ? cr_fail(CREMA_E_NO_DEVICE, "%s: %s is not crema's plug-in", p->none, p->file)
          : cr_fail_in(CREMA_E_NO_DEVICE, "%s", p->none);
  *out = NULL;
  dlclose(library);
  return status;
}

static gpu_plugin *find(crema_device_type type) {
  for (int i = 0; i < PLUGINS; ++i) {
    if (loader.plugin[i].type == type) return &loader.plugin[i];
  }
  return NULL;
}

bool cr_plugin_has(crema_device_type type) {
  return find(type) != NULL;
}

crema_status cr_plugin_load(crema_device_type type, const cr_backend **out) {
  gpu_plugin *p = find(type);
  pthread_mutex_lock(&loader.lock);
  if (!p->asked) {
    p->status = load(p, &p->backend);
    if (p->status != CREMA_OK) snprintf(p->text, sizeof p->text, "%s", crema_error_text());
    p->asked = true;
  }
  crema_status status = p->status;
  *out = p->backend;
  pthread_mutex_unlock(&loader.lock);
  return status == CREMA_OK ? CREMA_OK : cr_fail_text(status, p->text);
}
