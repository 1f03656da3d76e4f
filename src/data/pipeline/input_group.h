/* The readers of databases that the solvers of one training share.
 *
 * A group belongs to one training, so two trainings in a process are independent. It has one
 * reader, with its thread, for each pair of a layer's name and a source. Any thread may make any
 * call. */
#ifndef CR_DATA_INPUT_GROUP_H
#define CR_DATA_INPUT_GROUP_H

#include "data/pipeline/reader.h"

typedef struct cr_input_group cr_input_group;

/* Makes a group with one reference, the caller's. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_input_group_create(cr_input_group **out) CREMA_MUST_USE;

/* Takes a reference and returns `group`. Accepts NULL. */
cr_input_group *cr_input_group_retain(cr_input_group *group);

/* Releases a reference; the last frees the group. Accepts NULL. */
void cr_input_group_release(cr_input_group *group);

/* The present number of readers. */
int cr_input_group_readers(cr_input_group *group);

/* The reader for the layer called `layer` of solver `options->rank` of `options->consumers`, which
 * becomes its consumer `rank`. In a group all solvers share the reader, which the first makes with
 * its options. Without a group (NULL) the layer has its own reader, which deals out only this
 * solver's share. Release it with cr_reader_quit before the reference to the group. Errors: see
 * cr_reader_open; CREMA_E_STATE if this solver's layer of that name reads the source already,
 * CREMA_E_ARGUMENT if solvers disagree about their number. */
crema_status cr_reader_join(cr_input_group *group, const char *layer,
                            const cr_reader_options *options, cr_reader **out) CREMA_MUST_USE;

/* A solver of the group has failed with `status` and the thread's error text and takes no more
 * records. Solvers that wait for records fail likewise instead of waiting for it. Accepts NULL. */
void cr_input_group_fail(cr_input_group *group, crema_status status);

/* Consumer `rank` leaves the reader, which ends with its last consumer. Accepts NULL for the
 * reader. */
void cr_reader_quit(cr_input_group *group, cr_reader *reader, int rank);

#endif
