/* Streams: contexts, copies and events over OpenCL's in-order queues. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/copy_check.h"
#include "device/opencl/opencl_private.h"

/* Commands that are submitted together. */
enum { SUBMITTED = 16 };

static struct {
  pthread_mutex_t lock; /* of the list */
  cr_opencl_stream *first;
  pthread_mutex_t queueing; /* cr_opencl_lock */
} streams = {.lock = PTHREAD_MUTEX_INITIALIZER, .queueing = PTHREAD_MUTEX_INITIALIZER};

static void drop(cl_event *event) {
  if (*event != NULL) (void)cr_cl.clReleaseEvent(*event);
  *event = NULL;
}

crema_status cr_opencl_context_open(crema_context *context) {
  crema_device *device = context->device;
  cr_opencl_device *own = cr_opencl_of(device);
  cl_int error = CL_SUCCESS;
  void *fault = NULL;
  cr_opencl_stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) return cr_fail_memory(sizeof *stream, "a context");
  crema_status status;
  stream->queue = cr_cl.clCreateCommandQueue(own->context, own->id, 0, &error);
  CR_TRY_GOTO(cr_opencl_check(device, error, "making a queue"), stream);
  CR_TRY_GOTO(cr_opencl_host_alloc(device, sizeof *stream->fault, &fault), queue);
  CR_TRY_GOTO(cr_opencl_host_alias(device, fault, &stream->fault_alias), fault);
  memset(fault, 0, sizeof *stream->fault);
  stream->fault = fault;
  pthread_mutex_lock(&streams.lock);
  stream->next = streams.first;
  streams.first = stream;
  pthread_mutex_unlock(&streams.lock);
  context->state = stream;
  return CREMA_OK;
fault:
  cr_opencl_host_free(device, fault);
queue:
  (void)cr_cl.clReleaseCommandQueue(stream->queue);
stream:
  free(stream);
  return status;
}

static void release_kernels(cr_opencl_stream *stream) {
  for (int form = 0; form < CR_FORMS; ++form) {
    for (int i = 0; i < CR_OPENCL_FUNCTIONS; ++i) {
      cr_opencl_kernel *kernel = &stream->kernel[form][i];
      if (kernel->run != NULL) (void)cr_cl.clReleaseKernel(kernel->run);
      if (kernel->packs != NULL) (void)cr_cl.clReleaseKernel(kernel->packs);
      if (kernel->alone != NULL) (void)cr_cl.clReleaseKernel(kernel->alone);
    }
  }
}

void cr_opencl_context_close(crema_context *context) {
  cr_opencl_stream *stream = context->state;
  if (stream == NULL) return;
  (void)cr_cl.clFinish(stream->queue);
  pthread_mutex_lock(&streams.lock);
  cr_opencl_stream **at = &streams.first;
  while (*at != stream) at = &(*at)->next;
  *at = stream->next;
  pthread_mutex_unlock(&streams.lock);
  release_kernels(stream);
  drop(&stream->last);
  (void)cr_cl.clReleaseCommandQueue(stream->queue);
  cr_opencl_host_free(context->device, stream->fault);
  free(stream);
  context->state = NULL;
}

void cr_opencl_finish_all(void) {
  pthread_mutex_lock(&streams.lock);
  for (cr_opencl_stream *s = streams.first; s != NULL; s = s->next) (void)cr_cl.clFinish(s->queue);
  pthread_mutex_unlock(&streams.lock);
}

void cr_opencl_lock(void) {
  pthread_mutex_lock(&streams.queueing);
}

void cr_opencl_unlock(void) {
  pthread_mutex_unlock(&streams.queueing);
}

cl_event *cr_opencl_next(cr_opencl_stream *stream) {
  drop(&stream->last);
  return &stream->last;
}

static crema_status submit(crema_context *context, const char *what) {
  cr_opencl_stream *stream = cr_opencl_stream_of(context);
  stream->unsubmitted = 0;
  return cr_opencl_check(context->device, cr_cl.clFlush(stream->queue), what);
}

crema_status cr_opencl_queued(crema_context *context, cl_int error, const char *what) {
  CR_TRY(cr_opencl_check(context->device, error, what));
  if (++cr_opencl_stream_of(context)->unsubmitted < SUBMITTED) return CREMA_OK;
  return submit(context, what);
}

/* The event of the last command, retained; NULL: there was none. */
static cl_event take_last(cr_opencl_stream *stream) {
  cr_opencl_lock();
  cl_event last = stream->last;
  if (last != NULL && cr_cl.clRetainEvent(last) != CL_SUCCESS) last = NULL;
  cr_opencl_unlock();
  return last;
}

/* Whether the event's command is done. NULL: it is. Errors: its failure. */
static crema_status is_done(const crema_device *device, cl_event event, bool *done) {
  cl_int now = CL_COMPLETE;
  *done = true;
  if (event == NULL) return CREMA_OK;
  CR_TRY(cr_opencl_check(
      device,
      cr_cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof now, &now, NULL),
      "asking for queued work"));
  *done = now <= CL_COMPLETE;
  return now < 0 ? cr_opencl_check(device, now, "queued work") : CREMA_OK;
}

/* The status of the last command says whether the work failed, which clFinish does not. */
static crema_status finish_last(const crema_device *device, cl_event last) {
  bool done = true;
  CR_TRY(is_done(device, last, &done));
  if (done) return CREMA_OK;
  CR_TRY(cr_opencl_check(device, cr_cl.clWaitForEvents(1, &last), "waiting for queued work"));
  return is_done(device, last, &done);
}

crema_status cr_opencl_finish(crema_context *context) {
  cr_opencl_stream *stream = cr_opencl_stream_of(context);
  const cl_int error = cr_cl.clFinish(stream->queue);
  stream->unsubmitted = 0;
  CR_TRY(cr_opencl_check(context->device, error, "waiting for queued work"));
  cl_event last = take_last(stream);
  const crema_status status = finish_last(context->device, last);
  drop(&last);
  return status == CREMA_OK ? cr_gpu_fault_take(stream->fault) : status;
}

crema_status cr_opencl_failure(crema_context *context) {
  return cr_gpu_fault_take(cr_opencl_stream_of(context)->fault);
}

crema_status cr_opencl_busy(crema_context *context, bool *out) {
  bool done = true;
  CR_TRY(submit(context, "asking for queued work"));
  cl_event last = take_last(cr_opencl_stream_of(context));
  const crema_status status = is_done(context->device, last, &done);
  drop(&last);
  *out = !done;
  return status;
}

const uint64_t *cr_gpu_passes(crema_context *context) {
  (void)context;
  return NULL;
}

cr_gpu_fault *cr_gpu_fault_of(crema_context *context) {
  return (cr_gpu_fault *)cr_opencl_stream_of(context)->fault_alias.address; /* NOLINT */
}

/* ---- copies ---- */

crema_status cr_opencl_copy(crema_context *context, cr_copy_kind kind, uintptr_t dst, uintptr_t src,
                            size_t bytes) {
  cr_opencl_stream *stream = cr_opencl_stream_of(context);
  cr_opencl_place to, from;
  cl_int error = CL_SUCCESS;
  (void)kind;
  if (bytes == 0 || dst == src) return CREMA_OK;
  CR_TRY(cr_copy_check(dst, src, bytes));
  CR_TRY(cr_opencl_find(dst, &to));
  CR_TRY(cr_opencl_find(src, &from));
  if (to.host != NULL && from.host != NULL) {
    return cr_fail(CREMA_E_UNSUPPORTED, "OpenCL copies from the host to the host");
  }
  /* As in CUDA, a copy of other host memory is done on return: its owner may free it. */
  const void *host = from.host != NULL ? from.host : to.host;
  const bool wait = host != NULL && !cr_opencl_is_locked(host);
  cr_opencl_lock();
  cl_event *event = cr_opencl_next(stream);
  if (from.host != NULL) {
    error = cr_cl.clEnqueueWriteBuffer(stream->queue, to.buffer, CL_FALSE, to.offset, bytes,
                                       from.host, 0, NULL, event);
  } else if (to.host != NULL) {
    error = cr_cl.clEnqueueReadBuffer(stream->queue, from.buffer, CL_FALSE, from.offset, bytes,
                                      to.host, 0, NULL, event);
  } else {
    error = cr_cl.clEnqueueCopyBuffer(stream->queue, from.buffer, to.buffer, from.offset, to.offset,
                                      bytes, 0, NULL, event);
  }
  cl_event copied = *event;
  if (error == CL_SUCCESS && wait) error = cr_cl.clRetainEvent(copied);
  cr_opencl_unlock();
  if (error == CL_SUCCESS && wait) {
    error = cr_cl.clWaitForEvents(1, &copied);
    drop(&copied);
  }
  CR_TRY(cr_opencl_queued(context, error, "copying"));
  /* The host may do something else meanwhile, so the copy begins now. */
  return submit(context, "copying");
}

crema_status cr_opencl_zero(crema_context *context, crema_devptr memory, size_t bytes) {
  cr_opencl_stream *stream = cr_opencl_stream_of(context);
  cr_opencl_place place;
  const cl_uchar zero = 0;
  if (bytes == 0) return CREMA_OK;
  CR_TRY(cr_opencl_find(memory.address, &place));
  if (place.buffer == NULL) return cr_fail(CREMA_E_ARGUMENT, "host memory is not zeroed");
  cr_opencl_lock();
  cl_int error = cr_cl.clEnqueueFillBuffer(stream->queue, place.buffer, &zero, sizeof zero,
                                           place.offset, bytes, 0, NULL, cr_opencl_next(stream));
  if (error == CL_SUCCESS && place.host != NULL) {
    error = cr_cl.clEnqueueReadBuffer(stream->queue, place.buffer, CL_FALSE, place.offset, bytes,
                                      place.host, 0, NULL, cr_opencl_next(stream));
  }
  cr_opencl_unlock();
  return cr_opencl_queued(context, error, "zeroing");
}

/* ---- events ---- */

struct cr_native_event {
  const crema_device *device;
  pthread_mutex_t lock; /* guards `event`: one thread may record while another waits */
  cl_event event;       /* NULL: not recorded yet */
};

/* The event as recorded so far, retained; NULL: not recorded. */
static cl_event take_event(cr_native_event *event) {
  pthread_mutex_lock(&event->lock);
  cl_event recorded = event->event;
  if (recorded != NULL && cr_cl.clRetainEvent(recorded) != CL_SUCCESS) recorded = NULL;
  pthread_mutex_unlock(&event->lock);
  return recorded;
}

crema_status cr_opencl_event_create(crema_device *device, cr_native_event **out) {
  cr_native_event *event = calloc(1, sizeof *event);
  if (event == NULL) return cr_fail_memory(sizeof *event, "an event");
  event->device = device;
  pthread_mutex_init(&event->lock, NULL);
  *out = event;
  return CREMA_OK;
}

void cr_opencl_event_destroy(cr_native_event *event) {
  if (event == NULL) return;
  drop(&event->event);
  pthread_mutex_destroy(&event->lock);
  free(event);
}

crema_status cr_opencl_event_record(crema_context *context, cr_native_event *event) {
  cr_opencl_stream *stream = cr_opencl_stream_of(context);
  cr_opencl_lock();
  cl_int error = cr_cl.clEnqueueMarkerWithWaitList(stream->queue, 0, NULL, cr_opencl_next(stream));
  cl_event marker = stream->last;
  if (error == CL_SUCCESS) error = cr_cl.clRetainEvent(marker);
  cr_opencl_unlock();
  CR_TRY(cr_opencl_check(context->device, error, "recording an event"));
  pthread_mutex_lock(&event->lock);
  drop(&event->event);
  event->event = marker;
  pthread_mutex_unlock(&event->lock);
  /* Queues wait only for events that are submitted. */
  return submit(context, "recording an event");
}

crema_status cr_opencl_event_wait(crema_context *context, cr_native_event *event) {
  cr_opencl_stream *stream = cr_opencl_stream_of(context);
  /* The host waits for other devices. Platforms do not know each other's events, and with PoCL 3.1
   * a device can read a buffer that another device of its platform has not finished writing. */
  if (event->device != context->device) return cr_opencl_event_finish(event);
  cl_event recorded = take_event(event);
  if (recorded == NULL) return CREMA_OK;
  cr_opencl_lock();
  const cl_int error =
      cr_cl.clEnqueueBarrierWithWaitList(stream->queue, 1, &recorded, cr_opencl_next(stream));
  cr_opencl_unlock();
  drop(&recorded);
  return cr_opencl_queued(context, error, "waiting for an event");
}

crema_status cr_opencl_event_query(cr_native_event *event, bool *done) {
  cl_event recorded = take_event(event);
  const crema_status status = is_done(event->device, recorded, done);
  drop(&recorded);
  return status;
}

crema_status cr_opencl_event_finish(cr_native_event *event) {
  cl_event recorded = take_event(event);
  if (recorded == NULL) return CREMA_OK;
  const cl_int error = cr_cl.clWaitForEvents(1, &recorded);
  drop(&recorded);
  return cr_opencl_check(event->device, error, "waiting for an event");
}
