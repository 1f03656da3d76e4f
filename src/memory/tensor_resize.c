/* Changes of count.
 *
 * Values of one tensor change in place. Shared values stay with the other sharers: the tensor gets
 * its own values, the heir of the shared ones. Tensors that leave for the same count share the
 * heir, which is empty until its first use. Then the heir takes over the memory of the former
 * values if no tensor has them, or copies the first ones. A net that gives all sharers a new count
 * thus neither copies nor allocates. */
#include <string.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "memory/check.h"
#include "memory/tensor_private.h"
#include "memory/view.h"

/* ---- memory of the caller ------------------------------------------------ */

static bool is_callers(const values *v, const format_slot *slot) {
  const cr_host_side *host = &slot->memory.host;
  const cr_device_side *gpu = &slot->memory.gpu;
  if (slot->aliased) return false;
  if (host->data != NULL && !host->own && host->data != crema_view_values(v->view)) return true;
  return gpu->data.address != 0 && !gpu->own;
}

static crema_status copy_memory(const values *v, format_slot *slot) {
  const size_t size = slot->memory.size;
  crema_devptr from = {0}, to = {0};
  crema_syncedmem own;
  cr_syncedmem_init(&own, slot->memory.device, cr_tensor_bytes_of(v->count, slot->format));
  CR_TRY(cr_syncedmem_read(&slot->memory, cr_host_context(), &from));
  CR_TRY(cr_syncedmem_overwrite(&own, cr_host_context(), &to));
  if (size > 0) memcpy((void *)to.address, (const void *)from.address, size);
  cr_syncedmem_clear(&slot->memory);
  slot->memory = own;
  return CREMA_OK;
}

/* The caller may free memory that was adopted. */
static crema_status leave_callers_memory(values *v) {
  for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    if (!is_callers(v, s)) continue;
    if (is_valid(s)) CR_TRY(copy_memory(v, s));
    cr_tensor_alias_release_parts(v, s);
    if (!is_valid(s)) cr_tensor_clear_slot(v, s);
    v->generation = cr_tensor_next_generation();
  }
  return CREMA_OK;
}

/* ---- values that were left ----------------------------------------------- */

static crema_status resize_values(values *v, int64_t count);

static crema_status take_memory(values *v, values *former) {
  if (is_zero(v)) cr_tensor_values_set_zero(former);
  CR_TRY(resize_values(former, v->count));
  cr_tensor_drop_slots_but(v, NULL);
  if (is_zero(former)) v->state = former->state;
  v->view = former->view;
  if (former->alias != NULL) {
    v->alias = former->alias;
    v->alias->part = v;
    former->alias = NULL;
  }
  atomic_store(&v->first, first_slot(former));
  set_head(v, cr_tensor_newest(former));
  set_head(former, NULL);
  former->view = NULL;
  atomic_store(&former->first, NULL);
  return CREMA_OK;
}

/* Other threads may be reading the former values. */
static crema_status copy_first(values *v, values *former) {
  crema_context *host = cr_host_context();
  format_slot *slot = NULL;
  crema_devptr from = {0}, to = {0};
  crema_status status;
  pthread_mutex_lock(&former->lock);
  CR_TRY_GOTO(cr_tensor_follow_former(former), out);
  CR_TRY_GOTO(cr_tensor_need_memory(former, host, own_format(v), &slot), out);
  CR_TRY_GOTO(cr_tensor_make_valid(former, host, slot), out);
  CR_TRY_GOTO(cr_syncedmem_read(&slot->memory, host, &from), out);
  CR_TRY_GOTO(cr_tensor_need_memory(v, host, own_format(v), &slot), out);
  CR_TRY_GOTO(cr_syncedmem_overwrite(&slot->memory, host, &to), out);
  if (v->count > 0) {
    memcpy((void *)to.address, (const void *)from.address, cr_tensor_value_bytes(v, own_format(v)));
  }
  set_valid(slot, true);
  set_head(v, slot);
out:
  pthread_mutex_unlock(&former->lock);
  return status;
}

crema_status cr_tensor_follow_former(values *v) {
  values *former = former_of(v);
  if (former == NULL) return CREMA_OK;
  if (has_alone(former)) {
    CR_TRY(take_memory(v, former));
  } else if (former->state == CR_TENSOR_RELEASED) {
    v->state = CR_TENSOR_NEW;
  } else if (!is_zero(v)) {
    CR_TRY(copy_first(v, former));
  }
  cr_tensor_drop_pending(v);
  CR_ASSERT(cr_tensor_check(v));
  return CREMA_OK;
}

crema_status cr_tensor_follow_count(cr_tensor *tensor) {
  return cr_tensor_follow_former(tensor->values);
}

/* Values for the tensor when it leaves those that it shares. */
static crema_status make_heir(const values *v, int64_t count, values **out) {
  values *heir = NULL;
  CR_TRY(cr_tensor_check_count(v->type, count));
  CR_TRY(cr_tensor_values_create(v->type, count, &heir));
  crema_status status = cr_tensor_need_pending(heir);
  if (status != CREMA_OK) {
    cr_tensor_values_release(heir);
    return status;
  }
  heir->device = v->device;
  heir->label = v->label;
  if (is_transient(v)) heir->lifetime = v->lifetime;
  atomic_store(&heir->conversions, atomic_load(&v->conversions));
  *out = heir;
  return CREMA_OK;
}

static bool has_heir(const values *v, int64_t count) {
  return v->heir != NULL && v->heir->count == count;
}

static crema_status leave_values(cr_tensor *tensor, int64_t count) {
  values *v = tensor->values, *own = NULL;
  cr_tensor_alias_end_all(v);
  if (has_heir(v, count)) {
    own = v->heir;
    atomic_fetch_add(&own->tensors, 1);
    cr_tensor_values_release(v);
  } else {
    if (tensor->prepared != NULL && tensor->prepared->count == count) {
      own = tensor->prepared;
      tensor->prepared = NULL;
    } else {
      CR_TRY(make_heir(v, count, &own));
    }
    own->state = v->state;
    if (v->state == CR_TENSOR_RELEASED || count > v->count) own->state = CR_TENSOR_NEW;
    own->pending->former = v; /* with the tensor's reference */
    v->heir = own;
  }
  tensor->values = own;
  CR_ASSERT(cr_tensor_check(own));
  return CREMA_OK;
}

/* ---- resizing ------------------------------------------------------------ */

/* Finds the slot that is kept when the count changes, and whether its values are, which are then
 * made valid in it: the other formats belong to the old count. Without values nothing is found. */
static crema_status keep_values(values *v, int64_t count, format_slot **keep, bool *fits) {
  CR_TRY(cr_tensor_check_count(v->type, count));
  CR_TRY(cr_tensor_follow_former(v));
  CR_TRY(leave_callers_memory(v));
  if (v->state == CR_TENSOR_RELEASED) return CREMA_OK;
  const cr_format plain = own_format(v);
  *keep = cr_tensor_find_slot(v, plain);
  *fits = *keep != NULL ? cr_tensor_bytes_of(count, plain) <= (*keep)->memory.capacity
                        : count < v->count;
  if (!*fits || is_zero(v)) return CREMA_OK;
  if (*keep == NULL) CR_TRY(cr_tensor_need_memory(v, cr_host_context(), plain, keep));
  return cr_tensor_make_valid(v, cr_host_context(), *keep);
}

/* Resizes values of one tensor. */
static crema_status resize_values(values *v, int64_t count) {
  format_slot *keep = NULL;
  bool fits = false;
  cr_tensor_alias_end_all(v);
  CR_TRY(keep_values(v, count, &keep, &fits));
  cr_tensor_drop_slots_but(v, keep);
  cr_tensor_drop_pending(v);
  if (v->view != NULL && count > crema_view_count(v->view)) {
    /* Holders keep the view's memory as it is. */
    cr_view_release(v->view);
    v->view = NULL;
  }
  v->count = count;
  v->generation = cr_tensor_next_generation();
  v->head_format = own_format(v);
  set_head(v, keep);
  if (keep != NULL) {
    if (!fits && is_pinned(v, keep)) cr_tensor_clear_slot(v, keep);
    cr_syncedmem_resize(&keep->memory, cr_tensor_bytes_of(count, v->head_format));
    if (!fits || is_zero(v)) set_valid(keep, false);
  }
  if (!fits) v->state = CR_TENSOR_NEW;
  CR_ASSERT(cr_tensor_check(v));
  return CREMA_OK;
}

crema_status cr_tensor_prepare_resize(cr_tensor *tensor, int64_t count) {
  values *v = tensor->values;
  format_slot *keep = NULL;
  bool fits = false;
  if (count == v->count) return CREMA_OK;
  if (has_alone(tensor->values)) return keep_values(v, count, &keep, &fits);
  CR_TRY(cr_tensor_check_count(v->type, count));
  CR_TRY(leave_callers_memory(v));
  cr_tensor_values_release(tensor->prepared);
  tensor->prepared = NULL;
  return has_heir(v, count) ? CREMA_OK : make_heir(v, count, &tensor->prepared);
}

crema_status cr_tensor_resize(cr_tensor *tensor, int64_t count) {
  values *v = tensor->values;
  if (count == v->count) return CREMA_OK;
  if (has_alone(tensor->values)) return resize_values(v, count);
  CR_TRY(leave_callers_memory(v));
  return leave_values(tensor, count);
}

void cr_tensor_shrink_to_fit(cr_tensor *tensor) {
  values *v = tensor->values;
  const format_slot *plain = cr_tensor_find_slot(v, own_format(v));
  const bool larger = plain != NULL && plain->memory.capacity > plain->memory.size;
  if (!larger && former_of(v) == NULL) return;
  cr_tensor_drop_slots_but(v, NULL);
  cr_tensor_drop_pending(v);
  v->state = CR_TENSOR_NEW;
  v->head_format = own_format(v);
}
