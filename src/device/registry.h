/* Lists the back ends, and the devices that were opened. */
#ifndef CR_DEVICE_REGISTRY_H
#define CR_DEVICE_REGISTRY_H

#include "device/backend/backend.h"

/* Adds a plug-in's back end, which must stay loaded; a second call is a no-op. Errors:
 * CREMA_E_RANGE for a type that the table of types does not hold, CREMA_E_EXISTS when the type has
 * another back end. */
crema_status cr_backend_register(const cr_backend *backend) CREMA_MUST_USE;

/* The back end of a type. Errors: CREMA_E_NO_DEVICE. */
crema_status cr_backend_find(crema_device_type type, const cr_backend **out) CREMA_MUST_USE;

/* The same, with the plug-in opened that it lives in. No driver is started: a process may fork
 * afterwards and leave the devices to its children. Further errors: the plug-in's. */
crema_status cr_backend_load(crema_device_type type, const cr_backend **out) CREMA_MUST_USE;

/* The type of the devices that a GPU without a type means, as `-gpu 0` and `solver_mode: GPU` do:
 * OpenCL devices if CREMA_OPENCL is set, else CUDA devices. */
crema_device_type cr_registry_gpu_type(void);

/* A back end is queried once for its number of devices, which is kept. This makes the registry
 * query it again. For a back end that is set up again. */
void cr_registry_clear_count(crema_device_type type);

/* Closes all devices of a back end (not the CPU), so that they are opened afresh at the next use.
 * Only when they and their contexts are out of use: for a back end that is set up again. */
void cr_registry_close(crema_device_type type);

#endif
