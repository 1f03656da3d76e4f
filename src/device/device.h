/* The device and context tables: what a back end provides, and the calls by which
 * the rest of the library reaches it. */
#ifndef CR_DEVICE_DEVICE_H
#define CR_DEVICE_DEVICE_H

#include "core/rng.h"
#include "crema/device.h"
#include "device/layout.h"

typedef struct cr_event cr_event;
typedef struct cr_kernel cr_kernel;

/* Direction of a copy, seen from the device whose table is called. */
typedef enum cr_copy_kind {
  CR_COPY_HOST_TO_DEVICE,
  CR_COPY_DEVICE_TO_HOST,
  CR_COPY_SAME_DEVICE,
  CR_COPY_PEER /* from another device of the same back end */
} cr_copy_kind;

/* One table a back end. Calls that take a context queue work on it and may return before
 * the work is done; all others are complete on return. */
typedef struct cr_backend {
  crema_device_type type;
  const char *name; /* "cpu", "sim", "cuda" */
  /* The device's memory is host memory: syncedmem keeps one side only, and device
   * addresses are host addresses. */
  bool host_memory;

  /* How many devices there are; a failure (no driver, say) counts as 0 with the reason in
   * the error text. */
  crema_status (*count)(int *out);
  /* Fills `device->state` and the rest of what the back end keeps for a device. */
  crema_status (*open)(crema_device *device);
  void (*close)(crema_device *device);
  crema_status (*describe)(crema_device *device, crema_device_info *out);

  /* Device memory. Alignment at least 64 bytes. bytes > 0. */
  crema_status (*alloc)(crema_device *device, size_t bytes, crema_devptr *out);
  void (*free)(crema_device *device, crema_devptr memory);
  /* Host memory from which asynchronous copies are possible (page-locked where that
   * means something). */
  crema_status (*host_alloc)(crema_device *device, size_t bytes, void **out);
  void (*host_free)(crema_device *device, void *memory);

  /* Fills `context->state` with a stream and library handles. */
  crema_status (*context_open)(crema_context *context);
  void (*context_close)(crema_context *context);
  crema_status (*finish)(crema_context *context);

  /* Exactly one of the addresses may be a host address, as `kind` says. */
  crema_status (*copy)(crema_context *context, cr_copy_kind kind, uintptr_t dst, uintptr_t src,
                       size_t bytes);
  crema_status (*zero)(crema_context *context, crema_devptr memory, size_t bytes);
  /* Converts `count` values from one form to another; at most one of the two is not plain,
   * or the element types are equal. */
  crema_status (*convert)(crema_context *context, int64_t count, cr_form dst_form, crema_devptr dst,
                          cr_form src_form, crema_devptr src);

  crema_status (*event_create)(crema_device *device, cr_event **out);
  void (*event_destroy)(cr_event *event);
  crema_status (*event_record)(crema_context *context, cr_event *event);
  /* Makes later work of `context` wait for the event; the host does not wait. */
  crema_status (*event_wait)(crema_context *context, cr_event *event);
  crema_status (*event_query)(cr_event *event, bool *done);
  crema_status (*event_finish)(cr_event *event);

  /* The kernel table: rows best first, a plain reference row last; ends with NULL.
   * See device/kernel.h. */
  const cr_kernel *const *kernels;
} cr_backend;

struct crema_device {
  const cr_backend *backend;
  int index;
  void *state;
};

struct crema_context {
  crema_device *device;
  cr_mt19937 rng;
  void *state;
  /* Scratch memory of cr_context_workspace. */
  crema_devptr workspace;
  size_t workspace_bytes;
};

/* The CPU device; always there. */
crema_device *cr_cpu_device(void);

/* A host context that belongs to the calling thread: for host access to tensors and for
 * work that falls back to the CPU. Never NULL. */
crema_context *cr_host_context(void);

/* Scratch memory of at least `bytes` bytes on the context's device. It is the context's, grows
 * only, and is shared by everything that runs on the context: its content lasts until the next
 * user. bytes 0 gives what there is, possibly no memory. On failure the old memory stays.
 * Errors: CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
crema_status cr_context_workspace(crema_context *context, size_t bytes,
                                  crema_devptr *out) CREMA_MUST_USE;

/* ---- thin wrappers over the table, with checks and error context ---- */

crema_status cr_device_alloc(crema_device *device, size_t bytes, crema_devptr *out) CREMA_MUST_USE;
void cr_device_free(crema_device *device, crema_devptr memory);

/* 64-byte aligned host memory, content undefined; bytes 0 is legal and gives a non-NULL pointer. */
crema_status cr_host_alloc(size_t bytes, void **out) CREMA_MUST_USE;
void cr_host_free(void *memory);

/* Converts `count` values between plain element types at host addresses: float targets are rounded
 * to nearest even, integer targets too, and are limited to their range (NaN becomes 0).
 * Errors: CREMA_E_TYPE for types without values (bool). */
crema_status cr_convert_plain(int64_t count, crema_dtype dst_type, void *dst, crema_dtype src_type,
                              const void *src) CREMA_MUST_USE;

#endif
