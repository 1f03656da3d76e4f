/* Adds runs of values on one device, by ops that are made before the exchange begins. */
#ifndef CR_PARALLEL_SPAN_ADD_H
#define CR_PARALLEL_SPAN_ADD_H

#include "ops/op.h"

/* One op and its tensors, for runs of one type and count. */
typedef struct cr_span_addition {
  crema_dtype type;
  int64_t count;
  cr_op *op;
  cr_tensor *term, *sum; /* which adopt the memory of each call */
} cr_span_addition;

typedef struct cr_span_adder {
  crema_device *device;
  int additions;
  cr_span_addition *addition;
} cr_span_adder;

/* Prepares for runs of `count` values (count >= 1); a no-op when it is prepared already. */
crema_status cr_span_adder_reserve(cr_span_adder *adder, crema_dtype type,
                                   int64_t count) CREMA_MUST_USE;

/* sum = sum + term, in single precision for 16-bit types. */
crema_status cr_span_adder_run(cr_span_adder *adder, crema_context *context, crema_dtype type,
                               int64_t count, crema_devptr term, crema_devptr sum) CREMA_MUST_USE;

void cr_span_adder_free(cr_span_adder *adder);

#endif
