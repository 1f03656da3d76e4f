#include "device/memory/block.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/memory/device_memory.h"
#include "device/memory/driver.h"
#include "device/memory/host_memory.h"
#include "device/memory/numa.h"

/* The blocks that were made while the report was on, by address. */
enum { BUCKETS = 256 };

typedef struct listed_block {
  struct listed_block *next;
  uintptr_t address;
  size_t bytes;
} listed_block;

static struct {
  atomic_bool on;
  pthread_mutex_t lock; /* guards the members below */
  listed_block *bucket[BUCKETS];
  cr_block_report total;
} report = {.lock = PTHREAD_MUTEX_INITIALIZER};

void cr_block_report_enable(bool on) {
  atomic_store(&report.on, on);
}

cr_block_report cr_block_report_read(void) {
  pthread_mutex_lock(&report.lock);
  cr_block_report total = report.total;
  pthread_mutex_unlock(&report.lock);
  return total;
}

/* The link to the entry of an address, or to its place if it is missing. With the lock held. */
static listed_block **find_entry(uintptr_t address) {
  /* Addresses are multiples of 64. */
  listed_block **link = &report.bucket[address / 64 % BUCKETS];
  while (*link != NULL && (*link)->address != address) link = &(*link)->next;
  return link;
}

static crema_status report_block(cr_block *block) {
  block->reported = atomic_load(&report.on);
  if (!block->reported) return CREMA_OK;
  listed_block *e = malloc(sizeof *e);
  if (e == NULL) return cr_fail_memory(sizeof *e, "the report of memory");
  *e = (listed_block){.address = block->address, .bytes = block->bytes};
  pthread_mutex_lock(&report.lock);
  *find_entry(block->address) = e;
  ++report.total.blocks;
  report.total.bytes += block->bytes;
  pthread_mutex_unlock(&report.lock);
  return CREMA_OK;
}

static crema_status unreport_block(const cr_block *block) {
  if (!block->reported) return CREMA_OK;
  pthread_mutex_lock(&report.lock);
  listed_block **link = find_entry(block->address), *e = *link;
  if (e != NULL) {
    *link = e->next;
    --report.total.blocks;
    report.total.bytes -= e->bytes;
  }
  pthread_mutex_unlock(&report.lock);
  free(e);
  if (e != NULL) return CREMA_OK;
  return cr_fail(CREMA_E_ARGUMENT, "there is no block of memory at %#zx to be freed",
                 (size_t)block->address);
}

static void release_device(cr_block *block) {
  cr_device_free_after(block->device, (crema_devptr){block->address}, block->user);
}

static void release_host(cr_block *block) {
  cr_host_free((void *)block->address);
}

static void release_pinned(cr_block *block) {
  cr_pinned_free(block->device, (void *)block->address, block->bytes);
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
  if (status == CREMA_OK) status = report_block(block);
  if (status != CREMA_OK) block->release(block);
  return status;
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
    crema_devptr memory = {0};
    CR_TRY(cr_device_alloc(device, bytes, &memory));
    block.address = memory.address;
    block.release = release_device;
  } else {
    CR_TRY(new_host(&block, own_memory && options->pinned));
    if (!options->keep_content) memset((void *)block.address, 0, bytes);
  }
  *out = block;
  return CREMA_OK;
}

crema_status cr_block_free(cr_block *block) {
  crema_status status = unreport_block(block);
  if (status == CREMA_OK && block->address != 0) block->release(block);
  *block = (cr_block){0};
  return status;
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
  /* Freeing a block that was made just now does not fail. */
  if (status != CREMA_OK) (void)cr_block_free(out);
  return status;
}
