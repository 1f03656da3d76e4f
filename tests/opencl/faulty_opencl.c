/* An OpenCL loader that fails when a test asks for it, and else is the system's. It has the calls
 * below; all others are found in the system's loader, with which it is linked. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <string.h>

#include "faulty_opencl.h"

#define EXPORT __attribute__((visibility("default")))

static faulty_state state;

EXPORT faulty_state *faulty_opencl(void);
EXPORT faulty_state *faulty_opencl(void) {
  return &state;
}

static void find(const char *name, void *function) {
  void *symbol = dlsym(dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL), name);
  memcpy(function, &symbol, sizeof symbol);
}

EXPORT cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                             cl_int *error) {
  static __typeof__(&clCreateBuffer) next;
  if (state.no_memory) {
    *error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return NULL;
  }
  if (next == NULL) find("clCreateBuffer", &next);
  return next(context, flags, size, host, error);
}

EXPORT cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                     const size_t *offset, const size_t *global,
                                     const size_t *local, cl_uint events, const cl_event *list,
                                     cl_event *event) {
  static __typeof__(&clEnqueueNDRangeKernel) next;
  if (state.lost) return CL_DEVICE_NOT_AVAILABLE;
  if (next == NULL) find("clEnqueueNDRangeKernel", &next);
  return next(queue, kernel, dimensions, offset, global, local, events, list, event);
}

EXPORT cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool wait,
                                  size_t offset, size_t size, void *to, cl_uint events,
                                  const cl_event *list, cl_event *event) {
  static __typeof__(&clEnqueueReadBuffer) next;
  if (state.lost) return CL_INVALID_COMMAND_QUEUE;
  if (next == NULL) find("clEnqueueReadBuffer", &next);
  return next(queue, buffer, wait, offset, size, to, events, list, event);
}

EXPORT cl_int clFinish(cl_command_queue queue) {
  static __typeof__(&clFinish) next;
  if (state.lost) return CL_INVALID_COMMAND_QUEUE;
  if (next == NULL) find("clFinish", &next);
  return next(queue);
}
