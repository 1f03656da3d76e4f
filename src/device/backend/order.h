/* The contexts that are open on a device, by id, and the order of work between them.
 *
 * A context's id names the last user of some memory: unlike an address it stays meaningful after
 * the context's end. Host memory needs no order and keeps no list. */
#ifndef CR_DEVICE_BACKEND_ORDER_H
#define CR_DEVICE_BACKEND_ORDER_H

#include "device/backend/backend.h"

/* Gives the context an id; after cr_context_list it can be found by it. */
void cr_context_number(crema_context *context);
void cr_context_list(crema_context *context);
void cr_context_unlist(crema_context *context);

/* Later work of `context` waits for all work queued so far on the context called `id` of the same
 * device, if it still exists. The host does not wait. A no-op for id 0 and its own id. */
crema_status cr_context_follow(crema_context *context, uint64_t id) CREMA_MUST_USE;

/* The failure of work of the context called `id` on `device` so far, which is returned once. */
crema_status cr_context_failure(crema_device *device, uint64_t id) CREMA_MUST_USE;

/* Whether the context has work that is not done (S1-32); never so on the CPU. */
crema_status cr_context_busy(crema_context *context, bool *out) CREMA_MUST_USE;

/* For the context called `id` on `device`: *busy says whether it has work that is not done; then
 * *event (made when NULL) marks the present end of its queue. A destroyed context is not busy. */
crema_status cr_context_mark(crema_device *device, uint64_t id, cr_native_event **event,
                             bool *busy) CREMA_MUST_USE;

#endif
