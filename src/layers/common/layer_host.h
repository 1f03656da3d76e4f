/* Values of tensors on the host, for layers whose computing is choosing and counting. */
#ifndef CR_LAYERS_LAYER_HOST_H
#define CR_LAYERS_LAYER_HOST_H

#include "layers/common/layer.h"

/* Values of float64 or, all other types, of float32. */
typedef struct cr_host_values {
  const double *wide;
  const float *narrow;
} cr_host_values;

typedef struct cr_host_results {
  double *wide;
  float *narrow;
} cr_host_results;

static inline double cr_host_get(const cr_host_values *values, int64_t i) {
  return values->wide ? values->wide[i] : (double)values->narrow[i];
}

static inline void cr_host_put(const cr_host_results *results, int64_t i, double value) {
  if (results->wide) results->wide[i] = value;
  else results->narrow[i] = (float)value;
}

/* The members of classes whose layers choose and count on the host: tops have full precision. */
#define CR_LAYER_HOST(type_name, state_bytes, setup_fn, reshape_fn, forward_fn, destroy_fn) \
  .type = type_name, .state_size = state_bytes, .graph.wide_tops = true, .setup = setup_fn, \
  .reshape = reshape_fn, .forward = forward_fn, .destroy = destroy_fn

/* As precise as the tensor has them. */
crema_status cr_host_read(cr_tensor *tensor, cr_host_values *out) CREMA_MUST_USE;
/* Old content is not kept. */
crema_status cr_host_write(cr_tensor *tensor, cr_host_results *out) CREMA_MUST_USE;

/* Old content is kept, and `in` has the same values. */
crema_status cr_host_update(cr_tensor *tensor, cr_host_values *in,
                            cr_host_results *out) CREMA_MUST_USE;

/* The maximum number of threads that pays for work of this number of multiply-adds. Each thread has
 * a number below the result, with which it finds its own memory. */
int cr_host_workers(const crema_context *context, double multiply_adds);
/* Calls work(state, worker, index) for each index below `count`, once, in any order and by several
 * threads at a time. The result of a call must not depend on other calls. Returns the failure of
 * the lowest index that fails. */
crema_status cr_host_spread(int workers, int64_t count, cr_host_work *work,
                            void *state) CREMA_MUST_USE;

#endif
