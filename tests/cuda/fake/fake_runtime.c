/* A CUDA runtime on the host, for testing the plug-in's C files without a GPU: two devices whose
 * memory is host memory, streams that do their work at once. It is stricter than the real one:
 * every address must be memory of the kind that the call says, every stream must be of the current
 * device, every kernel must find its arguments. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/kernels/bodies.h"
#include "device/cuda/start.h"

enum { DEVICES = 2, BLOCKS = 1 << 16, HOST = -1, FREE = -2 };

struct CUstream_st {
  int device;
};
struct CUevent_st {
  int device;
  bool recorded;
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
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int current;
static _Thread_local cudaError_t last;

static cudaError_t fail(cudaError_t error) {
  last = error;
  return error;
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
  const char *missing = getenv("FAKE_CUDA_ERROR");
  if (missing != NULL && missing[0] != '\0') return fail((cudaError_t)atoi(missing));
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
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= DEVICES) return fail(cudaErrorInvalidDevice);
  current = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device) {
  const char *given = getenv("FAKE_CUDA_MAJOR");
  if (device < 0 || device >= DEVICES) return fail(cudaErrorInvalidDevice);
  *value = 0;
  if (what == cudaDevAttrComputeCapabilityMajor) *value = given != NULL ? atoi(given) : 9;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device) {
  if (device < 0 || device >= DEVICES) return fail(cudaErrorInvalidDevice);
  memset(out, 0, sizeof *out);
  snprintf(out->name, sizeof out->name, "fake GPU %d", device);
  out->major = 9;
  out->multiProcessorCount = 1;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  *total_bytes = (size_t)4 << 30;
  size_t used = 0;
  pthread_mutex_lock(&world.lock);
  for (int i = 0; i < world.blocks; i++) {
    if (world.block[i].device == current) used += world.block[i].bytes;
  }
  pthread_mutex_unlock(&world.lock);
  *free_bytes = used < *total_bytes ? *total_bytes - used : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  *can = device != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  (void)flags;
  if (world.peer[current][peer]) return fail(cudaErrorPeerAccessAlreadyEnabled);
  world.peer[current][peer] = true;
  return cudaSuccess;
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  if (!world.peer[current][peer]) return fail(cudaErrorPeerAccessNotEnabled);
  world.peer[current][peer] = false;
  return cudaSuccess;
}

/* ---- memory ---- */

/* The block that holds an address; NULL for other memory. With the lock held. */
static block *find(const void *address) {
  const char *at = address;
  for (int i = world.blocks - 1; i >= 0; i--) {
    block *b = &world.block[i];
    if (b->device != FREE && at >= b->memory && at < b->memory + b->bytes) return b;
  }
  return NULL;
}

static cudaError_t add(void **out, size_t bytes, int device) {
  void *memory = NULL;
  if (bytes == 0 || posix_memalign(&memory, 256, bytes) != 0) {
    return fail(cudaErrorMemoryAllocation);
  }
  memset(memory, 0xA5, bytes);
  pthread_mutex_lock(&world.lock);
  int at = 0;
  while (at < world.blocks && world.block[at].device != FREE) at++;
  if (at == world.blocks && at < BLOCKS) world.blocks++;
  if (at < BLOCKS) world.block[at] = (block){memory, bytes, device};
  pthread_mutex_unlock(&world.lock);
  *out = memory;
  return at < BLOCKS ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}

static cudaError_t drop(void *memory, bool host) {
  if (memory == NULL) return cudaSuccess;
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
  return add(out, bytes, current);
}
cudaError_t cudaFree(void *memory) {
  return drop(memory, false);
}
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags) {
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

cudaError_t cudaHostGetDevicePointer(void **out, void *memory, unsigned flags) {
  pthread_mutex_lock(&world.lock);
  const block *b = find(memory);
  const bool pinned = b != NULL && b->device == HOST;
  pthread_mutex_unlock(&world.lock);
  *out = memory;
  return flags == 0 && pinned ? cudaSuccess : fail(cudaErrorInvalidValue);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *address) {
  memset(out, 0, sizeof *out);
  const int place = place_of(address, 1);
  out->type = place >= 0 ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  out->device = place >= 0 ? place : -2;
  return cudaSuccess;
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
  *out = calloc(1, sizeof **out);
  if (*out == NULL || flags != cudaStreamNonBlocking) return fail(cudaErrorInvalidValue);
  (*out)->device = current;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  free(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return stream != NULL ? cudaSuccess : fail(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return stream != NULL ? cudaSuccess : fail(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return stream != NULL && event != NULL && flags == 0 ? cudaSuccess
                                                       : fail(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
  *out = calloc(1, sizeof **out);
  if (*out == NULL || flags != cudaEventDisableTiming) return fail(cudaErrorInvalidValue);
  (*out)->device = current;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  free(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event->device != stream->device) return fail(cudaErrorInvalidResourceHandle);
  event->recorded = true;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return event != NULL ? cudaSuccess : fail(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
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

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (stream == NULL || !kind_fits(kind, place_of(dst, bytes), place_of(src, bytes))) {
    return fail(cudaErrorInvalidValue);
  }
  memmove(dst, src, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
  if (stream == NULL || place_of(memory, bytes) != stream->device) {
    return fail(cudaErrorInvalidValue);
  }
  memset(memory, value, bytes);
  return cudaSuccess;
}

/* ---- kernels ---- */

double cr_team_sum(cr_team team, double value) {
  (void)team;
  return value;
}
float cr_team_max(cr_team team, float value) {
  (void)team;
  return value;
}
void cr_team_meet(cr_team team) {
  (void)team;
}

typedef struct fake_body {
  void (*each)(const void *args, int64_t i);
  void (*team)(const void *args, int64_t segment, cr_team team);
} fake_body;

static const fake_body bodies[] = {
#define CR_EACH(name, args) {.each = cr_##name##_body},
#define CR_TEAM(name, args) {.team = cr_##name##_body},
#include "device/cuda/kernels/bodies.inc"
#undef CR_EACH
#undef CR_TEAM
};

cudaError_t cr_cuda_start_each(int body, cudaStream_t stream, const void *args, int64_t count) {
  if (bodies[body].each == NULL || count <= 0) return fail(cudaErrorInvalidValue);
  if (stream->device != current) return fail(cudaErrorInvalidResourceHandle);
  for (int64_t i = 0; i < count; i++) bodies[body].each(args, i);
  return cudaSuccess;
}

cudaError_t cr_cuda_start_teams(int body, cudaStream_t stream, const void *args, int64_t segments,
                                int lanes) {
  if (bodies[body].team == NULL || segments <= 0) return fail(cudaErrorInvalidValue);
  if (stream->device != current) return fail(cudaErrorInvalidResourceHandle);
  if (lanes != 1 && (lanes % 32 != 0 || lanes > 1024)) {
    return fail(cudaErrorInvalidConfiguration);
  }
  const cr_team team = {.lane = 0, .lanes = 1};
  for (int64_t s = 0; s < segments; s++) bodies[body].team(args, s, team);
  return cudaSuccess;
}
