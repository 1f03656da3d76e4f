#include "memory/tensor.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/device.h"
#include "memory/syncedmem.h"

enum { MAX_FORMATS = 6, NO_FORMAT = -1 };

/* One format that is held. A slot without memory of either side is free. */
typedef struct format_slot {
  cr_format format;
  bool used;
  bool valid;      /* holds the newest values */
  unsigned access; /* number of the last access, for eviction */
  crema_syncedmem memory;
} format_slot;

/* The values; sharing tensors point to the same ones. */
typedef struct values {
  atomic_int tensors; /* how many point here */
  crema_dtype type;
  int64_t count;
  bool zero; /* all values are zero, whatever the slots say */
  int head;  /* slot written last, NO_FORMAT when none */
  cr_format head_format;
  unsigned accesses;
  uint64_t generation; /* unique among all tensors; changes when host memory is replaced */
  format_slot slot[MAX_FORMATS];
} values;

/* The tensor from which a tensor has its values. Lives as long as the tensor or anybody who has
 * values from it, so that a circle is found even when a donor in the middle is gone. */
typedef struct origin {
  atomic_int users;
  struct origin *donor;
} origin;

struct cr_tensor {
  values *values;
  origin *origin; /* NULL: never shared */
};

/* ---- values ---- */

/* The bytes that the values take. */
static size_t value_bytes(const values *v, cr_format format) {
  if (format.layout != NULL) return format.layout->bytes;
  return (size_t)v->count * crema_dtype_size(format.type);
}

/* The bytes that are allocated for `count` of them: an even number of elements, so that pairs of
 * half-precision values can be loaded. */
static size_t bytes_of(int64_t count, cr_format format) {
  if (format.layout != NULL) return format.layout->bytes;
  return (size_t)(count + (count & 1)) * crema_dtype_size(format.type);
}

static size_t format_bytes(const values *v, cr_format format) {
  return bytes_of(v->count, format);
}

/* Never the same number twice, so that a view cannot mistake new memory for its own. */
static uint64_t next_generation(void) {
  static _Atomic uint64_t generations;
  return atomic_fetch_add(&generations, 1) + 1;
}

static crema_status values_create(crema_dtype type, int64_t count, values **out) {
  values *v = calloc(1, sizeof *v);
  if (v == NULL) return cr_fail_memory(sizeof *v, "a tensor");
  atomic_init(&v->tensors, 1);
  v->type = type;
  v->count = count;
  v->zero = true;
  v->head = NO_FORMAT;
  v->head_format = (cr_format){type, NULL};
  v->generation = next_generation();
  *out = v;
  return CREMA_OK;
}

static void drop_slot(values *v, int index) {
  format_slot *slot = &v->slot[index];
  if (!slot->used) return;
  cr_syncedmem_clear(&slot->memory);
  v->generation = next_generation();
  slot->used = false;
  slot->valid = false;
  if (v->head == index) v->head = NO_FORMAT;
}

static void values_release(values *v) {
  if (v == NULL || atomic_fetch_sub(&v->tensors, 1) != 1) return;
  for (int i = 0; i < MAX_FORMATS; ++i) drop_slot(v, i);
  free(v);
}

/* The slot that holds `format`, valid or not; NO_FORMAT when there is none. */
static int find_slot(const values *v, cr_format format) {
  for (int i = 0; i < MAX_FORMATS; ++i) {
    if (v->slot[i].used && cr_format_equal(v->slot[i].format, format)) return i;
  }
  return NO_FORMAT;
}

/* A slot to put a new format in: a free one, or else the stale one that was not used for longest,
 * or else (all valid) a valid one that is not the head. `keep1` and `keep2` are never taken. */
static int take_slot(values *v, int keep1, int keep2) {
  int best = NO_FORMAT;
  for (int i = 0; i < MAX_FORMATS; ++i) {
    const format_slot *s = &v->slot[i];
    if (!s->used) return i;
    if (i == keep1 || i == keep2 || (i == v->head && s->valid)) continue;
    if (best == NO_FORMAT) {
      best = i;
      continue;
    }
    const format_slot *b = &v->slot[best];
    if (s->valid != b->valid ? b->valid : s->access < b->access) best = i;
  }
  drop_slot(v, best);
  return best;
}

/* The slot of `format`, made (without memory, not valid) when it is not there. */
static int need_slot(values *v, crema_device *device, cr_format format, int keep1, int keep2) {
  int index = find_slot(v, format);
  if (index != NO_FORMAT) return index;
  index = take_slot(v, keep1, keep2);
  format_slot *slot = &v->slot[index];
  *slot = (format_slot){.format = format, .used = true};
  cr_syncedmem_init(&slot->memory, device, format_bytes(v, format));
  return index;
}

/* The slot that has the values: the head, unless they are all zero or nobody gave any. */
static int find_source(const values *v) {
  return v->head != NO_FORMAT && v->slot[v->head].valid ? v->head : NO_FORMAT;
}

static void only_valid(values *v, int index) {
  for (int i = 0; i < MAX_FORMATS; ++i) v->slot[i].valid = i == index;
  v->zero = false;
  v->head = index;
  v->head_format = v->slot[index].format;
}

/* Converts from slot `source` to slot `target` on the context's device. */
static crema_status convert_slot(values *v, crema_context *context, int target, int source) {
  format_slot *to = &v->slot[target], *from = &v->slot[source];
  crema_devptr dst = {0}, src = {0};
  CR_TRY(cr_syncedmem_read(&from->memory, context, &src));
  CR_TRY(cr_syncedmem_overwrite(&to->memory, context, &dst));
  crema_status status =
      context->device->backend->convert(context, v->count, to->format, dst, from->format, src);
  if (status == CREMA_E_UNSUPPORTED && !context->device->backend->host_memory) {
    return convert_slot(v, cr_host_context(), target, source);
  }
  if (status != CREMA_OK) {
    return cr_fail_in(status, "a tensor of %" PRId64 " values from %s%s to %s%s", v->count,
                      crema_dtype_name(from->format.type), from->format.layout ? " (private)" : "",
                      crema_dtype_name(to->format.type), to->format.layout ? " (private)" : "");
  }
  to->valid = true;
  return CREMA_OK;
}

/* Brings the newest values into slot `index`, on whatever side is cheapest. */
static crema_status make_valid(values *v, crema_context *context, int index) {
  format_slot *slot = &v->slot[index];
  if (slot->valid) return CREMA_OK;
  if (v->zero) {
    CR_TRY(cr_syncedmem_zero(&slot->memory, context));
    slot->valid = true;
    return CREMA_OK;
  }
  int source = find_source(v);
  if (source == NO_FORMAT) return cr_fail(CREMA_E_INTERNAL, "a tensor without a valid form");
  /* A change of type and layout at once goes by way of one plain format or two. There are more
   * slots than the four that take part, so none of them is evicted on the way. */
  for (;;) {
    cr_format from = v->slot[source].format, to = slot->format;
    if (from.type == to.type || (from.layout == NULL && to.layout == NULL)) break;
    cr_format middle = {from.layout != NULL ? from.type : to.type, NULL};
    int via = need_slot(v, context->device, middle, index, source);
    if (!v->slot[via].valid) CR_TRY(convert_slot(v, context, via, source));
    source = via;
  }
  return convert_slot(v, context, index, source);
}

/* ---- access ---- */

static inline format_slot *access_slot(values *v, crema_context *context, cr_format format,
                                       int *index) {
  int i = v->head;
  if (i == NO_FORMAT || !cr_format_equal(v->slot[i].format, format)) {
    i = need_slot(v, context->device, format, v->head, NO_FORMAT);
  }
  format_slot *slot = &v->slot[i];
  slot->access = ++v->accesses;
  *index = i;
  return slot;
}

crema_status cr_tensor_read(cr_tensor *tensor, crema_context *context, cr_format format,
                            crema_devptr *out) {
  values *v = tensor->values;
  int index;
  format_slot *slot = access_slot(v, context, format, &index);
  if (!slot->valid) CR_TRY(make_valid(v, context, index));
  return cr_syncedmem_read(&slot->memory, context, out);
}

crema_status cr_tensor_write(cr_tensor *tensor, crema_context *context, cr_format format,
                             crema_devptr *out) {
  values *v = tensor->values;
  int index;
  format_slot *slot = access_slot(v, context, format, &index);
  CR_TRY(cr_syncedmem_overwrite(&slot->memory, context, out));
  only_valid(v, index);
  return CREMA_OK;
}

crema_status cr_tensor_update(cr_tensor *tensor, crema_context *context, cr_format format,
                              crema_devptr *out) {
  values *v = tensor->values;
  int index;
  format_slot *slot = access_slot(v, context, format, &index);
  if (!slot->valid) CR_TRY(make_valid(v, context, index));
  CR_TRY(cr_syncedmem_write(&slot->memory, context, true, out));
  only_valid(v, index);
  return CREMA_OK;
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

crema_status cr_tensor_host_update(cr_tensor *tensor, void **out) {
  crema_devptr data = {0};
  CR_TRY(cr_tensor_update(tensor, cr_host_context(), plain_format(tensor), &data));
  *out = (void *)data.address;
  return CREMA_OK;
}

cr_format cr_tensor_head(const cr_tensor *tensor) {
  return tensor->values->head_format;
}

void cr_tensor_set_zero(cr_tensor *tensor) {
  values *v = tensor->values;
  for (int i = 0; i < MAX_FORMATS; ++i) v->slot[i].valid = false;
  v->zero = true;
}

bool cr_tensor_is_zero(const cr_tensor *tensor) {
  return tensor->values->zero;
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

static crema_status check_type_and_count(crema_dtype type, int64_t count) {
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

crema_status cr_tensor_create(crema_dtype type, int64_t count, cr_tensor **out) {
  CR_TRY(check_type_and_count(type, count));
  cr_tensor *tensor = calloc(1, sizeof *tensor);
  if (tensor == NULL) return cr_fail_memory(sizeof *tensor, "a tensor");
  crema_status status = values_create(type, count, &tensor->values);
  if (status != CREMA_OK) {
    free(tensor);
    return status;
  }
  *out = tensor;
  return CREMA_OK;
}

void cr_tensor_destroy(cr_tensor *tensor) {
  if (tensor == NULL) return;
  values_release(tensor->values);
  origin_release(tensor->origin);
  free(tensor);
}

int64_t cr_tensor_count(const cr_tensor *tensor) {
  return tensor->values->count;
}

crema_dtype cr_tensor_type(const cr_tensor *tensor) {
  return tensor->values->type;
}

/* Finds the slot that is kept when the count changes (NO_FORMAT: none), and whether its values are,
 * which are then made valid in it: the other formats belong to the old count. */
static crema_status keep_values(values *v, int64_t count, int *keep, bool *fits) {
  CR_TRY(check_type_and_count(v->type, count));
  cr_format plain = {v->type, NULL};
  *keep = find_slot(v, plain);
  *fits = *keep != NO_FORMAT ? bytes_of(count, plain) <= v->slot[*keep].memory.capacity
                             : count < v->count;
  if (!*fits || v->zero) return CREMA_OK;
  if (*keep == NO_FORMAT) *keep = need_slot(v, cr_cpu_device(), plain, v->head, NO_FORMAT);
  return make_valid(v, cr_host_context(), *keep);
}

crema_status cr_tensor_prepare_resize(cr_tensor *tensor, int64_t count) {
  int keep = NO_FORMAT;
  bool fits = false;
  if (count == tensor->values->count) return CREMA_OK;
  return keep_values(tensor->values, count, &keep, &fits);
}

crema_status cr_tensor_resize(cr_tensor *tensor, int64_t count) {
  values *v = tensor->values;
  int keep = NO_FORMAT;
  bool fits = false;
  if (count == v->count) return CREMA_OK;
  CR_TRY(keep_values(v, count, &keep, &fits));
  for (int i = 0; i < MAX_FORMATS; ++i) {
    if (i != keep) drop_slot(v, i);
  }
  v->count = count;
  v->generation = next_generation();
  v->head_format = (cr_format){v->type, NULL};
  v->head = keep;
  if (keep != NO_FORMAT) {
    cr_syncedmem_resize(&v->slot[keep].memory, format_bytes(v, v->head_format));
    if (!fits || v->zero) v->slot[keep].valid = false;
  }
  if (!fits) v->zero = true;
  return CREMA_OK;
}

crema_status cr_tensor_share(cr_tensor *tensor, cr_tensor *donor) {
  if (tensor == donor) return CREMA_OK;
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
  if (donor->origin == NULL) CR_TRY(origin_create(NULL, &donor->origin));
  origin *own = NULL;
  CR_TRY(origin_create(donor->origin, &own));
  atomic_fetch_add(&donor->origin->users, 1);
  origin_release(tensor->origin);
  tensor->origin = own;
  atomic_fetch_add(&donor->values->tensors, 1);
  values_release(tensor->values);
  tensor->values = donor->values;
  return CREMA_OK;
}

bool cr_tensor_shares_with(const cr_tensor *a, const cr_tensor *b) {
  return a->values == b->values;
}

crema_status cr_tensor_unshare(cr_tensor *tensor) {
  values *own = NULL;
  CR_TRY(values_create(tensor->values->type, tensor->values->count, &own));
  values_release(tensor->values);
  tensor->values = own;
  origin_release(tensor->origin);
  tensor->origin = NULL;
  return CREMA_OK;
}

/* `host` NULL: none. */
static crema_status adopt(cr_tensor *tensor, crema_device *device, crema_devptr memory,
                          void *host) {
  values *v = tensor->values;
  if (memory.address == 0) {
    return cr_fail(CREMA_E_ARGUMENT, "a tensor was given no memory to adopt");
  }
  int index = need_slot(v, device, (cr_format){v->type, NULL}, v->head, NO_FORMAT);
  format_slot *slot = &v->slot[index];
  CR_TRY(host == NULL ? cr_syncedmem_adopt(&slot->memory, device, memory)
                      : cr_syncedmem_adopt_both(&slot->memory, device, memory, host));
  /* The adopted memory holds `count` elements, without the rounding up of format_bytes. */
  size_t bytes = value_bytes(v, slot->format);
  slot->memory.size = bytes;
  slot->memory.capacity = bytes;
  v->generation = next_generation();
  only_valid(v, index);
  return CREMA_OK;
}

crema_status cr_tensor_adopt(cr_tensor *tensor, crema_device *device, crema_devptr memory) {
  return adopt(tensor, device, memory, NULL);
}

crema_status cr_tensor_adopt_both(cr_tensor *tensor, crema_device *device, crema_devptr memory,
                                  void *host) {
  return adopt(tensor, device, memory, host);
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
  if (from->type != to->type) {
    return cr_fail(CREMA_E_TYPE, "values of type %s cannot be copied to a tensor of type %s",
                   crema_dtype_name(from->type), crema_dtype_name(to->type));
  }
  if (from->zero) {
    cr_tensor_set_zero(dst);
    return CREMA_OK;
  }
  cr_format format = from->head_format;
  crema_devptr source = {0}, target = {0};
  CR_TRY(cr_tensor_read(src, context, format, &source));
  CR_TRY(cr_tensor_write(dst, context, format, &target));
  return context->device->backend->copy(context, CR_COPY_SAME_DEVICE, target.address,
                                        source.address, value_bytes(from, format));
}

void cr_tensor_shrink_to_fit(cr_tensor *tensor) {
  values *v = tensor->values;
  int plain = find_slot(v, (cr_format){v->type, NULL});
  if (plain == NO_FORMAT || v->slot[plain].memory.capacity <= v->slot[plain].memory.size) return;
  for (int i = 0; i < MAX_FORMATS; ++i) drop_slot(v, i);
  v->zero = true;
  v->head_format = (cr_format){v->type, NULL};
}

crema_device *cr_tensor_head_device(const cr_tensor *tensor) {
  const values *v = tensor->values;
  int head = find_source(v);
  if (head == NO_FORMAT) return cr_cpu_device();
  const crema_syncedmem *memory = &v->slot[head].memory;
  bool on_device = memory->head == CREMA_HEAD_AT_GPU || memory->head == CREMA_SYNCED;
  return on_device ? memory->gpu.device : cr_cpu_device();
}

bool cr_tensor_is_initialized(const cr_tensor *tensor) {
  return !tensor->values->zero;
}

/* ---- views ---- */

crema_status cr_tensor_view_make(cr_tensor *tensor, int64_t offset, int64_t count,
                                 cr_tensor_view *out) {
  const values *v = tensor->values;
  if (offset < 0 || count < 0 || offset > v->count || count > v->count - offset) {
    return cr_fail(CREMA_E_RANGE,
                   "a view of %" PRId64 " elements from %" PRId64 " on of a tensor of %" PRId64,
                   count, offset, v->count);
  }
  cr_tensor_view view = {.values = v, .generation = v->generation, .count = count};
  if (v->head != NO_FORMAT && v->slot[v->head].valid) {
    view.data =
        (char *)v->slot[v->head].memory.host.data + (size_t)offset * crema_dtype_size(v->type);
  }
  void *data = NULL;
  CR_TRY(cr_tensor_view_data(&view, tensor, &data));
  *out = view;
  return CREMA_OK;
}

crema_status cr_tensor_view_data(const cr_tensor_view *view, const cr_tensor *tensor, void **out) {
  const values *v = tensor->values;
  if (view->values != v || view->generation != v->generation) {
    return cr_fail(CREMA_E_STATE, "a view outlived the memory of its tensor");
  }
  /* What is written through the view would be lost to a conversion of the values and to the mark of
   * all zeros. */
  bool alone = v->head != NO_FORMAT && !v->zero;
  for (int i = 0; i < MAX_FORMATS; ++i) alone = alone && v->slot[i].valid == (i == v->head);
  alone = alone && cr_format_equal(v->head_format, (cr_format){v->type, NULL}) &&
          v->slot[v->head].memory.head == CREMA_HEAD_AT_CPU;
  if (!alone) {
    return cr_fail(CREMA_E_STATE, "a view needs the newest values on the host alone");
  }
  *out = view->data;
  return CREMA_OK;
}

cr_tensor_memory cr_tensor_memory_of(const cr_tensor *tensor) {
  cr_tensor_memory bytes = {0};
  for (int i = 0; i < MAX_FORMATS; ++i) {
    const format_slot *slot = &tensor->values->slot[i];
    if (!slot->used) continue;
    bytes.host += slot->memory.host.bytes; /* none for adopted memory */
    if (slot->memory.gpu.own) bytes.device += slot->memory.capacity;
  }
  return bytes;
}

size_t cr_tensor_bytes(const cr_tensor *tensor) {
  cr_tensor_memory bytes = cr_tensor_memory_of(tensor);
  return bytes.host + bytes.device;
}
