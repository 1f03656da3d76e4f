/* Reads of several tensors whose conversions a device makes together.
 *
 * Parameters are in row-major order for the update and in an order of the device for the layers.
 * One launch converts many of them. The caller has exclusive use of the tensors until the end. */
#ifndef CR_MEMORY_TENSOR_BATCH_H
#define CR_MEMORY_TENSOR_BATCH_H

#include "device/backend/backend.h"
#include "memory/tensor.h"

enum { CR_TENSOR_BATCH = 48 };

/* Set `context`, all else zero. */
typedef struct cr_tensor_batch {
  crema_context *context;
  int count; /* of conversions that wait */
  cr_conversion conversion[CR_TENSOR_BATCH];
  cr_tensor_values *values[CR_TENSOR_BATCH];
  struct format_slot *slot[CR_TENSOR_BATCH]; /* to be valid */
  const char *label[CR_TENSOR_BATCH];
} cr_tensor_batch;

/* Brings the newest values into `format`. */
crema_status cr_tensor_batch_read(cr_tensor_batch *batch, cr_tensor *tensor,
                                  cr_format format) CREMA_MUST_USE;

/* Brings the newest values into the orders of the device in which earlier work has used them. */
crema_status cr_tensor_batch_refresh(cr_tensor_batch *batch,
                                     const cr_tensor *tensor) CREMA_MUST_USE;

/* Makes the conversions that wait. */
crema_status cr_tensor_batch_end(cr_tensor_batch *batch) CREMA_MUST_USE;

#endif
