/* What the solvers that train one net together share of their input: the readers of databases.
 *
 * One group belongs to one training, so two trainings in one process are independent of each other.
 * In a group there is one reader, with its thread, for each pair of a layer's name and a source:
 * two layers that read the same source get a reader each. Every call may come from any thread. */
#ifndef CR_DATA_INPUT_GROUP_H
#define CR_DATA_INPUT_GROUP_H

#include "data/pipeline/reader.h"

typedef struct cr_input_group cr_input_group;

/* Makes a group with one reference, the caller's. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_input_group_create(cr_input_group **out) CREMA_MUST_USE;

/* Takes one more reference; gives `group` back. Accepts NULL. */
cr_input_group *cr_input_group_retain(cr_input_group *group);

/* Gives a reference back; the last one frees the group. Accepts NULL. */
void cr_input_group_release(cr_input_group *group);

/* How many readers the group has at this moment. */
int cr_input_group_readers(cr_input_group *group);

/* The reader for the layer called `layer` of solver `options->rank` of `options->consumers`, which
 * becomes its consumer `rank`. In a group it is the one that all solvers share, made by the first
 * of them; without (NULL) it is the layer's own and deals out only this solver's share.
 * `options->alone` is filled in here; except for the rank, the options of the first solver count.
 * To be given back with cr_reader_quit before the caller's reference to the group is. Errors: those
 * of cr_reader_open; CREMA_E_STATE when this solver's layer of that name reads the source already,
 * CREMA_E_ARGUMENT when the other solvers gave another number of solvers. */
crema_status cr_reader_join(cr_input_group *group, const char *layer,
                            const cr_reader_options *options, cr_reader **out) CREMA_MUST_USE;

/* A solver of the group has failed with `status` and the thread's error text and takes no more
 * records: those that wait for records, now or later, fail likewise instead of waiting until it has
 * taken its own. Accepts NULL. */
void cr_input_group_fail(cr_input_group *group, crema_status status);

/* Consumer `rank` leaves the reader, which ends with its last one. Accepts NULL for the reader. */
void cr_reader_quit(cr_input_group *group, cr_reader *reader, int rank);

#endif
