/* The back ends that are built in. */
#ifndef CR_DEVICE_REGISTRY_H
#define CR_DEVICE_REGISTRY_H

#include "device/device.h"

extern const cr_backend cr_backend_cpu;

#endif
