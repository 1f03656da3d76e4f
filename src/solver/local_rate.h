/* Layer-wise adaptive rates: one for each parameter, from the norms of its weights and gradients.
 *   LARS  You, Gitman and Ginsburg, "Large batch training of convolutional networks", 2017; Intel's
 *         Caffe has it as local_lr_auto
 *   LARC  NVIDIA's variant
 *   LAMB  You et al., "Large batch optimization for deep learning", 2020 */
#ifndef CR_SOLVER_LOCAL_RATE_H
#define CR_SOLVER_LOCAL_RATE_H

#include "solver/blocks.h"
#include "solver/rule.h"

typedef struct cr_local_rates cr_local_rates;

/* The settings of an iteration. */
typedef struct cr_local_step {
  int64_t iteration;
  float rate, momentum;
  float grad_scale; /* a diff times this is the gradient */
} cr_local_step;

/* The momentum of the learnable parameters; read with larc_turbo only. */
typedef struct cr_local_history {
  crema_blob *const *blob; /* one per parameter */
  /* The array of a block's histories; NULL: they have another type than the weights. */
  cr_tensor *(*whole)(const void *user, int block);
  const void *user;
} cr_local_history;

/* `kind` is not CR_LOCAL_NONE. The blobs and arrays of the history and `blocks` must outlive the
 * result. Errors: CREMA_E_UNKNOWN_NAME for a larc_policy. */
crema_status cr_local_create(const Caffe__SolverParameter *param, cr_local_kind kind,
                             const cr_param_blocks *blocks, const cr_local_history *history,
                             cr_local_rates **out) CREMA_MUST_USE;
void cr_local_destroy(cr_local_rates *rates);

/* Reads all weights, gradients (for LAMB: directions) and histories before the update of
 * `iteration` changes any: one op for each block and kind of norm. The host waits once for all. */
crema_status cr_local_begin(cr_local_rates *rates, int64_t iteration) CREMA_MUST_USE;

/* The rate of learnable parameter `i` without its lr_mult. `decay`: the weight decay that is part
 * of the gradient. Call it once per iteration and parameter: it advances the correlation below. */
float cr_local_rate(cr_local_rates *rates, int i, double decay, const cr_local_step *step);

/* With larc_turbo the smoothed correlation of gradient and momentum of each learnable parameter;
 * else NULL. */
double *cr_local_correlation(cr_local_rates *rates);

#endif
