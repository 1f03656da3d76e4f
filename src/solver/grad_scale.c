/* The factor for all gradients of a net with global_grad_scale_adaptive:
 *
 *   s = 4 global_grad_scale / M,   M = max |g| over the gradients in half precision
 *
 * where g are the finite gradients of the last iteration without the factor. Without gradients in
 * half precision s = 1. The largest gradient in half precision is 4 global_grad_scale while
 * gradients do not change between iterations.
 *
 * A gradient that does not fit in half precision, also between layers, can make gradients of any
 * type infinite. The update is then skipped and the limit of the factor becomes half the factor.
 * The limit doubles after each 1,000 updates. */
#include <math.h>

#include "core/fail.h"
#include "core/log.h"
#include "memory/math.h"
#include "solver/solver.h"

/* Factors beyond these only turn values into zeros or infinities. */
static const double least = 0x1p-60, largest = 0x1p60;

enum {
  PATIENCE = 64, /* after this many halvings the factor is not the cause */
  PROBATION = 1000
};

typedef struct gradient_range {
  float max;     /* of the finite absolute values */
  bool infinite; /* some values are not finite */
} gradient_range;

/* Includes a gradient in half precision. */
static crema_status look(crema_blob *blob, gradient_range *range) {
  const float *diff = NULL;
  const int64_t count = crema_blob_count(blob);
  float max = range->max;
  int strange = 0;
  CR_TRY(cr_tensor_host_read_floats(blob->diff, &diff));
  for (int64_t i = 0; i < count; ++i) {
    const float size = fabsf(diff[i]);
    strange += !(size < INFINITY);
    max = size < INFINITY && size > max ? size : max;
  }
  range->max = max;
  range->infinite = range->infinite || strange > 0;
  return CREMA_OK;
}

static crema_status look_at_all(const crema_net *net, gradient_range *range) {
  for (int i = 0; i < net->learnables; ++i) {
    crema_blob *blob = net->learnable[i];
    if (cr_tensor_is_zero(blob->diff)) continue;
    if (cr_tensor_type(blob->diff) == CREMA_F16) {
      CR_TRY(look(blob, range));
    } else { /* a sum on the device in double precision, which no sum of finite floats exceeds */
      double sum = 0;
      CR_TRY(cr_tensor_asum(blob->diff, &sum));
      range->infinite = range->infinite || !isfinite(sum);
    }
  }
  return CREMA_OK;
}

static bool is_adaptive(const crema_net *net) {
  return net->param->global_grad_scale_adaptive;
}

void cr_grad_scale_start(crema_solver *solver) {
  solver->scaling = (cr_scaling){.limit = largest};
  if (is_adaptive(solver->net)) cr_net_set_grad_scale(solver->net, 1);
}

static crema_status skip_update(crema_solver *solver) {
  cr_scaling *scaling = &solver->scaling;
  ++scaling->skipped;
  ++scaling->skipped_in_row;
  scaling->updates = 0;
  scaling->limit = fmax(solver->net->grad_scale / 2, least);
  if (scaling->skipped_in_row > PATIENCE && solver->options.on_nan == CREMA_SOLVER_NAN_STOP) {
    return cr_fail(CREMA_E_NUMERIC,
                   "iteration %lld: gradients are not finite, nor were they in the %d iterations "
                   "before, down to a factor of %g for all gradients",
                   (long long)solver->iteration, PATIENCE, solver->net->grad_scale);
  }
  cr_log_warning(
      "Iteration %lld: gradients are not finite with a factor of %g for all of them; the "
      "update is skipped (%lld so far)",
      (long long)solver->iteration, solver->net->grad_scale, (long long)scaling->skipped);
  return CREMA_OK;
}

crema_status cr_grad_scale_next(crema_solver *solver, double *next, bool *skip) {
  const crema_net *net = solver->net;
  cr_scaling *scaling = &solver->scaling;
  gradient_range range = {0};
  *next = net->grad_scale;
  *skip = false;
  if (!is_adaptive(net)) return CREMA_OK;
  CR_TRY(look_at_all(net, &range));
  double scale = 1;
  if (range.max > 0) {
    scale = (double)net->param->global_grad_scale * 4 * net->grad_scale / (double)range.max;
  }
  *skip = range.infinite;
  if (*skip) {
    CR_TRY(skip_update(solver));
  } else {
    scaling->skipped_in_row = 0;
    if (++scaling->updates % PROBATION == 0) scaling->limit = fmin(scaling->limit * 2, largest);
  }
  *next = fmin(fmax(scale, least), scaling->limit);
  return CREMA_OK;
}
