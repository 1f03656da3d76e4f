/* Memory for values that live for a part of a pass and reuse each other's memory. The host system
 * clears the pages of new memory, which takes longer than many an op on them. A device driver waits
 * for all work before it takes memory back.
 *
 * A heap cuts blocks from regions. It records the blocks that a pass requests, and their lifetimes.
 * When all are returned, cr_heap_rest plans an address for each block, for a next pass with the
 * same requests, and allocates one region of the required size. Such a pass allocates no memory
 * from the system. A pass with other requests gets its blocks by best fit.
 *
 * The tensors that are used on a context share its heap (cr_heap_open). Any thread may free a
 * block, even after the context's end. On a device the next user of the memory comes later in the
 * context's queue, which also waits for another context that has used a block last
 * (cr_block.user). */
#ifndef CR_DEVICE_MEMORY_HEAP_H
#define CR_DEVICE_MEMORY_HEAP_H

#include "device/memory/block.h"

/* Gives the context a heap if it has none. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_heap_open(crema_context *context) CREMA_MUST_USE;

/* Closes the heap; its memory is freed with the last of its blocks. A no-op without one. */
void cr_heap_close(crema_context *context);

/* A block of at least `bytes` bytes, content undefined, to be freed with cr_block_free. False,
 * without an error, when the context has no heap or the system no memory. */
bool cr_heap_take(crema_context *context, size_t bytes, cr_block *out);

/* Call it before a pass begins. A no-op while blocks are in use, or without a heap. */
void cr_heap_rest(crema_context *context);

/* A number for the places of the heap's memory and of the blocks in use: equal numbers mean equal
 * places. 0 without a heap. */
uint64_t cr_heap_stamp(const crema_context *context);

/* As the stamp, also of the plan and of the progress in it: with equal numbers, equal calls get
 * blocks at equal addresses. */
uint64_t cr_heap_position(const crema_context *context);

/* A block that was taken, or freed (0 bytes). */
typedef struct cr_heap_call {
  uintptr_t address;
  size_t bytes;
} cr_heap_call;

/* Calls of a heap, in their order. Zero-initialise; free `call`. */
typedef struct cr_heap_calls {
  cr_heap_call *call;
  size_t count, room;
  bool incomplete; /* there was no memory for a call */
} cr_heap_calls;

/* Adds the heap's calls to `calls` until the next cr_heap_record; NULL: to none. No-ops without a
 * heap. */
void cr_heap_record(crema_context *context, cr_heap_calls *calls);

/* Makes the recorded calls, at the position of their record. The caller has the blocks that are
 * left, as cr_heap_block gives them, and gives up the blocks that were freed, which work of other
 * contexts must not use. Errors: CREMA_E_INTERNAL at another position. */
crema_status cr_heap_repeat(crema_context *context, const cr_heap_calls *calls) CREMA_MUST_USE;
cr_block cr_heap_block(const crema_context *context, uintptr_t address, size_t bytes);

/* Whether the address is in the heap's memory. */
bool cr_heap_has(const crema_context *context, crema_devptr address);

/* Until cr_heap_leave the caller may use the memory of an earlier pass's blocks, and the heap
 * returns no block. False when the heap's stamp differs, or is 0. */
bool cr_heap_enter(crema_context *context, uint64_t stamp);
void cr_heap_leave(crema_context *context);

typedef struct cr_heap_usage {
  size_t held;    /* bytes that the heap has from the system */
  size_t in_use;  /* bytes of blocks that are in use */
  size_t highest; /* the most that were in use at once */
} cr_heap_usage;
cr_heap_usage cr_heap_usage_of(const crema_context *context);

#endif
