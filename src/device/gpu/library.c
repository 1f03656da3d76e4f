#define _GNU_SOURCE /* secure_getenv */

#include "device/gpu/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/system.h"

enum { PATH = 4096 };

/* Below a folder: the folder itself, the layouts of a toolkit and of NVIDIA's Python packages. */
static const char *const below[] = {"", "lib64/", "lib/", "*/lib/"};

static void *open_below(const char *folder, size_t length, const char *name) {
  char path[PATH];
  void *library = NULL;
  for (size_t b = 0; library == NULL && b < sizeof below / sizeof below[0]; ++b) {
    glob_t found;
    const int n = snprintf(path, sizeof path, "%.*s/%s%s", (int)length, folder, below[b], name);
    if (n < 0 || (size_t)n >= sizeof path || glob(path, 0, NULL, &found) != 0) continue;
    for (size_t i = 0; library == NULL && i < found.gl_pathc; ++i) {
      library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    }
    globfree(&found);
  }
  return library;
}

void *cr_library_open_in(const char *folders, const char *name) {
  void *library = NULL;
  while (library == NULL && folders != NULL && *folders != '\0') {
    const size_t length = strcspn(folders, ":");
    if (length > 0 && length < PATH) library = open_below(folders, length, name);
    folders += length + (folders[length] == ':');
  }
  return library;
}

void *cr_library_open(const char *variable, const char *name) {
  void *library = cr_library_open_in(secure_getenv(variable), name);
  return library != NULL ? library : dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

/* C has no conversion from an object's address to a function's. */
bool cr_library_symbol(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static crema_status missing_status(const char *missing) {
  return missing[0] == '\0' ? CREMA_OK : cr_fail(CREMA_E_UNSUPPORTED, "%s", missing);
}

crema_status cr_library_ask(cr_library_answer *answer, cr_library_opener *opener) {
  char missing[CR_LIBRARY_TEXT];
  pthread_mutex_lock(&answer->lock);
  if (!answer->asked) {
    opener(answer->missing, sizeof answer->missing);
    if (answer->missing[0] != '\0' && !answer->quiet) cr_log_warning("%s", answer->missing);
    answer->asked = true;
  }
  memcpy(missing, answer->missing, sizeof missing);
  pthread_mutex_unlock(&answer->lock);
  return missing_status(missing);
}

crema_status cr_library_refuse(cr_library_answer *answer, const char *fmt, ...) {
  char missing[CR_LIBRARY_TEXT];
  va_list args;
  va_start(args, fmt);
  vsnprintf(missing, sizeof missing, fmt, args);
  va_end(args);
  pthread_mutex_lock(&answer->lock);
  if (answer->missing[0] == '\0') {
    memcpy(answer->missing, missing, sizeof missing);
    cr_log_warning("%s", missing);
  }
  pthread_mutex_unlock(&answer->lock);
  return missing_status(missing);
}
