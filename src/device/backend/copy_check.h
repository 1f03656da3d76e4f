/* The checks of every back end before it queues a copy. */
#ifndef CR_DEVICE_BACKEND_COPY_CHECK_H
#define CR_DEVICE_BACKEND_COPY_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/fail.h"

/* Whether the ranges of a copy of `bytes` bytes overlap, which has no defined result. */
static inline bool cr_copy_overlaps(uintptr_t dst, uintptr_t src, size_t bytes) {
  return dst != src && (dst < src ? src - dst : dst - src) < bytes;
}

/* For copies of bytes > 0 between different addresses. Errors: CREMA_E_ARGUMENT if an address is 0
 * or the ranges overlap. */
static inline crema_status cr_copy_check(uintptr_t dst, uintptr_t src, size_t bytes) {
  if (dst == 0 || src == 0) {
    return cr_fail(CREMA_E_ARGUMENT, "copy of %zu bytes %s nowhere", bytes,
                   dst == 0 ? "to" : "from");
  }
  if (cr_copy_overlaps(dst, src, bytes)) {
    return cr_fail(CREMA_E_ARGUMENT, "copy of %zu bytes between ranges that overlap", bytes);
  }
  return CREMA_OK;
}

#endif
