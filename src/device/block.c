#include "device/block.h"

#include <stdatomic.h>
#include <string.h>

#include "core/fail.h"
#include "device/numa.h"

static struct {
  atomic_bool on;
  atomic_size_t blocks, bytes;
} report;

void cr_block_report_enable(bool on) {
  atomic_store(&report.on, on);
}

cr_block_report cr_block_report_read(void) {
  return (cr_block_report){.blocks = atomic_load(&report.blocks),
                           .bytes = atomic_load(&report.bytes)};
}

static void count_block(cr_block *block) {
  block->reported = atomic_load(&report.on);
  if (!block->reported) return;
  atomic_fetch_add(&report.blocks, 1);
  atomic_fetch_add(&report.bytes, block->bytes);
}

static void release_device(cr_block *block) {
  cr_device_free(block->device, (crema_devptr){block->address});
}

static void release_host(cr_block *block) {
  if (block->reported) {
    atomic_fetch_sub(&report.blocks, 1);
    atomic_fetch_sub(&report.bytes, block->bytes);
  }
  cr_host_free((void *)block->address);
}

static void release_pinned(cr_block *block) {
  if (block->reported) {
    atomic_fetch_sub(&report.blocks, 1);
    atomic_fetch_sub(&report.bytes, block->bytes);
  }
  cr_pinned_free(block->device, (void *)block->address, block->bytes);
}

static crema_status new_device(cr_block *block) {
  crema_devptr memory = {0};
  CR_TRY(cr_device_alloc(block->device, block->bytes, &memory));
  block->address = memory.address;
  block->release = release_device;
  return CREMA_OK;
}

static crema_status new_host(cr_block *block, bool pinned) {
  void *memory = NULL;
  if (pinned) {
    CR_TRY(cr_pinned_alloc(block->device, block->bytes, &memory));
  } else {
    CR_TRY(cr_host_alloc(block->bytes, &memory));
  }
  block->address = (uintptr_t)memory;
  block->release = pinned ? release_pinned : release_host;
  crema_status status = cr_numa_move_here(memory, block->bytes);
  if (status != CREMA_OK) {
    block->release(block);
    return status;
  }
  count_block(block);
  return CREMA_OK;
}

crema_status cr_block_new(crema_device *device, size_t bytes, const cr_block_options *options,
                          cr_block *out) {
  static const cr_block_options defaults = {0};
  if (options == NULL) options = &defaults;
  *out = (cr_block){0};
  if (bytes == 0) return CREMA_OK;
  cr_block block = {.bytes = bytes, .device = device};
  bool own_memory = !device->backend->host_memory;
  if (own_memory && !options->pinned) {
    CR_TRY(new_device(&block));
  } else {
    CR_TRY(new_host(&block, own_memory && options->pinned));
    if (!options->keep_content) memset((void *)block.address, 0, bytes);
  }
  *out = block;
  return CREMA_OK;
}

void cr_block_free(cr_block *block) {
  if (block->address != 0) block->release(block);
  *block = (cr_block){0};
}

crema_status cr_block_new_pinned(crema_device *device, size_t bytes, cr_block *out,
                                 crema_devptr *alias) {
  if (bytes == 0) return cr_fail(CREMA_E_ARGUMENT, "a page-locked buffer of no bytes");
  CR_TRY(cr_block_new(device, bytes, &(cr_block_options){.pinned = true}, out));
  if (device->backend->host_alias == NULL) {
    /* Host memory is the device's own. */
    alias->address = out->address;
    return CREMA_OK;
  }
  crema_status status = device->backend->host_alias(device, (void *)out->address, alias);
  if (status != CREMA_OK) cr_block_free(out);
  return status;
}
