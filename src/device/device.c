#include "device/device.h"

#include <stdatomic.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/current.h"
#include "device/memory/driver.h"
#include "device/memory/memory_lock.h"
#include "device/memory/pool.h"

crema_device_type crema_device_get_type(const crema_device *device) {
  if (device == NULL) return CREMA_DEVICE_CPU;
  return device->backend->type;
}

int crema_device_get_index(const crema_device *device) {
  if (device == NULL) return 0;
  return device->index;
}

crema_status crema_device_describe(crema_device *device, crema_device_info *out) {
  CR_REQUIRE(device);
  CR_REQUIRE(out);
  const cr_backend *backend = device->backend;
  crema_status status = CREMA_OK;
  pthread_mutex_lock(&device->lock);
  if (!device->described) {
    memset(&device->info, 0, sizeof device->info);
    status = backend->describe(device, &device->info);
    /* The description never changes; the free memory does. */
    device->described = status == CREMA_OK && backend->memory_info != NULL;
  }
  *out = device->info;
  pthread_mutex_unlock(&device->lock);
  if (status == CREMA_OK && backend->memory_info != NULL) {
    status = cr_device_memory_info(device, &out->memory_free, &out->memory_total);
  }
  return cr_fail_in(status, "device %s:%d", backend->name, device->index);
}

uint64_t cr_device_fallbacks(const crema_device *device) {
  return atomic_load_explicit(&device->fallbacks, memory_order_relaxed);
}

uint64_t cr_device_launches(const crema_device *device) {
  return atomic_load_explicit(&device->launches, memory_order_relaxed);
}

crema_device *cr_device_current(void) {
  crema_device *device = cr_device_of_thread();
  return device != NULL ? device : cr_cpu_device();
}

bool crema_device_reaches(crema_device *device, crema_device *peer) {
  if (device == NULL || peer == NULL) return false;
  if (device == peer) return true;
  const cr_backend *backend = device->backend;
  return backend == peer->backend && backend->can_access_peer != NULL &&
         backend->can_access_peer(device, peer);
}

crema_status cr_device_enable_peer(crema_device *device, crema_device *peer) {
  cr_device_guard guard;
  CR_TRY(cr_device_enter(device, &guard));
  cr_collective_begin();
  const crema_status status = device->backend->enable_peer(device, peer);
  cr_collective_end();
  cr_device_leave(guard);
  return status;
}

crema_status crema_device_memory_read(crema_device *device, crema_device_memory *out) {
  CR_REQUIRE(device);
  CR_REQUIRE(out);
  *out = (crema_device_memory){0};
  if (device->pool == NULL) return CREMA_OK;
  cr_pool_info info = cr_pool_describe(device->pool);
  out->current = info.live_bytes;
  out->peak = info.peak_bytes;
  out->pooled = info.idle_bytes;
  return CREMA_OK;
}
