/* Memory for values that live for a part of a pass: what one lets go, the next one gets. On the
 * host the system clears the pages of new memory, which takes longer than many an op on them; on a
 * device the driver waits for all work before it takes memory back.
 *
 * A heap cuts blocks from regions. It notes which blocks a pass asks for and how long they live.
 * When they are all back, cr_heap_rest plans where each will lie when the next pass asks for the
 * same blocks, which takes little more than what is in use at once, and makes one region of that
 * size. From then on a pass that asks for no more takes nothing from the system. A pass that asks
 * for other blocks gets those too, where they fit best.
 *
 * A context that has a heap (cr_heap_open) gives it to the tensors that are used on it. Any thread
 * may free a block, whether or not the context is still there. On a device the next user of the
 * memory comes later in the context's queue; a block that another context has used last
 * (cr_block.user) makes that queue wait for the other one. */
#ifndef CR_DEVICE_MEMORY_HEAP_H
#define CR_DEVICE_MEMORY_HEAP_H

#include "device/memory/block.h"

/* Gives the context a heap if it has none. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_heap_open(crema_context *context) CREMA_MUST_USE;

/* Takes it away again; the memory goes with the last of its blocks. A no-op without one. */
void cr_heap_close(crema_context *context);

/* A block of at least `bytes` bytes, content undefined, to be freed with cr_block_free. False when
 * the context has no heap or the system no memory: nothing is failed with. */
bool cr_heap_take(crema_context *context, size_t bytes, cr_block *out);

/* To be called before a pass begins. While blocks are in use, or without a heap, a no-op. */
void cr_heap_rest(crema_context *context);

/* A number for where the heap's memory and the blocks in use lie: equal ones mean that nothing has
 * changed, or that all is as it was again. 0 without a heap. */
uint64_t cr_heap_stamp(const crema_context *context);

/* Whether the address lies in the heap's memory. */
bool cr_heap_has(const crema_context *context, crema_devptr address);

/* Lets the caller use, until cr_heap_leave, the memory in which blocks of an earlier pass lay;
 * meanwhile nobody gets a block. False when the heap's stamp is another one, or 0. */
bool cr_heap_enter(crema_context *context, uint64_t stamp);
void cr_heap_leave(crema_context *context);

typedef struct cr_heap_usage {
  size_t held;    /* bytes that the heap has from the system */
  size_t in_use;  /* bytes of blocks that are in use */
  size_t highest; /* the most that were in use at once */
} cr_heap_usage;
cr_heap_usage cr_heap_usage_of(const crema_context *context);

#endif
