/* Finding and opening the CUDA plug-in. */
#ifndef CR_DEVICE_CUDA_PLUGIN_H
#define CR_DEVICE_CUDA_PLUGIN_H

#include "device/backend/backend.h"

/* The plug-in's table; opens the plug-in at the first call. Searches for CREMA_CUDA_PLUGIN (a
 * path), next to the library, and in the loader's folders. Errors: CREMA_E_NO_DEVICE, the text says
 * why; the same answer every time. */
crema_status cr_cuda_plugin_load(const cr_backend **out) CREMA_MUST_USE;

#endif
