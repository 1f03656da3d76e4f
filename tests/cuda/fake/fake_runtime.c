/* A CUDA runtime on the host, for testing the plug-in's C files without a GPU: three devices whose
 * memory is host memory, streams that do their work at once. It is stricter than the real one:
 * every address must be memory of the kind that the call says, every stream must be of the current
 * device. Devices 0 and 2 are on one board. As the runtime of CUDA 12 and newer does, it opens the
 * current device in every call that needs one. */
#include "fake_runtime.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_driver.h"

enum { DEVICES = 3, BLOCKS = 1 << 16, HOST = -1, FREE = -2 };

static const size_t device_bytes = (size_t)4 << 30;

struct CUevent_st {
  int device;
  bool recorded, blocking;
};

typedef struct block {
  char *memory;
  size_t bytes;
  int device; /* HOST: page-locked; FREE: none */
} block;

static struct {
  pthread_mutex_t lock;
  block block[BLOCKS];
  int blocks;
  bool peer[DEVICES][DEVICES];
  int copies[DEVICES][DEVICES]; /* from one to the other */
  size_t foreign;               /* bytes of every device that others use */
  size_t largest;               /* of blocks that can be had */
  int refusals;                 /* of the next requests for memory */
  bool busy;                    /* what streams say when they are asked */
  atomic_int spins;             /* waits in which a thread does not sleep */
} world = {.lock = PTHREAD_MUTEX_INITIALIZER, .largest = SIZE_MAX};

static _Thread_local int current;
static _Thread_local cudaError_t last;

cudaError_t fake_fail(cudaError_t error) {
  last = error;
  return error;
}
static cudaError_t fail(cudaError_t error) {
  return fake_fail(error);
}

int fake_device(void) {
  if (fake_unloaded()) abort();
  if (fake_bound() != current) fake_bind(current);
  return current;
}

/* For tests: what somebody else in the process may do to the thread. */
__attribute__((visibility("default"))) void fake_leave_error(void);
__attribute__((visibility("default"))) int fake_current_device(void);
__attribute__((visibility("default"))) void fake_set_memory(size_t foreign, size_t largest);

/* What the thread's last error is, without taking it. */
__attribute__((visibility("default"))) int fake_left_error(void);
__attribute__((visibility("default"))) void fake_refuse_memory(int times);
__attribute__((visibility("default"))) void fake_set_busy(bool busy);

/* How often a thread waited without sleeping. */
__attribute__((visibility("default"))) int fake_spins(void);

/* How often something was copied from one device to another. */
__attribute__((visibility("default"))) int fake_peer_copies(int from, int to);

int fake_peer_copies(int from, int to) {
  pthread_mutex_lock(&world.lock);
  const int copies = world.copies[from][to];
  pthread_mutex_unlock(&world.lock);
  return copies;
}

int fake_spins(void) {
  return atomic_load(&world.spins);
}

int fake_left_error(void) {
  return (int)last;
}

void fake_refuse_memory(int times) {
  pthread_mutex_lock(&world.lock);
  world.refusals = times;
  pthread_mutex_unlock(&world.lock);
}

void fake_set_busy(bool busy) {
  pthread_mutex_lock(&world.lock);
  world.busy = busy;
  pthread_mutex_unlock(&world.lock);
}

void fake_leave_error(void) {
  last = cudaErrorInvalidValue;
}
int fake_current_device(void) {
  return current;
}

void fake_set_memory(size_t foreign, size_t largest) {
  pthread_mutex_lock(&world.lock);
  world.foreign = foreign;
  world.largest = largest;
  pthread_mutex_unlock(&world.lock);
}

cudaError_t cudaGetLastError(void) {
  const cudaError_t error = last;
  last = cudaSuccess;
  return error;
}

const char *cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "fake failure";
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *count) {
  if (fake_unloaded()) return fail(cudaErrorCudartUnloading);
  const char *missing = getenv("FAKE_CUDA_ERROR");
  if (missing != NULL && missing[0] != '\0') return fail((cudaError_t)atoi(missing));
  /* As the driver, which does not outlive a fork. */
  static _Atomic pid_t started;
  pid_t none = 0;
  if (!atomic_compare_exchange_strong(&started, &none, getpid()) && none != getpid()) {
    return fail(cudaErrorInitializationError);
  }
  *count = DEVICES;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
  const char *given = getenv("FAKE_CUDA_DRIVER");
  *version = given != NULL ? atoi(given) : CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
  if (fake_unloaded()) return fail(cudaErrorCudartUnloading);
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (fake_unloaded()) return fail(cudaErrorCudartUnloading);
  if (device < 0 || device >= DEVICES) return fail(cudaErrorInvalidDevice);
  current = device;
  fake_bind(device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device) {
  if (fake_unloaded()) return fail(cudaErrorCudartUnloading);
  if (device < 0 || device >= DEVICES) return fail(cudaErrorInvalidDevice);
  *value = 0;
  if (what == cudaDevAttrIsMultiGpuBoard) *value = device != 1;
  if (what == cudaDevAttrMultiGpuBoardGroupID) *value = device != 1 ? 7 : 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device) {
  if (fake_unloaded()) return fail(cudaErrorCudartUnloading);
  if (device < 0 || device >= DEVICES) return fail(cudaErrorInvalidDevice);
  memset(out, 0, sizeof *out);
  snprintf(out->name, sizeof out->name, "fake GPU %d", device);
  out->uuid.bytes[0] = (char)(device + 1);
  out->major = 9;
  out->multiProcessorCount = 1;
  out->totalGlobalMem = device_bytes;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  const int device = fake_device();
  if (fake_spoil()) return fail(cudaErrorStreamCaptureUnsupported);
  fake_touch_memory();
  *total_bytes = device_bytes;
  pthread_mutex_lock(&world.lock);
  size_t used = world.foreign;
  for (int i = 0; i < world.blocks; ++i) {
    if (world.block[i].device == device) used += world.block[i].bytes;
  }
  pthread_mutex_unlock(&world.lock);
  *free_bytes = used < *total_bytes ? *total_bytes - used : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  if (fake_unloaded()) return fail(cudaErrorCudartUnloading);
  *can = device != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  (void)flags;
  const int device = fake_device();
  if (fake_spoil()) return fail(cudaErrorStreamCaptureUnsupported);
  fake_touch_memory();
  if (world.peer[device][peer]) return fail(cudaErrorPeerAccessAlreadyEnabled);
  world.peer[device][peer] = true;
  return cudaSuccess;
}

/* ---- memory ---- */

/* The block that holds an address; NULL for other memory. With the lock held. */
static block *find(const void *address) {
  const char *at = address;
  for (int i = world.blocks - 1; i >= 0; --i) {
    block *b = &world.block[i];
    if (b->device != FREE && at >= b->memory && at < b->memory + b->bytes) return b;
  }
  return NULL;
}

static cudaError_t add(void **out, size_t bytes, int device) {
  void *memory = NULL;
  if (fake_spoil()) return fail(cudaErrorStreamCaptureUnsupported);
  fake_touch_memory();
  if (bytes == 0 || posix_memalign(&memory, 256, bytes) != 0) {
    return fail(cudaErrorMemoryAllocation);
  }
  memset(memory, 0xA5, bytes);
  pthread_mutex_lock(&world.lock);
  int at = 0;
  while (at < world.blocks && world.block[at].device != FREE) ++at;
  if (at == world.blocks && at < BLOCKS) ++world.blocks;
  if (at < BLOCKS) world.block[at] = (block){memory, bytes, device};
  pthread_mutex_unlock(&world.lock);
  *out = memory;
  return at < BLOCKS ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}

static cudaError_t drop(void *memory, bool host) {
  (void)fake_device();
  if (memory == NULL) return cudaSuccess;
  if (fake_spoil()) return fail(cudaErrorStreamCaptureUnsupported);
  fake_touch_memory();
  pthread_mutex_lock(&world.lock);
  block *b = find(memory);
  const bool good = b != NULL && b->memory == memory && (b->device == HOST) == host;
  if (good) b->device = FREE;
  pthread_mutex_unlock(&world.lock);
  if (!good) return fail(cudaErrorInvalidValue);
  free(memory);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes) {
  const int device = fake_device();
  pthread_mutex_lock(&world.lock);
  const bool refused = world.refusals > 0;
  if (refused) --world.refusals;
  const bool fits = !refused && bytes <= world.largest && bytes <= device_bytes;
  pthread_mutex_unlock(&world.lock);
  return fits ? add(out, bytes, device) : fail(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void *memory) {
  return drop(memory, false);
}
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags) {
  (void)fake_device();
  if ((flags & cudaHostAllocMapped) == 0) return fail(cudaErrorInvalidValue);
  return add(out, bytes, HOST);
}
cudaError_t cudaFreeHost(void *memory) {
  return drop(memory, true);
}

/* The device whose memory the whole range is; HOST for host memory; FREE for a range that leaves
 * its block. */
static int place_of(const void *address, size_t bytes) {
  int place = HOST;
  pthread_mutex_lock(&world.lock);
  const block *b = find(address);
  if (b != NULL) {
    const size_t offset = (size_t)((const char *)address - b->memory);
    place = bytes <= b->bytes - offset ? b->device : FREE;
  }
  pthread_mutex_unlock(&world.lock);
  return place;
}

/* As on a device that can follow every host address. */
cudaError_t cudaHostGetDevicePointer(void **out, void *memory, unsigned flags) {
  (void)fake_device();
  *out = memory;
  return flags == 0 ? cudaSuccess : fail(cudaErrorInvalidValue);
}

static bool is_pinned(const void *address) {
  pthread_mutex_lock(&world.lock);
  const block *b = find(address);
  const bool pinned = b != NULL && b->device == HOST;
  pthread_mutex_unlock(&world.lock);
  return pinned;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *address) {
  (void)fake_device();
  memset(out, 0, sizeof *out);
  const int place = place_of(address, 1);
  out->type = place >= 0           ? cudaMemoryTypeDevice
              : is_pinned(address) ? cudaMemoryTypeHost
                                   : cudaMemoryTypeUnregistered;
  out->device = place >= 0 ? place : -2;
  return cudaSuccess;
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
  *out = calloc(1, sizeof **out);
  if (*out == NULL || flags != cudaStreamNonBlocking) return fail(cudaErrorInvalidValue);
  (*out)->device = fake_device();
  fake_keep(*out);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  (void)fake_device();
  free(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  atomic_fetch_add(&world.spins, 1);
  (void)fake_device();
  if (fake_spoil()) return fail(cudaErrorStreamCaptureUnsupported);
  return stream != NULL ? cudaSuccess : fail(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  (void)fake_device();
  if (fake_spoil()) return fail(cudaErrorStreamCaptureUnsupported);
  pthread_mutex_lock(&world.lock);
  const bool busy = world.busy;
  pthread_mutex_unlock(&world.lock);
  if (busy) return fail(cudaErrorNotReady);
  return stream != NULL ? cudaSuccess : fail(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  (void)fake_device();
  if (fake_spoil()) return fail(cudaErrorStreamCaptureUnsupported);
  return stream != NULL && event != NULL && flags == 0 ? cudaSuccess
                                                       : fail(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
  *out = calloc(1, sizeof **out);
  const unsigned other = flags & ~(unsigned)cudaEventBlockingSync;
  if (*out == NULL || other != cudaEventDisableTiming) return fail(cudaErrorInvalidValue);
  (*out)->blocking = flags != other;
  (*out)->device = fake_device();
  fake_keep(*out);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  (void)fake_device();
  free(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  (void)fake_device();
  if (event->device != stream->device) return fail(cudaErrorInvalidResourceHandle);
  if (fake_spoil()) return fail(cudaErrorStreamCaptureUnsupported);
  event->recorded = true;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  (void)fake_device();
  if (fake_spoil()) return fail(cudaErrorStreamCaptureUnsupported);
  return event != NULL ? cudaSuccess : fail(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  (void)fake_device();
  if (event != NULL && !event->blocking) atomic_fetch_add(&world.spins, 1);
  if (fake_spoil()) return fail(cudaErrorStreamCaptureUnsupported);
  return event != NULL ? cudaSuccess : fail(cudaErrorInvalidResourceHandle);
}

/* ---- copies ---- */

static bool kind_fits(enum cudaMemcpyKind kind, int dst, int src) {
  switch (kind) {
    case cudaMemcpyHostToDevice: return dst >= 0 && src == HOST;
    case cudaMemcpyDeviceToHost: return dst == HOST && src >= 0;
    case cudaMemcpyDeviceToDevice: return dst >= 0 && dst == src;
    case cudaMemcpyDefault: return dst != FREE && src != FREE;
    default: return false;
  }
}

/* A copy, or without a source zeros. */
typedef struct fake_copy {
  void *dst;
  const void *src;
  int value;
  size_t bytes;
} fake_copy;

static void run_copy(const void *data) {
  const fake_copy *c = data;
  if (c->src != NULL) memmove(c->dst, c->src, c->bytes);
  else memset(c->dst, c->value, c->bytes);
}

static cudaError_t copy(const fake_copy *c, cudaStream_t stream) {
  if (!fake_record(stream, run_copy, c, sizeof *c)) run_copy(c);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const int to = place_of(dst, bytes), from = place_of(src, bytes);
  (void)fake_device();
  if (stream == NULL || !kind_fits(kind, to, from)) return fail(cudaErrorInvalidValue);
  if (stream->recording != NULL && kind != cudaMemcpyDeviceToDevice) {
    (void)fake_spoil();
    return fail(cudaErrorStreamCaptureUnsupported);
  }
  if (from >= 0 && to >= 0 && from != to) {
    pthread_mutex_lock(&world.lock);
    ++world.copies[from][to];
    pthread_mutex_unlock(&world.lock);
  }
  return copy(&(fake_copy){.dst = dst, .src = src, .bytes = bytes}, stream);
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
  (void)fake_device();
  if (stream == NULL || place_of(memory, bytes) != stream->device) {
    return fail(cudaErrorInvalidValue);
  }
  return copy(&(fake_copy){.dst = memory, .value = value, .bytes = bytes}, stream);
}
