/* Invariants of the memory room, for CR_ASSERT: both functions exist with CR_CHECKS only. */
#ifndef CR_MEMORY_CHECK_H
#define CR_MEMORY_CHECK_H

#include "core/assert.h"
#include "memory/syncedmem.h"

struct cr_tensor_values;

/* Asserts that the state of the values (memory/tensor.c), their slots, the head and the source
 * agree, and that parts and wholes refer to each other. With the lock, or with no other
 * user. True. */
bool cr_tensor_check(const struct cr_tensor_values *v);

/* Asserts that the block may change to `head`: the sides with the newest bytes exist, and only a
 * block with bytes on one side becomes SYNCED. True. */
bool cr_syncedmem_check(const crema_syncedmem *memory, crema_head head);

#endif
