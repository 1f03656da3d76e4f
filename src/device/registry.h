/* The back ends that are built in. */
#ifndef CR_DEVICE_REGISTRY_H
#define CR_DEVICE_REGISTRY_H

#include "device/device.h"

extern const cr_backend cr_backend_cpu;
extern const cr_backend cr_backend_sim;

/* Closes all devices of a back end (not the CPU), so that they are opened afresh at the next use.
 * Only when nobody has one of them or a context of theirs any more: for a back end that is set up
 * anew. */
void cr_registry_close(crema_device_type type);

#endif
