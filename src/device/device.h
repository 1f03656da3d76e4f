/* Devices and contexts as the rest of the library uses them; their public part is in crema/device.h
 * and crema/event.h. */
#ifndef CR_DEVICE_DEVICE_H
#define CR_DEVICE_DEVICE_H

#include "device/backend/backend.h"

/* How often an op ran on the CPU because the device has no kernel for it. */
uint64_t cr_device_fallbacks(const crema_device *device);

/* The kernels that were started on the device, and the products and convolutions that its libraries
 * computed. Copies, zeroing and collectives do not count. 0 on the CPU. */
uint64_t cr_device_launches(const crema_device *device);

/* Lets `device` use the memory of `peer`, which it reaches (crema_device_reaches). Twice is no
 * error. It counts as a collective of both: no thread may allocate or free their memory at the same
 * time. */
crema_status cr_device_enable_peer(crema_device *device, crema_device *peer) CREMA_MUST_USE;

/* The device that the calling thread works on: the CPU, unless the thread set another
 * (cr_device_set_current). Host memory of a thread that works on a GPU is page-locked (S0-04). */
crema_device *cr_device_current(void);

/* A host context that belongs to the calling thread: for host access to tensors and for
 * work that falls back to the CPU. Never NULL. */
crema_context *cr_host_context(void);

/* Ops and conversions on `context` use at most `most` threads of the host; 0: the calling thread's
 * maximum. With 1, no threads are started: several threads of a program can work at once, each on
 * its own context. */
void cr_context_set_threads(crema_context *context, int most);

/* Ops that are planned for `context` afterwards compute with `math`. If the back end ignores
 * CREMA_MATH_FAST, the log says so. */
void cr_context_set_math(crema_context *context, crema_math math);

/* A context of the calling thread on `device` (S1-28): one for each thread, device and `stream`.
 * Made at the first call, destroyed at the end of the thread. For host memory: cr_host_context().
 * stream >= 0. */
crema_status cr_thread_context(crema_device *device, int stream,
                               crema_context **out) CREMA_MUST_USE;

/* The next of the thread's contexts on `device` in turn, of 32 (S1-31): one without work when there
 * is one, else the next. */
crema_status cr_thread_context_next(crema_device *device, crema_context **out) CREMA_MUST_USE;

/* Destroys the calling thread's contexts of cr_thread_context before its end. */
void cr_thread_contexts_release(void);

#endif
