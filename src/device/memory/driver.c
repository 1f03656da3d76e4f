#include "device/memory/driver.h"

#include <stdatomic.h>

#include "core/fail.h"
#include "device/backend/current.h"
#include "device/memory/memory_lock.h"

crema_status cr_device_memory_info(crema_device *device, size_t *free_bytes, size_t *total_bytes) {
  cr_device_guard guard;
  CR_TRY(cr_device_enter(device, &guard));
  cr_memory_lock_shared();
  crema_status status = device->backend->memory_info(device, free_bytes, total_bytes);
  cr_memory_unlock_shared();
  cr_device_leave(guard);
  if (status != CREMA_OK) return status;
  if (device->memory_bytes > 0 && device->memory_bytes < *total_bytes) {
    *total_bytes = device->memory_bytes;
  }
  if (*free_bytes > *total_bytes) *free_bytes = *total_bytes;
  return CREMA_OK;
}

static atomic_size_t pinned_bytes;

size_t crema_pinned_bytes(void) {
  return atomic_load(&pinned_bytes);
}

crema_status cr_pinned_alloc(crema_device *device, size_t bytes, void **out) {
  if (device->backend->host_memory) return device->backend->host_alloc(device, bytes, out);
  cr_device_guard guard;
  CR_TRY(cr_device_enter(device, &guard));
  cr_memory_lock_shared();
  crema_status status = device->backend->host_alloc(device, bytes, out);
  cr_memory_unlock_shared();
  cr_device_leave(guard);
  if (status == CREMA_OK) atomic_fetch_add(&pinned_bytes, bytes);
  return status;
}

void cr_pinned_free(crema_device *device, void *memory, size_t bytes) {
  if (memory == NULL) return;
  if (device->backend->host_memory) {
    device->backend->host_free(device, memory);
    return;
  }
  cr_memory_lock_shared();
  device->backend->host_free(device, memory);
  cr_memory_unlock_shared();
  atomic_fetch_sub(&pinned_bytes, bytes);
}
