/* Host memory: aligned, and backed by large pages if that pays. */
#ifndef CR_DEVICE_MEMORY_HOST_MEMORY_H
#define CR_DEVICE_MEMORY_HOST_MEMORY_H

#include <stddef.h>

#include "crema/device.h"

/* 64-byte aligned host memory, content undefined; bytes 0 is legal and gives a non-NULL pointer. */
crema_status cr_host_alloc(size_t bytes, void **out) CREMA_MUST_USE;
void cr_host_free(void *memory);

/* Fails with CREMA_E_NO_MEMORY for more than any block of this machine can have, without making
 * one. */
crema_status cr_host_check(size_t bytes) CREMA_MUST_USE;

/* As crema_host_set_allocator, of an allocator that is complete. */
void cr_host_set_allocator(const crema_host_allocator *allocator);

#endif
