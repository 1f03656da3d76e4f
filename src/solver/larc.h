/* Layer-wise adaptive rate control (You, Gitman and Ginsburg, "Large batch training of
 * convolutional networks"): a rate for each parameter from the norms of weight and gradient. */
#ifndef CR_SOLVER_LARC_H
#define CR_SOLVER_LARC_H

#include "net/net.h"

typedef struct cr_larc cr_larc;

/* What holds for all parameters in an iteration. */
typedef struct cr_larc_step {
  int64_t iteration;
  float rate, momentum;
  float grad_scale; /* what is in the diffs is to be multiplied by it */
} cr_larc_step;

/* history[i] holds the momentum of learnable parameter i; read with larc_turbo only. It and `net`
 * must outlive the result. Errors: CREMA_E_UNKNOWN_NAME for a larc_policy. */
crema_status cr_larc_create(const Caffe__SolverParameter *param, crema_net *net,
                            crema_blob *const *history, cr_larc **out) CREMA_MUST_USE;
void cr_larc_destroy(cr_larc *larc);

/* The rate of learnable parameter `i`, without its lr_mult. To be called once per iteration and
 * parameter, because the correlation below advances. */
crema_status cr_larc_rate(cr_larc *larc, int i, const cr_larc_step *step,
                          float *out) CREMA_MUST_USE;

/* With larc_turbo: the smoothed correlation of gradient and momentum of each learnable parameter,
 * which training changes; else NULL. */
double *cr_larc_correlation(cr_larc *larc);

#endif
