/* Finite differences: whether a layer's backward pass gives the gradient of its forward pass. */
#ifndef CREMA_TOOLS_GRAD_CHECK_H
#define CREMA_TOOLS_GRAD_CHECK_H

#include "net/net.h"

typedef struct cli_grad_options {
  int64_t values;   /* the most values of each blob that are checked, drawn at random */
  double tolerance; /* the largest relative error that passes */
  uint32_t seed;
} cli_grad_options;

/* Checks the gradients of a net that is inputs and then one layer, the last one, built with
 * force_backward. `oracle` is the same net in double precision, not in place: the differences are
 * taken between its forward passes. Both nets get its inputs and the parameters of `net`. Takes
 * the sum of all tops' values, each times a random weight, or of a loss as the function whose
 * gradient is checked. Prints one line per bottom and parameter. *good is whether all pass. Errors:
 * failures of the passes, and CREMA_E_UNSUPPORTED for a layer without a backward pass or with
 * nothing to check. */
crema_status cli_grad_check(crema_net *net, crema_net *oracle, const cli_grad_options *options,
                            bool *good) CREMA_MUST_USE;

#endif
