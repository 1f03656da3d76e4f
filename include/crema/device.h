/* Devices and contexts.
 *
 * A device is one physical (or simulated) processor with memory of its own. A
 * context is one queue of work on a device together with its random generator.
 * Work is always submitted to a context. The CPU is a device like the others. */
#ifndef CREMA_DEVICE_H
#define CREMA_DEVICE_H

#include "crema/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of devices. */
typedef enum crema_device_type {
  CREMA_DEVICE_CPU = 0,  /* the processor that the program runs on */
  CREMA_DEVICE_CUDA = 1, /* NVIDIA GPUs, through the CUDA plug-in */
  CREMA_DEVICE_SIM = 2   /* simulated accelerators, see crema_device_simulate */
} crema_device_type;

/* A processor with memory of its own. Owned by the library. */
typedef struct crema_device crema_device;
/* A queue of work on a device, with a random generator. */
typedef struct crema_context crema_context;

/* An address in a device's memory. A struct, so that it never converts to a
 * pointer that host code could follow. Zero: no memory. */
typedef struct crema_devptr {
  uintptr_t address; /* as the device's kernels know it */
} crema_devptr;

/* The number of devices of a type; 0 when its back end is not there. */
CREMA_API int crema_device_count(crema_device_type type);

/* The device `index` of `type`. Owned by the library for the life of the process.
 * Errors: CREMA_E_NO_DEVICE, the text says why. */
CREMA_API crema_status crema_device_get(crema_device_type type, int index,
                                        crema_device **out) CREMA_MUST_USE;

/* Opens the devices `index`[0] to `index`[count - 1] of `type` at once, with their memory pools and
 * direct access between them, so that a program learns at its start what is missing. Opening a
 * device again does nothing. A device that is used without having been named here opens by
 * itself, and its first allocation is logged as a warning. Errors: CREMA_E_NO_DEVICE naming the
 * first device that is missing; the ones before it stay open. */
CREMA_API crema_status crema_device_open(crema_device_type type, const int *index,
                                         int count) CREMA_MUST_USE;

/* A device's type and its number among the devices of that type. */
CREMA_API crema_device_type crema_device_get_type(const crema_device *device);
CREMA_API int crema_device_get_index(const crema_device *device);

/* What a device says of itself. */
typedef struct crema_device_info {
  char name[128];       /* the processor's */
  char library[128];    /* compute libraries and their versions */
  size_t memory_total;  /* bytes; 0 when unknown */
  size_t memory_free;   /* bytes */
  int compute_units;    /* cores or multiprocessors */
  int capability_major; /* compute capability of a GPU; 0 where it has no meaning */
  int capability_minor; /* likewise */
} crema_device_info;

/* Fills *out. Errors: CREMA_E_DEVICE when the driver does not answer. */
CREMA_API crema_status crema_device_describe(crema_device *device,
                                             crema_device_info *out) CREMA_MUST_USE;

/* Whether kernels and copies of `device` can reach the memory of `peer` directly. True for a device
 * and itself. */
CREMA_API bool crema_device_reaches(crema_device *device, crema_device *peer);

/* Starts simulated devices (type CREMA_DEVICE_SIM), which behave like accelerators but compute on
 * the CPU. `text` is their number ("4", at most 16) or a list such as "devices=8,memory=2G,
 * bandwidth=12G,latency=1e-5,peer_bandwidth=50G,peer_latency=2e-6,boards=2,peers=islands:4":
 *
 *   devices, memory                their number, and bytes of each
 *   bandwidth, latency             bytes a second and seconds of the link to the host; without them
 *                                  copies take no longer than on the host
 *   peer_bandwidth, peer_latency   the same of each device's link to the other devices; a copy
 *                                  occupies the links of both ends, each in one direction
 *   boards                         how many devices are on one board; 1 unless given
 *   peers                          which devices reach each other's memory: "all" as without it,
 *                                  "none", or "islands:N" for each N in a row
 *
 * The environment variable CREMA_SIM holds the same text and starts them without this call. Errors:
 * CREMA_E_PARSE naming the entry, CREMA_E_RANGE for a number of devices that cannot be,
 * CREMA_E_STATE when there are some already. */
CREMA_API crema_status crema_device_simulate(const char *text) CREMA_MUST_USE;

/* Bytes of a device's own memory. All 0 for the CPU, whose memory is the host's. */
typedef struct crema_device_memory {
  size_t current; /* in use */
  size_t peak;    /* most that was ever taken from the driver */
  size_t pooled;  /* taken from the driver, kept for the next request */
} crema_device_memory;

/* Reads a device's memory counts into *out; costs a few locks and asks no driver. Errors:
 * CREMA_E_ARGUMENT. */
CREMA_API crema_status crema_device_memory_read(crema_device *device,
                                                crema_device_memory *out) CREMA_MUST_USE;

/* Where memory comes from and goes back to. Both functions may be called from any thread, several
 * at once. */
typedef struct crema_host_allocator {
  /* At least `bytes` bytes at a multiple of `alignment`, a power of two; NULL: there are none. */
  void *(*alloc)(void *user, size_t bytes, size_t alignment);
  /* Takes back what alloc gave. */
  void (*free)(void *user, void *memory);
  void *user; /* handed to both */
} crema_host_allocator;

/* Replaces what the host memory of blobs and of batches of data comes from, in the whole process
 * and for blocks made from now on; NULL: the system's allocator, as at the start. Each block goes
 * back to the allocator that made it, so that this may be called at any time. The allocator is not
 * copied and must work until its last block is back, some of them at the end of the process.
 * Page-locked memory comes from the device's driver all the same. Errors: CREMA_E_ARGUMENT when one
 * of its functions is NULL. */
CREMA_API crema_status crema_host_set_allocator(const crema_host_allocator *allocator)
    CREMA_MUST_USE;

/* Page-locked bytes of host memory that crema holds for copies to and from devices. */
CREMA_API size_t crema_pinned_bytes(void);

/* As a seed: another one at each call. */
#define CREMA_SEED_ANY UINT64_MAX

/* Makes a context on `device` (NULL: the one that the calling thread works on, which is the CPU
 * unless the library made it another one for a thread of its own); it belongs to one thread at a
 * time. `seed` starts its generator (mt19937); equal seeds give equal sequences, CREMA_SEED_ANY
 * another one each time. Free with crema_context_destroy. Errors: CREMA_E_NO_MEMORY,
 * CREMA_E_DEVICE. */
CREMA_API crema_status crema_context_create(crema_device *device, uint64_t seed,
                                            crema_context **out) CREMA_MUST_USE;

/* Waits for the context's work and frees it. Accepts NULL. */
CREMA_API void crema_context_destroy(crema_context *context);

/* The device that the context queues work on. Owned by the library. */
CREMA_API crema_device *crema_context_device(const crema_context *context);

/* Waits until all work submitted so far is done. Errors: those of that work that nobody was told of
 * yet, once. */
CREMA_API crema_status crema_context_finish(crema_context *context) CREMA_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
