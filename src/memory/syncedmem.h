/* The memory automaton: the same bytes in two places, host and device. */
#ifndef CR_MEMORY_SYNCEDMEM_H
#define CR_MEMORY_SYNCEDMEM_H

#include "crema/syncedmem.h"
#include "device/device.h"

#endif
