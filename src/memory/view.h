/* Host memory that shows a tensor's values as float32 to its holders (crema_view).
 *
 * If possible, the memory is the tensor's own plain float32 format: the tensor adopts it, or it is
 * part of a block of parameters. A tensor of another type, and one that is given other memory
 * afterwards, has its values copied to and fro. Tensors that share values share their view. */
#ifndef CR_MEMORY_VIEW_H
#define CR_MEMORY_VIEW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "crema/blob.h"
#include "memory/tensor.h"

/* Whether there may be views at all; without them the functions below are no-ops. */
bool cr_views_exist(void);

/* Makes the tensor's view, or takes a further hold on it, and brings the newest values there. To be
 * released with crema_view_release. Errors: errors of a read. */
crema_status cr_tensor_show(cr_tensor *tensor, crema_view **out) CREMA_MUST_USE;

/* Makes the values that holders of the view may have written the tensor's newest values. A no-op if
 * no holder has had it since the last time. Threads whose tensors share values may call it at once.
 * Errors: errors of a read. */
crema_status cr_tensor_take_written(cr_tensor *tensor) CREMA_MUST_USE;

/* Brings the newest values into the view, if it is held. Errors: errors of a read. */
crema_status cr_tensor_show_newest(cr_tensor *tensor) CREMA_MUST_USE;

struct crema_view {
  atomic_int users; /* the holders, and the values while they are visible here */
  atomic_bool open; /* a holder may have written since this was last taken over */
  float *memory;    /* of `count` values */
  float *shown;  /* a copy of the values last brought to memory that is not the tensor's, or NULL */
  int64_t count; /* that there is room for */
  cr_tensor_values *keeps; /* whose memory it is; NULL: the view's own */
  pthread_mutex_t lock;    /* of taking over */
};

/* Whether the view, which may be NULL, is held. */
bool cr_view_is_held(const crema_view *view);

/* A view with one holder, without memory. */
crema_status cr_view_create(int64_t count, crema_view **out) CREMA_MUST_USE;
void cr_view_release(crema_view *view); /* accepts NULL */

#endif
