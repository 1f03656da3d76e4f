/* What the files of the fake runtime share. */
#ifndef CR_TESTS_CUDA_FAKE_RUNTIME_H
#define CR_TESTS_CUDA_FAKE_RUNTIME_H

#include <cuda_runtime_api.h>

struct CUstream_st {
  int device;
  struct fake_graph *recording; /* NULL: work on the stream is done at once */
};

/* Keeps the error as the thread's last one, and returns it. */
cudaError_t fake_fail(cudaError_t error);

/* The device that is current for the thread, bound to it as every call that needs a context does.
 */
int fake_device(void);

#endif
