#define _GNU_SOURCE /* secure_getenv */

#include "parallel/mpi_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/system.h"

enum { PATH = 4096 };

/* Modules that Open MPI opens look up the library's symbols in the whole process, and its threads
 * outlive any use by crema. */
static void *open_name(const char *name) {
  return dlopen(name, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
}

static crema_status open_library(void **out) {
  static const char name[] = "libmpi.so.40";
  const char *folder = secure_getenv("CREMA_MPI_PATH");
  char path[PATH];
  if (folder != NULL && folder[0] != '\0') {
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= sizeof path) {
      return cr_fail(CREMA_E_NOT_FOUND, "CREMA_MPI_PATH is too long");
    }
    *out = open_name(path);
  } else {
    *out = open_name(name);
  }
  if (*out != NULL) return CREMA_OK;
  const char *reason = dlerror();
  return cr_fail(CREMA_E_NOT_FOUND,
                 "Open MPI's library cannot be opened (%s); where it is installed, CREMA_MPI_PATH "
                 "names its folder",
                 reason != NULL ? reason : name);
}

crema_status cr_mpi_open(cr_mpi *out) {
  void *library = NULL;
  CR_TRY(open_library(&library));
  const char *missing = NULL;
  void *symbol = NULL;
  /* C has no conversion from an object's address to a function's. */
#define CR_FIND_FUNCTION(name, parameters)    \
  symbol = dlsym(library, "MPI_" #name);      \
  memcpy(&out->name, &symbol, sizeof symbol); \
  if (symbol == NULL) missing = "MPI_" #name;
  CR_MPI_FUNCTIONS(CR_FIND_FUNCTION)
#undef CR_FIND_FUNCTION
#define CR_FIND_OBJECT(member, name)   \
  out->member = dlsym(library, #name); \
  if (out->member == NULL) missing = #name;
  CR_MPI_OBJECTS(CR_FIND_OBJECT)
#undef CR_FIND_OBJECT
  if (missing != NULL) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "libmpi.so.40 is not a library of Open MPI 3 to 5: no %s in it", missing);
  }
  char version[CR_MPI_TEXT] = "";
  int length = 0;
  if (out->Get_library_version(version, &length) != CR_MPI_SUCCESS ||
      strncmp(version, "Open MPI", strlen("Open MPI")) != 0) {
    version[strcspn(version, "\n")] = '\0';
    return cr_fail(CREMA_E_UNSUPPORTED, "libmpi.so.40 calls itself '%.80s', not Open MPI", version);
  }
  return CREMA_OK;
}
