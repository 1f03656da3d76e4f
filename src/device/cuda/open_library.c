#define _GNU_SOURCE /* secure_getenv */

#include <stdlib.h>

#include "device/cuda/cuda_private.h"
#include "device/gpu/library.h"

void *cr_cuda_open_library(const char *name) {
  void *library = cr_library_open("CREMA_CUDA_PATH", name);
  if (library == NULL) library = cr_library_open_in(secure_getenv("CUDA_HOME"), name);
  return library != NULL ? library : cr_library_open_in("/usr/local/cuda", name);
}
