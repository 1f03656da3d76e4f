#include "device/copy.h"

#include <stdlib.h>

#include "core/fail.h"
#include "device/backend/current.h"
#include "device/device.h"
#include "device/memory/driver.h"
#include "device/registry.h"

static crema_status check_ends(uintptr_t dst, uintptr_t src, size_t bytes) {
  if (dst != 0 && src != 0) return CREMA_OK;
  return cr_fail(CREMA_E_ARGUMENT, "copy of %zu bytes %s nowhere", bytes, dst == 0 ? "to" : "from");
}

static crema_status copy(crema_context *context, cr_copy_kind kind, uintptr_t dst, uintptr_t src,
                         size_t bytes) {
  if (bytes == 0) return CREMA_OK;
  CR_TRY(check_ends(dst, src, bytes));
  cr_device_guard guard;
  CR_TRY(cr_device_enter(context->device, &guard));
  crema_status status = context->device->backend->copy(context, kind, dst, src, bytes);
  cr_device_leave(guard);
  return status;
}

crema_status cr_copy_same_device(crema_context *context, crema_devptr dst, crema_devptr src,
                                 size_t bytes) {
  return copy(context, CR_COPY_SAME_DEVICE, dst.address, src.address, bytes);
}

crema_status cr_copy_from_cpu(crema_context *context, crema_devptr dst, const void *src,
                              size_t bytes) {
  return copy(context, CR_COPY_HOST_TO_DEVICE, dst.address, (uintptr_t)src, bytes);
}

crema_status cr_copy_to_cpu(crema_context *context, void *dst, crema_devptr src, size_t bytes) {
  return copy(context, CR_COPY_DEVICE_TO_HOST, (uintptr_t)dst, src.address, bytes);
}

crema_status cr_copy_peer(crema_context *context, crema_devptr dst, crema_devptr src,
                          size_t bytes) {
  return copy(context, CR_COPY_PEER, dst.address, src.address, bytes);
}

crema_status cr_copy_to_type(crema_context *context, crema_device_type type, uintptr_t dst,
                             crema_devptr src, size_t bytes) {
  const cr_backend *own = context->device->backend, *other = NULL;
  if (type == own->type) return copy(context, CR_COPY_SAME_DEVICE, dst, src.address, bytes);
  if (type == CREMA_DEVICE_CPU) {
    return copy(context, CR_COPY_DEVICE_TO_HOST, dst, src.address, bytes);
  }
  bool known = cr_backend_find(type, &other) == CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "a context of %s cannot copy to a device of type %s",
                 own->name, known ? other->name : "that this build does not have");
}

crema_status cr_device_of_address(uintptr_t address, crema_device **out) {
  for (int type = CREMA_DEVICE_CUDA; type < CR_DEVICE_TYPES; ++type) {
    const cr_backend *backend = NULL;
    if (cr_backend_find((crema_device_type)type, &backend) != CREMA_OK) continue;
    int index = backend->owner != NULL ? backend->owner(address) : -1;
    if (index >= 0) return crema_device_get((crema_device_type)type, index, out);
  }
  *out = cr_cpu_device();
  return CREMA_OK;
}

/* One copy on a context of the calling thread, complete on return: to the device's memory from the
 * host or from a peer, as `kind` says. */
static crema_status copy_now(crema_device *device, cr_copy_kind kind, uintptr_t dst, uintptr_t src,
                             size_t bytes) {
  crema_context *context = NULL;
  CR_TRY(cr_thread_context(device, 0, &context));
  CR_TRY(copy(context, kind, dst, src, bytes));
  return crema_context_finish(context);
}

/* From the device's memory to itself or to the host. */
static crema_status copy_out(crema_device *device, crema_device_type type, uintptr_t dst,
                             uintptr_t src, size_t bytes) {
  crema_context *context = NULL;
  CR_TRY(cr_thread_context(device, 0, &context));
  CR_TRY(cr_copy_to_type(context, type, dst, (crema_devptr){src}, bytes));
  return crema_context_finish(context);
}

static crema_status copy_by_host(crema_device *to, uintptr_t dst, crema_device *from, uintptr_t src,
                                 size_t bytes) {
  void *between = NULL;
  CR_TRY(cr_pinned_alloc(from, bytes, &between));
  crema_status status = copy_out(from, CREMA_DEVICE_CPU, (uintptr_t)between, src, bytes);
  if (status == CREMA_OK) {
    status = copy_now(to, CR_COPY_HOST_TO_DEVICE, dst, (uintptr_t)between, bytes);
  }
  cr_pinned_free(from, between, bytes);
  return status;
}

crema_status cr_copy_any(uintptr_t dst, uintptr_t src, size_t bytes) {
  if (bytes == 0 || dst == src) return CREMA_OK;
  CR_TRY(check_ends(dst, src, bytes));
  crema_device *to = NULL, *from = NULL;
  CR_TRY(cr_device_of_address(dst, &to));
  CR_TRY(cr_device_of_address(src, &from));
  bool to_host = to->backend->host_memory, from_host = from->backend->host_memory;
  if (to == from || to_host) return copy_out(from, to->backend->type, dst, src, bytes);
  if (from_host) return copy_now(to, CR_COPY_HOST_TO_DEVICE, dst, src, bytes);
  if (crema_device_reaches(to, from) && cr_device_enable_peer(to, from) == CREMA_OK) {
    return copy_now(to, CR_COPY_PEER, dst, src, bytes);
  }
  return copy_by_host(to, dst, from, src, bytes);
}

crema_status cr_copy_items(crema_context *context, const cr_item_type *type, size_t count,
                           uintptr_t dst, uintptr_t src) {
  if (type->bytes > 0 && count > SIZE_MAX / type->bytes) {
    return cr_fail(CREMA_E_RANGE, "%zu items of type %s are too many", count, type->name);
  }
  if (type->copy == NULL) {
    return copy(context, CR_COPY_SAME_DEVICE, dst, src, count * type->bytes);
  }
  if (!context->device->backend->host_memory) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "a context of %s requires fundamental types, and %s has a copy function",
                   context->device->backend->name, type->name);
  }
  if (count == 0) return CREMA_OK;
  CR_TRY(check_ends(dst, src, count * type->bytes));
  for (size_t i = 0; i < count; ++i) {
    type->copy((const char *)src + i * type->bytes, (char *)dst + i * type->bytes);
  }
  return CREMA_OK;
}
