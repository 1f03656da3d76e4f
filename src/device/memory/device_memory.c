#include "device/memory/device_memory.h"

#include "core/fail.h"
#include "core/log.h"
#include "device/memory/pool.h"

static crema_status alloc_for(crema_device *device, size_t bytes, uint64_t user,
                              crema_devptr *out) {
  crema_devptr memory = {0};
  /* Zero bytes are legal and give a distinct address. */
  if (bytes == 0) bytes = 1;
  if (device->pool != NULL) {
    CR_TRY(cr_pool_alloc(device->pool, bytes, user, &memory));
  } else {
    crema_status status = device->backend->alloc(device, bytes, &memory);
    if (status != CREMA_OK) {
      return cr_fail_in(status, "device %s:%d", device->backend->name, device->index);
    }
  }
  *out = memory;
  return CREMA_OK;
}

static _Thread_local uint64_t changes;

uint64_t cr_device_memory_changes(void) {
  return changes;
}

crema_status cr_device_alloc(crema_device *device, size_t bytes, crema_devptr *out) {
  ++changes;
  return alloc_for(device, bytes, 0, out);
}

crema_status cr_device_alloc_for(crema_context *context, size_t bytes, crema_devptr *out) {
  ++changes;
  return alloc_for(context->device, bytes, context->id, out);
}

void cr_device_free_after(crema_device *device, crema_devptr memory, uint64_t id) {
  if (memory.address == 0) return;
  ++changes;
  if (device->pool == NULL) {
    device->backend->free(device, memory);
  } else if (cr_pool_free(device->pool, memory, id) != CREMA_OK) {
    cr_log_error("%s", crema_error_text());
  }
}

void cr_device_free(crema_device *device, crema_devptr memory) {
  cr_device_free_after(device, memory, 0);
}
