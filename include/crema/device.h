/* Devices and contexts.
 *
 * A device is one physical or simulated processor with its own memory. The CPU is a device too. A
 * context is one queue of work on a device, together with a random number generator. All work is
 * submitted to a context. */
#ifndef CREMA_DEVICE_H
#define CREMA_DEVICE_H

#include "crema/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of devices. */
typedef enum crema_device_type {
  CREMA_DEVICE_CPU = 0,   /* the host's processor */
  CREMA_DEVICE_CUDA = 1,  /* NVIDIA GPUs, via the CUDA plug-in */
  CREMA_DEVICE_SIM = 2,   /* simulated accelerators, see crema_device_simulate */
  CREMA_DEVICE_OPENCL = 3 /* devices of OpenCL 1.2 or newer, via the OpenCL plug-in */
} crema_device_type;

/* How exactly a device computes FLOAT values. Devices other than CUDA's ignore it and compute
 * exactly. */
typedef enum crema_math {
  /* As the field math of a solver file says; CREMA_MATH_EXACT where there is no such file. */
  CREMA_MATH_DEFAULT = 0,
  /* Products and sums of float32. Equal inputs give equal bits on the same device. */
  CREMA_MATH_EXACT = 1,
  /* Convolutions and matrix products may round the factors to TF32 (10 bits of fraction), and may
   * add in an order that varies from run to run. Sums stay float32. FLOAT16 and BFLOAT16 values
   * keep their exact products. The environment variable NVIDIA_TF32_OVERRIDE, which NVIDIA's
   * libraries read, overrides the choice of TF32. */
  CREMA_MATH_FAST = 2
} crema_math;

/* A processor with its own memory. Owned by the library. */
typedef struct crema_device crema_device;
/* A queue of work on a device, with a random generator. */
typedef struct crema_context crema_context;

/* An address in a device's memory. It is a struct so that it cannot be dereferenced on the host by
 * mistake. An address of 0 means no memory. */
typedef struct crema_devptr {
  uintptr_t address; /* as the device's kernels use it */
} crema_devptr;

/* The number of devices of `type`; 0 if its back end is not installed. */
CREMA_API int crema_device_count(crema_device_type type);

/* Device number `index` of `type`. *out is owned by the library for the life of the process.
 * Errors: CREMA_E_NO_DEVICE, with the reason in the error text. */
CREMA_API crema_status crema_device_get(crema_device_type type, int index,
                                        crema_device **out) CREMA_MUST_USE;

/* Opens the devices `index`[0] to `index`[count - 1] of `type`, with their memory pools and the
 * direct access between them. Call it at program start to detect missing devices early. Opening an
 * open device does nothing. A device that is not opened here opens at its first use, and its first
 * allocation logs a warning. Errors: CREMA_E_NO_DEVICE, which names the first missing device. The
 * devices listed earlier stay open. */
CREMA_API crema_status crema_device_open(crema_device_type type, const int *index,
                                         int count) CREMA_MUST_USE;

/* A device's type and its index among the devices of that type. */
CREMA_API crema_device_type crema_device_get_type(const crema_device *device);
CREMA_API int crema_device_get_index(const crema_device *device);

/* Properties of a device. */
typedef struct crema_device_info {
  char name[128];       /* name of the processor */
  char library[128];    /* compute libraries and their versions */
  size_t memory_total;  /* bytes; 0 if unknown */
  size_t memory_free;   /* bytes */
  int compute_units;    /* cores or multiprocessors */
  int capability_major; /* compute capability of a GPU, major number; else 0 */
  int capability_minor; /* minor number; else 0 */
} crema_device_info;

/* Writes a device's properties to *out. Errors: CREMA_E_DEVICE if the driver fails. */
CREMA_API crema_status crema_device_describe(crema_device *device,
                                             crema_device_info *out) CREMA_MUST_USE;

/* Whether kernels and copies of `device` can access the memory of `peer` directly. True if both are
 * the same device. */
CREMA_API bool crema_device_reaches(crema_device *device, crema_device *peer);

/* Starts simulated devices (type CREMA_DEVICE_SIM). They behave like accelerators and compute on
 * the CPU. `text` is the number of devices ("4", at most 16) or a list of entries:
 *
 *   devices=8,memory=2G,bandwidth=12G,latency=1e-5,peer_bandwidth=50G,peer_latency=2e-6,boards=2
 *
 *   devices, memory                number of devices, and bytes of memory of each
 *   bandwidth, latency             link to the host: bytes per second, and seconds per copy;
 *                                  default: copies run at the host's speed
 *   peer_bandwidth, peer_latency   the same for each device's link to the other devices; a copy
 *                                  occupies one direction of the links at both ends
 *   boards                         number of devices on each board; default 1
 *   peers                          which devices can access each other's memory: "all" (default),
 *                                  "none", or "islands:N" (groups of N consecutive devices)
 *
 * Alternatively set the environment variable CREMA_SIM to the same text. Errors: CREMA_E_PARSE,
 * which names the entry, CREMA_E_RANGE for an impossible number of devices, CREMA_E_STATE if there
 * are simulated devices already. */
CREMA_API crema_status crema_device_simulate(const char *text) CREMA_MUST_USE;

/* Use of a device's own memory, in bytes. All 0 for the CPU, which uses host memory. */
typedef struct crema_device_memory {
  size_t current; /* in use */
  size_t peak;    /* maximum ever allocated from the driver */
  size_t pooled;  /* allocated from the driver, kept for the next request */
} crema_device_memory;

/* Writes a device's memory use to *out. It takes a few locks and does not call the driver. Errors:
 * CREMA_E_ARGUMENT. */
CREMA_API crema_status crema_device_memory_read(crema_device *device,
                                                crema_device_memory *out) CREMA_MUST_USE;

/* An allocator of host memory. Several threads may call both functions at once. */
typedef struct crema_host_allocator {
  /* Returns at least `bytes` bytes, aligned to `alignment` (a power of two), or NULL on failure. */
  void *(*alloc)(void *user, size_t bytes, size_t alignment);
  /* Frees memory from alloc. */
  void (*free)(void *user, void *memory);
  void *user; /* passed to both functions */
} crema_host_allocator;

/* Sets the allocator of the host memory of blobs and of data batches, for the whole process. NULL:
 * the system's allocator, the default. It can be called at any time: it applies to new blocks, and
 * each block is freed by the allocator that made it.
 *
 * `allocator` is not copied and stays the caller's. It must work until its last block is freed,
 * which can be at the end of the process. Page-locked memory always comes from the device's driver.
 * Errors: CREMA_E_ARGUMENT if one of its functions is NULL. */
CREMA_API crema_status crema_host_set_allocator(const crema_host_allocator *allocator)
    CREMA_MUST_USE;

/* The number of bytes of page-locked host memory that crema holds for copies to and from devices.
 */
CREMA_API size_t crema_pinned_bytes(void);

/* As a seed: a different seed at each call. */
#define CREMA_SEED_ANY UINT64_MAX

/* Creates a context on `device`. NULL is the calling thread's device: the CPU, except in threads
 * that the library starts for another device. A context belongs to one thread at a time. `seed`
 * seeds its generator (mt19937). Equal seeds give equal sequences; CREMA_SEED_ANY gives a different
 * sequence each time. Free with crema_context_destroy. Errors: CREMA_E_NO_MEMORY,
 * CREMA_E_DEVICE. */
CREMA_API crema_status crema_context_create(crema_device *device, uint64_t seed,
                                            crema_context **out) CREMA_MUST_USE;

/* Waits for the context's work and frees the context. Accepts NULL. */
CREMA_API void crema_context_destroy(crema_context *context);

/* The device that the context queues work on. Owned by the library. */
CREMA_API crema_device *crema_context_device(const crema_context *context);

/* Waits until all work submitted so far is complete. Errors: each failure of that work that no
 * earlier call has returned. */
CREMA_API crema_status crema_context_finish(crema_context *context) CREMA_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
