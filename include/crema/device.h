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

typedef enum crema_device_type {
  CREMA_DEVICE_CPU = 0,
  CREMA_DEVICE_CUDA = 1,
  CREMA_DEVICE_SIM = 2
} crema_device_type;

typedef struct crema_device crema_device;
typedef struct crema_context crema_context;

/* An address in a device's memory. A struct, so that it never converts to a
 * pointer that host code could follow. Zero: no memory. */
typedef struct crema_devptr {
  uintptr_t address;
} crema_devptr;

/* The number of devices of a type; 0 when its back end is not there. */
CREMA_API int crema_device_count(crema_device_type type);

/* The device `index` of `type`. Owned by the library for the life of the process.
 * Errors: CREMA_E_NO_DEVICE, the text says why. */
CREMA_API crema_status crema_device_get(crema_device_type type, int index, crema_device **out)
    CREMA_MUST_USE;

/* A device's type and its number among the devices of that type. */
CREMA_API crema_device_type crema_device_get_type(const crema_device *device);
CREMA_API int crema_device_get_index(const crema_device *device);

/* What a device says of itself. */
typedef struct crema_device_info {
  char name[128];
  char library[128];      /* compute libraries and their versions */
  size_t memory_total;    /* bytes; 0 when unknown */
  size_t memory_free;     /* bytes */
  int compute_units;      /* cores or multiprocessors */
  int capability_major;   /* 0 where it has no meaning */
  int capability_minor;
} crema_device_info;

/* Fills *out. Errors: CREMA_E_DEVICE when the driver does not answer. */
CREMA_API crema_status crema_device_describe(crema_device *device, crema_device_info *out)
    CREMA_MUST_USE;

/* Makes a context on `device`; it belongs to one thread at a time. `seed` starts its generator (mt19937); equal seeds give
 * equal sequences. Free with crema_context_destroy. */
CREMA_API crema_status crema_context_create(crema_device *device, uint64_t seed,
                                            crema_context **out) CREMA_MUST_USE;

/* Waits for the context's work and frees it. Accepts NULL. */
CREMA_API void crema_context_destroy(crema_context *context);

/* The device that the context queues work on. Owned by the library. */
CREMA_API crema_device *crema_context_device(const crema_context *context);

/* Waits until all work submitted so far is done and reports a pending failure once. */
CREMA_API crema_status crema_context_finish(crema_context *context) CREMA_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
