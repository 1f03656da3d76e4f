/* Simulated device memory, and page-locked host memory. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/fail.h"
#include "device/memory/host_memory.h"
#include "device/sim/sim_world.h"

enum { ALIGNMENT = 256, POISON_NEW = 0xA5, POISON_FREED = 0x5A };

/* Freed blocks of this size give their pages back to the system. */
#define RETURN_BYTES ((size_t)1 << 20)

sim_device *cr_sim_device(const crema_device *device) {
  return device->state;
}

int cr_sim_owner(uintptr_t address) {
  const sim_world *w = &cr_sim_world;
  if (!w->running || address < (uintptr_t)w->addresses) return -1;
  size_t offset = address - (uintptr_t)w->addresses;
  return offset < w->span * (size_t)w->options.devices ? (int)(offset / w->span) : -1;
}

static char *backing(const sim_device *device, size_t offset) {
  return cr_sim_world.bytes + (size_t)device->index * cr_sim_world.span + offset;
}

/* The index of the last block that begins at or before `offset`, or -1. */
static long find_block(const sim_device *device, size_t offset) {
  size_t low = 0, high = device->blocks;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (device->block[middle].offset <= offset) low = middle + 1;
    else high = middle;
  }
  return (long)low - 1;
}

static char *pinned_bytes_of(uintptr_t address, size_t bytes) {
  for (size_t i = 0; i < cr_sim_world.pinned_count; ++i) {
    const sim_pinned *p = &cr_sim_world.pinned[i];
    size_t offset = address - (uintptr_t)p->data;
    if (address >= (uintptr_t)p->data && offset <= p->bytes && bytes <= p->bytes - offset) {
      return (char *)address;
    }
  }
  return NULL;
}

char *cr_sim_bytes_of(uintptr_t address, size_t bytes) {
  int index = cr_sim_owner(address);
  if (index < 0) return pinned_bytes_of(address, bytes);
  const sim_device *device = &cr_sim_world.device[index];
  size_t offset = address - (uintptr_t)cr_sim_world.addresses - (size_t)index * cr_sim_world.span;
  long at = find_block(device, offset);
  if (at < 0) return NULL;
  const sim_block *block = &device->block[at];
  if (offset - block->offset > block->bytes || bytes > block->bytes - (offset - block->offset)) {
    return NULL;
  }
  return backing(device, offset);
}

bool cr_sim_peek(crema_devptr memory, void *out, size_t bytes) {
  sim_lock();
  const char *from = cr_sim_bytes_of(memory.address, bytes);
  if (from != NULL) memcpy(out, from, bytes);
  sim_unlock();
  return from != NULL;
}

/* The first gap of `bytes` bytes; *at is its position in the list. False when there is none. */
static bool find_gap(const sim_device *device, size_t bytes, size_t *at, size_t *offset) {
  size_t end = 0;
  for (size_t i = 0; i <= device->blocks; ++i) {
    size_t next = i < device->blocks ? device->block[i].offset : cr_sim_world.span;
    if (next - end >= bytes) {
      *at = i;
      *offset = end;
      return true;
    }
    if (i < device->blocks) {
      end = device->block[i].offset +
            (device->block[i].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
  }
  return false;
}

static crema_status take_block(sim_device *device, size_t bytes, size_t *offset) {
  size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, at = 0;
  size_t capacity = cr_sim_world.options.memory, taken = device->used + device->foreign;
  if (taken + rounded > capacity || !find_gap(device, rounded, &at, offset)) {
    return cr_fail(CREMA_E_NO_MEMORY, "no %zu bytes left on sim:%d (%zu of %zu are in use)", bytes,
                   device->index, taken, capacity);
  }
  if (device->blocks == device->block_capacity) {
    size_t more = device->block_capacity > 0 ? 2 * device->block_capacity : 64;
    sim_block *block = realloc(device->block, more * sizeof *block);
    if (block == NULL) return cr_fail_memory(more * sizeof *block, "the simulation");
    device->block = block;
    device->block_capacity = more;
  }
  memmove(&device->block[at + 1], &device->block[at],
          (device->blocks - at) * sizeof device->block[0]);
  device->block[at] = (sim_block){.offset = *offset, .bytes = bytes};
  ++device->blocks;
  device->used += rounded;
  return CREMA_OK;
}

crema_status cr_sim_alloc(crema_device *device, size_t bytes, crema_devptr *out) {
  sim_device *d = cr_sim_device(device);
  size_t offset = 0;
  if (bytes > SIZE_MAX / 2) return cr_fail_memory(bytes, "device memory");
  sim_lock();
  crema_status status =
      cr_sim_note(&(cr_sim_record){.op = CR_SIM_ALLOC, .device = d->index, .bytes = bytes}, NULL);
  if (status == CREMA_OK) status = take_block(d, bytes, &offset);
  if (status == CREMA_OK) {
    if (cr_sim_world.options.poison) memset(backing(d, offset), POISON_NEW, bytes);
    out->address =
        (uintptr_t)cr_sim_world.addresses + (size_t)d->index * cr_sim_world.span + offset;
  }
  sim_unlock();
  return status;
}

void cr_sim_free(crema_device *device, crema_devptr memory) {
  sim_device *d = cr_sim_device(device);
  sim_lock();
  size_t base = (uintptr_t)cr_sim_world.addresses + (size_t)d->index * cr_sim_world.span;
  long at = cr_sim_owner(memory.address) == d->index ? find_block(d, memory.address - base) : -1;
  if (at < 0 || d->block[at].offset != memory.address - base) {
    cr_sim_report_race("memory is released that is not in use", memory.address);
    sim_unlock();
    return;
  }
  sim_block block = d->block[at];
  (void)cr_sim_note(
      &(cr_sim_record){
          .op = CR_SIM_FREE, .device = d->index, .bytes = block.bytes, .src = memory.address},
      NULL);
  if (cr_sim_world.unloading) {
    sim_unlock();
    return;
  }
  cr_sim_note_release(memory.address, block.bytes, false);
  char *bytes = backing(d, block.offset);
  if (cr_sim_world.options.poison) {
    memset(bytes, POISON_FREED, block.bytes);
  } else if (block.bytes >= RETURN_BYTES) {
    uintptr_t low = ((uintptr_t)bytes + 4095) / 4096 * 4096;
    uintptr_t high = ((uintptr_t)bytes + block.bytes) / 4096 * 4096;
    (void)madvise((void *)low, high - low, MADV_DONTNEED);
  }
  memmove(&d->block[at], &d->block[at + 1], (d->blocks - (size_t)at - 1) * sizeof d->block[0]);
  --d->blocks;
  d->used -= (block.bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  sim_unlock();
}

crema_status cr_sim_memory_info(crema_device *device, size_t *free_bytes, size_t *total_bytes) {
  sim_device *d = cr_sim_device(device);
  sim_lock();
  crema_status status =
      cr_sim_note(&(cr_sim_record){.op = CR_SIM_MEMORY_INFO, .device = d->index}, NULL);
  if (status == CREMA_OK) {
    const cr_sim_options *options = &cr_sim_world.options;
    const size_t taken = d->used + d->foreign;
    *free_bytes = taken < options->memory ? options->memory - taken : 0;
    *total_bytes = options->driver_memory > 0 ? options->driver_memory : options->memory;
  }
  sim_unlock();
  return status;
}

void cr_sim_set_foreign_bytes(int device, size_t bytes) {
  sim_lock();
  cr_sim_world.device[device].foreign = bytes;
  sim_unlock();
}

size_t cr_sim_live_blocks(int device) {
  sim_lock();
  size_t blocks = cr_sim_world.device[device].blocks;
  sim_unlock();
  return blocks;
}

size_t cr_sim_live_bytes(int device) {
  sim_lock();
  size_t bytes = cr_sim_world.device[device].used;
  sim_unlock();
  return bytes;
}

crema_status cr_sim_host_alloc(crema_device *device, size_t bytes, void **out) {
  sim_world *w = &cr_sim_world;
  sim_device *d = cr_sim_device(device);
  void *memory = NULL;
  sim_lock();
  crema_status status = cr_sim_note(
      &(cr_sim_record){.op = CR_SIM_HOST_ALLOC, .device = d->index, .bytes = bytes}, NULL);
  if (status == CREMA_OK && w->pinned_count == w->pinned_capacity) {
    size_t capacity = w->pinned_capacity > 0 ? 2 * w->pinned_capacity : 64;
    sim_pinned *pinned = realloc(w->pinned, capacity * sizeof *pinned);
    if (pinned == NULL) {
      status = cr_fail_memory(capacity * sizeof *pinned, "the simulation");
    } else {
      w->pinned = pinned;
      w->pinned_capacity = capacity;
    }
  }
  if (status == CREMA_OK) status = cr_host_alloc(bytes, &memory);
  if (status == CREMA_OK) {
    w->pinned[w->pinned_count++] = (sim_pinned){.data = memory, .bytes = bytes};
    *out = memory;
  }
  sim_unlock();
  return status;
}

static bool keep_until_stop(void *memory) {
  sim_world *w = &cr_sim_world;
  void **kept = realloc(w->kept, (w->kept_count + 1) * sizeof *kept);
  if (kept == NULL) return false;
  w->kept = kept;
  w->kept[w->kept_count++] = memory;
  return true;
}

void cr_sim_host_free(crema_device *device, void *memory) {
  sim_world *w = &cr_sim_world;
  if (memory == NULL) return;
  sim_lock();
  (void)cr_sim_note(
      &(cr_sim_record){
          .op = CR_SIM_HOST_FREE, .device = cr_sim_device(device)->index, .src = (uintptr_t)memory},
      NULL);
  size_t at = 0;
  while (at < w->pinned_count && w->pinned[at].data != memory) ++at;
  if (w->unloading) {
    /* The driver was unloaded, and its memory with it. */
  } else if (at == w->pinned_count) {
    cr_sim_report_race("host memory is released as page-locked that is not", (uintptr_t)memory);
  } else {
    size_t races = w->races;
    cr_sim_note_release((uintptr_t)memory, w->pinned[at].bytes, true);
    w->pinned[at] = w->pinned[--w->pinned_count];
    /* Queued work that is found to use the block still has something to use. */
    if (w->races == races || !keep_until_stop(memory)) cr_host_free(memory);
  }
  sim_unlock();
}

void cr_sim_free_kept(void) {
  sim_world *w = &cr_sim_world;
  for (size_t i = 0; i < w->kept_count; ++i) cr_host_free(w->kept[i]);
  free(w->kept);
  w->kept = NULL;
  w->kept_count = 0;
}

bool cr_sim_is_pinned(const void *memory) {
  sim_lock();
  bool found = false;
  for (size_t i = 0; i < cr_sim_world.pinned_count; ++i) {
    found = found || cr_sim_world.pinned[i].data == memory;
  }
  sim_unlock();
  return found;
}

size_t cr_sim_pinned_blocks(void) {
  sim_lock();
  size_t blocks = cr_sim_world.pinned_count;
  sim_unlock();
  return blocks;
}
