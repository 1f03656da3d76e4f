/* A tensor: values in several formats.
 *
 * The states (cr_tensor_state), and the calls that lead there from any state:
 *   - NEW: all zero, never set. By create, and by a resize beyond the capacity.
 *   - ZERO: all zero, set so. By set_zero.
 *   - SET: other values. By write, update, adopt, take_from and take.
 *   - RELEASED: no values. By release of values that are SET; by the release of an alias's whole
 *     that has the only copy.
 *
 * The release of zeros makes them ZERO. A resize within the capacity keeps NEW, ZERO and SET, and
 * makes RELEASED values NEW. Slots of values that are not SET are stale, apart from slots that a
 * read filled with zeros.
 *
 * The place of values that are SET, one of these:
 *   - head: the slot that was written last, or made first of pending values. Slots that a read
 *     converted from it are valid, too. A write, update or adopt makes its slot the head and all
 *     others stale.
 *   - source: pending since take_from. The first read makes a slot of them, which becomes the head.
 *     A read per use leaves them pending.
 *
 * cr_tensor_check (memory/check.h) asserts all this. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "device/copy.h"
#include "device/watch.h"
#include "memory/capture.h"
#include "memory/check.h"
#include "memory/trace_private.h"
#include "memory/view.h"

/* Marks the slot as most recently used. */
static void note_access(const values *v, format_slot *slot) {
  unsigned last = 0;
  for (const format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    if (s != slot && s->access >= last) last = s->access + 1;
  }
  if (slot->access < last) slot->access = last;
}

/* The slot of `format` with its access noted. With the lock, or with no other user. */
static crema_status access_slot(values *v, crema_context *context, cr_format format,
                                format_slot **out) {
  format_slot *slot = head_slot(v);
  if (slot == NULL || !cr_format_equal(slot->format, format)) {
    CR_TRY(cr_tensor_need_memory(v, context, format, &slot));
  } else {
    cr_tensor_take_heap(v, context, slot); /* the other side may have made it */
  }
  note_access(v, slot);
  *out = slot;
  return CREMA_OK;
}

/* The slot that has the newest values in `format`; NULL when there is none. Needs no lock. */
static inline format_slot *valid_slot(const values *v, cr_format format) {
  format_slot *slot = head_slot(v);
  if (slot != NULL && is_valid(slot) && cr_format_equal(slot->format, format)) return slot;
  slot = first_slot(v);
  while (slot != NULL && !(is_valid(slot) && cr_format_equal(slot->format, format))) {
    slot = next_slot(slot);
  }
  return slot;
}

/* With the lock. */
static crema_status make_readable(values *v, crema_context *context, cr_format format,
                                  crema_devptr *out) {
  format_slot *slot = NULL;
  CR_TRY(access_slot(v, context, format, &slot));
  CR_TRY(cr_tensor_make_valid(v, context, slot));
  CR_ASSERT(cr_tensor_check(v));
  return cr_syncedmem_read(&slot->memory, context, out);
}

/* Whether the values of the tensor, if it has no source, are in `format` per use. */
static bool is_per_use(const values *v, const crema_context *context, cr_format format) {
  return v->lifetime == CR_TENSOR_PER_USE && context->per_use != NULL && format.type == v->type &&
         format.layout != NULL && !format.layout->gaps && context->device->backend->host_memory;
}

/* The scratch memory for the next use of the values in `format`; NULL: the format is kept.
 * *from becomes the slot to convert from, or NULL: the source. */
static cr_tensor_scratch *scratch_for(const values *v, const crema_context *context,
                                      cr_format format, format_slot **from) {
  *from = NULL;
  if (is_zero(v) || format.type != v->type || !context->device->backend->host_memory) return NULL;
  if (has_source(v)) {
    const bool small = cr_tensor_bytes_of(v->count, format) <= CR_TENSOR_MOST_PER_USE;
    return small && !v->pending.used ? v->pending.source->per_use : NULL;
  }
  if (!is_per_use(v, context, format)) return NULL;
  *from = cr_tensor_find_slot(v, own_format(v));
  return *from != NULL && is_valid(*from) ? context->per_use : NULL;
}

/* Converts the values for one use, without a slot. *held stays NULL if the format should be kept,
 * or if the scratch memory is in use. */
static crema_status read_per_use(values *v, crema_context *context, cr_format format,
                                 cr_tensor_scratch **held, crema_devptr *out) {
  format_slot *from = NULL, *old = cr_tensor_find_slot(v, format);
  cr_tensor_scratch *scratch = scratch_for(v, context, format, &from);
  crema_devptr src = {0};
  crema_status status;
  void *memory = NULL;
  if (scratch == NULL) return CREMA_OK;
  CR_TRY(cr_tensor_scratch_try(scratch, cr_tensor_bytes_of(v->count, format), held, &memory));
  if (*held == NULL) return CREMA_OK;
  *out = (crema_devptr){(uintptr_t)memory};
  if (from == NULL) {
    status = cr_tensor_read_source(v, format, *out);
    if (status == CREMA_OK) v->pending.used = true;
  } else {
    /* A net that is tested in between may have made the format. */
    if (old != NULL && !is_valid(old)) cr_tensor_clear_slot(old);
    status = cr_syncedmem_read(&from->memory, context, &src);
    if (status == CREMA_OK) {
      status = cr_watch_convert(context, v->label, v->count, format, *out, from->format, src);
    }
  }
  if (status == CREMA_OK) return CREMA_OK;
  cr_tensor_end_use(*held);
  *held = NULL;
  return status;
}

crema_status cr_tensor_read_for(cr_tensor *tensor, crema_context *context, cr_format format,
                                cr_tensor_scratch **held, crema_devptr *out) {
  values *v = tensor->values;
  format_slot *slot = valid_slot(v, format);
  crema_status status = CREMA_OK;
  if (held != NULL) *held = NULL;
  if (context->capture != NULL) cr_capture_note(context->capture, tensor, 'R', format);
  if (slot != NULL && cr_syncedmem_get(&slot->memory, context, out)) {
    if (has_alone(v)) note_access(v, slot);
    return CREMA_OK;
  }
  pthread_mutex_lock(&v->lock);
  if (held != NULL) status = read_per_use(v, context, format, held, out);
  if (status == CREMA_OK && (held == NULL || *held == NULL)) {
    status = make_readable(v, context, format, out);
  }
  pthread_mutex_unlock(&v->lock);
  return status;
}

crema_status cr_tensor_read(cr_tensor *tensor, crema_context *context, cr_format format,
                            crema_devptr *out) {
  return cr_tensor_read_for(tensor, context, format, NULL, out);
}

crema_status cr_tensor_write(cr_tensor *tensor, crema_context *context, cr_format format,
                             crema_devptr *out) {
  values *v = tensor->values;
  format_slot *slot = NULL;
  cr_trace_note_written(context, v);
  if (context->capture != NULL) cr_capture_note(context->capture, tensor, 'W', format);
  CR_TRY(access_slot(v, context, format, &slot));
  if (v->alias != NULL) CR_TRY(cr_tensor_alias_enter(v, context, slot, false));
  CR_TRY(cr_syncedmem_overwrite(&slot->memory, context, out));
  cr_tensor_only_valid(v, slot);
  return CREMA_OK;
}

crema_status cr_tensor_update(cr_tensor *tensor, crema_context *context, cr_format format,
                              crema_devptr *out) {
  values *v = tensor->values;
  format_slot *slot = NULL;
  cr_trace_note_written(context, v);
  if (context->capture != NULL) cr_capture_note(context->capture, tensor, 'U', format);
  CR_TRY(access_slot(v, context, format, &slot));
  CR_TRY(cr_tensor_make_valid(v, context, slot));
  CR_TRY(cr_syncedmem_write(&slot->memory, context, true, out));
  cr_tensor_only_valid(v, slot);
  return CREMA_OK;
}

crema_status cr_tensor_write_for(cr_tensor *tensor, crema_context *context, cr_format format,
                                 cr_tensor_scratch **held, crema_devptr *out) {
  void *memory = NULL;
  *held = NULL;
  if (is_per_use(tensor->values, context, format)) {
    CR_TRY(cr_tensor_scratch_try(context->per_use, format.layout->bytes, held, &memory));
    *out = (crema_devptr){(uintptr_t)memory};
  }
  return *held != NULL ? CREMA_OK : cr_tensor_write(tensor, context, format, out);
}

crema_status cr_tensor_end_write(cr_tensor *tensor, crema_context *context, cr_format format,
                                 crema_devptr written) {
  const values *v = tensor->values;
  crema_devptr dst = {0};
  CR_TRY(cr_tensor_write(tensor, context, own_format(v), &dst));
  return cr_watch_convert(context, v->label, v->count, own_format(v), dst, format, written);
}

static cr_format plain_format(const cr_tensor *tensor) {
  return (cr_format){tensor->values->type, NULL};
}

crema_status cr_tensor_host_read(cr_tensor *tensor, const void **out) {
  crema_devptr data = {0};
  CR_TRY(cr_tensor_read(tensor, cr_host_context(), plain_format(tensor), &data));
  *out = (const void *)data.address;
  return CREMA_OK;
}

crema_status cr_tensor_host_write(cr_tensor *tensor, void **out) {
  crema_devptr data = {0};
  CR_TRY(cr_tensor_write(tensor, cr_host_context(), plain_format(tensor), &data));
  *out = (void *)data.address;
  return CREMA_OK;
}

crema_status cr_tensor_host_read_floats(cr_tensor *tensor, const float **out) {
  crema_devptr data = {0};
  CR_TRY(cr_tensor_read(tensor, cr_host_context(), CR_PLAIN_F32, &data));
  *out = (const float *)data.address;
  return CREMA_OK;
}

crema_status cr_tensor_host_write_floats(cr_tensor *tensor, float **out) {
  crema_devptr data = {0};
  CR_TRY(cr_tensor_write(tensor, cr_host_context(), CR_PLAIN_F32, &data));
  *out = (float *)data.address;
  return CREMA_OK;
}

crema_status cr_tensor_host_value(cr_tensor *tensor, double *out) {
  const void *wide = NULL;
  const float *value = NULL;
  if (cr_tensor_type(tensor) == CREMA_F64) {
    CR_TRY(cr_tensor_host_read(tensor, &wide));
    *out = *(const double *)wide;
    return CREMA_OK;
  }
  CR_TRY(cr_tensor_host_read_floats(tensor, &value));
  *out = (double)*value;
  return CREMA_OK;
}

/* Whether integers are held in a shorter integer type, as libraries hold positions of maxima. */
static bool is_shorter(const values *v, const format_slot *s) {
  return !cr_dtype_is_floating(v->type) && !cr_dtype_is_floating(s->format.type) &&
         crema_dtype_size(s->format.type) < crema_dtype_size(v->type);
}

crema_status cr_tensor_settle(cr_tensor *tensor, crema_context *context) {
  values *v = tensor->values;
  const format_slot *other = first_slot(v);
  while (other != NULL && other->format.type == v->type) other = next_slot(other);
  if (other == NULL) return CREMA_OK;
  const format_slot *source = is_zero(v) ? NULL : cr_tensor_newest(v);
  const bool stays = source != NULL && is_shorter(v, source);
  if (source != NULL && source->format.type != v->type && !stays) {
    /* In the order that the values have. */
    const cr_format settled = {v->type, cr_layout_in(source->format.layout, v->type)};
    crema_devptr data = {0};
    CR_TRY(cr_tensor_read(tensor, context, settled, &data));
    cr_tensor_only_valid(v, cr_tensor_find_slot(v, settled));
  }
  for (format_slot *s = first_slot(v), *next = NULL; s != NULL; s = next) {
    next = next_slot(s);
    if (s->format.type != v->type && !(stays && s == source)) cr_tensor_drop_slot(v, s);
  }
  return CREMA_OK;
}

void cr_tensor_drop_types(cr_tensor *tensor) {
  values *v = tensor->values;
  const format_slot *source = cr_tensor_newest(v);
  for (format_slot *s = first_slot(v), *next = NULL; s != NULL; s = next) {
    next = next_slot(s);
    if (s->format.type != v->type && s != source && !is_pinned(s)) cr_tensor_drop_slot(v, s);
  }
}

bool cr_tensor_is_shared(const cr_tensor *tensor) {
  return !has_alone(tensor->values);
}

uint64_t cr_tensor_conversions(const cr_tensor *tensor) {
  return atomic_load(&tensor->values->conversions);
}

cr_format cr_tensor_head(const cr_tensor *tensor) {
  return tensor->values->head_format;
}

void cr_tensor_set_zero(cr_tensor *tensor) {
  cr_tensor_values_set_zero(tensor->values);
}

static void label_slots(const values *v) {
  for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) s->memory.label = v->label;
}

void cr_tensor_set_label(cr_tensor *tensor, const char *label) {
  values *v = tensor->values;
  if (v->label != NULL) return;
  v->label = label;
  label_slots(v);
}

void cr_tensor_set_transient(cr_tensor *tensor, bool transient) {
  values *v = tensor->values;
  if (transient) v->lifetime = CR_TENSOR_TRANSIENT;
  else if (is_transient(v)) v->lifetime = CR_TENSOR_LASTS;
}

void cr_tensor_set_per_use(cr_tensor *tensor) {
  tensor->values->lifetime = CR_TENSOR_PER_USE;
}

void cr_tensor_set_constant(cr_tensor *tensor) {
  tensor->values->lifetime = CR_TENSOR_CONSTANT;
}

void cr_tensor_release(cr_tensor *tensor) {
  values *v = tensor->values;
  if (!is_transient(v) || v->state == CR_TENSOR_RELEASED || v->view != NULL) return;
  const bool zero = is_zero(v);
  cr_tensor_set_zero(tensor);
  cr_tensor_drop_source(v);
  cr_tensor_clear_stale(v);
  if (!zero) v->state = CR_TENSOR_RELEASED;
  set_head(v, NULL);
  v->generation = cr_tensor_next_generation();
  CR_ASSERT(cr_tensor_check(v));
}

void cr_tensor_release_in(crema_context *context, cr_tensor *tensor) {
  if (context->capture != NULL) {
    cr_capture_note(context->capture, tensor, 'F', own_format(tensor->values));
  }
  cr_tensor_release(tensor);
}

static bool has_adopted(const values *v) {
  for (const format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    const crema_syncedmem *memory = &s->memory;
    if (s->aliased || (memory->host.data != NULL && !memory->host.own) ||
        (memory->gpu.data.address != 0 && !memory->gpu.own)) {
      return true;
    }
  }
  return false;
}

bool cr_tensor_can_swap(const cr_tensor *tensor) {
  const values *v = tensor->values;
  if (!has_alone(v) || is_transient(v) || cr_view_is_held(v->view)) return false;
  return !has_pinned(v);
}

void cr_tensor_swap(cr_tensor *a, cr_tensor *b) {
  const cr_tensor kept = *a;
  *a = *b;
  *b = kept;
}

bool cr_tensor_take(cr_tensor *to, cr_tensor *from) {
  values *t = to->values, *f = from->values;
  if (t == f || !is_transient(t) || !is_transient(f) || f->state == CR_TENSOR_RELEASED)
    return false;
  if (has_source(f)) return false;
  if (t->type != f->type || t->count != f->count || has_adopted(f)) return false;
  if (has_pinned(t) || t->alias != NULL || t->parts != NULL || f->alias != NULL || f->parts != NULL)
    return false;
  cr_tensor_release(to);
  format_slot *slots = first_slot(t);
  atomic_store(&t->first, first_slot(f));
  set_head(t, head_slot(f));
  t->head_format = f->head_format;
  t->state = f->state;
  t->generation = cr_tensor_next_generation();
  /* What `to` had is without memory, unless it was all zero. */
  atomic_store(&f->first, slots);
  set_head(f, NULL);
  cr_tensor_set_zero(from);
  cr_tensor_clear_stale(f);
  f->state = CR_TENSOR_RELEASED;
  label_slots(t);
  label_slots(f);
  CR_ASSERT(cr_tensor_check(t) && cr_tensor_check(f));
  f->generation = cr_tensor_next_generation();
  return true;
}

static bool has_one_slot(const values *v) {
  return first_slot(v) == NULL || next_slot(first_slot(v)) == NULL;
}

void cr_tensor_drop_stale(cr_tensor *tensor) {
  values *v = tensor->values;
  if (!is_transient(v) || has_one_slot(v) || is_zero(v)) return;
  cr_tensor_clear_stale(v);
  v->generation = cr_tensor_next_generation();
}

void cr_tensor_keep_head(cr_tensor *tensor) {
  values *v = tensor->values;
  const format_slot *source = cr_tensor_newest(v);
  if (!is_transient(v) || has_one_slot(v) || source == NULL) return;
  for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) set_valid(s, s == source);
  cr_tensor_drop_stale(tensor);
}

const void *cr_tensor_storage(const cr_tensor *tensor) {
  return tensor->values;
}

crema_status cr_tensor_take_from(cr_tensor *tensor, cr_tensor_source *source, uint64_t at) {
  values *v = tensor->values;
  const size_t size = cr_tensor_value_bytes(v, own_format(v));
  const format_slot *slot = cr_tensor_find_slot(v, own_format(v));
  if (v->count > 0 && (slot == NULL || cr_syncedmem_is_empty(&slot->memory))) {
    for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) set_valid(s, false);
    cr_tensor_drop_source(v);
    v->pending = (cr_tensor_pending){.source = cr_tensor_source_retain(source), .at = at};
    cr_tensor_source_expect(source, size);
    v->state = CR_TENSOR_SET;
    set_head(v, NULL);
    v->head_format = own_format(v);
    CR_ASSERT(cr_tensor_check(v));
    return CREMA_OK;
  }
  void *out = NULL;
  CR_TRY(cr_tensor_host_write(tensor, &out));
  return source->read(source, at, out, size);
}

bool cr_tensor_is_zero(const cr_tensor *tensor) {
  return is_zero(tensor->values);
}

bool cr_tensor_is_new(const cr_tensor *tensor) {
  const values *v = tensor->values;
  const format_slot *s = first_slot(v);
  while (s != NULL && !is_valid(s)) s = next_slot(s);
  return v->state == CR_TENSOR_NEW && s == NULL;
}

crema_status cr_tensor_copy_out(cr_tensor *tensor, void *out) {
  values *v = tensor->values;
  const size_t size = cr_tensor_value_bytes(v, plain_format(tensor));
  const void *from = NULL;
  crema_status status = CREMA_OK;
  pthread_mutex_lock(&v->lock);
  const cr_tensor_pending *p = &v->pending;
  const bool waits = has_source(v);
  if (waits) status = p->source->read(p->source, p->at, out, size);
  pthread_mutex_unlock(&v->lock);
  if (waits) return status;
  CR_TRY(cr_tensor_host_read(tensor, &from));
  memcpy(out, from, size);
  return CREMA_OK;
}

static void origin_release(origin *o) {
  while (o != NULL && atomic_fetch_sub(&o->users, 1) == 1) {
    origin *donor = o->donor;
    free(o);
    o = donor;
  }
}

/* Takes over the caller's reference to `donor`, unless it fails. */
static crema_status origin_create(origin *donor, origin **out) {
  origin *o = calloc(1, sizeof *o);
  if (o == NULL) return cr_fail_memory(sizeof *o, "sharing of a tensor");
  atomic_init(&o->users, 1);
  o->donor = donor;
  *out = o;
  return CREMA_OK;
}

/* Whether `o` has its values from `from`, directly or via others. */
static bool comes_from(const origin *o, const origin *from) {
  while (o != NULL && o != from) o = o->donor;
  return o != NULL && from != NULL;
}

crema_status cr_tensor_create(crema_dtype type, int64_t count, cr_tensor **out) {
  CR_TRY(cr_tensor_check_count(type, count));
  cr_tensor *tensor = calloc(1, sizeof *tensor);
  if (tensor == NULL) return cr_fail_memory(sizeof *tensor, "a tensor");
  crema_status status = cr_tensor_values_create(type, count, &tensor->values);
  if (status != CREMA_OK) {
    free(tensor);
    return status;
  }
  *out = tensor;
  return CREMA_OK;
}

void cr_tensor_destroy(cr_tensor *tensor) {
  if (tensor == NULL) return;
  cr_tensor_values_release(tensor->values);
  cr_tensor_values_release(tensor->prepared);
  origin_release(tensor->origin);
  free(tensor);
}

int64_t cr_tensor_count(const cr_tensor *tensor) {
  return tensor->values->count;
}

crema_dtype cr_tensor_type(const cr_tensor *tensor) {
  return tensor->values->type;
}

crema_status cr_tensor_share(cr_tensor *tensor, cr_tensor *donor) {
  if (tensor == donor) return cr_fail(CREMA_E_ARGUMENT, "a tensor cannot share with itself");
  if (tensor->values == donor->values) {
    if (!comes_from(donor->origin, tensor->origin)) return CREMA_OK;
    return cr_fail(
        CREMA_E_STATE,
        "a circle of sharing: a tensor cannot have its values from one that has its own");
  }
  if (tensor->values->count != donor->values->count) {
    return cr_fail(CREMA_E_SHAPE,
                   "a tensor of %" PRId64 " values cannot share the %" PRId64 " of another",
                   tensor->values->count, donor->values->count);
  }
  if (tensor->values->type != donor->values->type) {
    return cr_fail(CREMA_E_TYPE, "a tensor of type %s cannot share values of type %s",
                   crema_dtype_name(tensor->values->type), crema_dtype_name(donor->values->type));
  }
  if (donor->origin == NULL) CR_TRY(origin_create(NULL, &donor->origin));
  origin *own = NULL;
  CR_TRY(origin_create(donor->origin, &own));
  atomic_fetch_add(&donor->origin->users, 1);
  origin_release(tensor->origin);
  tensor->origin = own;
  atomic_fetch_add(&donor->values->tensors, 1);
  cr_tensor_values_release(tensor->values);
  tensor->values = donor->values;
  return CREMA_OK;
}

bool cr_tensor_shares_with(const cr_tensor *a, const cr_tensor *b) {
  return a->values == b->values;
}

crema_status cr_tensor_adopt(cr_tensor *tensor, crema_device *device, crema_dtype type,
                             crema_devptr memory, void *host) {
  values *v = tensor->values;
  const cr_format format = {type, NULL};
  if (memory.address == 0) {
    return cr_fail(CREMA_E_ARGUMENT, "a tensor was given no memory to adopt");
  }
  format_slot *slot = NULL;
  CR_TRY(cr_tensor_need_slot(v, device, format, &slot));
  cr_tensor_alias_release_parts(v, slot);
  CR_TRY(host == NULL ? cr_syncedmem_adopt(&slot->memory, device, memory)
                      : cr_syncedmem_adopt_both(&slot->memory, device, memory, host));
  cr_tensor_unpin(slot);
  slot->aliased = false;
  /* The adopted memory holds `count` elements, without the rounding up of cr_tensor_bytes_of. */
  size_t bytes = cr_tensor_value_bytes(v, format);
  slot->memory.size = bytes;
  slot->memory.capacity = bytes;
  v->generation = cr_tensor_next_generation();
  cr_tensor_only_valid(v, slot);
  return CREMA_OK;
}

crema_status cr_tensor_adopt_host(cr_tensor *tensor, void *memory) {
  return cr_tensor_adopt(tensor, cr_cpu_device(), CREMA_F32, (crema_devptr){(uintptr_t)memory},
                         NULL);
}

crema_status cr_tensor_copy(cr_tensor *dst, cr_tensor *src, crema_context *context) {
  values *from = src->values, *to = dst->values;
  if (from == to) return CREMA_OK;
  if (from->count != to->count) {
    return cr_fail(CREMA_E_SHAPE, "%" PRId64 " values cannot be copied to a tensor of %" PRId64,
                   from->count, to->count);
  }
  if (is_zero(from)) {
    cr_tensor_set_zero(dst);
    return CREMA_OK;
  }
  cr_format format =
      from->type == to->type ? cr_format_packed(from->head_format) : (cr_format){to->type, NULL};
  crema_devptr source = {0}, target = {0};
  CR_TRY(cr_tensor_read(src, context, format, &source));
  CR_TRY(cr_tensor_write(dst, context, format, &target));
  if (format.layout != NULL) {
    return cr_copy_same_device(context, target, source, format.layout->bytes);
  }
  const cr_item_type item = {crema_dtype_size(format.type), crema_dtype_name(format.type), NULL};
  return cr_copy_items(context, &item, (size_t)from->count, target.address, source.address);
}

crema_device *cr_tensor_head_device(const cr_tensor *tensor) {
  const format_slot *head = cr_tensor_newest(tensor->values);
  if (head == NULL) return cr_cpu_device();
  const crema_syncedmem *memory = &head->memory;
  bool on_device = memory->head == CREMA_HEAD_AT_GPU || memory->head == CREMA_SYNCED;
  return on_device ? memory->gpu.device : cr_cpu_device();
}

crema_view *cr_tensor_shown(const cr_tensor *tensor) {
  return tensor->values->view;
}

void cr_tensor_set_shown(cr_tensor *tensor, crema_view *view) {
  tensor->values->view = view;
}

static const format_slot *part_slot(const cr_tensor *tensor) {
  const format_slot *slot = cr_tensor_find_slot(tensor->values, plain_format(tensor));
  return slot != NULL && is_pinned(slot) ? slot : NULL;
}

bool cr_tensor_is_part(const cr_tensor *tensor) {
  return part_slot(tensor) != NULL;
}

bool cr_tensor_part_memory(const cr_tensor *tensor, float **memory, cr_tensor_values **keeps) {
  const format_slot *slot = part_slot(tensor);
  if (slot == NULL || slot->memory.gpu.data.address != 0) return false;
  *memory = slot->memory.host.data;
  *keeps = slot->block;
  atomic_fetch_add(&(*keeps)->tensors, 1);
  return true;
}
