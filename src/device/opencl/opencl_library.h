/* The functions of OpenCL that the plug-in calls, found at run time. */
#ifndef CR_OPENCL_LIBRARY_H
#define CR_OPENCL_LIBRARY_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "crema/status.h"

#define CR_OPENCL_SYMBOLS(X)      \
  X(clBuildProgram)               \
  X(clCreateBuffer)               \
  X(clCreateCommandQueue)         \
  X(clCreateContext)              \
  X(clCreateKernel)               \
  X(clCreateProgramWithBinary)    \
  X(clCreateProgramWithSource)    \
  X(clEnqueueBarrierWithWaitList) \
  X(clEnqueueCopyBuffer)          \
  X(clEnqueueFillBuffer)          \
  X(clEnqueueMapBuffer)           \
  X(clEnqueueMarkerWithWaitList)  \
  X(clEnqueueMigrateMemObjects)   \
  X(clEnqueueNDRangeKernel)       \
  X(clEnqueueReadBuffer)          \
  X(clEnqueueUnmapMemObject)      \
  X(clEnqueueWriteBuffer)         \
  X(clFinish)                     \
  X(clFlush)                      \
  X(clGetDeviceIDs)               \
  X(clGetDeviceInfo)              \
  X(clGetEventInfo)               \
  X(clGetKernelWorkGroupInfo)     \
  X(clGetPlatformIDs)             \
  X(clGetPlatformInfo)            \
  X(clGetProgramBuildInfo)        \
  X(clGetProgramInfo)             \
  X(clReleaseCommandQueue)        \
  X(clReleaseContext)             \
  X(clReleaseEvent)               \
  X(clReleaseKernel)              \
  X(clReleaseMemObject)           \
  X(clReleaseProgram)             \
  X(clRetainEvent)                \
  X(clSetKernelArg)               \
  X(clWaitForEvents)

typedef struct cr_opencl {
#define CR_FIELD(name) __typeof__(&name) name;
  CR_OPENCL_SYMBOLS(CR_FIELD)
#undef CR_FIELD
} cr_opencl;

/* The functions; valid after a success of cr_opencl_open. */
extern cr_opencl cr_cl;

/* Opens libOpenCL.so.1 at the first call, in the folders of CREMA_OPENCL_PATH, then in the loader's
 * folders. Errors: CREMA_E_UNSUPPORTED; the text names the missing part. */
crema_status cr_opencl_open(void) CREMA_MUST_USE;

/* The functions of CLBlast. */
typedef struct cr_clblast {
  int (*Sgemm)(int layout, int a_transpose, int b_transpose, size_t m, size_t n, size_t k,
               float alpha, cl_mem a, size_t a_offset, size_t a_ld, cl_mem b, size_t b_offset,
               size_t b_ld, float beta, cl_mem c, size_t c_offset, size_t c_ld,
               cl_command_queue *queue, cl_event *event);
} cr_clblast;

/* CLBlast, opened at the first call; NULL if it was not found or CREMA_OPENCL_BLAS asks for crema's
 * own products. */
const cr_clblast *cr_opencl_clblast(void);

#endif
