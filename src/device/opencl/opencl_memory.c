/* Device memory: buffers with addresses; page-locked host memory. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/opencl/opencl_private.h"

/* A device's addresses begin at BASE + index * SPAN. No host has addresses of user programs there.
 */
static const uintptr_t base = (uintptr_t)1 << 60, span = (uintptr_t)1 << 52;
enum { ALIGNMENT = 256 };

static cr_opencl_device *device_at(uintptr_t address) {
  cr_opencl_device *devices = NULL;
  int count = 0;
  if (address < base || address >= base + CR_MAX_DEVICES * span) return NULL;
  if (cr_opencl_devices(&devices, &count) != CREMA_OK) return NULL;
  const size_t index = (address - base) / span;
  return index < (size_t)count ? &devices[index] : NULL;
}

/* The number of the block that has the address, or of the block after it. With the lock held. */
static size_t search(const cr_opencl_device *own, uintptr_t address) {
  size_t low = 0, high = own->blocks;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (own->block[middle].address + own->block[middle].bytes <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

static bool has(const cr_opencl_device *own, size_t i, uintptr_t address) {
  return i < own->blocks && own->block[i].address <= address;
}

/* Adds a block behind all others. With the lock held. */
static crema_status add(crema_device *device, cl_mem buffer, size_t bytes, void *host,
                        crema_devptr *out) {
  cr_opencl_device *own = cr_opencl_of(device);
  if (own->blocks == own->room) {
    const size_t room = 2 * own->room + 64;
    cr_opencl_block *grown = realloc(own->block, room * sizeof *grown);
    if (grown == NULL) return cr_fail_memory(room * sizeof *grown, "device addresses");
    own->block = grown;
    own->room = room;
  }
  if (own->next == 0) own->next = base + (uintptr_t)device->index * span;
  own->block[own->blocks++] =
      (cr_opencl_block){.address = own->next, .bytes = bytes, .buffer = buffer, .host = host};
  out->address = own->next;
  /* A gap, so that an address behind the block belongs to no other block. */
  own->next += (bytes + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  own->used_bytes += bytes;
  return CREMA_OK;
}

/* The driver takes the memory now rather than at the first use, so that a lack of it is reported
 * here. */
static cl_int place_on(const cr_opencl_device *own, cl_mem buffer) {
  const cl_int error = cr_cl.clEnqueueMigrateMemObjects(
      own->queue, 1, &buffer, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL);
  return error == CL_SUCCESS ? cr_cl.clFinish(own->queue) : error;
}

static crema_status allocate(crema_device *device, size_t bytes, void *host, crema_devptr *out) {
  cr_opencl_device *own = cr_opencl_of(device);
  cl_int error = CL_SUCCESS;
  size_t free_bytes = 0, total = 0;
  CR_TRY(cr_opencl_memory_info(device, &free_bytes, &total));
  if (bytes > own->most_bytes || bytes > free_bytes) {
    return cr_fail(CREMA_E_NO_MEMORY,
                   "%s: no memory for %zu bytes: %zu of %zu bytes are free, and a buffer has %zu "
                   "bytes at most",
                   own->name, bytes, free_bytes, total, own->most_bytes);
  }
  cl_mem buffer = cr_cl.clCreateBuffer(own->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
  CR_TRY(cr_opencl_check(device, error, "allocating device memory"));
  crema_status status = cr_opencl_check(device, place_on(own, buffer), "allocating device memory");
  if (status == CREMA_OK) {
    pthread_rwlock_wrlock(&own->memory_lock);
    status = add(device, buffer, bytes, host, out);
    pthread_rwlock_unlock(&own->memory_lock);
  }
  if (status != CREMA_OK) (void)cr_cl.clReleaseMemObject(buffer);
  return status;
}

crema_status cr_opencl_alloc(crema_device *device, size_t bytes, crema_devptr *out) {
  return allocate(device, bytes, NULL, out);
}

/* Takes the block out of the list. */
static cr_opencl_block take(cr_opencl_device *own, uintptr_t address) {
  cr_opencl_block block = {.buffer = NULL};
  pthread_rwlock_wrlock(&own->memory_lock);
  const size_t i = search(own, address);
  if (has(own, i, address)) {
    block = own->block[i];
    own->used_bytes -= block.bytes;
    memmove(&own->block[i], &own->block[i + 1], (own->blocks - i - 1) * sizeof block);
    --own->blocks;
  }
  pthread_rwlock_unlock(&own->memory_lock);
  return block;
}

/* OpenCL frees a buffer after the queued work that uses it. */
void cr_opencl_free(crema_device *device, crema_devptr memory) {
  const cr_opencl_block block = take(cr_opencl_of(device), memory.address);
  if (block.buffer != NULL) (void)cr_cl.clReleaseMemObject(block.buffer);
}

/* ---- page-locked memory ---- */

static cl_int unmap(const cr_opencl_device *own, cr_opencl_locked *locked) {
  cl_int error =
      cr_cl.clEnqueueUnmapMemObject(own->queue, locked->buffer, locked->memory, 0, NULL, NULL);
  if (error == CL_SUCCESS) error = cr_cl.clFinish(own->queue);
  (void)cr_cl.clReleaseMemObject(locked->buffer);
  return error;
}

/* A mapped buffer, from which drivers copy directly. */
crema_status cr_opencl_host_alloc(crema_device *device, size_t bytes, void **out) {
  cr_opencl_device *own = cr_opencl_of(device);
  cl_int error = CL_SUCCESS;
  const size_t most = bytes > 0 ? bytes : 1;
  cr_opencl_locked *locked = calloc(1, sizeof *locked);
  if (locked == NULL) return cr_fail_memory(sizeof *locked, "page-locked memory");
  locked->bytes = most;
  locked->buffer = cr_cl.clCreateBuffer(own->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                        most, NULL, &error);
  if (error == CL_SUCCESS) {
    locked->memory =
        cr_cl.clEnqueueMapBuffer(own->queue, locked->buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                 most, 0, NULL, NULL, &error);
    if (error != CL_SUCCESS) (void)cr_cl.clReleaseMemObject(locked->buffer);
  }
  if (error != CL_SUCCESS) {
    free(locked);
    return cr_opencl_check(device, error, "allocating page-locked memory");
  }
  pthread_rwlock_wrlock(&own->memory_lock);
  locked->next = own->locked;
  own->locked = locked;
  pthread_rwlock_unlock(&own->memory_lock);
  *out = locked->memory;
  return CREMA_OK;
}

/* The link to the memory in the device's list; to NULL if the device has not allocated it. With the
 * lock held. */
static cr_opencl_locked **find_locked(cr_opencl_device *own, const void *memory) {
  cr_opencl_locked **at = &own->locked;
  while (*at != NULL && (*at)->memory != memory) at = &(*at)->next;
  return at;
}

/* Queued copies may still use the memory. */
void cr_opencl_host_free(crema_device *device, void *memory) {
  cr_opencl_device *own = cr_opencl_of(device);
  if (memory == NULL) return;
  cr_opencl_finish_all();
  pthread_rwlock_wrlock(&own->memory_lock);
  cr_opencl_locked **at = find_locked(own, memory), *locked = *at;
  if (locked != NULL) *at = locked->next;
  pthread_rwlock_unlock(&own->memory_lock);
  if (locked == NULL) return;
  if (locked->alias.address != 0) cr_opencl_free(device, locked->alias);
  (void)unmap(own, locked);
  free(locked);
}

bool cr_opencl_is_locked(const void *memory) {
  cr_opencl_device *devices = NULL;
  int count = 0;
  bool locked = false;
  if (cr_opencl_devices(&devices, &count) != CREMA_OK) return false;
  for (int i = 0; i < count && !locked; ++i) {
    pthread_rwlock_rdlock(&devices[i].memory_lock);
    for (const cr_opencl_locked *l = devices[i].locked; l != NULL && !locked; l = l->next) {
      locked = (uintptr_t)memory - (uintptr_t)l->memory < l->bytes;
    }
    pthread_rwlock_unlock(&devices[i].memory_lock);
  }
  return locked;
}

crema_status cr_opencl_host_alias(crema_device *device, void *memory, crema_devptr *out) {
  cr_opencl_device *own = cr_opencl_of(device);
  pthread_rwlock_rdlock(&own->memory_lock);
  cr_opencl_locked *locked = *find_locked(own, memory);
  pthread_rwlock_unlock(&own->memory_lock);
  if (locked == NULL) {
    return cr_fail(CREMA_E_ARGUMENT, "host memory at %#zx is not page-locked", (size_t)memory);
  }
  if (locked->alias.address == 0) {
    CR_TRY(allocate(device, locked->bytes, memory, &locked->alias));
  }
  *out = locked->alias;
  return CREMA_OK;
}

/* ---- addresses ---- */

crema_status cr_opencl_find(uintptr_t address, cr_opencl_place *out) {
  cr_opencl_device *own = device_at(address);
  *out = (cr_opencl_place){.host = own == NULL ? (void *)address : NULL}; /* NOLINT */
  if (own == NULL) return CREMA_OK;
  pthread_rwlock_rdlock(&own->memory_lock);
  size_t i = search(own, address);
  /* The end of a block, where an empty array begins. */
  if (i > 0 && own->block[i - 1].address + own->block[i - 1].bytes == address) --i;
  if (has(own, i, address)) {
    const cr_opencl_block *block = &own->block[i];
    out->buffer = block->buffer;
    out->offset = address - block->address;
    out->bytes = block->bytes - out->offset;
    if (block->host != NULL) out->host = (char *)block->host + out->offset;
  }
  pthread_rwlock_unlock(&own->memory_lock);
  if (out->buffer != NULL) return CREMA_OK;
  return cr_fail(CREMA_E_DEVICE, "%s: no memory is allocated at address %#zx", own->name,
                 (size_t)address);
}

int cr_opencl_owner(uintptr_t address) {
  const cr_opencl_device *own = device_at(address);
  return own == NULL ? -1 : (int)((address - base) / span);
}

/* OpenCL does not say how much memory is free; other programs' use is not seen. */
crema_status cr_opencl_memory_info(crema_device *device, size_t *free_bytes, size_t *total_bytes) {
  cr_opencl_device *own = cr_opencl_of(device);
  pthread_rwlock_rdlock(&own->memory_lock);
  const size_t used = own->used_bytes;
  pthread_rwlock_unlock(&own->memory_lock);
  *total_bytes = own->memory_bytes;
  *free_bytes = used < own->memory_bytes ? own->memory_bytes - used : 1;
  return CREMA_OK;
}
