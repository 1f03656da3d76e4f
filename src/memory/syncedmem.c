#include "memory/syncedmem.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

/* ---- sides ---- */

static void free_host(cr_host_side *side) {
  if (side->own) side->maker->backend->host_free(side->maker, side->data);
  *side = (cr_host_side){0};
}

static void free_gpu(cr_device_side *side) {
  if (side->own) cr_device_free(side->device, side->data);
  *side = (cr_device_side){0};
}

/* Makes the host side when it is not there, content undefined. */
static crema_status need_host(crema_syncedmem *memory) {
  if (memory->host.data != NULL) return CREMA_OK;
  void *data = NULL;
  CR_TRY(memory->device->backend->host_alloc(memory->device, memory->capacity, &data));
  memory->host = (cr_host_side){.data = data, .own = true, .maker = memory->device};
  return CREMA_OK;
}

static crema_status need_gpu(crema_syncedmem *memory) {
  if (memory->gpu.data.address != 0) return CREMA_OK;
  crema_devptr data = {0};
  CR_TRY(cr_device_alloc(memory->device, memory->capacity, &data));
  memory->gpu = (cr_device_side){.data = data, .own = true, .device = memory->device};
  return CREMA_OK;
}

/* Work of the automaton itself, when the caller brings no context, goes through a context
 * that lives as long as the call. */
static crema_status copy_now(crema_device *device, cr_copy_kind kind, uintptr_t dst, uintptr_t src,
                             size_t bytes) {
  crema_context *context = NULL;
  CR_TRY(crema_context_create(device, 0, &context));
  crema_status status = device->backend->copy(context, kind, dst, src, bytes);
  if (status == CREMA_OK) status = crema_context_finish(context);
  crema_context_destroy(context);
  return status;
}

/* ---- the automaton ---- */

static crema_status to_host(crema_syncedmem *memory) {
  if (cr_syncedmem_at_host(memory)) return CREMA_OK;
  CR_TRY(need_host(memory));
  if (memory->head == CREMA_UNINITIALIZED) {
    memset(memory->host.data, 0, memory->capacity);
    memory->head = CREMA_HEAD_AT_CPU;
    return CREMA_OK;
  }
  CR_TRY(copy_now(memory->gpu.device, CR_COPY_DEVICE_TO_HOST, (uintptr_t)memory->host.data,
                  memory->gpu.data.address, memory->size));
  memory->head = CREMA_SYNCED;
  return CREMA_OK;
}

static crema_status to_gpu(crema_syncedmem *memory, crema_context *context) {
  if (memory->head == CREMA_HEAD_AT_GPU || memory->head == CREMA_SYNCED) return CREMA_OK;
  const cr_backend *backend = context->device->backend;
  CR_TRY(need_gpu(memory));
  if (memory->head == CREMA_UNINITIALIZED) {
    CR_TRY(backend->zero(context, memory->gpu.data, memory->capacity));
    memory->head = CREMA_HEAD_AT_GPU;
    return CREMA_OK;
  }
  CR_TRY(backend->copy(context, CR_COPY_HOST_TO_DEVICE, memory->gpu.data.address,
                       (uintptr_t)memory->host.data, memory->size));
  /* The host side may be changed or freed as soon as the caller has the address. */
  CR_TRY(crema_context_finish(context));
  memory->head = CREMA_SYNCED;
  return CREMA_OK;
}

/* Moves the block's home to `device`. When the newest bytes are on the old device only, they are
 * fetched to the host first. */
static crema_status move_to(crema_syncedmem *memory, crema_device *device) {
  if (memory->device == device) return CREMA_OK;
  if (memory->head == CREMA_HEAD_AT_GPU) CR_TRY(to_host(memory));
  if (memory->head == CREMA_SYNCED) memory->head = CREMA_HEAD_AT_CPU;
  free_gpu(&memory->gpu);
  memory->device = device;
  return CREMA_OK;
}

/* Host memory is a device's own memory: both sides are one. */
static bool one_sided(const crema_context *context) {
  return context->device->backend->host_memory;
}

crema_status cr_syncedmem_read(crema_syncedmem *memory, crema_context *context, crema_devptr *out) {
  if (one_sided(context)) {
    if (!cr_syncedmem_at_host(memory)) CR_TRY(to_host(memory));
    out->address = (uintptr_t)memory->host.data;
    return CREMA_OK;
  }
  CR_TRY(move_to(memory, context->device));
  CR_TRY(to_gpu(memory, context));
  *out = memory->gpu.data;
  return CREMA_OK;
}

crema_status cr_syncedmem_overwrite(crema_syncedmem *memory, crema_context *context,
                                    crema_devptr *out) {
  if (one_sided(context)) {
    CR_TRY(need_host(memory));
    memory->head = CREMA_HEAD_AT_CPU;
    out->address = (uintptr_t)memory->host.data;
    return CREMA_OK;
  }
  CR_TRY(move_to(memory, context->device));
  CR_TRY(need_gpu(memory));
  memory->head = CREMA_HEAD_AT_GPU;
  *out = memory->gpu.data;
  return CREMA_OK;
}

crema_status cr_syncedmem_write(crema_syncedmem *memory, crema_context *context, bool keep,
                                crema_devptr *out) {
  if (keep || memory->head == CREMA_UNINITIALIZED) {
    CR_TRY(cr_syncedmem_read(memory, context, out));
    memory->head = one_sided(context) ? CREMA_HEAD_AT_CPU : CREMA_HEAD_AT_GPU;
    return CREMA_OK;
  }
  return cr_syncedmem_overwrite(memory, context, out);
}

crema_status cr_syncedmem_zero(crema_syncedmem *memory, crema_context *context) {
  crema_head before = memory->head;
  crema_devptr data = {0};
  CR_TRY(cr_syncedmem_overwrite(memory, context, &data));
  crema_status status = context->device->backend->zero(context, data, memory->size);
  if (status != CREMA_OK) memory->head = before;
  return status;
}

/* ---- life ---- */

void cr_syncedmem_init(crema_syncedmem *memory, crema_device *device, size_t size) {
  *memory = (crema_syncedmem){.device = device, .size = size, .capacity = size};
}

void cr_syncedmem_clear(crema_syncedmem *memory) {
  free_gpu(&memory->gpu);
  free_host(&memory->host);
  memory->head = CREMA_UNINITIALIZED;
}

void cr_syncedmem_resize(crema_syncedmem *memory, size_t size) {
  if (size > memory->capacity) {
    cr_syncedmem_clear(memory);
    memory->capacity = size;
  }
  memory->size = size;
}

size_t cr_syncedmem_bytes(const crema_syncedmem *memory) {
  size_t sides = (memory->host.own ? 1 : 0) + (memory->gpu.own ? 1 : 0);
  return sides * memory->capacity;
}

crema_status crema_syncedmem_create(crema_device *device, size_t size, crema_syncedmem **out) {
  if (device == NULL) return cr_fail(CREMA_E_ARGUMENT, "syncedmem needs a device");
  crema_syncedmem *memory = malloc(sizeof *memory);
  if (memory == NULL) return cr_fail_memory(sizeof *memory, "syncedmem");
  cr_syncedmem_init(memory, device, size);
  *out = memory;
  return CREMA_OK;
}

void crema_syncedmem_destroy(crema_syncedmem *memory) {
  if (memory == NULL) return;
  cr_syncedmem_clear(memory);
  free(memory);
}

crema_head crema_syncedmem_head(const crema_syncedmem *memory) {
  return memory->head;
}

size_t crema_syncedmem_size(const crema_syncedmem *memory) {
  return memory->size;
}

/* ---- public accessors ---- */

crema_status crema_syncedmem_cpu_data(crema_syncedmem *memory, const void **out) {
  if (!cr_syncedmem_at_host(memory)) CR_TRY(to_host(memory));
  *out = memory->host.data;
  return CREMA_OK;
}

crema_status crema_syncedmem_gpu_data(crema_syncedmem *memory, crema_context *context,
                                      crema_devptr *out) {
  return cr_syncedmem_read(memory, context, out);
}

crema_status crema_syncedmem_mutable_cpu_data(crema_syncedmem *memory, bool keep, void **out) {
  crema_devptr data = {0};
  CR_TRY(cr_syncedmem_write(memory, cr_host_context(), keep, &data));
  *out = (void *)data.address;
  return CREMA_OK;
}

crema_status crema_syncedmem_mutable_gpu_data(crema_syncedmem *memory, crema_context *context,
                                              bool keep, crema_devptr *out) {
  return cr_syncedmem_write(memory, context, keep, out);
}

crema_status crema_syncedmem_set_cpu_data(crema_syncedmem *memory, void *data) {
  if (data == NULL) return cr_fail(CREMA_E_ARGUMENT, "set_cpu_data: no memory given");
  free_host(&memory->host);
  memory->host = (cr_host_side){.data = data};
  memory->head = CREMA_HEAD_AT_CPU;
  return CREMA_OK;
}

crema_status crema_syncedmem_set_gpu_data(crema_syncedmem *memory, crema_devptr data) {
  if (data.address == 0) return cr_fail(CREMA_E_ARGUMENT, "set_gpu_data: no memory given");
  if (memory->device->backend->host_memory) {
    return crema_syncedmem_set_cpu_data(memory, (void *)data.address);
  }
  free_gpu(&memory->gpu);
  memory->gpu = (cr_device_side){.data = data, .device = memory->device};
  memory->head = CREMA_HEAD_AT_GPU;
  return CREMA_OK;
}

crema_status crema_syncedmem_async_push(crema_syncedmem *memory, crema_context *context) {
  if (memory->head != CREMA_HEAD_AT_CPU) {
    return cr_fail(CREMA_E_STATE, "async push needs the newest bytes on the host");
  }
  if (one_sided(context)) return CREMA_OK;
  CR_TRY(move_to(memory, context->device));
  CR_TRY(need_gpu(memory));
  CR_TRY(context->device->backend->copy(context, CR_COPY_HOST_TO_DEVICE, memory->gpu.data.address,
                                        (uintptr_t)memory->host.data, memory->size));
  memory->head = CREMA_SYNCED;
  return CREMA_OK;
}
