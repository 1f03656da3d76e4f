#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "device/copy.h"
#include "device/watch.h"
#include "memory/commands_private.h"
#include "memory/view.h"

/* So many formats are kept while one tensor has the values; see take_slot. */
enum { MAX_FORMATS = 6 };

/* ---- values ---- */

/* The bytes that the values take. */
size_t cr_tensor_value_bytes(const values *v, cr_format format) {
  if (format.layout != NULL) return format.layout->bytes;
  return (size_t)v->count * crema_dtype_size(format.type);
}

/* The bytes that are allocated for `count` of them: an even number of elements, so that pairs of
 * half-precision values can be loaded. */
size_t cr_tensor_bytes_of(int64_t count, cr_format format) {
  if (format.layout != NULL) return format.layout->bytes;
  return (size_t)(count + (count & 1)) * crema_dtype_size(format.type);
}

static size_t format_bytes(const values *v, cr_format format) {
  return cr_tensor_bytes_of(v->count, format);
}

/* Never the same number twice, so that a view cannot mistake new memory for its own. */
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
  v->home = cr_device_current();
  v->zero = true;
  v->head_format = (cr_format){type, NULL};
  v->generation = cr_tensor_next_generation();
  *out = v;
  return CREMA_OK;
}

/* ---- slots ---- */

static inline void set_valid(format_slot *slot, bool valid) {
  atomic_store_explicit(&slot->valid, valid, memory_order_release);
}

/* Nobody else can be reading the values. */
static inline bool has_alone(const values *v) {
  return atomic_load_explicit(&v->tensors, memory_order_relaxed) == 1;
}

void cr_tensor_clear_slot(values *v, format_slot *slot) {
  const bool pinned = is_pinned(v, slot);
  cr_syncedmem_clear(&slot->memory);
  slot->aliased = false;
  if (pinned) cr_tensor_alias_unpin(v);
}

/* One that the values of a source were made in is dropped with these, see cr_tensor_forget_source.
 */
static void drop_slot(values *v, format_slot *slot) {
  format_slot *_Atomic *link = &v->first;
  while (atomic_load(link) != slot) link = &atomic_load(link)->next;
  atomic_store(link, next_slot(slot));
  cr_tensor_alias_release_parts(v, slot);
  cr_tensor_clear_slot(v, slot);
  if (v->head == slot) v->head = NULL;
  v->generation = cr_tensor_next_generation();
  --v->slots;
  free(slot);
}

/* `keep` may be NULL. */
void cr_tensor_drop_slots_but(values *v, const format_slot *keep) {
  for (format_slot *s = first_slot(v), *next = NULL; s != NULL; s = next) {
    next = next_slot(s);
    if (s != keep) drop_slot(v, s);
  }
}

/* The values come from elsewhere from now on. */
void cr_tensor_forget_source(values *v) {
  cr_tensor_source_release(v->source);
  v->source = NULL;
  v->made = NULL;
}

void cr_tensor_values_release(values *v) {
  if (v == NULL || atomic_fetch_sub(&v->tensors, 1) != 1) return;
  cr_tensor_alias_end_all(v);
  cr_tensor_drop_slots_but(v, NULL);
  cr_tensor_forget_source(v);
  cr_tensor_forget_former(v);
  cr_view_let_go(v->view);
  pthread_mutex_destroy(&v->lock);
  free(v);
}

/* The slot that holds `format`, valid or not; NULL when there is none. With the lock, or alone. */
format_slot *cr_tensor_find_slot(const values *v, cr_format format) {
  format_slot *s = first_slot(v);
  while (s != NULL && !cr_format_equal(s->format, format)) s = next_slot(s);
  return s;
}

/* The slot that makes room for a new format: the stale one that was not used for longest, or else
 * (all valid) a valid one that is not the head; NULL when there is room. `keep1` and `keep2` are
 * never taken, nor is one that is pinned in another tensor. A valid slot that another
 * thread may be reading stays: there are more slots then, until the next write. */
static format_slot *take_slot(const values *v, const format_slot *keep1, const format_slot *keep2) {
  format_slot *best = NULL;
  if (v->slots < MAX_FORMATS) return NULL;
  for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    bool valid = is_valid(s), head = s == v->head || s == v->made;
    if (s == keep1 || s == keep2 || is_pinned(v, s) || (valid && head)) continue;
    if (!has_alone(v) && (valid || head)) continue;
    if (best == NULL || (valid != is_valid(best) ? !valid : s->access < best->access)) best = s;
  }
  return best;
}

static void append_slot(values *v, format_slot *slot) {
  format_slot *_Atomic *link = &v->first;
  while (atomic_load(link) != NULL) link = &atomic_load(link)->next;
  atomic_store(link, slot);
  ++v->slots;
}

/* The device for which a format that is first used on `device` is made: that of the tensor where
 * the host comes first, so that its memory is page-locked. Values in other types soon go again. */
static crema_device *maker_of(const values *v, crema_device *device, cr_format format) {
  bool lasts = format.type == v->type && format.layout == NULL;
  return device->backend->host_memory && lasts ? v->home : device;
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
    if (v->head == slot) v->head = NULL;
    cr_tensor_alias_release_parts(v, slot);
    cr_tensor_clear_slot(v, slot);
    v->generation = cr_tensor_next_generation();
  }
  slot->format = format;
  slot->access = 0;
  cr_syncedmem_init(&slot->memory, maker_of(v, device, format), format_bytes(v, format));
  slot->memory.label = v->label;
  if (fresh) append_slot(v, slot);
  *out = slot;
  return CREMA_OK;
}

/* The same for an access: a format that may soon be let go, such as one of another element type
 * than the tensor's, gets its memory from the context's heap. */
static crema_status need_slot_for(values *v, crema_context *context, cr_format format,
                                  const format_slot *keep1, const format_slot *keep2,
                                  format_slot **out) {
  CR_TRY(need_slot(v, context->device, format, keep1, keep2, out));
  if (v->passing || format.type != v->type) cr_syncedmem_from_heap(&(*out)->memory, context);
  return CREMA_OK;
}

crema_status cr_tensor_need_slot(values *v, crema_device *device, cr_format format,
                                 format_slot **out) {
  return need_slot(v, device, format, v->head, NULL, out);
}

crema_status cr_tensor_need_memory(values *v, crema_context *context, cr_format format,
                                   format_slot **out) {
  return need_slot_for(v, context, format, v->head, NULL, out);
}

/* The slot that has the values: the head, unless they are all zero or nobody gave any. */
static format_slot *find_source(const values *v) {
  if (v->head == NULL) return v->made;
  return is_valid(v->head) ? v->head : NULL;
}

bool cr_tensor_has_values(const values *v) {
  return !v->zero && (v->source != NULL || find_source(v) != NULL);
}

static void only_valid(values *v, format_slot *slot) {
  cr_tensor_forget_source(v);
  cr_tensor_forget_former(v);
  for (format_slot *s = first_slot(v), *next = NULL; s != NULL; s = next) {
    next = next_slot(s);
    set_valid(s, s == slot);
    if (s != slot && v->slots > MAX_FORMATS) drop_slot(v, s);
  }
  v->zero = false;
  v->gone = false;
  v->head = slot;
  v->head_format = slot->format;
}

/* Converts from slot `from` to slot `to` on the context's device. */
static crema_status convert_slot(values *v, crema_context *context, format_slot *to,
                                 format_slot *from) {
  crema_devptr dst = {0}, src = {0};
  CR_TRY(cr_syncedmem_read(&from->memory, context, &src));
  CR_TRY(cr_syncedmem_overwrite(&to->memory, context, &dst));
  cr_commands_add_conversion(context, v, to->format, dst, from->format, src);
  crema_status status =
      cr_watch_convert(context, v->label, v->count, to->format, dst, from->format, src);
  if (status == CREMA_E_UNSUPPORTED && !context->device->backend->host_memory) {
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

/* A change of element type alone or of order alone takes one step. For both at once, *middle is
 * what the first step leads to: the values are moved as they are, where possible in the wider type,
 * for which libraries have more code. */
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
static crema_status read_source(const values *v, cr_format format, crema_devptr dst) {
  const cr_format plain = {v->type, NULL};
  crema_context *host = cr_host_context();
  void *read = NULL;
  size_t size = cr_tensor_value_bytes(v, plain);
  if (format.layout == NULL) {
    return v->source->read(v->source, v->source_at, (void *)dst.address, size);
  }
  CR_TRY(cr_tensor_source_lock(v->source, v->source_at, size, &read));
  crema_status status = cr_watch_convert(host, v->label, v->count, format, dst, plain,
                                         (crema_devptr){(uintptr_t)read});
  cr_tensor_source_unlock(v->source);
  return status;
}

/* The first format that is made of values of a source: `slot`, if it can be. */
static crema_status make_first(values *v, const crema_context *context, format_slot *slot) {
  bool own = slot->format.type == v->type;
  if (!own || (slot->format.layout != NULL && !context->device->backend->host_memory)) {
    CR_TRY(need_slot(v, cr_cpu_device(), (cr_format){v->type, NULL}, slot, NULL, &slot));
  }
  crema_devptr dst = {0};
  CR_TRY(cr_syncedmem_overwrite(&slot->memory, cr_host_context(), &dst));
  CR_TRY(read_source(v, slot->format, dst));
  cr_tensor_source_release(v->source);
  v->source = NULL;
  v->made = slot;
  set_valid(slot, true);
  return CREMA_OK;
}

static crema_status fill_zeros(values *v, crema_context *context, format_slot *slot) {
  if (slot->format.layout != NULL && slot->format.layout->gaps) {
    format_slot *packed = NULL;
    CR_TRY(need_slot_for(v, context, cr_format_packed(slot->format), slot, NULL, &packed));
    CR_TRY(fill_zeros(v, context, packed));
    return convert_slot(v, context, slot, packed);
  }
  cr_commands_note_made(context, v, slot->format);
  CR_TRY(cr_syncedmem_zero(&slot->memory, context));
  set_valid(slot, true);
  return CREMA_OK;
}

/* Brings the newest values into `slot`, on whatever side is cheapest. */
static crema_status make_valid(values *v, crema_context *context, format_slot *slot) {
  if (is_valid(slot)) return CREMA_OK;
  if (v->zero) return fill_zeros(v, context, slot);
  if (v->source != NULL) {
    cr_commands_note_made(context, v, slot->format);
    CR_TRY(make_first(v, context, slot));
    if (is_valid(slot)) return CREMA_OK;
  }
  format_slot *source = find_source(v);
  if (v->gone) {
    return cr_fail(CREMA_E_STATE,
                   "the values were let go after their last use in the pass; a net keeps those of "
                   "blobs that it was asked for before the pass");
  }
  if (source == NULL) return cr_fail(CREMA_E_INTERNAL, "a tensor without a valid format");
  /* There are more slots than the four that may take part, so none of them is evicted on the way.
   */
  cr_format middle;
  while (goes_by_way(source->format, slot->format, &middle)) {
    format_slot *via = NULL;
    CR_TRY(need_slot_for(v, context, middle, slot, source, &via));
    if (!is_valid(via)) CR_TRY(convert_slot(v, context, via, source));
    source = via;
  }
  return convert_slot(v, context, slot, source);
}

crema_status cr_tensor_make_valid(values *v, crema_context *context, format_slot *slot) {
  return make_valid(v, context, slot);
}

/* ---- access ---- */

/* The slot of `format` with its access counted. With the lock, or alone. */
static crema_status access_slot(values *v, crema_context *context, cr_format format,
                                format_slot **out) {
  format_slot *slot = v->head;
  if (slot == NULL || !cr_format_equal(slot->format, format)) {
    CR_TRY(need_slot_for(v, context, format, v->head, NULL, &slot));
  }
  slot->access = ++v->accesses;
  *out = slot;
  return CREMA_OK;
}

/* The slot that has the newest values in `format`; NULL when there is none. Needs no lock. */
static inline format_slot *valid_slot(const values *v, cr_format format) {
  format_slot *slot = v->head;
  if (slot != NULL && is_valid(slot) && cr_format_equal(slot->format, format)) return slot;
  slot = first_slot(v);
  while (slot != NULL && !(is_valid(slot) && cr_format_equal(slot->format, format))) {
    slot = next_slot(slot);
  }
  return slot;
}

/* With the lock. */
crema_status cr_tensor_make_readable(values *v, crema_context *context, cr_format format,
                                     crema_devptr *out) {
  format_slot *slot = NULL;
  CR_TRY(cr_tensor_follow_former(v));
  CR_TRY(access_slot(v, context, format, &slot));
  CR_TRY(make_valid(v, context, slot));
  return cr_syncedmem_read(&slot->memory, context, out);
}

/* Whether the values of the tensor, if it has no source, are in `format` per use. */
static bool is_per_use(const values *v, const crema_context *context, cr_format format) {
  return v->per_use && context->per_use != NULL && format.type == v->type &&
         format.layout != NULL && !format.layout->gaps && context->device->backend->host_memory;
}

/* The scratch memory that the next use of the values in `format` converts to; NULL: the format is
 * kept. *from becomes the slot to convert from, or NULL if the values are read from the source. */
static cr_tensor_scratch *scratch_for(const values *v, const crema_context *context,
                                      cr_format format, format_slot **from) {
  *from = NULL;
  if (v->zero || format.type != v->type || !context->device->backend->host_memory) return NULL;
  if (v->source != NULL) {
    const bool small = format_bytes(v, format) <= CR_TENSOR_MOST_PER_USE;
    return small && !v->used ? v->source->per_use : NULL;
  }
  if (!is_per_use(v, context, format)) return NULL;
  *from = cr_tensor_find_slot(v, (cr_format){v->type, NULL});
  return *from != NULL && is_valid(*from) ? context->per_use : NULL;
}

/* Converts the values for one use, without a slot. *held stays NULL if the format is to be kept, or
 * if the scratch memory is in use. */
static crema_status read_per_use(values *v, crema_context *context, cr_format format,
                                 cr_tensor_scratch **held, crema_devptr *out) {
  format_slot *from = NULL, *old = cr_tensor_find_slot(v, format);
  cr_tensor_scratch *scratch = scratch_for(v, context, format, &from);
  crema_devptr src = {0};
  crema_status status;
  void *memory = NULL;
  if (scratch == NULL) return CREMA_OK;
  CR_TRY(cr_tensor_scratch_try(scratch, format_bytes(v, format), held, &memory));
  if (*held == NULL) return CREMA_OK;
  *out = (crema_devptr){(uintptr_t)memory};
  if (from == NULL) {
    status = read_source(v, format, *out);
    if (status == CREMA_OK) v->used = true;
  } else {
    /* A net that is tested in between may have made the format. */
    if (old != NULL && !is_valid(old)) cr_tensor_clear_slot(v, old);
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
  if (slot != NULL && cr_syncedmem_get(&slot->memory, context, out)) {
    if (has_alone(v)) slot->access = ++v->accesses;
    return CREMA_OK;
  }
  pthread_mutex_lock(&v->lock);
  if (held != NULL) status = read_per_use(v, context, format, held, out);
  if (status == CREMA_OK && (held == NULL || *held == NULL)) {
    status = cr_tensor_make_readable(v, context, format, out);
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
  cr_commands_note_written(context, v);
  if (v->former != NULL && has_alone(v->former)) CR_TRY(cr_tensor_follow_former(v));
  CR_TRY(access_slot(v, context, format, &slot));
  CR_TRY(cr_tensor_alias_enter(v, context, slot, false));
  CR_TRY(cr_syncedmem_overwrite(&slot->memory, context, out));
  only_valid(v, slot);
  return CREMA_OK;
}

crema_status cr_tensor_update(cr_tensor *tensor, crema_context *context, cr_format format,
                              crema_devptr *out) {
  values *v = tensor->values;
  format_slot *slot = NULL;
  cr_commands_note_written(context, v);
  CR_TRY(cr_tensor_follow_former(v));
  CR_TRY(access_slot(v, context, format, &slot));
  CR_TRY(make_valid(v, context, slot));
  CR_TRY(cr_syncedmem_write(&slot->memory, context, true, out));
  only_valid(v, slot);
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
  const cr_format plain = {v->type, NULL};
  crema_devptr dst = {0};
  CR_TRY(cr_tensor_write(tensor, context, plain, &dst));
  return cr_watch_convert(context, v->label, v->count, plain, dst, format, written);
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

static bool has_other_types(const values *v) {
  for (const format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    if (s->format.type != v->type) return true;
  }
  return false;
}

/* Whether integers are held in a shorter integer type, as libraries hold positions of maxima. */
static bool is_shorter(const values *v, const format_slot *s) {
  return !cr_dtype_is_floating(v->type) && !cr_dtype_is_floating(s->format.type) &&
         crema_dtype_size(s->format.type) < crema_dtype_size(v->type);
}

crema_status cr_tensor_settle(cr_tensor *tensor, crema_context *context) {
  values *v = tensor->values;
  if (!has_other_types(v)) return CREMA_OK;
  const format_slot *source = v->zero ? NULL : find_source(v);
  const bool stays = source != NULL && is_shorter(v, source);
  if (source != NULL && source->format.type != v->type && !stays) {
    /* In the order that the values have. */
    const cr_format settled = {v->type, cr_layout_in(source->format.layout, v->type)};
    crema_devptr data = {0};
    CR_TRY(cr_tensor_read(tensor, context, settled, &data));
    only_valid(v, cr_tensor_find_slot(v, settled));
  }
  for (format_slot *s = first_slot(v), *next = NULL; s != NULL; s = next) {
    next = next_slot(s);
    if (s->format.type != v->type && !(stays && s == source)) drop_slot(v, s);
  }
  return CREMA_OK;
}

void cr_tensor_forget_types(cr_tensor *tensor) {
  values *v = tensor->values;
  const format_slot *source = find_source(v);
  for (format_slot *s = first_slot(v), *next = NULL; s != NULL; s = next) {
    next = next_slot(s);
    if (s->format.type != v->type && s != source && !is_pinned(v, s)) drop_slot(v, s);
  }
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

bool cr_tensor_is_shared(const cr_tensor *tensor) {
  return !has_alone(tensor->values);
}

uint64_t cr_tensor_conversions(const cr_tensor *tensor) {
  return atomic_load(&tensor->values->conversions);
}

cr_format cr_tensor_head(const cr_tensor *tensor) {
  return tensor->values->head_format;
}

void cr_tensor_values_set_zero(values *v) {
  for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) set_valid(s, false);
  cr_tensor_forget_source(v);
  v->zero = v->given = true;
  v->gone = false;
}

void cr_tensor_set_zero(cr_tensor *tensor) {
  cr_tensor_values_set_zero(tensor->values);
}

void cr_tensor_set_passing(cr_tensor *tensor, bool passing) {
  tensor->values->passing = passing;
}

void cr_tensor_set_per_use(cr_tensor *tensor) {
  tensor->values->per_use = true;
}

void cr_tensor_set_constant(cr_tensor *tensor) {
  tensor->values->constant = true;
}

/* Lets the memory of the formats go that are not valid. */
static void clear_stale(values *v) {
  for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    if (is_valid(s) || is_pinned(v, s)) continue;
    cr_tensor_alias_release_parts(v, s);
    cr_tensor_clear_slot(v, s);
  }
}

void cr_tensor_let_go(cr_tensor *tensor) {
  values *v = tensor->values;
  if (!v->passing || v->gone || v->view != NULL) return;
  const bool zero = v->zero;
  cr_tensor_set_zero(tensor);
  cr_tensor_forget_former(v);
  clear_stale(v);
  v->zero = zero;
  v->gone = !zero;
  v->head = NULL;
  v->generation = cr_tensor_next_generation();
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
  if (!has_alone(v) || v->passing || cr_view_is_held(v->view)) return false;
  for (const format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    if (is_pinned(v, s)) return false;
  }
  return true;
}

void cr_tensor_swap(cr_tensor *a, cr_tensor *b) {
  const cr_tensor kept = *a;
  *a = *b;
  *b = kept;
}

bool cr_tensor_take(cr_tensor *to, cr_tensor *from) {
  values *t = to->values, *f = from->values;
  if (t == f || !t->passing || !f->passing || f->gone) return false;
  if (f->former != NULL || f->made != NULL) return false;
  if (t->type != f->type || t->count != f->count || has_adopted(f)) return false;
  if (t->alias != NULL || t->parts != NULL || f->alias != NULL || f->parts != NULL) return false;
  cr_tensor_let_go(to);
  format_slot *slots = first_slot(t);
  const int count = t->slots;
  atomic_store(&t->first, first_slot(f));
  t->slots = f->slots;
  t->head = f->head;
  t->head_format = f->head_format;
  t->zero = f->zero;
  t->gone = false;
  t->generation = cr_tensor_next_generation();
  /* What `to` had is without memory, unless it was all zero. */
  atomic_store(&f->first, slots);
  f->slots = count;
  f->head = NULL;
  cr_tensor_set_zero(from);
  clear_stale(f);
  f->zero = false;
  f->gone = true;
  f->generation = cr_tensor_next_generation();
  label_slots(t);
  label_slots(f);
  return true;
}

void cr_tensor_drop_stale(cr_tensor *tensor) {
  values *v = tensor->values;
  if (!v->passing || v->slots < 2 || v->zero) return;
  clear_stale(v);
  v->generation = cr_tensor_next_generation();
}

void cr_tensor_keep_head(cr_tensor *tensor) {
  values *v = tensor->values;
  const format_slot *source = find_source(v);
  if (!v->passing || v->slots < 2 || source == NULL) return;
  for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) set_valid(s, s == source);
  cr_tensor_drop_stale(tensor);
}

const void *cr_tensor_storage(const cr_tensor *tensor) {
  return tensor->values;
}

crema_status cr_tensor_take_from(cr_tensor *tensor, cr_tensor_source *source, uint64_t at) {
  values *v = tensor->values;
  const cr_format plain = {v->type, NULL};
  const format_slot *slot = cr_tensor_find_slot(v, plain);
  if (v->count > 0 && (slot == NULL || cr_syncedmem_is_empty(&slot->memory))) {
    for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) set_valid(s, false);
    cr_tensor_forget_source(v);
    cr_tensor_forget_former(v);
    v->source = cr_tensor_source_retain(source);
    cr_tensor_source_expect(source, cr_tensor_value_bytes(v, plain));
    v->source_at = at;
    v->used = false;
    v->zero = false;
    v->head = NULL;
    v->head_format = plain;
    return CREMA_OK;
  }
  void *out = NULL;
  CR_TRY(cr_tensor_host_write(tensor, &out));
  return source->read(source, at, out, cr_tensor_value_bytes(v, plain));
}

bool cr_tensor_is_zero(const cr_tensor *tensor) {
  return tensor->values->zero;
}

bool cr_tensor_is_new(const cr_tensor *tensor) {
  const values *v = tensor->values;
  const format_slot *s = first_slot(v);
  while (s != NULL && !is_valid(s)) s = next_slot(s);
  return v->zero && !v->given && s == NULL;
}

crema_status cr_tensor_copy_out(cr_tensor *tensor, void *out) {
  values *v = tensor->values;
  const size_t size = cr_tensor_value_bytes(v, plain_format(tensor));
  const void *from = NULL;
  crema_status status = CREMA_OK;
  pthread_mutex_lock(&v->lock);
  const bool waits = v->source != NULL;
  if (waits) status = v->source->read(v->source, v->source_at, out, size);
  pthread_mutex_unlock(&v->lock);
  if (waits) return status;
  CR_TRY(cr_tensor_host_read(tensor, &from));
  memcpy(out, from, size);
  return CREMA_OK;
}

/* ---- life, size, sharing ---- */

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

/* Whether `o` has its values from `from`, directly or by way of others. */
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

/* `host` NULL: none. */
static crema_status adopt(cr_tensor *tensor, crema_device *device, cr_format format,
                          crema_devptr memory, void *host) {
  values *v = tensor->values;
  if (memory.address == 0) {
    return cr_fail(CREMA_E_ARGUMENT, "a tensor was given no memory to adopt");
  }
  format_slot *slot = NULL;
  CR_TRY(need_slot(v, device, format, v->head, NULL, &slot));
  cr_tensor_alias_release_parts(v, slot);
  CR_TRY(host == NULL ? cr_syncedmem_adopt(&slot->memory, device, memory)
                      : cr_syncedmem_adopt_both(&slot->memory, device, memory, host));
  if (is_pinned(v, slot)) cr_tensor_alias_unpin(v);
  slot->aliased = false;
  /* The adopted memory holds `count` elements, without the rounding up of format_bytes. */
  size_t bytes = cr_tensor_value_bytes(v, format);
  slot->memory.size = bytes;
  slot->memory.capacity = bytes;
  v->generation = cr_tensor_next_generation();
  only_valid(v, slot);
  return CREMA_OK;
}

crema_status cr_tensor_adopt(cr_tensor *tensor, crema_device *device, crema_devptr memory) {
  return adopt(tensor, device, CR_PLAIN_F32, memory, NULL);
}

crema_status cr_tensor_adopt_own(cr_tensor *tensor, crema_device *device, crema_devptr memory) {
  return adopt(tensor, device, (cr_format){tensor->values->type, NULL}, memory, NULL);
}

crema_status cr_tensor_adopt_both(cr_tensor *tensor, crema_device *device, crema_devptr memory,
                                  void *host) {
  return adopt(tensor, device, CR_PLAIN_F32, memory, host);
}

crema_status cr_tensor_adopt_host(cr_tensor *tensor, void *memory) {
  return cr_tensor_adopt(tensor, cr_cpu_device(), (crema_devptr){(uintptr_t)memory});
}

crema_status cr_tensor_copy(cr_tensor *dst, cr_tensor *src, crema_context *context) {
  values *from = src->values, *to = dst->values;
  if (from == to) return CREMA_OK;
  if (from->count != to->count) {
    return cr_fail(CREMA_E_SHAPE, "%" PRId64 " values cannot be copied to a tensor of %" PRId64,
                   from->count, to->count);
  }
  if (from->zero) {
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
  const format_slot *head = find_source(tensor->values);
  if (head == NULL) return cr_cpu_device();
  const crema_syncedmem *memory = &head->memory;
  bool on_device = memory->head == CREMA_HEAD_AT_GPU || memory->head == CREMA_SYNCED;
  return on_device ? memory->gpu.device : cr_cpu_device();
}

/* ---- for memory/view.c ---- */

crema_view *cr_tensor_shown(const cr_tensor *tensor) {
  return tensor->values->view;
}

void cr_tensor_set_shown(cr_tensor *tensor, crema_view *view) {
  tensor->values->view = view;
}

static const format_slot *part_slot(const cr_tensor *tensor) {
  const format_slot *slot = cr_tensor_find_slot(tensor->values, plain_format(tensor));
  return slot != NULL && is_pinned(tensor->values, slot) ? slot : NULL;
}

bool cr_tensor_is_part(const cr_tensor *tensor) {
  return part_slot(tensor) != NULL;
}

bool cr_tensor_part_memory(const cr_tensor *tensor, float **memory, cr_tensor_values **keeps) {
  const format_slot *slot = part_slot(tensor);
  if (slot == NULL || slot->memory.gpu.data.address != 0) return false;
  *memory = slot->memory.host.data;
  *keeps = tensor->values->alias->whole;
  atomic_fetch_add(&(*keeps)->tensors, 1);
  return true;
}
