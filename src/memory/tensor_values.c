/* Values: their slots, one per format, and conversions between them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "device/watch.h"
#include "memory/check.h"
#include "memory/trace_private.h"
#include "memory/view.h"

/* The maximum number of formats kept while only one tensor has the values; see take_slot. */
enum { MAX_FORMATS = 6 };

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

size_t cr_tensor_value_bytes(const values *v, cr_format format) {
  if (format.layout != NULL) return format.layout->bytes;
  return (size_t)v->count * crema_dtype_size(format.type);
}

/* An even number of elements, so that pairs of half-precision values can be loaded. */
size_t cr_tensor_bytes_of(int64_t count, cr_format format) {
  if (format.layout != NULL) return format.layout->bytes;
  return (size_t)(count + (count & 1)) * crema_dtype_size(format.type);
}

uint64_t cr_tensor_next_generation(void) {
  static _Atomic uint64_t generations;
  return atomic_fetch_add(&generations, 1) + 1;
}

crema_status cr_tensor_values_create(crema_dtype type, int64_t count, values **out) {
  values *v = calloc(1, sizeof *v);
  if (v == NULL) return cr_fail_memory(sizeof *v, "a tensor");
  atomic_init(&v->tensors, 1);
  pthread_mutex_init(&v->lock, NULL);
  v->type = type;
  v->count = count;
  v->device = cr_device_current();
  v->head_format = own_format(v);
  v->generation = cr_tensor_next_generation();
  *out = v;
  return CREMA_OK;
}

void cr_tensor_drop_source(values *v) {
  cr_tensor_source_release(v->pending.source);
  v->pending.source = NULL;
}

void cr_tensor_values_release(values *v) {
  if (v == NULL || atomic_fetch_sub(&v->tensors, 1) != 1) return;
  cr_tensor_alias_end_all(v);
  cr_tensor_drop_slots_but(v, NULL);
  cr_tensor_drop_source(v);
  cr_view_release(v->view);
  pthread_mutex_destroy(&v->lock);
  free(v);
}

void cr_tensor_clear_slot(format_slot *slot) {
  cr_syncedmem_clear(&slot->memory);
  slot->aliased = false;
  cr_tensor_unpin(slot);
}

void cr_tensor_drop_slot(values *v, format_slot *slot) {
  format_slot *_Atomic *link = &v->first;
  while (atomic_load(link) != slot) link = &atomic_load(link)->next;
  atomic_store(link, next_slot(slot));
  cr_tensor_alias_release_parts(v, slot);
  cr_tensor_clear_slot(slot);
  if (head_slot(v) == slot) set_head(v, NULL);
  v->generation = cr_tensor_next_generation();
  free(slot);
}

void cr_tensor_drop_slots_but(values *v, const format_slot *keep) {
  for (format_slot *s = first_slot(v), *next = NULL; s != NULL; s = next) {
    next = next_slot(s);
    if (s != keep) cr_tensor_drop_slot(v, s);
  }
}

format_slot *cr_tensor_find_slot(const values *v, cr_format format) {
  format_slot *s = first_slot(v);
  while (s != NULL && !cr_format_equal(s->format, format)) s = next_slot(s);
  return s;
}

static int count_slots(const values *v) {
  int count = 0;
  for (const format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) ++count;
  return count;
}

/* The slot that makes room for a new format, by LRU: a stale slot, or else a valid one that is not
 * the head; NULL: there is room. `keep1`, `keep2` and pinned slots are never taken. A valid slot
 * that another thread may be reading stays: there are more slots then, until the next write. */
static format_slot *take_slot(const values *v, const format_slot *keep1, const format_slot *keep2) {
  format_slot *best = NULL;
  if (count_slots(v) < MAX_FORMATS) return NULL;
  for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    bool valid = is_valid(s), head = s == head_slot(v);
    if (s == keep1 || s == keep2 || is_pinned(s) || (valid && head)) continue;
    if (!has_alone(v) && (valid || head)) continue;
    if (best == NULL || (valid != is_valid(best) ? !valid : s->access < best->access)) best = s;
  }
  return best;
}

/* The device for which a format is made that is first used on `device`. On the host this is the
 * tensor's device, so that memory that lasts is page-locked. */
static crema_device *maker_of(const values *v, crema_device *device, cr_format format) {
  bool lasts = format.type == v->type && format.layout == NULL;
  return device->backend->host_memory && lasts ? v->device : device;
}

/* The slot of `format`, made (without memory, not valid) when it is not there. */
static crema_status need_slot(values *v, crema_device *device, cr_format format,
                              const format_slot *keep1, const format_slot *keep2,
                              format_slot **out) {
  *out = cr_tensor_find_slot(v, format);
  if (*out != NULL) return CREMA_OK;
  format_slot *slot = take_slot(v, keep1, keep2);
  bool fresh = slot == NULL;
  if (fresh) {
    CR_TRY(CR_NEW(slot, 1, "a format of a tensor"));
  } else {
    set_valid(slot, false);
    if (head_slot(v) == slot) set_head(v, NULL);
    cr_tensor_alias_release_parts(v, slot);
    cr_tensor_clear_slot(slot);
    v->generation = cr_tensor_next_generation();
  }
  slot->format = format;
  slot->access = 0;
  cr_syncedmem_init(&slot->memory, maker_of(v, device, format),
                    cr_tensor_bytes_of(v->count, format));
  slot->memory.label = v->label;
  if (fresh) {
    format_slot *_Atomic *link = &v->first;
    while (atomic_load(link) != NULL) link = &atomic_load(link)->next;
    atomic_store(link, slot);
  }
  *out = slot;
  return CREMA_OK;
}

void cr_tensor_take_heap(const values *v, crema_context *context, format_slot *slot) {
  if (is_transient(v) || slot->format.type != v->type) {
    cr_syncedmem_from_heap(&slot->memory, context);
  }
}

/* The same for an access: a format that is soon released, such as a format in another element type,
 * gets memory of the context's heap. */
static crema_status need_slot_for(values *v, crema_context *context, cr_format format,
                                  const format_slot *keep1, const format_slot *keep2,
                                  format_slot **out) {
  CR_TRY(need_slot(v, context->device, format, keep1, keep2, out));
  cr_tensor_take_heap(v, context, *out);
  return CREMA_OK;
}

crema_status cr_tensor_need_slot(values *v, crema_device *device, cr_format format,
                                 format_slot **out) {
  return need_slot(v, device, format, head_slot(v), NULL, out);
}

crema_status cr_tensor_need_memory(values *v, crema_context *context, cr_format format,
                                   format_slot **out) {
  return need_slot_for(v, context, format, head_slot(v), NULL, out);
}

format_slot *cr_tensor_newest(const values *v) {
  format_slot *head = head_slot(v);
  return head != NULL && is_valid(head) ? head : NULL;
}

bool cr_tensor_has_values(const values *v) {
  return v->state == CR_TENSOR_SET && (has_source(v) || cr_tensor_newest(v) != NULL);
}

void cr_tensor_only_valid(values *v, format_slot *slot) {
  int slots = count_slots(v);
  cr_tensor_drop_source(v);
  for (format_slot *s = first_slot(v), *next = NULL; s != NULL; s = next) {
    next = next_slot(s);
    set_valid(s, s == slot);
    if (s != slot && slots > MAX_FORMATS) {
      cr_tensor_drop_slot(v, s);
      --slots;
    }
  }
  v->state = CR_TENSOR_SET;
  set_head(v, slot);
  v->head_format = slot->format;
  CR_ASSERT(cr_tensor_check(v));
}

/* Whether only kernels of another device than the context's know the order of the values. */
static bool is_foreign(const crema_context *context, cr_format format) {
  if (format.layout == NULL) return false;
  const crema_device *device = format.layout->device;
  return device != context->device && !device->backend->host_memory;
}

/* Whether the values have an order of the host's kernels. */
static bool is_of_host(cr_format format) {
  return format.layout != NULL && format.layout->device->backend->host_memory;
}

/* Converts from slot `from` to slot `to` on the context's device, or on the device that knows the
 * order of `from`. */
static crema_status convert_slot(values *v, crema_context *context, format_slot *to,
                                 format_slot *from) {
  crema_devptr dst = {0}, src = {0};
  if (is_foreign(context, from->format)) {
    CR_TRY(cr_thread_context(from->format.layout->device, 0, &context));
  }
  cr_tensor_take_heap(v, context, from);
  CR_TRY(cr_syncedmem_read(&from->memory, context, &src));
  CR_TRY(cr_syncedmem_overwrite(&to->memory, context, &dst));
  cr_trace_add_conversion(context, v, to->format, dst, from->format, src);
  crema_status status =
      cr_watch_convert(context, v->label, v->count, to->format, dst, from->format, src);
  if (status == CREMA_E_UNSUPPORTED && !context->device->backend->host_memory &&
      !is_foreign(cr_host_context(), to->format) && !is_foreign(cr_host_context(), from->format)) {
    return convert_slot(v, cr_host_context(), to, from);
  }
  if (status != CREMA_OK) {
    return cr_fail_in(status, "a tensor of %" PRId64 " values from %s%s to %s%s", v->count,
                      crema_dtype_name(from->format.type), from->format.layout ? " (private)" : "",
                      crema_dtype_name(to->format.type), to->format.layout ? " (private)" : "");
  }
  if (from->format.type != to->format.type) atomic_fetch_add(&v->conversions, 1);
  set_valid(to, true);
  return CREMA_OK;
}

/* Whether a conversion changes both element type and order: that takes two steps, via *middle.
 * Values are reordered in the wider type if possible, because libraries support it better. */
static bool goes_by_way(cr_format from, cr_format to, cr_format *middle) {
  if (from.type == to.type || (from.layout == NULL && to.layout == NULL)) return false;
  const cr_layout *target = cr_layout_in(from.layout, to.type);
  const cr_layout *source = cr_layout_in(to.layout, from.type);
  if (target != NULL && target == to.layout) return false;
  const bool widens = crema_dtype_size(from.type) < crema_dtype_size(to.type);
  if (target != NULL && widens) {
    *middle = (cr_format){to.type, target};
  } else if (source != NULL && !widens) {
    *middle = (cr_format){from.type, source};
  } else {
    *middle = (cr_format){from.layout != NULL ? from.type : to.type, NULL};
  }
  return true;
}

/* Reads values to `dst`, in plain format of the tensor's own type or via scratch memory. */
crema_status cr_tensor_read_source(const values *v, cr_format format, crema_devptr dst) {
  const cr_tensor_pending *p = &v->pending;
  crema_context *host = cr_host_context();
  void *read = NULL;
  size_t size = cr_tensor_value_bytes(v, own_format(v));
  if (format.layout == NULL) {
    return p->source->read(p->source, p->at, (void *)dst.address, size);
  }
  CR_TRY(cr_tensor_source_lock(p->source, p->at, size, &read));
  crema_status status = cr_watch_convert(host, v->label, v->count, format, dst, own_format(v),
                                         (crema_devptr){(uintptr_t)read});
  cr_tensor_source_unlock(p->source);
  return status;
}

/* Creates the first format of values of a source: `slot`, if possible. */
static crema_status make_first(values *v, const crema_context *context, format_slot *slot) {
  bool own = slot->format.type == v->type;
  if (!own || (slot->format.layout != NULL && !context->device->backend->host_memory)) {
    CR_TRY(need_slot(v, cr_cpu_device(), own_format(v), slot, NULL, &slot));
  }
  crema_devptr dst = {0};
  CR_TRY(cr_syncedmem_overwrite(&slot->memory, cr_host_context(), &dst));
  CR_TRY(cr_tensor_read_source(v, slot->format, dst));
  cr_tensor_drop_source(v);
  set_valid(slot, true);
  set_head(v, slot);
  return CREMA_OK;
}

static crema_status fill_zeros(values *v, crema_context *context, format_slot *slot) {
  if (slot->format.layout != NULL && slot->format.layout->gaps) {
    format_slot *packed = NULL;
    CR_TRY(need_slot_for(v, context, cr_format_packed(slot->format), slot, NULL, &packed));
    CR_TRY(fill_zeros(v, context, packed));
    return convert_slot(v, context, slot, packed);
  }
  cr_trace_note_made(context, v, slot->format);
  CR_TRY(cr_syncedmem_zero(&slot->memory, context));
  set_valid(slot, true);
  return CREMA_OK;
}

crema_status cr_tensor_make_valid(values *v, crema_context *context, format_slot *slot) {
  if (is_valid(slot)) return CREMA_OK;
  if (is_zero(v)) return fill_zeros(v, context, slot);
  if (has_source(v)) {
    cr_trace_note_made(context, v, slot->format);
    CR_TRY(make_first(v, context, slot));
    if (is_valid(slot)) return CREMA_OK;
  }
  format_slot *source = cr_tensor_newest(v);
  if (v->state == CR_TENSOR_RELEASED) {
    return cr_fail(CREMA_E_STATE,
                   "the values were released after their last use in the pass; a net keeps the "
                   "blobs that it was asked for before the pass");
  }
  if (source == NULL) return cr_fail(CREMA_E_INTERNAL, "a tensor without a valid format");
  /* There are more slots than the four that may take part, so none of them is evicted on the way.
   */
  cr_format middle = {source->format.type, NULL};
  if (is_foreign(context, source->format) && !cr_format_equal(middle, slot->format)) {
    format_slot *via = NULL;
    CR_TRY(need_slot(v, source->format.layout->device, middle, slot, source, &via));
    if (!is_valid(via)) CR_TRY(convert_slot(v, context, via, source));
    source = via;
  }
  const bool at_once = context->device->backend->converts_at_once &&
                       !is_of_host(source->format) && !is_of_host(slot->format);
  while (!at_once && goes_by_way(source->format, slot->format, &middle)) {
    format_slot *via = NULL;
    CR_TRY(need_slot_for(v, context, middle, slot, source, &via));
    if (!is_valid(via)) CR_TRY(convert_slot(v, context, via, source));
    source = via;
  }
  return convert_slot(v, context, slot, source);
}

void cr_tensor_values_set_zero(values *v) {
  for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) set_valid(s, false);
  cr_tensor_drop_source(v);
  v->state = CR_TENSOR_ZERO;
  CR_ASSERT(cr_tensor_check(v));
}

void cr_tensor_clear_stale(values *v) {
  for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    if (is_valid(s) || is_pinned(s)) continue;
    cr_tensor_alias_release_parts(v, s);
    cr_tensor_clear_slot(s);
  }
}
