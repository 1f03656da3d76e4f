/* Host memory: aligned, and backed by large pages where that pays. */
#ifndef CR_DEVICE_MEMORY_HOST_MEMORY_H
#define CR_DEVICE_MEMORY_HOST_MEMORY_H

#include <stddef.h>

#include "crema/status.h"

/* 64-byte aligned host memory, content undefined; bytes 0 is legal and gives a non-NULL pointer. */
crema_status cr_host_alloc(size_t bytes, void **out) CREMA_MUST_USE;
void cr_host_free(void *memory);

/* Replaces what cr_host_alloc gets its memory from, for blocks made from now on; NULL: the system's
 * allocator. Each block goes back to the allocator that made it. `allocator` must live until its
 * last block was freed. `alloc` returns memory aligned to `alignment` or NULL. */
typedef struct cr_host_allocator {
  void *(*alloc)(void *user, size_t bytes, size_t alignment);
  void (*free)(void *user, void *memory);
  void *user;
} cr_host_allocator;
void cr_host_set_allocator(const cr_host_allocator *allocator);

#endif
