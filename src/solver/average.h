/* Averaged weights (ema_decay) of a replica:
 *
 *   w' = d w' + (1 - d) w  after each update, w' = w at the start
 *
 * See Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992. All
 * replicas have equal weights after an update, hence equal averages without an exchange. Parameters
 * that do not learn, such as statistics, have no average. */
#ifndef CR_SOLVER_AVERAGE_H
#define CR_SOLVER_AVERAGE_H

#include "solver/blocks.h"

typedef struct cr_average cr_average;

/* `blocks` must outlive the result. Errors: CREMA_E_NO_MEMORY, device errors. */
crema_status cr_average_create(const cr_param_blocks *blocks, double decay,
                               cr_average **out) CREMA_MUST_USE;
void cr_average_destroy(cr_average *average);

/* Sets the averages to the weights; averaging has not begun. */
crema_status cr_average_start(cr_average *average) CREMA_MUST_USE;
/* Advances the averages after an update; they have begun. */
crema_status cr_average_advance(cr_average *average) CREMA_MUST_USE;
/* Whether an update or a restored state has changed the averages since the start. */
bool cr_average_has_begun(const cr_average *average);
void cr_average_set_begun(cr_average *average);

/* The average of learnable parameter `i`; NULL when it has none. */
crema_blob *cr_average_of(const cr_average *average, int i);

/* Makes `net`, which shares parameters with the trained net, share the averages instead. */
crema_status cr_average_share(const cr_average *average, crema_net *net) CREMA_MUST_USE;

/* As cr_net_write, with the averages as weights and without diffs. */
crema_status cr_average_write(const cr_average *average, cr_file_draft *draft,
                              unsigned save) CREMA_MUST_USE;

#endif
