/* Finds what the fake CUDA libraries offer to tests. */
#ifndef CR_TESTS_CUDA_FAKE_SYMBOLS_H
#define CR_TESTS_CUDA_FAKE_SYMBOLS_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static inline void *fake_library(const char *name) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fail_msg("%s", dlerror());
  return library;
}

/* The plug-in holds the fake runtime. */
static inline void *fake_plugin(void) {
  const char *plugin = getenv("CREMA_CUDA_PLUGIN");
  assert_non_null(plugin);
  return fake_library(plugin);
}

/* Puts the address of a function of the library into the pointer at `function`. */
static inline void fake_find(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  if (symbol == NULL) fail_msg("%s", dlerror());
  memcpy(function, &symbol, sizeof symbol);
}

#endif
