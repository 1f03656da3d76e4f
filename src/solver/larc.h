/* Layer-wise adaptive rate control (You, Gitman and Ginsburg, "Large batch training of
 * convolutional networks"): a rate for each parameter from the norms of weight and gradient. */
#ifndef CR_SOLVER_LARC_H
#define CR_SOLVER_LARC_H

#include "solver/blocks.h"

typedef struct cr_larc cr_larc;

/* What holds for all parameters in an iteration. */
typedef struct cr_larc_step {
  int64_t iteration;
  float rate, momentum;
  float grad_scale; /* what is in the diffs is to be multiplied by it */
} cr_larc_step;

/* The momentum of the learnable parameters; read with larc_turbo only. */
typedef struct cr_larc_history {
  crema_blob *const *blob; /* one per parameter */
  /* The array that a block's lie in; NULL: they are of another type than its weights. */
  cr_tensor *(*whole)(const void *user, int block);
  const void *user;
} cr_larc_history;

/* The blobs and arrays of the history and `blocks` must outlive the result. Errors:
 * CREMA_E_UNKNOWN_NAME for a larc_policy. */
crema_status cr_larc_create(const Caffe__SolverParameter *param, const cr_blocks *blocks,
                            const cr_larc_history *history, cr_larc **out) CREMA_MUST_USE;
void cr_larc_destroy(cr_larc *larc);

/* Looks at all weights, gradients and histories, before the update of `iteration` changes any: one
 * op over each block for each kind of norm, for all of which the host waits once. */
crema_status cr_larc_begin(cr_larc *larc, int64_t iteration) CREMA_MUST_USE;

/* The rate of learnable parameter `i`, without its lr_mult. To be called once per iteration and
 * parameter, because the correlation below advances. */
float cr_larc_rate(cr_larc *larc, int i, const cr_larc_step *step);

/* With larc_turbo: the smoothed correlation of gradient and momentum of each learnable parameter,
 * which training changes; else NULL. */
double *cr_larc_correlation(cr_larc *larc);

#endif
