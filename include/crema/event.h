/* Events: what one piece of work tells those who wait for it.
 *
 * An event belongs to a device. On the CPU somebody says when it is finished; on a device with
 * streams it is recorded in a context's queue and finished when the queue has come that far.
 *
 *   INITIALIZED --record--> SCHEDULED --done--> SUCCESS or FAILED --reset--> INITIALIZED
 *
 * Any thread may use an event. */
#ifndef CREMA_EVENT_H
#define CREMA_EVENT_H

#include "crema/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How far the work of an event is. */
typedef enum crema_event_state {
  CREMA_EVENT_INITIALIZED = 0, /* not recorded */
  CREMA_EVENT_SCHEDULED = 1,   /* recorded, not done */
  CREMA_EVENT_SUCCESS = 2,     /* done */
  CREMA_EVENT_FAILED = 3       /* will not be done; crema_event_message says why */
} crema_event_state;

/* What one piece of work tells those who wait for it. */
typedef struct crema_event crema_event;

/* Free with crema_event_destroy. Errors: CREMA_E_ARGUMENT without a device. */
CREMA_API crema_status crema_event_create(crema_device *device, crema_event **out) CREMA_MUST_USE;
/* Nobody may wait any more. Accepts NULL. */
CREMA_API void crema_event_destroy(crema_event *event);

/* Marks the present end of the context's queue; with `failure` (may be NULL) the event is
 * FAILED with this text instead. CPU events: INITIALIZED becomes SCHEDULED; a finished event
 * stays as it is (the work was faster); SCHEDULED is an error. Device events: INITIALIZED only, by
 * a context of the event's device. Errors: CREMA_E_STATE, CREMA_E_ARGUMENT (no event, another type
 * of device), CREMA_E_DEVICE (another device of the type). */
CREMA_API crema_status crema_event_record(crema_event *event, crema_context *context,
                                          const char *failure) CREMA_MUST_USE;

/* Finishes the event by hand; `failure` as above. CPU events: from INITIALIZED or SCHEDULED; device
 * events: from INITIALIZED. Wakes all who wait. Errors: CREMA_E_STATE. */
CREMA_API crema_status crema_event_set_finished(crema_event *event,
                                                const char *failure) CREMA_MUST_USE;

/* The state now; FAILED without an event, here and below. Asks the device whether a scheduled event
 * is done. */
CREMA_API crema_event_state crema_event_query(crema_event *event);

/* Blocks until the event is SUCCESS or FAILED, also when it is not recorded yet. */
CREMA_API crema_event_state crema_event_finish(crema_event *event);

/* Makes `context` wait for the event (S1-51). A context of the same device type with streams only
 * blocks the host until the event is recorded, and its queue waits for the rest (nothing more when
 * it is the context that recorded it). In all other cases the host blocks until the event is
 * finished. Errors: CREMA_E_DEVICE when the event failed, with its message; CREMA_E_ARGUMENT
 * without an event or a context. */
CREMA_API crema_status crema_event_wait(crema_event *event, crema_context *context) CREMA_MUST_USE;

/* Back to INITIALIZED: state, message and context are forgotten. Nobody may wait. */
CREMA_API void crema_event_reset(crema_event *event);

/* The failure's text; "no error" in every other state. Valid until the event is reset. */
CREMA_API const char *crema_event_message(crema_event *event);

/* Whether a child on a device of `child` type can be started when its parent's event, of
 * `parent` type, is in `state`: SUCCESS yes; SCHEDULED only on the same type, and only for a
 * child that runs asynchronously, `child_is_async` (S1-53). */
CREMA_API bool crema_event_can_schedule(crema_device_type parent, crema_event_state state,
                                        crema_device_type child, bool child_is_async);

#ifdef __cplusplus
}
#endif
#endif
