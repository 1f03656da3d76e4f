/* Event files of TensorBoard: scalars, histograms of weights and gradients, images of filters. */
#ifndef CR_RECORD_EVENT_FILE_H
#define CR_RECORD_EVENT_FILE_H

#include "crema/solver.h"

typedef struct cr_event_file cr_event_file;

/* Makes the folder `path` if it is missing, and a new file in it. Errors name the path: CREMA_E_IO.
 */
crema_status cr_event_file_open(const char *path, crema_solver *solver,
                                cr_event_file **out) CREMA_MUST_USE;

/* Appends the event's values. A failure is a warning, once; training continues. */
void cr_event_file_add(cr_event_file *file, const crema_solver_event *event);

/* Accepts NULL. */
void cr_event_file_close(cr_event_file *file);

#endif
