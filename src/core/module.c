#define _GNU_SOURCE /* dladdr, secure_getenv */
#include "core/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/system.h"

enum { PATH_BYTES = 4096 };

/* An address inside the file that this code is linked into. */
static const char here = 0;

/* The folder of that file, with the slash at its end. */
static bool own_folder(char *path) {
  if (!cr_system_file_of(&here, path, PATH_BYTES)) return false;
  char *slash = strrchr(path, '/');
  if (slash == NULL) return false;
  slash[1] = '\0';
  return true;
}

/* NULL when there is no such file, with `reason` unchanged, or when it cannot be opened, which
 * `reason` then explains. */
static void *open_file(const char *folder, const char *below, const char *name, char *reason,
                       size_t size) {
  char path[PATH_BYTES];
  int length = snprintf(path, sizeof path, "%s%s%s", folder, below, name);
  if ((size_t)length >= PATH_BYTES || access(path, F_OK) != 0) return NULL;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) snprintf(reason, size, "%s", dlerror());
  return library;
}

/* The same in the folders of the dynamic loader. Its report that no file has that name needs no
 * mention. */
static void *open_by_loader(const char *name, char *reason, size_t size) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library != NULL) return library;
  const char *why = dlerror();
  bool absent = strncmp(why, name, strlen(name)) == 0 && strstr(why, strerror(ENOENT)) != NULL;
  if (!absent) snprintf(reason, size, "%s", why);
  return NULL;
}

crema_status cr_module_open(const char *name, const char *variable, void **out) {
  /* From bin/ to the library folder: as in the build tree, and as installed. */
  static const char *const below[] = {"", "../lib/", CREMA_LIB_FROM_BIN "/"};
  char folder[PATH_BYTES], reason[1024] = "";
  const char *given = secure_getenv(variable);
  *out = NULL;
  if (given != NULL && given[0] != '\0') {
    *out = dlopen(given, RTLD_NOW | RTLD_LOCAL);
    if (*out != NULL) return CREMA_OK;
    return cr_fail(CREMA_E_NOT_FOUND, "%s: %s", variable, dlerror());
  }
  if (own_folder(folder)) {
    for (size_t i = 0; i < sizeof below / sizeof below[0]; ++i) {
      if (*out == NULL && reason[0] == '\0') {
        *out = open_file(folder, below[i], name, reason, sizeof reason);
      }
    }
  }
  if (*out == NULL && reason[0] == '\0') *out = open_by_loader(name, reason, sizeof reason);
  if (*out != NULL) return CREMA_OK;
  if (reason[0] != '\0') return cr_fail(CREMA_E_NOT_FOUND, "%s", reason);
  return cr_fail(CREMA_E_NOT_FOUND, "%s was not found", name);
}

crema_status cr_module_open_file(const char *path, const char *symbol, void **out) {
  /* Later libraries see crema's functions even if an interpreter has opened crema with RTLD_LOCAL.
   * A program is no library, and its symbols are visible anyway. */
  Dl_info info;
  void *own = dladdr(&here, &info) == 0 || info.dli_fname == NULL
                  ? NULL
                  : dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
  if (own != NULL) dlclose(own);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == NULL) return cr_fail(CREMA_E_UNSUPPORTED, "cannot be opened: %s", dlerror());
  *out = dlsym(library, symbol);
  if (*out != NULL) return CREMA_OK;
  dlclose(library);
  return cr_fail(CREMA_E_UNSUPPORTED, "%s: has no function %s", path, symbol);
}
