/* Events: the completion of one piece of work, which other work can wait for.
 *
 * An event belongs to a device. On the CPU the program finishes it by hand. On a device with
 * streams it is recorded at the end of a context's queue and finishes when the queue reaches it.
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

/* The progress of the work that an event stands for. */
typedef enum crema_event_state {
  CREMA_EVENT_INITIALIZED = 0, /* not recorded */
  CREMA_EVENT_SCHEDULED = 1,   /* recorded, not finished */
  CREMA_EVENT_SUCCESS = 2,     /* finished */
  CREMA_EVENT_FAILED = 3       /* failed; crema_event_message has the reason */
} crema_event_state;

/* The completion of one piece of work. */
typedef struct crema_event crema_event;

/* Creates an event of `device`. Free with crema_event_destroy. Errors: CREMA_E_ARGUMENT without
 * a device, CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
CREMA_API crema_status crema_event_create(crema_device *device, crema_event **out) CREMA_MUST_USE;

/* Frees an event. No thread may be waiting for it. Accepts NULL. */
CREMA_API void crema_event_destroy(crema_event *event);

/* Records the event at the current end of the queue of `context`. If `failure` is not NULL, the
 * event becomes FAILED with this text instead.
 *
 * - A CPU event that is INITIALIZED becomes SCHEDULED. A finished one is unchanged: its work was
 *   complete earlier than the call. A SCHEDULED one is an error.
 * - A device event must be INITIALIZED, and the context must belong to its device.
 *
 * Errors: CREMA_E_STATE, CREMA_E_ARGUMENT without an event or for another type of device,
 * CREMA_E_DEVICE for another device of the same type. */
CREMA_API crema_status crema_event_record(crema_event *event, crema_context *context,
                                          const char *failure) CREMA_MUST_USE;

/* Finishes the event by hand and wakes all waiting threads. The event becomes SUCCESS, or FAILED
 * with the text `failure` if that is not NULL. A CPU event must be INITIALIZED or SCHEDULED, a
 * device event INITIALIZED. Errors: CREMA_E_STATE. */
CREMA_API crema_status crema_event_set_finished(crema_event *event,
                                                const char *failure) CREMA_MUST_USE;

/* The current state. For a scheduled device event this asks the device. FAILED if `event` is NULL.
 */
CREMA_API crema_event_state crema_event_query(crema_event *event);

/* Blocks until the event is SUCCESS or FAILED and returns that state. It also waits for an event
 * that is not recorded yet. FAILED if `event` is NULL. */
CREMA_API crema_event_state crema_event_finish(crema_event *event);

/* Makes `context` wait for the event.
 *
 * - A context with streams, of the event's device type: the host blocks until the event is
 *   recorded, and the context's queue then waits for its end. The context that recorded the event
 *   does not wait, because its queue is in order.
 * - Any other context: the host blocks until the event is finished.
 *
 * Errors: CREMA_E_DEVICE with the event's message if the event failed, CREMA_E_ARGUMENT without an
 * event or a context. */
CREMA_API crema_status crema_event_wait(crema_event *event, crema_context *context) CREMA_MUST_USE;

/* Makes the event INITIALIZED and clears its message and its context. No thread may be waiting for
 * it. */
CREMA_API void crema_event_reset(crema_event *event);

/* The text of the failure; "no error" unless the event is FAILED. Valid until the event is reset.
 */
CREMA_API const char *crema_event_message(crema_event *event);

/* Whether work on a device of type `child` can start when the event of its predecessor, on a device
 * of type `parent`, is in `state`. True for SUCCESS. True for SCHEDULED only if both types are the
 * same and the child runs asynchronously (`child_is_async`). */
CREMA_API bool crema_event_can_schedule(crema_device_type parent, crema_event_state state,
                                        crema_device_type child, bool child_is_async);

#ifdef __cplusplus
}
#endif
#endif
