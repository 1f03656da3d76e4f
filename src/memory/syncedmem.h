/* The memory automaton: the same bytes in two places, host and device, and a mark for the newest.
 *
 * Four states (crema_head) say which side has the newest bytes. Reads make a side valid, writes
 * make it the newest. Memory and copies are made on demand. The transitions are described at the
 * top of syncedmem.c, and with a diagram in docs/inside/memory.md. */
#ifndef CR_MEMORY_SYNCEDMEM_H
#define CR_MEMORY_SYNCEDMEM_H

#include <stdatomic.h>

#include "crema/syncedmem.h"
#include "device/device.h"
#include "device/memory/block.h"

/* One side of a block. */
typedef struct cr_host_side {
  void *data;
  bool own;
  cr_block block; /* owned memory; it knows its allocator */
  size_t bytes;   /* made */
} cr_host_side;

typedef struct cr_device_side {
  crema_devptr data;
  bool own;
  crema_device *device; /* whose memory it is */
  cr_block block;       /* of a heap; without memory: `data` is from the device's pool */
  /* Id of the context that used it last; 0: none. */
  _Atomic uint64_t user;
} cr_device_side;

struct crema_syncedmem {
  crema_device *device; /* for which the block is made */
  /* Access on another device moves the block there; otherwise it is an error. */
  bool movable;
  /* A side is created before the head marks it valid, so that cr_syncedmem_get in other threads
   * needs no lock. */
  _Atomic crema_head head;
  size_t size; /* bytes that are in use and are copied */
  /* Bytes that a side is made with; each holds that much or more. Adopted sides: at least `size`.
   */
  size_t capacity;
  cr_host_side host;
  cr_device_side gpu;
  const char *label;  /* the name of the bytes in verbose lines; NULL: they have none */
  bool watched;       /* a checker follows host accesses */
  atomic_bool moving; /* some thread moves bytes between the sides */
};

/* For blocks that are part of another struct: as crema_syncedmem_create and _destroy, but movable.
 */
void cr_syncedmem_init(crema_syncedmem *memory, crema_device *device, size_t size);
void cr_syncedmem_clear(crema_syncedmem *memory);

/* Gives a block without memory on the context's side some of the context's heap
 * (device/memory/heap.h). Its state stays as it was. A no-op without a heap, and for a block
 * that cannot move to the context's device. */
void cr_syncedmem_from_heap(crema_syncedmem *memory, crema_context *context);

/* Changes the size. Within the capacity memory and the first bytes are kept; beyond it both sides
 * are released and the block is UNINITIALIZED. */
void cr_syncedmem_resize(crema_syncedmem *memory, size_t size);

/* True when the host side has the newest bytes. */
static inline bool cr_syncedmem_at_host(const crema_syncedmem *memory) {
  crema_head head = atomic_load_explicit(&memory->head, memory_order_acquire);
  return head == CREMA_HEAD_AT_CPU || head == CREMA_SYNCED;
}

/* Whether there is no memory on either side. */
static inline bool cr_syncedmem_is_empty(const crema_syncedmem *memory) {
  return memory->host.data == NULL && memory->gpu.data.address == 0;
}

/* The address of the newest bytes on the context's device, if they are already there and no
 * preparation is needed. May be called by several threads, also while one of them is in
 * cr_syncedmem_read for the same device. */
bool cr_syncedmem_get(const crema_syncedmem *memory, const crema_context *context,
                      crema_devptr *out);

/* The block's memory on the context's device, valid or not; 0: none. */
static inline crema_devptr cr_syncedmem_address(const crema_syncedmem *memory,
                                                const crema_context *context) {
  if (context->device->backend->host_memory) return (crema_devptr){(uintptr_t)memory->host.data};
  return memory->gpu.device == context->device ? memory->gpu.data : (crema_devptr){0};
}

/* Where a device's kernels find the bytes: crema_syncedmem_gpu_data and
 * crema_syncedmem_mutable_gpu_data for any device, the CPU included. */
crema_status cr_syncedmem_read(crema_syncedmem *memory, crema_context *context,
                               crema_devptr *out) CREMA_MUST_USE;
crema_status cr_syncedmem_write(crema_syncedmem *memory, crema_context *context, bool keep,
                                crema_devptr *out) CREMA_MUST_USE;

/* As cr_syncedmem_write without keep, but the content is undefined even if the block was never
 * written. */
crema_status cr_syncedmem_overwrite(crema_syncedmem *memory, crema_context *context,
                                    crema_devptr *out) CREMA_MUST_USE;

/* Takes memory of `device`, at least the block's size, as the newest side; it stays the caller's.
 * Errors: CREMA_E_ARGUMENT without memory. */
crema_status cr_syncedmem_adopt(crema_syncedmem *memory, crema_device *device,
                                crema_devptr data) CREMA_MUST_USE;

/* Takes memory of `device` and host memory that hold the same bytes, at least the block's size
 * each; both stay the caller's. The block is SYNCED. `device` has its own memory. */
crema_status cr_syncedmem_adopt_both(crema_syncedmem *memory, crema_device *device,
                                     crema_devptr data, void *host) CREMA_MUST_USE;

/* Fills all bytes with zero on the context's device, which becomes the head. */
crema_status cr_syncedmem_zero(crema_syncedmem *memory, crema_context *context) CREMA_MUST_USE;

#endif
