/* The device and context tables: what a back end provides, and the calls by which
 * the rest of the library reaches it. */
#ifndef CR_DEVICE_DEVICE_H
#define CR_DEVICE_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/rng.h"
#include "crema/device.h"
#include "device/layout.h"

/* A back end's own event: a place in a context's queue of work (crema/event.h has the events
 * with states that are built on it). */
typedef struct cr_native_event cr_native_event;
typedef struct cr_kernel cr_kernel;
typedef struct cr_plan cr_plan;
typedef struct cr_pool cr_pool;

/* Direction of a copy, seen from the device whose table is called. */
typedef enum cr_copy_kind {
  CR_COPY_HOST_TO_DEVICE,
  CR_COPY_DEVICE_TO_HOST,
  CR_COPY_SAME_DEVICE,
  CR_COPY_PEER /* from another device of the same back end */
} cr_copy_kind;

/* One table a back end. A driver that has been unloaded at the end of the process makes calls fail
 * with CREMA_E_CLOSED, which is passed over in silence where something is given back. Calls that
 * take a context queue work on it and may return before the work is done; all others are complete
 * on return. */
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

  /* Exactly one of the addresses may be a host address, as `kind` says. Ranges that overlap are
   * refused (CREMA_E_ARGUMENT), equal ones and no bytes are a no-op. */
  crema_status (*copy)(crema_context *context, cr_copy_kind kind, uintptr_t dst, uintptr_t src,
                       size_t bytes);
  crema_status (*zero)(crema_context *context, crema_devptr memory, size_t bytes);
  /* Converts `count` values from one format to another; at most one of the two is not plain,
   * or the element types are equal. */
  crema_status (*convert)(crema_context *context, int64_t count, cr_format dst_format,
                          crema_devptr dst, cr_format src_format, crema_devptr src);

  crema_status (*event_create)(crema_device *device, cr_native_event **out);
  void (*event_destroy)(cr_native_event *event);
  crema_status (*event_record)(crema_context *context, cr_native_event *event);
  /* Makes later work of `context` wait for what the event stands for now; the host does not wait.
   */
  crema_status (*event_wait)(crema_context *context, cr_native_event *event);
  crema_status (*event_query)(cr_native_event *event, bool *done);
  crema_status (*event_finish)(cr_native_event *event);

  /* The rest is for devices with memory of their own and NULL for host memory. */
  /* The address by which the device reaches memory of host_alloc. */
  crema_status (*host_alias)(crema_device *device, void *memory, crema_devptr *out);
  crema_status (*memory_info)(crema_device *device, size_t *free_bytes, size_t *total_bytes);
  /* True when the context has work that is not done. Leaves no pending failure behind. */
  crema_status (*busy)(crema_context *context, bool *out);
  /* The index of the device whose memory it is; -1 for host and unknown addresses. */
  int (*owner)(uintptr_t address);
  /* Makes `device` the one that the driver uses for the calling thread. */
  crema_status (*set_current)(crema_device *device);
  bool (*can_access_peer)(crema_device *device, crema_device *peer);
  /* Enabling twice is a success. */
  crema_status (*enable_peer)(crema_device *device, crema_device *peer);
  crema_status (*disable_peer)(crema_device *device, crema_device *peer);
  /* Told when the host is about to read or change host memory that may take part in copies; for
   * checkers, NULL for all others. */
  void (*host_access)(const void *memory, size_t bytes, bool change);

  /* Whether plan->kernel may be run now or, after enter, be planned; may be NULL.
   * CREMA_E_UNSUPPORTED: the op is to be planned on one of the rows that follow. Any other failure:
   * on none. */
  crema_status (*ready)(const cr_plan *plan, bool planning);
  /* Called before and after a kernel's plan() and run() on the calling thread; may be NULL. What
   * enter returns is handed to leave. */
  int (*enter)(cr_plan *plan);
  void (*leave)(int before);

  /* The kernel table: rows best first, a plain reference row last; ends with NULL.
   * See device/kernel.h. */
  const cr_kernel *const *kernels;
} cr_backend;

/* Scratch memory that all contexts share that one thread uses on one device. */
typedef struct cr_scratchpad cr_scratchpad;

struct crema_device {
  const cr_backend *backend;
  int index;
  void *state;
  size_t memory_bytes;     /* that the device has, set by the back end's open; 0: ask the driver */
  cr_pool *pool;           /* made when the device is opened; NULL for host memory */
  atomic_bool named;       /* by crema_device_open, or warned of */
  pthread_mutex_t lock;    /* guards what follows */
  crema_context *contexts; /* that are open on the device; host memory keeps no list */
  cr_scratchpad *scratchpads;
  bool described;
  crema_device_info info;     /* once described */
  _Atomic uint64_t fallbacks; /* see cr_device_fallbacks */
};

struct crema_context {
  crema_device *device;
  cr_mt19937 rng;
  void *state;
  cr_scratchpad *scratchpad; /* of cr_context_workspace; NULL: none was asked for yet */
  uint64_t id; /* never used again, so that it can be remembered when the context is gone */
  cr_native_event *order; /* made when first needed by cr_context_follow */
  crema_context *next, *before;
};

/* How often an op ran on the CPU because the device has no kernel for it. */
uint64_t cr_device_fallbacks(const crema_device *device);

/* The CPU device; always there. */
crema_device *cr_cpu_device(void);

/* A host context that belongs to the calling thread: for host access to tensors and for
 * work that falls back to the CPU. Never NULL. */
crema_context *cr_host_context(void);

/* Makes later work of `context` wait for all work queued so far on the context called `id` on the
 * same device, if it still exists; the host does not wait. No-op for `id` 0 and for its own. */
crema_status cr_context_follow(crema_context *context, uint64_t id) CREMA_MUST_USE;

/* For the context called `id` on `device`: *busy says whether it has work that is not done; then
 * *event (made when NULL) marks the present end of its queue. A context that is gone is not busy.
 */
crema_status cr_context_mark(crema_device *device, uint64_t id, cr_native_event **event,
                             bool *busy) CREMA_MUST_USE;

/* A context of the calling thread on `device` (S1-28): the same one for the same thread, device and
 * `stream`, another one for any other. Made at the first call, destroyed at the end of the
 * thread. For host memory: cr_host_context(). stream >= 0. */
crema_status cr_thread_context(crema_device *device, int stream,
                               crema_context **out) CREMA_MUST_USE;

/* The next of the thread's contexts on `device` in turn, of 32 (S1-31): one without work when there
 * is one, else the next. */
crema_status cr_thread_context_next(crema_device *device, crema_context **out) CREMA_MUST_USE;

/* Destroys the calling thread's contexts of cr_thread_context before its end. */
void cr_thread_contexts_release(void);

/* Scratch memory of at least `bytes` bytes on the context's device. It grows only and is shared by
 * all that the calling thread runs on the device (S4-22), so that it is as large as the largest
 * user needs and not as all together: its content lasts until the next user. Work queued on other
 * contexts that uses it is waited for on the queue. It is given back with the last context that
 * used it. bytes 0 gives what there is, possibly no memory. On failure the old memory stays.
 * Errors: CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
crema_status cr_context_workspace(crema_context *context, size_t bytes,
                                  crema_devptr *out) CREMA_MUST_USE;

/* Bytes of scratchpad on the device, of all threads. */
size_t cr_device_scratchpad_bytes(crema_device *device);

/* Whether the context has work that is not done (S1-32); never so on the CPU. */
crema_status cr_context_busy(crema_context *context, bool *out) CREMA_MUST_USE;

/* True when a copy of `bytes` bytes reads what it writes, which has no defined result. */
static inline bool cr_copy_overlaps(uintptr_t dst, uintptr_t src, size_t bytes) {
  return dst != src && (dst < src ? src - dst : dst - src) < bytes;
}

/* ---- thin wrappers over the table, with checks and error context ---- */

/* Device memory, from the device's pool where it has one. bytes 0 is legal. Errors:
 * CREMA_E_NO_MEMORY naming bytes, device, free and total memory. */
crema_status cr_device_alloc(crema_device *device, size_t bytes, crema_devptr *out) CREMA_MUST_USE;

/* As cr_device_alloc, for memory that the context is the first to use. */
crema_status cr_device_alloc_for(crema_context *context, size_t bytes,
                                 crema_devptr *out) CREMA_MUST_USE;

/* Accepts no memory (address 0). The memory must not be in use by queued work. */
void cr_device_free(crema_device *device, crema_devptr memory);

/* As cr_device_free, but the memory may still be in use by work queued on the context called
 * `id` (0: by none); it is given to others when that work is done. */
void cr_device_free_after(crema_device *device, crema_devptr memory, uint64_t id);

/* What the driver says of the device's memory; the total is the smaller one of what the driver and
 * the device say (S4-15). Not while a collective is launched. For devices with memory of their own.
 */
crema_status cr_device_memory_info(crema_device *device, size_t *free_bytes,
                                   size_t *total_bytes) CREMA_MUST_USE;

/* Makes `device` current for the calling thread for as long as a call needs it (S1-40). */
typedef struct cr_device_guard {
  crema_device *device; /* that was current before; NULL: nothing to restore */
} cr_device_guard;
crema_status cr_device_enter(crema_device *device, cr_device_guard *guard) CREMA_MUST_USE;
/* Restores the device; after a failed cr_device_enter there is nothing to restore. */
void cr_device_leave(cr_device_guard guard);

/* The device that the calling thread works on: the CPU, unless the thread set another. Host memory
 * of a thread that works on a GPU is page-locked (S0-04). */
crema_device *cr_device_current(void);
crema_status cr_device_set_current(crema_device *device) CREMA_MUST_USE;

/* Host memory for copies to and from `device`: page-locked where that means something. For a device
 * whose memory is host memory: cr_host_alloc. Free with the same device and number of bytes. */
crema_status cr_pinned_alloc(crema_device *device, size_t bytes, void **out) CREMA_MUST_USE;
void cr_pinned_free(crema_device *device, void *memory, size_t bytes);

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

/* Converts `count` values between plain element types at host addresses: float targets are rounded
 * to nearest even, integer targets too, and are limited to their range (NaN becomes 0).
 * Errors: CREMA_E_TYPE for types without values (bool). */
crema_status cr_convert_plain(int64_t count, crema_dtype dst_type, void *dst, crema_dtype src_type,
                              const void *src) CREMA_MUST_USE;

#endif
