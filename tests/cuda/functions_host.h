/* The device functions as C, as the host's launches call them; in both forms in which nvcc compiles
 * them (device/gpu/kernels/hd.h). */
#ifndef CR_TESTS_CUDA_FUNCTIONS_HOST_H
#define CR_TESTS_CUDA_FUNCTIONS_HOST_H

#include "device/gpu/kernels/thread_block.h"

typedef void (*host_each)(const void *args, int64_t i);
typedef void (*host_thread_block)(const void *args, int64_t segment, cr_thread_block thread_block);

typedef struct host_function {
  host_each each;
  host_thread_block thread_block; /* one of the two */
} host_function;

/* By number (cr_device_function). */
extern const host_function host_functions[], host_functions_common[];

#endif
