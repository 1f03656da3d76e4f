#define _GNU_SOURCE /* RTLD_NEXT */
#include "interpose.h"

#include <dlfcn.h>
#include <stdlib.h>

NOT_INSTRUMENTED void *interpose_next(const char *name) {
  void *function = dlsym(RTLD_NEXT, name);
  if (function == NULL) abort();
  return function;
}
