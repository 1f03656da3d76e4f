#include "device/device.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

crema_device_type crema_device_get_type(const crema_device *device) {
  return device->backend->type;
}

int crema_device_get_index(const crema_device *device) {
  return device->index;
}

crema_status crema_device_describe(crema_device *device, crema_device_info *out) {
  memset(out, 0, sizeof *out);
  crema_status status = device->backend->describe(device, out);
  return cr_fail_in(status, "device %s:%d", device->backend->name, device->index);
}

crema_status cr_device_alloc(crema_device *device, size_t bytes, crema_devptr *out) {
  crema_devptr memory = {0};
  /* Zero bytes are legal and give an address of their own. */
  crema_status status = device->backend->alloc(device, bytes > 0 ? bytes : 1, &memory);
  if (status != CREMA_OK) {
    return cr_fail_in(status, "device %s:%d", device->backend->name, device->index);
  }
  *out = memory;
  return CREMA_OK;
}

void cr_device_free(crema_device *device, crema_devptr memory) {
  if (memory.address != 0) device->backend->free(device, memory);
}
