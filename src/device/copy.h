/* Copies between devices and the host. */
#ifndef CR_DEVICE_COPY_H
#define CR_DEVICE_COPY_H

#include "device/backend/backend.h"

/* On the context's queue: visible after crema_context_finish or an event; on the CPU immediately. A
 * copy of 0 bytes is a no-op for any addresses. Errors: CREMA_E_ARGUMENT for no memory. */
crema_status cr_copy_same_device(crema_context *context, crema_devptr dst, crema_devptr src,
                                 size_t bytes) CREMA_MUST_USE;
crema_status cr_copy_from_cpu(crema_context *context, crema_devptr dst, const void *src,
                              size_t bytes) CREMA_MUST_USE;
crema_status cr_copy_to_cpu(crema_context *context, void *dst, crema_devptr src,
                            size_t bytes) CREMA_MUST_USE;

/* To or from memory of another device of the same back end, which the context's device reaches. */
crema_status cr_copy_peer(crema_context *context, crema_devptr dst, crema_devptr src,
                          size_t bytes) CREMA_MUST_USE;

/* To a device type: the CPU or the context's own. Errors: CREMA_E_UNSUPPORTED naming both types. */
crema_status cr_copy_to_type(crema_context *context, crema_device_type type, uintptr_t dst,
                             crema_devptr src, size_t bytes) CREMA_MUST_USE;

/* Finds the direction by looking whose memory each address is; complete on return. Devices of one
 * back end copy directly if they reach each other, otherwise via the host. Equal addresses are a
 * no-op. */
crema_status cr_copy_any(uintptr_t dst, uintptr_t src, size_t bytes) CREMA_MUST_USE;

/* Whose memory an address is: the host's when no device knows it (*out is the CPU then). */
crema_status cr_device_of_address(uintptr_t address, crema_device **out) CREMA_MUST_USE;

/* How items of a type are copied: byte by byte, or one by one by a function (on the host only). */
typedef struct cr_item_type {
  size_t bytes;
  const char *name;
  void (*copy)(const void *src, void *dst); /* NULL: byte by byte */
} cr_item_type;

/* Copies `count` items on the context's device. Errors: CREMA_E_UNSUPPORTED for a type with a copy
 * function on a device whose memory is not host memory. */
crema_status cr_copy_items(crema_context *context, const cr_item_type *type, size_t count,
                           uintptr_t dst, uintptr_t src) CREMA_MUST_USE;

#endif
