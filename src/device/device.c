#include "device/device.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
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
    /* What a device is never changes; how much memory is free does. */
    device->described = status == CREMA_OK && backend->memory_info != NULL;
  }
  *out = device->info;
  pthread_mutex_unlock(&device->lock);
  if (status == CREMA_OK && backend->memory_info != NULL) {
    status = cr_device_memory_info(device, &out->memory_free, &out->memory_total);
  }
  return cr_fail_in(status, "device %s:%d", backend->name, device->index);
}

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

uint64_t cr_device_fallbacks(const crema_device *device) {
  return atomic_load_explicit(&device->fallbacks, memory_order_relaxed);
}

/* ---- the thread's current device ---- */

static _Thread_local crema_device *current;

crema_device *cr_device_current(void) {
  return current != NULL ? current : cr_cpu_device();
}

crema_status cr_device_set_current(crema_device *device) {
  if (device == cr_device_current()) return CREMA_OK;
  if (device->backend->set_current != NULL) CR_TRY(device->backend->set_current(device));
  current = device;
  return CREMA_OK;
}

crema_status cr_device_enter(crema_device *device, cr_device_guard *guard) {
  *guard = (cr_device_guard){NULL};
  crema_device *before = cr_device_current();
  if (before == device || device->backend->set_current == NULL) return CREMA_OK;
  CR_TRY(cr_device_set_current(device));
  guard->device = before;
  return CREMA_OK;
}

void cr_device_leave(cr_device_guard guard) {
  if (guard.device == NULL) return;
  crema_status status = cr_device_set_current(guard.device);
  if (status != CREMA_OK && status != CREMA_E_CLOSED) {
    cr_log_warning("cannot return to device %s:%d: %s", guard.device->backend->name,
                   guard.device->index, crema_error_text());
  }
}

/* ---- memory ---- */

static crema_status alloc_for(crema_device *device, size_t bytes, uint64_t user,
                              crema_devptr *out) {
  crema_devptr memory = {0};
  /* Zero bytes are legal and give an address of their own. */
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

crema_status cr_device_alloc(crema_device *device, size_t bytes, crema_devptr *out) {
  return alloc_for(device, bytes, 0, out);
}

crema_status cr_device_alloc_for(crema_context *context, size_t bytes, crema_devptr *out) {
  return alloc_for(context->device, bytes, context->id, out);
}

void cr_device_free_after(crema_device *device, crema_devptr memory, uint64_t id) {
  if (memory.address == 0) return;
  if (device->pool == NULL) {
    device->backend->free(device, memory);
  } else if (cr_pool_free(device->pool, memory, id) != CREMA_OK) {
    cr_log_error("%s", crema_error_text());
  }
}

void cr_device_free(crema_device *device, crema_devptr memory) {
  cr_device_free_after(device, memory, 0);
}

/* ---- page-locked host memory ---- */

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

/* ---- what a device says ---- */

bool crema_device_reaches(crema_device *device, crema_device *peer) {
  if (device == NULL || peer == NULL) return false;
  if (device == peer) return true;
  const cr_backend *backend = device->backend;
  return backend == peer->backend && backend->can_access_peer != NULL &&
         backend->can_access_peer(device, peer);
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
