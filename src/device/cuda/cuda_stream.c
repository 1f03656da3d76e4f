/* Streams: contexts, copies and events over the CUDA runtime. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/copy_check.h"
#include "device/cuda/cuda_private.h"
#include "device/cuda/cuda_table.h"

static crema_status open_stream(cuda_context *state, const cuda_wait *wait) {
  void *fault = NULL, *device_fault = NULL, *passes = NULL;
  CR_TRY(cr_cuda_check(cudaStreamCreateWithFlags(&state->queue, cudaStreamNonBlocking),
                       "making a stream"));
  state->stream = state->queue;
  crema_status status;
  if (wait->sleeps) {
    CR_TRY_GOTO(
        cr_cuda_check(cudaEventCreateWithFlags(&state->done, wait->event_flags), "making an event"),
        stream);
  }
  CR_TRY_GOTO(cr_cuda_check(cudaHostAlloc(&fault, sizeof *state->fault,
                                          cudaHostAllocPortable | cudaHostAllocMapped),
                            "allocating page-locked memory"),
              event);
  CR_TRY_GOTO(cr_cuda_check(cudaHostGetDevicePointer(&device_fault, fault, 0),
                            "reaching page-locked memory"),
              fault);
  CR_TRY_GOTO(cr_cuda_check(cudaMalloc(&passes, sizeof *state->passes), "allocating device memory"),
              fault);
  memset(fault, 0, sizeof *state->fault);
  state->passes = passes;
  state->fault = fault;
  state->device_fault = device_fault;
  return CREMA_OK;
fault:
  (void)cudaFreeHost(fault);
event:
  if (state->done != NULL) (void)cudaEventDestroy(state->done);
stream:
  (void)cudaStreamDestroy(state->queue);
  return status;
}

crema_status cr_cuda_context_open(crema_context *context) {
  int before = -1;
  CR_TRY(cr_cuda_interrupt("a context is opened"));
  cuda_context *state = calloc(1, sizeof *state);
  if (state == NULL) return cr_fail_memory(sizeof *state, "a context");
  crema_status status = cr_gpu_enter(context->device, &before);
  if (status == CREMA_OK) {
    status = open_stream(state, cr_cuda_wait(context->device));
    cr_gpu_leave(before);
  }
  if (status != CREMA_OK) {
    free(state);
    return status;
  }
  context->state = state;
  return CREMA_OK;
}

void cr_cuda_context_close(crema_context *context) {
  cuda_context *state = cr_cuda_context(context);
  int before = -1;
  if (state == NULL) return;
  (void)!cr_cuda_interrupt("a context is closed");
  /* At the end of the process the runtime may be unloaded with all its objects, and libraries that
   * are called then may crash. */
  if (cr_gpu_enter(context->device, &before) == CREMA_OK) {
#ifdef CREMA_CUDNN
    cr_cuda_close_dnn(state);
#endif
    cr_cuda_close_blas(state);
    if (state->done != NULL) (void)cudaEventDestroy(state->done);
    cr_cuda_graph_close(state);
    (void)cudaStreamDestroy(state->queue);
    (void)cudaFree(state->passes);
    (void)cudaFreeHost(state->fault);
    (void)cudaGetLastError();
    cr_gpu_leave(before);
  }
  free(state);
  context->state = NULL;
}

static cudaError_t await_stream(const cuda_context *state) {
  if (state->done == NULL) return cudaStreamSynchronize(state->queue);
  const cudaError_t error = cudaEventRecord(state->done, state->queue);
  return error != cudaSuccess ? error : cudaEventSynchronize(state->done);
}

crema_status cr_cuda_finish(crema_context *context) {
  cuda_context *state = cr_cuda_context(context);
  int before = -1;
  CR_TRY(cr_cuda_interrupt("the host waits for the device"));
  CR_TRY(cr_gpu_enter(context->device, &before));
  const cudaError_t error = await_stream(state);
  cr_gpu_leave(before);
  CR_TRY(cr_cuda_check(error, "waiting for queued work"));
  return cr_gpu_fault_take(state->fault);
}

crema_status cr_cuda_failure(crema_context *context) {
  return cr_gpu_fault_take(cr_cuda_context(context)->fault);
}

crema_status cr_cuda_busy(crema_context *context, bool *out) {
  int before = -1;
  CR_TRY(cr_cuda_interrupt("the host looks whether the device is done"));
  CR_TRY(cr_gpu_enter(context->device, &before));
  const cudaError_t error = cudaStreamQuery(cr_cuda_context(context)->queue);
  cr_gpu_leave(before);
  *out = error == cudaErrorNotReady;
  /* "Not ready" would otherwise be the pending failure that the next launch reports. */
  if (*out) (void)cudaGetLastError();
  return *out ? CREMA_OK : cr_cuda_check(error, "asking for queued work");
}

cr_gpu_fault *cr_gpu_fault_of(crema_context *context) {
  return cr_cuda_context(context)->device_fault;
}

static enum cudaMemcpyKind copy_direction(cr_copy_kind kind) {
  switch (kind) {
    case CR_COPY_HOST_TO_DEVICE: return cudaMemcpyHostToDevice;
    case CR_COPY_DEVICE_TO_HOST: return cudaMemcpyDeviceToHost;
    case CR_COPY_SAME_DEVICE: return cudaMemcpyDeviceToDevice;
    case CR_COPY_PEER: break;
  }
  return cudaMemcpyDefault; /* addresses say which devices they belong to */
}

crema_status cr_cuda_copy(crema_context *context, cr_copy_kind kind, uintptr_t dst, uintptr_t src,
                          size_t bytes) {
  int before = -1;
  if (bytes == 0 || dst == src) return CREMA_OK;
  CR_TRY(cr_copy_check(dst, src, bytes));
  if (kind != CR_COPY_SAME_DEVICE) CR_TRY(cr_cuda_interrupt("values leave or enter the device"));
  CR_TRY(cr_gpu_enter(context->device, &before));
  const cudaError_t error = cudaMemcpyAsync((void *)dst, (const void *)src, bytes, /* NOLINT */
                                            copy_direction(kind), cr_cuda_context(context)->stream);
  cr_gpu_leave(before);
  return cr_cuda_check(error, "copying");
}

crema_status cr_cuda_zero(crema_context *context, crema_devptr memory, size_t bytes) {
  int before = -1;
  if (bytes == 0) return CREMA_OK;
  CR_TRY(cr_gpu_enter(context->device, &before));
  const cudaError_t error = cudaMemsetAsync((void *)memory.address, 0, bytes, /* NOLINT */
                                            cr_cuda_context(context)->stream);
  cr_gpu_leave(before);
  return cr_cuda_check(error, "zeroing");
}

struct cr_native_event {
  cudaEvent_t event;
  const crema_device *device;
};

crema_status cr_cuda_event_create(crema_device *device, cr_native_event **out) {
  int before = -1;
  cr_native_event *event = calloc(1, sizeof *event);
  if (event == NULL) return cr_fail_memory(sizeof *event, "an event");
  event->device = device;
  crema_status status = cr_gpu_enter(device, &before);
  if (status == CREMA_OK) {
    const unsigned flags = cr_cuda_wait(device)->event_flags;
    status = cr_cuda_check(cudaEventCreateWithFlags(&event->event, flags), "making an event");
    cr_gpu_leave(before);
  }
  if (status != CREMA_OK) {
    free(event);
    return status;
  }
  *out = event;
  return CREMA_OK;
}

void cr_cuda_event_destroy(cr_native_event *event) {
  int before = -1;
  if (event == NULL) return;
  if (cr_gpu_enter(event->device, &before) == CREMA_OK) {
    if (cudaEventDestroy(event->event) != cudaSuccess) (void)cudaGetLastError();
    cr_gpu_leave(before);
  }
  free(event);
}

crema_status cr_cuda_event_record(crema_context *context, cr_native_event *event) {
  int before = -1;
  CR_TRY(cr_cuda_interrupt("other work waits for it"));
  CR_TRY(cr_gpu_enter(context->device, &before));
  const cudaError_t error = cudaEventRecord(event->event, cr_cuda_context(context)->queue);
  cr_gpu_leave(before);
  return cr_cuda_check(error, "recording an event");
}

crema_status cr_cuda_event_wait(crema_context *context, cr_native_event *event) {
  int before = -1;
  CR_TRY(cr_cuda_interrupt("it waits for other work"));
  CR_TRY(cr_gpu_enter(context->device, &before));
  const cudaError_t error = cudaStreamWaitEvent(cr_cuda_context(context)->queue, event->event, 0);
  cr_gpu_leave(before);
  return cr_cuda_check(error, "waiting for an event");
}

crema_status cr_cuda_event_query(cr_native_event *event, bool *done) {
  int before = -1;
  CR_TRY(cr_cuda_interrupt("the host looks whether the device is done"));
  CR_TRY(cr_gpu_enter(event->device, &before));
  const cudaError_t error = cudaEventQuery(event->event);
  cr_gpu_leave(before);
  *done = error == cudaSuccess;
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return CREMA_OK;
  }
  return cr_cuda_check(error, "asking an event");
}

crema_status cr_cuda_event_finish(cr_native_event *event) {
  int before = -1;
  CR_TRY(cr_cuda_interrupt("the host waits for the device"));
  CR_TRY(cr_gpu_enter(event->device, &before));
  const cudaError_t error = cudaEventSynchronize(event->event);
  cr_gpu_leave(before);
  return cr_cuda_check(error, "waiting for an event");
}
