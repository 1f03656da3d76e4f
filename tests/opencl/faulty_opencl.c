/* An OpenCL loader that fails, waits and watches when a test asks for it, and else is the system's.
 * It has the calls below; all others are found in the system's loader, with which it is linked.
 * Commands ask by FAULTY_OPENCL_KERNELS (the number of kernels that run before the device is lost),
 * FAULTY_OPENCL_WRITES and FAULTY_OPENCL_ROOM (see faulty_opencl.h). */
#define CL_TARGET_OPENCL_VERSION 120
#include "faulty_opencl.h"

#include <CL/cl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
#define NEXT(name)               \
  static __typeof__(&name) next; \
  if (next == NULL) find(#name, &next)

static void find(const char *name, void *function) {
  void *symbol = dlsym(dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL), name);
  memcpy(function, &symbol, sizeof symbol);
}

/* ---- what was queued ---- */

enum { MOST = 1 << 14 };

static struct {
  pthread_mutex_t lock;
  seen command[MOST];
  cl_event event[MOST]; /* NULL: of SEEN_FINISH */
  size_t count;
  cl_event held, stopped; /* what a held kernel and a stopped queue wait for */
} list = {.lock = PTHREAD_MUTEX_INITIALIZER};

static faulty_state state;

static void note(seen_call call, cl_command_queue queue, size_t bytes, const cl_event *event) {
  if (!atomic_load(&state.watch)) return;
  pthread_mutex_lock(&list.lock);
  if (list.count < MOST) {
    list.command[list.count] = (seen){.call = call, .queue = queue, .bytes = bytes};
    list.event[list.count] = event != NULL && clRetainEvent(*event) == CL_SUCCESS ? *event : NULL;
    ++list.count;
  }
  pthread_mutex_unlock(&list.lock);
}

static size_t look(seen *out, size_t room) {
  pthread_mutex_lock(&list.lock);
  const size_t count = list.count < room ? list.count : room;
  for (size_t i = 0; i < count; ++i) {
    cl_int now = CL_COMPLETE;
    if (list.event[i] != NULL) {
      (void)clGetEventInfo(list.event[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof now, &now,
                           NULL);
    }
    out[i] = list.command[i];
    out[i].begun = now == CL_RUNNING || now == CL_COMPLETE;
    out[i].done = now == CL_COMPLETE;
  }
  pthread_mutex_unlock(&list.lock);
  return count;
}

static void forget(void) {
  pthread_mutex_lock(&list.lock);
  for (size_t i = 0; i < list.count; ++i) {
    if (list.event[i] != NULL) (void)clReleaseEvent(list.event[i]);
  }
  list.count = 0;
  pthread_mutex_unlock(&list.lock);
}

static cl_event make_event(cl_command_queue queue) {
  cl_context context = NULL;
  cl_int error = CL_SUCCESS;
  (void)clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(cl_context), &context, NULL);
  return clCreateUserEvent(context, &error);
}

static void complete(cl_event *event) {
  if (*event == NULL) return;
  (void)clSetUserEventStatus(*event, CL_COMPLETE);
  (void)clReleaseEvent(*event);
  *event = NULL;
}

static void release(void) {
  complete(&list.held);
}

static void stop(const void *queue) {
  cl_command_queue of = (cl_command_queue)(uintptr_t)queue; /* NOLINT */
  list.stopped = make_event(of);
  (void)clEnqueueBarrierWithWaitList(of, 1, &list.stopped, NULL);
}

static void resume(void) {
  complete(&list.stopped);
}

EXPORT faulty_state *faulty_opencl(void);
EXPORT faulty_state *faulty_opencl(void) {
  return &state;
}

static long long asked(const char *name, long long otherwise) {
  const char *text = getenv(name);
  return text != NULL ? atoll(text) : otherwise;
}

__attribute__((constructor)) static void begin(void) {
  atomic_store(&state.writes, (int)asked("FAULTY_OPENCL_WRITES", -1));
  atomic_store(&state.kernels, (int)asked("FAULTY_OPENCL_KERNELS", -1));
  atomic_store(&state.room, (size_t)asked("FAULTY_OPENCL_ROOM", 0));
  state.release = release;
  state.stop = stop;
  state.resume = resume;
  state.look = look;
  state.forget = forget;
}

/* ---- buffers ---- */

static void CL_CALLBACK count_device(cl_mem buffer, void *bytes) {
  (void)buffer;
  atomic_fetch_sub(&state.device_buffers, 1);
  atomic_fetch_sub(&state.device_bytes, (size_t)(uintptr_t)bytes);
}

static void CL_CALLBACK count_host(cl_mem buffer, void *bytes) {
  (void)buffer;
  atomic_fetch_sub(&state.host_buffers, 1);
  atomic_fetch_sub(&state.host_bytes, (size_t)(uintptr_t)bytes);
}

static bool has_room(size_t size) {
  const size_t room = atomic_load(&state.room);
  if (atomic_load(&state.no_memory)) return false;
  return room == 0 || atomic_load(&state.device_bytes) + size <= room;
}

EXPORT cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                             cl_int *error) {
  NEXT(clCreateBuffer);
  const bool mapped = (flags & CL_MEM_ALLOC_HOST_PTR) != 0;
  if (!mapped && !has_room(size)) {
    atomic_fetch_add(&state.refused, 1);
    *error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return NULL;
  }
  const cl_mem buffer = next(context, flags, size, host, error);
  if (buffer == NULL) return NULL;
  atomic_fetch_add(mapped ? &state.host_buffers : &state.device_buffers, 1);
  atomic_fetch_add(mapped ? &state.host_bytes : &state.device_bytes, size);
  if (!mapped) atomic_fetch_add(&state.made, 1);
  (void)clSetMemObjectDestructorCallback(buffer, mapped ? count_host : count_device,
                                         (void *)(uintptr_t)size); /* NOLINT */
  return buffer;
}

/* ---- commands ---- */

/* Whether one more is allowed. */
static bool count_down(atomic_int *left) {
  if (atomic_load(left) == 0) return false;
  if (atomic_load(left) > 0) atomic_fetch_sub(left, 1);
  return true;
}

EXPORT cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                     const size_t *offset, const size_t *global,
                                     const size_t *local, cl_uint events, const cl_event *events_of,
                                     cl_event *event) {
  NEXT(clEnqueueNDRangeKernel);
  if (!count_down(&state.kernels)) atomic_store(&state.lost, true);
  if (atomic_load(&state.lost)) return CL_DEVICE_NOT_AVAILABLE;
  if (atomic_exchange(&state.hold, false)) {
    /* crema's kernels wait for nothing else: queues are in order. */
    events_of = &list.held;
    events = 1;
    list.held = make_event(queue);
  }
  const cl_int error =
      next(queue, kernel, dimensions, offset, global, local, events, events_of, event);
  if (error == CL_SUCCESS) note(SEEN_KERNEL, queue, 0, event);
  return error;
}

EXPORT cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool wait,
                                  size_t offset, size_t size, void *to, cl_uint events,
                                  const cl_event *events_of, cl_event *event) {
  NEXT(clEnqueueReadBuffer);
  if (atomic_load(&state.lost)) return CL_INVALID_COMMAND_QUEUE;
  const cl_int error = next(queue, buffer, wait, offset, size, to, events, events_of, event);
  if (error == CL_SUCCESS) note(SEEN_READ, queue, size, event);
  return error;
}

EXPORT cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool wait,
                                   size_t offset, size_t size, const void *from, cl_uint events,
                                   const cl_event *events_of, cl_event *event) {
  NEXT(clEnqueueWriteBuffer);
  if (atomic_load(&state.lost) || !count_down(&state.writes)) return CL_DEVICE_NOT_AVAILABLE;
  const cl_int error = next(queue, buffer, wait, offset, size, from, events, events_of, event);
  if (error == CL_SUCCESS) note(SEEN_WRITE, queue, size, event);
  return error;
}

EXPORT cl_int clFinish(cl_command_queue queue) {
  NEXT(clFinish);
  if (atomic_load(&state.lost)) return CL_INVALID_COMMAND_QUEUE;
  const cl_int error = next(queue);
  note(SEEN_FINISH, queue, 0, NULL);
  return error;
}

/* Of a device that has disappeared, these fail as well. */

EXPORT cl_int clFlush(cl_command_queue queue) {
  NEXT(clFlush);
  return atomic_load(&state.lost) ? CL_INVALID_COMMAND_QUEUE : next(queue);
}

EXPORT cl_int clWaitForEvents(cl_uint count, const cl_event *event) {
  NEXT(clWaitForEvents);
  if (atomic_load(&state.lost)) return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  return next(count, event);
}

EXPORT cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint events,
                                          const cl_event *events_of, cl_event *event) {
  NEXT(clEnqueueMarkerWithWaitList);
  if (atomic_load(&state.lost)) return CL_INVALID_COMMAND_QUEUE;
  return next(queue, events, events_of, event);
}

EXPORT cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                  size_t from_offset, size_t to_offset, size_t bytes,
                                  cl_uint events, const cl_event *events_of, cl_event *event) {
  NEXT(clEnqueueCopyBuffer);
  if (atomic_load(&state.lost)) return CL_INVALID_COMMAND_QUEUE;
  return next(queue, from, to, from_offset, to_offset, bytes, events, events_of, event);
}
