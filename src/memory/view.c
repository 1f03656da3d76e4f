#include "memory/view.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/device.h"

enum { ALIGNMENT = 64 };

static crema_status own_memory(crema_view *view) {
  size_t bytes = (size_t)view->count * sizeof *view->memory;
  bytes = (bytes + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; /* not 0 for no values */
  view->memory = aligned_alloc(ALIGNMENT, bytes);
  return view->memory == NULL ? cr_fail_memory(bytes, "a view of values") : CREMA_OK;
}

/* The view adopts the tensor's memory, or the tensor adopts the view's. */
static crema_status share_memory(crema_view *view, cr_tensor *tensor) {
  const float *values = NULL;
  if (cr_tensor_type(tensor) != CREMA_F32) return own_memory(view);
  CR_TRY(cr_tensor_host_read_floats(tensor, &values));
  if (cr_tensor_part_memory(tensor, &view->memory, &view->keeps)) return CREMA_OK;
  CR_TRY(own_memory(view));
  if (cr_tensor_is_part(tensor)) return CREMA_OK; /* of memory that is a device's */
  memcpy(view->memory, values, (size_t)view->count * sizeof *values);
  return cr_tensor_adopt_host(tensor, view->memory);
}

static crema_status show_first(cr_tensor *tensor, crema_view **out) {
  crema_view *view = NULL;
  CR_TRY(cr_view_create(cr_tensor_count(tensor), &view));
  crema_status status = share_memory(view, tensor);
  if (status != CREMA_OK) {
    cr_view_release(view);
    return status;
  }
  cr_tensor_set_shown(tensor, view);
  *out = view;
  return CREMA_OK;
}

crema_status cr_tensor_show(cr_tensor *tensor, crema_view **out) {
  crema_view *view = cr_tensor_shown(tensor);
  if (view == NULL) CR_TRY(show_first(tensor, &view));
  else CR_TRY(cr_tensor_take_written(tensor));
  atomic_fetch_add(&view->users, 1);
  crema_status status = cr_tensor_show_newest(tensor);
  if (status != CREMA_OK) {
    cr_view_release(view);
    return status;
  }
  atomic_store(&view->open, true);
  *out = view;
  return CREMA_OK;
}

/* With the lock. */
static crema_status take_over(const crema_view *view, cr_tensor *tensor) {
  const size_t bytes = (size_t)cr_tensor_count(tensor) * sizeof *view->memory;
  const float *values = NULL;
  crema_devptr written = {0};
  CR_TRY(cr_tensor_host_read_floats(tensor, &values));
  const bool own = values != view->memory;
  /* A copy without changes is older than the tensor's values. */
  if (own && view->shown != NULL && memcmp(view->memory, view->shown, bytes) == 0) return CREMA_OK;
  if (own && memcmp(view->memory, values, bytes) == 0) return CREMA_OK;
  CR_TRY(cr_tensor_update(tensor, cr_host_context(), CR_PLAIN_F32, &written));
  if (own) memcpy((void *)written.address, view->memory, bytes);
  if (view->shown != NULL) memcpy(view->shown, view->memory, bytes);
  return CREMA_OK;
}

crema_status cr_tensor_take_written(cr_tensor *tensor) {
  crema_view *view = cr_tensor_shown(tensor);
  crema_status status = CREMA_OK;
  if (view == NULL || !atomic_load(&view->open)) return CREMA_OK;
  pthread_mutex_lock(&view->lock);
  if (atomic_load(&view->open)) {
    const bool held = atomic_load(&view->users) > 1;
    status = take_over(view, tensor);
    if (status == CREMA_OK && !held) atomic_store(&view->open, false);
  }
  pthread_mutex_unlock(&view->lock);
  return status;
}

crema_status cr_tensor_show_newest(cr_tensor *tensor) {
  crema_view *view = cr_tensor_shown(tensor);
  const float *values = NULL;
  if (view == NULL || atomic_load(&view->users) < 2) return CREMA_OK;
  CR_TRY(cr_tensor_host_read_floats(tensor, &values));
  if (values == view->memory) return CREMA_OK;
  if (view->shown == NULL) CR_TRY(CR_NEW(view->shown, view->count + 1, "a view of values"));
  const size_t bytes = (size_t)cr_tensor_count(tensor) * sizeof *values;
  memcpy(view->memory, values, bytes);
  memcpy(view->shown, values, bytes);
  return CREMA_OK;
}
