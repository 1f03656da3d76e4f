/* Finding and opening the CUDA plug-in. */
#define _GNU_SOURCE /* dladdr */
#include "device/cuda_plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "device/registry.h"

static const char plugin_name[] = "libcrema-cuda.so";

static void log_text(crema_log_level level, const char *file, int line, const char *text) {
  cr_log_at(level, file, line, "%s", text);
}

static const cr_cuda_services services = {
    .fail_text = cr_fail_text, .error_text = crema_error_text, .log_text = log_text};

/* Writes the path of `below` under the folder of this library (or program) into path. */
static bool beside(const char *below, char *path, size_t size) {
  Dl_info info;
  if (dladdr(&services, &info) == 0 || info.dli_fname == NULL) return false;
  const char *slash = strrchr(info.dli_fname, '/');
  int length = slash == NULL ? 0 : (int)(slash - info.dli_fname + 1);
  int written = snprintf(path, size, "%.*s%s%s", length, info.dli_fname, below, plugin_name);
  return written > 0 && (size_t)written < size;
}

/* A file that exists but cannot be opened is a failure worth telling; one that does not exist is
 * not. */
static void *open_file(const char *path, char *reason, size_t size) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) return NULL;
  fclose(file);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) snprintf(reason, size, "%s", dlerror());
  return library;
}

static crema_status open_plugin(void **out) {
  char path[4096], reason[1024] = "";
  const char *given = getenv("CREMA_CUDA_PLUGIN");
  if (given != NULL && given[0] != '\0') {
    *out = dlopen(given, RTLD_NOW | RTLD_LOCAL);
    if (*out != NULL) return CREMA_OK;
    return cr_fail(CREMA_E_NO_DEVICE, "no CUDA devices: CREMA_CUDA_PLUGIN: %s", dlerror());
  }
  /* Beside the library; for a program that holds the library, also in the lib folder next door. */
  void *library = NULL;
  if (beside("", path, sizeof path)) library = open_file(path, reason, sizeof reason);
  if (library == NULL && reason[0] == '\0' && beside("../lib/", path, sizeof path)) {
    library = open_file(path, reason, sizeof reason);
  }
  if (library == NULL && reason[0] == '\0') library = dlopen(plugin_name, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL && reason[0] != '\0') {
    return cr_fail(CREMA_E_NO_DEVICE, "no CUDA devices: %s", reason);
  }
  if (library == NULL) {
    return cr_fail(CREMA_E_NO_DEVICE, "no CUDA devices: %s was not found", plugin_name);
  }
  *out = library;
  return CREMA_OK;
}

static crema_status load(void) {
  static const cr_cuda_abi abi = CR_CUDA_ABI_HERE;
  void *library = NULL;
  CR_TRY(open_plugin(&library));
  /* C has no conversion from an object's address to a function's. */
  void *symbol = dlsym(library, "crema_cuda_backend");
  cr_cuda_entry *entry = NULL;
  memcpy(&entry, &symbol, sizeof entry);
  const cr_backend *backend = NULL;
  crema_status status = CREMA_E_NO_DEVICE;
  if (entry == NULL) {
    cr_fail(status, "no CUDA devices: %s is not crema's plug-in", plugin_name);
  } else if ((backend = entry(&abi, &services)) == NULL) {
    cr_fail_in(status, "no CUDA devices");
  } else {
    status = cr_backend_register(backend);
  }
  /* A table that was handed over may be in use for ever. */
  if (backend == NULL) dlclose(library);
  return status;
}

crema_status cr_cuda_plugin_load(void) {
  static struct {
    pthread_mutex_t lock;
    bool asked;
    crema_status status;
    char text[1024];
  } answer = {.lock = PTHREAD_MUTEX_INITIALIZER};
  pthread_mutex_lock(&answer.lock);
  if (!answer.asked) {
    answer.status = load();
    if (answer.status != CREMA_OK) {
      snprintf(answer.text, sizeof answer.text, "%s", crema_error_text());
    }
    answer.asked = true;
  }
  crema_status status = answer.status;
  pthread_mutex_unlock(&answer.lock);
  return status == CREMA_OK ? CREMA_OK : cr_fail_text(status, answer.text);
}
