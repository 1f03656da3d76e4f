/* Changes of count. Values that one tensor has change in place. A tensor that shares its values
 * leaves them to the other sharers and gets its own. A net lets them share again when the layers
 * between them follow the shape (layers/common/layer_shape.h, net/sums.c). */
#include <string.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "device/copy.h"
#include "memory/check.h"
#include "memory/tensor_private.h"
#include "memory/view.h"

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
    if (!is_valid(s)) cr_tensor_clear_slot(s);
    v->generation = cr_tensor_next_generation();
  }
  return CREMA_OK;
}

/* Copies the first values that the tensor shares to `own`, on the device that has them. */
static crema_status copy_first(cr_tensor *tensor, values *own) {
  const cr_format plain = own_format(own);
  cr_tensor to = {.values = own};
  crema_devptr source = {0}, target = {0};
  crema_context *context = NULL;
  CR_TRY(cr_thread_context(cr_tensor_head_device(tensor), 0, &context));
  CR_TRY(cr_tensor_read(tensor, context, plain, &source));
  CR_TRY(cr_tensor_write(&to, context, plain, &target));
  CR_TRY(cr_copy_same_device(context, target, source, cr_tensor_value_bytes(own, plain)));
  return crema_context_finish(context);
}

/* Values of the tensor's own, for when it leaves the values that it shares. */
static crema_status make_own(cr_tensor *tensor, int64_t count, values **out) {
  const values *v = tensor->values;
  values *own = NULL;
  CR_TRY(cr_tensor_check_count(v->type, count));
  CR_TRY(cr_tensor_values_create(v->type, count, &own));
  own->device = v->device;
  own->label = v->label;
  atomic_store(&own->conversions, atomic_load(&v->conversions));
  if (count < v->count && is_zero(v)) own->state = v->state;
  if (count < v->count && cr_tensor_has_values(v)) {
    crema_status status = copy_first(tensor, own);
    if (status != CREMA_OK) {
      cr_tensor_values_release(own);
      return status;
    }
  }
  if (is_transient(v)) own->lifetime = v->lifetime;
  *out = own;
  return CREMA_OK;
}

/* Finds the slot that is kept when the count changes, and whether its values are, which are then
 * made valid in it: the other formats belong to the old count. Without values nothing is found. */
static crema_status keep_values(values *v, int64_t count, format_slot **keep, bool *fits) {
  CR_TRY(cr_tensor_check_count(v->type, count));
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
  cr_tensor_drop_source(v);
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
    if (!fits && is_pinned(keep)) cr_tensor_clear_slot(keep);
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
  if (has_alone(v)) return keep_values(v, count, &keep, &fits);
  CR_TRY(leave_callers_memory(v));
  cr_tensor_values_release(tensor->prepared);
  tensor->prepared = NULL;
  return make_own(tensor, count, &tensor->prepared);
}

crema_status cr_tensor_resize(cr_tensor *tensor, int64_t count) {
  values *v = tensor->values, *own = tensor->prepared;
  if (count == v->count) return CREMA_OK;
  if (has_alone(v)) return resize_values(v, count);
  CR_TRY(leave_callers_memory(v));
  if (own == NULL || own->count != count) CR_TRY(make_own(tensor, count, &own));
  else tensor->prepared = NULL;
  cr_tensor_alias_end_all(v);
  cr_tensor_values_release(v);
  tensor->values = own;
  CR_ASSERT(cr_tensor_check(own));
  return CREMA_OK;
}

void cr_tensor_shrink_to_fit(cr_tensor *tensor) {
  values *v = tensor->values;
  const format_slot *plain = cr_tensor_find_slot(v, own_format(v));
  if (plain == NULL || plain->memory.capacity <= plain->memory.size) return;
  cr_tensor_drop_slots_but(v, NULL);
  cr_tensor_drop_source(v);
  v->state = CR_TENSOR_NEW;
  v->head_format = own_format(v);
}
