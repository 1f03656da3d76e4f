#include "device/cuda_plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/module.h"
#include "device/cuda/plugin.h"

static const char plugin_name[] = "libcrema-cuda.so";

static void log_text(crema_log_level level, const char *file, int line, const char *text) {
  cr_log_at(level, file, line, "%s", text);
}

static const cr_cuda_services services = {.fail_text = cr_fail_text,
                                          .error_text = crema_error_text,
                                          .log_text = log_text,
                                          .choose = cr_context_choose};

static crema_status load(const cr_backend **out) {
  static const cr_cuda_abi abi = CR_CUDA_ABI_HERE;
  void *library = NULL;
  if (cr_module_open(plugin_name, "CREMA_CUDA_PLUGIN", &library) != CREMA_OK) {
    return cr_fail_in(CREMA_E_NO_DEVICE, "no CUDA devices");
  }
  /* C has no conversion from an object's address to a function's. */
  void *symbol = dlsym(library, "crema_cuda_backend");
  cr_cuda_entry *entry = NULL;
  memcpy(&entry, &symbol, sizeof entry);
  *out = entry == NULL ? NULL : entry(&abi, &services);
  /* A table that was handed over is used for ever. */
  if (*out != NULL) return CREMA_OK;
  crema_status status =
      entry == NULL
          ? cr_fail(CREMA_E_NO_DEVICE, "no CUDA devices: %s is not crema's plug-in", plugin_name)
          : cr_fail_in(CREMA_E_NO_DEVICE, "no CUDA devices");
  dlclose(library);
  return status;
}

crema_status cr_cuda_plugin_load(const cr_backend **out) {
  static struct {
    pthread_mutex_t lock;
    bool asked;
    const cr_backend *backend;
    crema_status status;
    char text[1024];
  } answer = {.lock = PTHREAD_MUTEX_INITIALIZER};
  pthread_mutex_lock(&answer.lock);
  if (!answer.asked) {
    answer.status = load(&answer.backend);
    if (answer.status != CREMA_OK) {
      snprintf(answer.text, sizeof answer.text, "%s", crema_error_text());
    }
    answer.asked = true;
  }
  crema_status status = answer.status;
  *out = answer.backend;
  pthread_mutex_unlock(&answer.lock);
  return status == CREMA_OK ? CREMA_OK : cr_fail_text(status, answer.text);
}
