/* What the solvers that train one net together share of their input: the readers of databases.
 *
 * One group belongs to one training, so two trainings in one process have nothing to do with each
 * other. In a group there is one reader, with its thread, for each pair of a layer's name and a
 * source: two layers that read the same source get a reader each. Every call may come from any
 * thread. */
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

/* The reader of which the layer called `layer` of solver `options->rank` of `options->consumers` is
 * consumer number `rank`: with a group the one that all its solvers share, made by the first of
 * them; with NULL one of its own, which deals out this solver's share alone. `options->alone` is
 * filled in here; beside the rank the options of the first solver hold. To be given back with
 * cr_reader_quit before the caller's reference to the group is. Errors: those of cr_reader_open;
 * CREMA_E_STATE when this solver's layer of that name reads the source already, CREMA_E_ARGUMENT
 * when the others said another number of solvers. */
crema_status cr_reader_join(cr_input_group *group, const char *layer,
                            const cr_reader_options *options, cr_reader **out) CREMA_MUST_USE;

/* Consumer `rank` leaves the reader, which ends with its last one. Accepts NULL for the reader. */
void cr_reader_quit(cr_input_group *group, cr_reader *reader, int rank);

#endif
