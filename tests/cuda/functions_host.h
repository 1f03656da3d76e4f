/* The device functions as C, as the host's launches call them; in the forms in which nvcc compiles
 * them (device/gpu/kernels/hd.h). */
#ifndef CR_TESTS_CUDA_FUNCTIONS_HOST_H
#define CR_TESTS_CUDA_FUNCTIONS_HOST_H

#include "device/gpu/kernels/thread_block.h"

typedef void (*host_each)(const void *args, int64_t i);
typedef void (*host_thread_block)(const void *args, int64_t segment, cr_thread_block thread_block);

typedef struct host_body {
  const char *text; /* the name */
  size_t bytes;     /* of the argument block */
  host_each each, pack;
  host_thread_block thread_block; /* or `each` */
  int length;                     /* of a pack */
} host_body;

/* By number (cr_device_function). */
extern const host_body host_functions_any[], host_functions_f32[], host_functions_f16[],
    host_functions_bf16[];

/* Elements 0 ... count - 1, by packs if `packed`. */
static inline void host_run_each(const host_body *f, const void *args, int64_t count, bool packed) {
  int64_t i = 0;
  for (; packed && i + f->length <= count; i += f->length) f->pack(args, i);
  for (; i < count; ++i) f->each(args, i);
}

#endif
