/* Averaged weights (ema_decay), kept beside the trained ones of a replica:
 *   w' = d w' + (1 - d) w  after each update, w' = w before the first one
 * (Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992, with weights
 * that decay). All replicas have the same weights after an update, and so the same averages:
 * nothing is exchanged. Parameters that do not learn, as statistics, have no average. */
#ifndef CR_SOLVER_AVERAGE_H
#define CR_SOLVER_AVERAGE_H

#include "solver/blocks.h"

typedef struct cr_average cr_average;

/* `blocks` must outlive the result. Errors: CREMA_E_NO_MEMORY, those of the device. */
crema_status cr_average_create(const cr_param_blocks *blocks, double decay,
                               cr_average **out) CREMA_MUST_USE;
void cr_average_destroy(cr_average *average);

/* The averages become the present weights; they have not begun then. */
crema_status cr_average_start(cr_average *average) CREMA_MUST_USE;
/* To be called after each update. The averages have begun then. */
crema_status cr_average_advance(cr_average *average) CREMA_MUST_USE;
/* Whether they are more than a copy of weights that may still be replaced. */
bool cr_average_has_begun(const cr_average *average);
/* To be called when the averages were set from elsewhere. */
void cr_average_set_begun(cr_average *average);

/* The average of learnable parameter `i`; NULL when it has none. */
crema_blob *cr_average_of(const cr_average *average, int i);

/* Lets `net`, which shares parameters with the trained net, have the averages instead. */
crema_status cr_average_share(const cr_average *average, crema_net *net) CREMA_MUST_USE;

/* Writes the model that cr_net_write writes, with the averages and without diffs. */
crema_status cr_average_write(const cr_average *average, cr_file_draft *draft,
                              unsigned save) CREMA_MUST_USE;

#endif
