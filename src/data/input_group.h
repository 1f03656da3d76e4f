/* What the solvers that train one net together share of their input: the readers of databases.
 *
 * One group belongs to one training, so two trainings in one process have nothing to do with each
 * other. Every call may come from any thread. */
#ifndef CR_DATA_INPUT_GROUP_H
#define CR_DATA_INPUT_GROUP_H

#include "crema/status.h"

typedef struct cr_input_group cr_input_group;

/* Makes a group with one reference, the caller's. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_input_group_create(cr_input_group **out) CREMA_MUST_USE;

/* Takes one more reference; gives `group` back. Accepts NULL. */
cr_input_group *cr_input_group_retain(cr_input_group *group);

/* Gives a reference back; the last one frees the group. Accepts NULL. */
void cr_input_group_release(cr_input_group *group);

#endif
