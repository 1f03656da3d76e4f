/* Events: what one piece of work tells those who wait for it.
 *
 * An event belongs to a device. On the CPU somebody says when it is finished; on a device with
 * streams it is recorded in a context's queue and finished when the queue has come that far.
 *
 *   INITIALIZED --record--> SCHEDULED --done--> SUCCESS or FAILED --reset--> INITIALIZED
 *
 * Any thread may use an event. */
#ifndef CR_DEVICE_EVENT_H
#define CR_DEVICE_EVENT_H

#include "device/device.h"

typedef enum cr_event_state {
  CR_EVENT_INITIALIZED = 0,
  CR_EVENT_SCHEDULED = 1,
  CR_EVENT_SUCCESS = 2,
  CR_EVENT_FAILED = 3
} cr_event_state;

typedef struct cr_event cr_event;

/* Free with cr_event_destroy. Errors: CREMA_E_ARGUMENT without a device. */
crema_status cr_event_create(crema_device *device, cr_event **out) CREMA_MUST_USE;
/* Nobody may wait any more. Accepts NULL. */
void cr_event_destroy(cr_event *event);

/* Marks the present end of the context's queue; with `failure` (may be NULL) the event is
 * FAILED with this text instead. CPU events: INITIALIZED becomes SCHEDULED; a finished event
 * stays as it is (the work was faster); SCHEDULED is an error. Device events: INITIALIZED only, by
 * a context of the event's device. Errors: CREMA_E_STATE, CREMA_E_ARGUMENT (no event, another type
 * of device), CREMA_E_DEVICE (another device of the type). */
crema_status cr_event_record(cr_event *event, crema_context *context,
                             const char *failure) CREMA_MUST_USE;

/* Finishes the event by hand; `failure` as above. CPU events: from INITIALIZED or SCHEDULED; device
 * events: from INITIALIZED. Wakes all who wait. Errors: CREMA_E_STATE. */
crema_status cr_event_set_finished(cr_event *event, const char *failure) CREMA_MUST_USE;

/* The state now. Asks the device whether a scheduled event is done. */
cr_event_state cr_event_query(cr_event *event);

/* Blocks until the event is SUCCESS or FAILED, also when it is not recorded yet. */
cr_event_state cr_event_finish(cr_event *event);

/* Makes `context` wait for the event (S1-51). A context of the same device type with streams only
 * blocks the host until the event is recorded, and its queue waits for the rest (nothing more when
 * it is the context that recorded it). In all other cases the host blocks until the event is
 * finished. Errors: CREMA_E_DEVICE when the event failed, with its message. */
crema_status cr_event_wait(cr_event *event, crema_context *context) CREMA_MUST_USE;

/* Back to INITIALIZED: state, message and context are forgotten. Nobody may wait. */
void cr_event_reset(cr_event *event);

/* The failure's text; "no error" in every other state. Valid until the event is reset. */
const char *cr_event_message(cr_event *event);

/* Whether a child on a device of `child` type can be started when its parent's event, of
 * `parent` type, is in `state`: SUCCESS yes; SCHEDULED only on the same type, and only for a
 * child that runs asynchronously (S1-53). */
bool cr_event_can_schedule(crema_device_type parent, cr_event_state state, crema_device_type child,
                           bool child_is_async);

#endif
