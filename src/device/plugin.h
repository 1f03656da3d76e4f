/* Finding and opening the plug-ins of GPUs. */
#ifndef CR_DEVICE_PLUGIN_H
#define CR_DEVICE_PLUGIN_H

#include "device/backend/backend.h"

/* Whether the back end of `type` is a plug-in. */
bool cr_plugin_has(crema_device_type type);

/* The table of the plug-in for `type`; opens the plug-in at the first call. Searches for
 * CREMA_CUDA_PLUGIN or CREMA_OPENCL_PLUGIN (a path), next to the library, and in the loader's
 * folders. Errors: CREMA_E_NO_DEVICE, the text says why; the same answer every time. */
crema_status cr_plugin_load(crema_device_type type, const cr_backend **out) CREMA_MUST_USE;

#endif
