/* Changes of count.
 *
 * Values that one tensor has alone change in place. Those that others share stay theirs: the tensor
 * gets values of its own, and so that a net that gives all sharers the new count, one after the
 * other, neither copies nor allocates, these are empty until they are first used. They then take
 * over the memory of the former ones, if nobody else has it any more, or a copy of the first
 * values. Tensors that leave for the same count in the meantime go on sharing. */
#include <inttypes.h>
#include <string.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "memory/tensor_private.h"
#include "memory/view.h"

crema_status cr_tensor_check_count(crema_dtype type, int64_t count) {
  size_t size = crema_dtype_size(type);
  if (size == 0) {
    return cr_fail(CREMA_E_TYPE, "a tensor cannot hold elements of type %s",
                   crema_dtype_name(type));
  }
  if (count < 0 || count > INT64_MAX / 8 - 1) {
    return cr_fail(CREMA_E_SHAPE, "a tensor cannot hold %" PRId64 " elements", count);
  }
  return CREMA_OK;
}

static void set_valid(format_slot *slot, bool valid) {
  atomic_store_explicit(&slot->valid, valid, memory_order_release);
}

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

/* The caller may let go of memory that was adopted. */
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

void cr_tensor_forget_former(values *v) {
  values *former = v->former;
  if (former == NULL) return;
  pthread_mutex_lock(&former->lock);
  if (former->heir == v) former->heir = NULL;
  pthread_mutex_unlock(&former->lock);
  v->former = NULL;
  cr_tensor_values_release(former);
}

static crema_status resize_values(values *v, int64_t count);

/* What is valid is not the head, which is read without the lock. */
static crema_status take_memory(values *v, values *former) {
  if (v->zero) cr_tensor_values_set_zero(former);
  CR_TRY(resize_values(former, v->count));
  cr_tensor_drop_slots_but(v, NULL);
  v->slots = former->slots;
  v->made = former->head != NULL && is_valid(former->head) ? former->head : NULL;
  if (former->zero) v->zero = true;
  v->given = former->given;
  v->view = former->view;
  atomic_store(&v->first, first_slot(former));
  if (former->alias != NULL) {
    v->alias = former->alias;
    v->alias->part = v;
    former->alias = NULL;
  }
  former->head = NULL;
  former->slots = 0;
  former->view = NULL;
  atomic_store(&former->first, NULL);
  return CREMA_OK;
}

static crema_status copy_first(values *v, values *former) {
  const cr_format plain = {v->type, NULL};
  format_slot *slot = NULL;
  crema_devptr from = {0}, to = {0};
  crema_status status;
  pthread_mutex_lock(&former->lock);
  CR_TRY_GOTO(cr_tensor_make_readable(former, cr_host_context(), plain, &from), out);
  CR_TRY_GOTO(cr_tensor_need_memory(v, cr_host_context(), plain, &slot), out);
  CR_TRY_GOTO(cr_syncedmem_overwrite(&slot->memory, cr_host_context(), &to), out);
  if (v->count > 0) {
    memcpy((void *)to.address, (const void *)from.address,
           (size_t)v->count * crema_dtype_size(v->type));
  }
  v->made = slot;
  set_valid(slot, true);
out:
  pthread_mutex_unlock(&former->lock);
  return status;
}

crema_status cr_tensor_follow_former(values *v) {
  values *former = v->former;
  if (former == NULL) return CREMA_OK;
  if (atomic_load(&former->tensors) == 1) {
    CR_TRY(take_memory(v, former));
  } else if (former->gone) {
    v->zero = true;
  } else if (!v->zero) {
    CR_TRY(copy_first(v, former));
  }
  cr_tensor_forget_former(v);
  return CREMA_OK;
}

crema_status cr_tensor_follow_count(cr_tensor *tensor) {
  return cr_tensor_follow_former(tensor->values);
}

/* Values for the tensor when it leaves those that it shares. */
static crema_status make_heir(const values *v, int64_t count, values **out) {
  CR_TRY(cr_tensor_check_count(v->type, count));
  CR_TRY(cr_tensor_values_create(v->type, count, out));
  (*out)->label = v->label;
  (*out)->home = v->home;
  (*out)->passing = v->passing;
  atomic_store(&(*out)->conversions, atomic_load(&v->conversions));
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
    own->zero = v->zero || v->gone || count > v->count;
    own->given = v->given && count < v->count;
    own->former = v; /* with the tensor's reference */
    v->heir = own;
  }
  tensor->values = own;
  return CREMA_OK;
}

/* ---- resizing ------------------------------------------------------------ */

/* Finds the slot that is kept when the count changes, and whether its values are, which are then
 * made valid in it: the other formats belong to the old count. Without values nothing is found. */
static crema_status keep_values(values *v, int64_t count, format_slot **keep, bool *fits) {
  CR_TRY(cr_tensor_check_count(v->type, count));
  CR_TRY(cr_tensor_follow_former(v));
  CR_TRY(leave_callers_memory(v));
  if (v->gone) return CREMA_OK;
  cr_format plain = {v->type, NULL};
  *keep = cr_tensor_find_slot(v, plain);
  *fits = *keep != NULL ? cr_tensor_bytes_of(count, plain) <= (*keep)->memory.capacity
                        : count < v->count;
  if (!*fits || v->zero) return CREMA_OK;
  if (*keep == NULL) CR_TRY(cr_tensor_need_memory(v, cr_host_context(), plain, keep));
  return cr_tensor_make_valid(v, cr_host_context(), *keep);
}

/* Values that nobody else has. */
static crema_status resize_values(values *v, int64_t count) {
  format_slot *keep = NULL;
  bool fits = false;
  cr_tensor_alias_end_all(v);
  CR_TRY(keep_values(v, count, &keep, &fits));
  cr_tensor_drop_slots_but(v, keep);
  cr_tensor_forget_source(v);
  if (v->view != NULL && count > crema_view_count(v->view)) {
    /* The slot lets go of the view's memory, which holders keep as it is. */
    cr_view_let_go(v->view);
    v->view = NULL;
  }
  v->count = count;
  v->generation = cr_tensor_next_generation();
  v->head_format = (cr_format){v->type, NULL};
  v->head = keep;
  if (keep != NULL) {
    if (!fits && is_pinned(v, keep)) cr_tensor_clear_slot(v, keep);
    cr_syncedmem_resize(&keep->memory, cr_tensor_bytes_of(count, v->head_format));
    if (!fits || v->zero) set_valid(keep, false);
  }
  if (!fits) {
    v->zero = true;
    v->given = false;
  }
  v->gone = false;
  return CREMA_OK;
}

crema_status cr_tensor_prepare_resize(cr_tensor *tensor, int64_t count) {
  values *v = tensor->values;
  format_slot *keep = NULL;
  bool fits = false;
  if (count == v->count) return CREMA_OK;
  if (!cr_tensor_is_shared(tensor)) return keep_values(v, count, &keep, &fits);
  CR_TRY(cr_tensor_check_count(v->type, count));
  CR_TRY(leave_callers_memory(v));
  cr_tensor_values_release(tensor->prepared);
  tensor->prepared = NULL;
  return has_heir(v, count) ? CREMA_OK : make_heir(v, count, &tensor->prepared);
}

crema_status cr_tensor_resize(cr_tensor *tensor, int64_t count) {
  values *v = tensor->values;
  if (count == v->count) return CREMA_OK;
  if (!cr_tensor_is_shared(tensor)) return resize_values(v, count);
  CR_TRY(leave_callers_memory(v));
  return leave_values(tensor, count);
}

void cr_tensor_shrink_to_fit(cr_tensor *tensor) {
  values *v = tensor->values;
  const format_slot *plain = cr_tensor_find_slot(v, (cr_format){v->type, NULL});
  const bool larger = plain != NULL && plain->memory.capacity > plain->memory.size;
  if (!larger && v->former == NULL) return;
  cr_tensor_drop_slots_but(v, NULL);
  cr_tensor_forget_source(v);
  cr_tensor_forget_former(v);
  v->zero = true;
  v->given = false;
  v->head_format = (cr_format){v->type, NULL};
}
