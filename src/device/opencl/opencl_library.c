/* OpenCL's loader and CLBlast, opened at run time: the plug-in depends on neither. */
#include "device/opencl/opencl_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/gpu/library.h"

cr_opencl cr_cl;
static cr_library_answer opencl_answer = {.lock = PTHREAD_MUTEX_INITIALIZER, .quiet = true};
static cr_clblast clblast;
static cr_library_answer clblast_answer = {.lock = PTHREAD_MUTEX_INITIALIZER, .quiet = true};

static void *open_library(const char *name) {
  return cr_library_open("CREMA_OPENCL_PATH", name);
}

static void open_opencl(char *missing, size_t size) {
  void *library = open_library("libOpenCL.so.1");
  if (library == NULL) {
    snprintf(missing, size, "the OpenCL loader (libOpenCL.so.1) was not found");
    return;
  }
#define CR_FIND(name)                                                    \
  if (!cr_library_symbol(library, #name, &cr_cl.name)) {                 \
    snprintf(missing, size, "the OpenCL loader has no function " #name); \
  }
  CR_OPENCL_SYMBOLS(CR_FIND)
#undef CR_FIND
}

crema_status cr_opencl_open(void) {
  return cr_library_ask(&opencl_answer, open_opencl);
}

static void open_clblast(char *missing, size_t size) {
  const char *choice = getenv("CREMA_OPENCL_BLAS");
  if (choice != NULL && strcmp(choice, "own") == 0) {
    snprintf(missing, size, "CREMA_OPENCL_BLAS asks for crema's own products");
    return;
  }
  void *library = open_library("libclblast.so.1");
  if (library == NULL || !cr_library_symbol(library, "CLBlastSgemm", &clblast.Sgemm)) {
    snprintf(missing, size, "CLBlast (libclblast.so.1) was not found");
  }
}

const cr_clblast *cr_opencl_clblast(void) {
  return cr_library_ask(&clblast_answer, open_clblast) == CREMA_OK ? &clblast : NULL;
}
