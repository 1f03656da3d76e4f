/* Launches of device functions. */
#include <string.h>

#include "core/fail.h"
#include "device/opencl/opencl_private.h"

/* The lanes of a work-group whose items share nothing. */
enum { GROUP = 64, CPU_GROUPS = 4096, GPU_GROUPS = 64 /* for each compute unit */ };

/* Thread blocks of a CPU are loops, which gain nothing from many lanes. */
size_t cr_opencl_most_lanes(const cr_opencl_device *device) {
  size_t lanes = device->is_cpu ? GROUP : 1024;
  while (lanes > device->most_lanes) lanes /= 2;
  return lanes;
}

cr_gpu_form cr_opencl_form(const crema_device *device, cr_gpu_form form) {
  return cr_opencl_of(device)->has_forms ? form : CR_FORM_ANY;
}

static crema_status make_kernel(crema_context *context, int function, cr_gpu_form form,
                                const char *name, cl_kernel *out) {
  cl_program program = NULL;
  cl_int error = CL_SUCCESS;
  CR_TRY(cr_opencl_program(context->device, function, form, &program));
  *out = cr_cl.clCreateKernel(program, name, &error);
  return cr_opencl_check(context->device, error, cr_gpu_function_name(function));
}

/* The lanes that the compiled kernel allows. */
static size_t kernel_lanes(const crema_device *device, cl_kernel kernel) {
  size_t lanes = 1;
  (void)cr_cl.clGetKernelWorkGroupInfo(kernel, cr_opencl_of(device)->id, CL_KERNEL_WORK_GROUP_SIZE,
                                       sizeof lanes, &lanes, NULL);
  return lanes;
}

/* The kernel of the launch's form, or of the form for any type, which has no packs. */
static crema_status find_kernel(crema_context *context, const cr_gpu_launch *launch,
                                cr_opencl_kernel **out, cl_kernel *started) {
  const int function = cr_gpu_number_of(launch->function);
  const cr_gpu_form form = cr_opencl_form(context->device, cr_gpu_form_of(launch->function));
  const bool alone = launch->lanes == 1;
  const bool packed = cr_gpu_is_packed(launch->function) && form != CR_FORM_ANY;
  cr_opencl_kernel *kernel = &cr_opencl_stream_of(context)->kernel[form][function];
  cl_kernel *own = alone ? &kernel->alone : packed ? &kernel->packs : &kernel->run;
  if (*own == NULL) {
    CR_TRY(make_kernel(context, function, form, alone ? "alone" : packed ? "packs" : "run", own));
    const size_t most = alone ? 0 : kernel_lanes(context->device, *own);
    if (!alone && (kernel->most_lanes == 0 || most < kernel->most_lanes)) kernel->most_lanes = most;
    kernel->by_value = cr_opencl_by_value(cr_opencl_of(context->device), function);
    kernel->pointers = cr_opencl_pointers(function, kernel->offset);
  }
  *out = kernel;
  *started = *own;
  return CREMA_OK;
}

/* The arguments of a launch: the block with offsets for its pointers, and the buffers. */
typedef struct launch_arguments {
  cl_ulong words[CR_OPENCL_WORDS];
  size_t bytes;
  cl_mem large; /* the words, if the device does not take them by value; NULL: it does */
  cr_opencl_place place[CR_OPENCL_POINTERS];
} launch_arguments;

static crema_status resolve(const cr_gpu_launch *launch, const cr_opencl_kernel *kernel,
                            launch_arguments *a) {
  const int function = cr_gpu_number_of(launch->function);
  a->bytes = cr_opencl_argument_bytes(function);
  memcpy(a->words, launch->args, a->bytes);
  for (int i = 0; i < kernel->pointers; ++i) {
    cl_ulong *word = &a->words[kernel->offset[i] / sizeof *word];
    a->place[i] = (cr_opencl_place){.buffer = NULL};
    if (*word == 0) continue;
    CR_TRY(cr_opencl_find((uintptr_t)*word, &a->place[i]));
    if (a->place[i].buffer == NULL) {
      return cr_fail(CREMA_E_INTERNAL, "%s gets host memory", cr_gpu_function_name(function));
    }
    *word = a->place[i].offset;
  }
  return CREMA_OK;
}

static cl_int set_arguments(const cr_opencl_device *own, const cr_opencl_kernel *kernel,
                            cl_kernel to, const cr_gpu_launch *launch, launch_arguments *a) {
  const cl_long count = launch->count;
  cl_int error = CL_SUCCESS;
  if (kernel->by_value) {
    error = cr_cl.clSetKernelArg(to, 0, a->bytes, a->words);
  } else {
    a->large = cr_cl.clCreateBuffer(own->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, a->bytes,
                                    a->words, &error);
    if (error == CL_SUCCESS) error = cr_cl.clSetKernelArg(to, 0, sizeof(cl_mem), &a->large);
  }
  if (error == CL_SUCCESS) error = cr_cl.clSetKernelArg(to, 1, sizeof count, &count);
  for (int i = 0; i < kernel->pointers && error == CL_SUCCESS; ++i) {
    error = cr_cl.clSetKernelArg(to, (cl_uint)i + 2, sizeof(cl_mem), &a->place[i].buffer);
  }
  return error;
}

/* An alias' copy of host memory, before (`in`) or after the kernel. */
static cl_int update_alias(cr_opencl_stream *stream, const cr_opencl_place *place, bool in) {
  if (place->buffer == NULL || place->host == NULL) return CL_SUCCESS;
  return in ? cr_cl.clEnqueueWriteBuffer(stream->queue, place->buffer, CL_FALSE, place->offset,
                                         place->bytes, place->host, 0, NULL, cr_opencl_next(stream))
            : cr_cl.clEnqueueReadBuffer(stream->queue, place->buffer, CL_FALSE, place->offset,
                                        place->bytes, place->host, 0, NULL, cr_opencl_next(stream));
}

static cl_int update_aliases(cr_opencl_stream *stream, const cr_opencl_kernel *kernel,
                             const launch_arguments *a, bool in) {
  cl_int error = CL_SUCCESS;
  for (int i = 0; i < kernel->pointers && error == CL_SUCCESS; ++i) {
    error = update_alias(stream, &a->place[i], in);
  }
  return error;
}

/* The work-groups of a launch: enough to fill the device; kernels step over the rest. */
static size_t groups_of(const cr_opencl_device *own, const cr_gpu_launch *launch) {
  const size_t most = own->is_cpu ? CPU_GROUPS : (size_t)own->units * GPU_GROUPS;
  const size_t items = launch->lanes > 1 ? 1 : GROUP;
  const size_t groups = ((size_t)launch->count + items - 1) / items;
  return groups < most ? groups : most;
}

static size_t lanes_of(const cr_opencl_device *own, const cr_gpu_launch *launch,
                       size_t kernel_most) {
  const size_t most = cr_opencl_most_lanes(own);
  /* A CPU's kernels are compiled for each number of lanes, so they have one. */
  size_t lanes = launch->lanes <= 1 ? GROUP : own->is_cpu ? most : (size_t)launch->lanes;
  while (lanes > most || (launch->lanes != 1 && lanes > kernel_most)) lanes /= 2;
  return lanes;
}

crema_status cr_gpu_start(crema_context *context, const cr_gpu_launch *launch) {
  cr_opencl_stream *stream = cr_opencl_stream_of(context);
  const cr_opencl_device *own = cr_opencl_of(context->device);
  cr_opencl_kernel *kernel = NULL;
  cl_kernel started = NULL;
  launch_arguments a = {.large = NULL};
  CR_TRY(find_kernel(context, launch, &kernel, &started));
  CR_TRY(resolve(launch, kernel, &a));
  const size_t lanes = lanes_of(own, launch, kernel->most_lanes);
  const size_t all = groups_of(own, launch) * lanes;
  cr_opencl_lock();
  cl_int error = set_arguments(own, kernel, started, launch, &a);
  if (error == CL_SUCCESS) error = update_aliases(stream, kernel, &a, true);
  if (error == CL_SUCCESS) {
    error = cr_cl.clEnqueueNDRangeKernel(stream->queue, started, 1, NULL, &all, &lanes, 0, NULL,
                                         cr_opencl_next(stream));
  }
  if (error == CL_SUCCESS) error = update_aliases(stream, kernel, &a, false);
  /* The driver frees it after the kernel. */
  if (a.large != NULL) (void)cr_cl.clReleaseMemObject(a.large);
  cr_opencl_unlock();
  return cr_opencl_queued(context, error, cr_gpu_function_name(launch->function));
}
