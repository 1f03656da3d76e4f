/* Adds runs of values on one device. What it needs for a run of some length is made before the
 * exchange begins. */
#ifndef CR_PARALLEL_ADDER_H
#define CR_PARALLEL_ADDER_H

#include "ops/op.h"

/* One op and its tensors, for runs of one type and count. */
typedef struct cr_addition {
  crema_dtype type;
  int64_t count;
  cr_op *op;
  cr_tensor *term, *sum; /* which adopt the memory of each call */
} cr_addition;

typedef struct cr_adder {
  crema_device *device;
  int additions;
  cr_addition *addition;
} cr_adder;

/* Prepares for runs of `count` values (count >= 1); a no-op when it is prepared already. */
crema_status cr_adder_need(cr_adder *adder, crema_dtype type, int64_t count) CREMA_MUST_USE;

/* sum = sum + term, in single precision for 16-bit types. */
crema_status cr_adder_run(cr_adder *adder, crema_context *context, const cr_addition *addition,
                          crema_devptr term, crema_devptr sum) CREMA_MUST_USE;

/* What was prepared for such runs; there must be one. */
const cr_addition *cr_adder_find(const cr_adder *adder, crema_dtype type, int64_t count);

void cr_adder_free(cr_adder *adder);

#endif
