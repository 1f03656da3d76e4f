/* Tensors whose values are stored in the memory of another tensor, as a part of its values. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "device/copy.h"
#include "device/watch.h"
#include "memory/check.h"
#include "memory/trace_private.h"

/* Removes a part's memory in the whole, and its newest values if they are stored only there. */
static void lose_memory(values *part) {
  for (format_slot *s = first_slot(part); s != NULL; s = next_slot(s)) {
    if (!s->aliased || is_pinned(s)) continue;
    set_valid(s, false);
    cr_syncedmem_clear(&s->memory);
    s->aliased = false;
  }
  bool left = is_zero(part) || has_source(part);
  for (const format_slot *s = first_slot(part); s != NULL; s = next_slot(s)) {
    left = left || is_valid(s);
  }
  if (cr_tensor_newest(part) == NULL) set_head(part, NULL);
  for (format_slot *s = first_slot(part); s != NULL && head_slot(part) == NULL; s = next_slot(s)) {
    if (!is_valid(s)) continue;
    set_head(part, s);
    part->head_format = s->format;
  }
  if (!left) part->state = CR_TENSOR_RELEASED;
  CR_ASSERT(cr_tensor_check(part));
}

/* Frees the alias; the memory stays with the part's slot. */
static void free_alias(values *part) {
  cr_tensor_alias *alias = part->alias;
  part->alias = NULL;
  cr_tensor_parts *parts = alias->whole->parts;
  cr_tensor_alias **link = &parts->first;
  while (*link != alias) link = &(*link)->next;
  *link = alias->next;
  if (parts->first == NULL) {
    alias->whole->parts = NULL;
    free(parts);
  }
  free(alias);
}

void cr_tensor_unpin(format_slot *slot) {
  values *block = slot->block;
  slot->block = NULL;
  cr_tensor_values_release(block);
}

/* The values stored there are lost, unless the part also holds them elsewhere. */
static void end_alias(values *part) {
  lose_memory(part);
  free_alias(part);
}

void cr_tensor_alias_end_all(values *v) {
  if (v->alias != NULL) end_alias(v);
  while (v->parts != NULL) end_alias(v->parts->first->part);
}

void cr_tensor_alias_release_parts(values *v, const format_slot *slot) {
  if (v->parts == NULL || !v->parts->ordered) return;
  if (!cr_format_equal(slot->format, v->parts->format)) return;
  for (const cr_tensor_alias *a = v->parts->first; a != NULL; a = a->next) {
    lose_memory(a->part);
  }
}

void cr_tensor_detach(cr_tensor *tensor) {
  if (tensor->values->alias != NULL) end_alias(tensor->values);
}

/* Gives the slot memory of the whole; `valid`: the values are there already. */
static crema_status lie_at(const values *v, crema_context *context, format_slot *slot,
                           crema_devptr place, bool valid) {
  set_valid(slot, false);
  cr_syncedmem_clear(&slot->memory);
  slot->aliased = false;
  CR_TRY(cr_syncedmem_adopt(&slot->memory, context->device, place));
  slot->memory.size = slot->memory.capacity = cr_tensor_value_bytes(v, slot->format);
  slot->aliased = true;
  set_valid(slot, valid);
  return CREMA_OK;
}

/* The address of value `offset` of `w` in plain format; other threads may be using `w`. */
static crema_status address_in_block(const values *w, int64_t offset, int64_t count,
                                     const crema_context *context, crema_devptr *out) {
  const format_slot *slot = cr_tensor_find_slot(w, own_format(w));
  if (offset < 0 || count < 0 || offset > w->count || count > w->count - offset) {
    return cr_fail(CREMA_E_RANGE, "%" PRId64 " values from %" PRId64 " on of a tensor of %" PRId64,
                   count, offset, w->count);
  }
  if (slot != NULL) *out = cr_syncedmem_address(&slot->memory, context);
  if (slot == NULL || out->address == 0) {
    return cr_fail(CREMA_E_STATE, "a tensor has no memory that others could lie in");
  }
  out->address += (size_t)offset * crema_dtype_size(w->type);
  return CREMA_OK;
}

crema_status cr_tensor_alias_block(cr_tensor *tensor, crema_context *context, cr_tensor *block,
                                   int64_t offset) {
  values *v = tensor->values, *w = block->values;
  crema_devptr place = {0}, from = {0};
  format_slot *slot = NULL;
  CR_TRY(address_in_block(w, offset, v->count, context, &place));
  CR_TRY(cr_tensor_need_slot(v, context->device, own_format(w), &slot));
  if (slot->block == w && cr_syncedmem_address(&slot->memory, context).address == place.address) {
    return CREMA_OK;
  }
  const bool has = cr_tensor_has_values(v);
  if (has) {
    CR_TRY(cr_tensor_make_valid(v, context, slot));
    CR_TRY(cr_syncedmem_read(&slot->memory, context, &from));
    CR_TRY(cr_copy_same_device(context, place, from, cr_tensor_value_bytes(v, slot->format)));
  }
  v->generation = cr_tensor_next_generation();
  crema_status status = lie_at(v, context, slot, place, has);
  if (status == CREMA_OK) atomic_fetch_add(&w->tensors, 1);
  cr_tensor_unpin(slot); /* it may have been a part of another block */
  if (status == CREMA_OK) slot->block = w;
  if (v->alias != NULL) end_alias(v);
  CR_ASSERT(status != CREMA_OK || cr_tensor_check(v));
  /* Notes that the context used the memory last. */
  return status != CREMA_OK ? status : cr_syncedmem_read(&slot->memory, context, &from);
}

/* The slot that is pinned in `block`; NULL: there is none. */
static format_slot *slot_in(const values *v, const values *block) {
  format_slot *slot = cr_tensor_find_slot(v, own_format(block));
  return slot != NULL && slot->block == block ? slot : NULL;
}

bool cr_tensor_alias_is_in(const cr_tensor *tensor, const cr_tensor *block) {
  const values *v = tensor->values;
  const format_slot *slot = slot_in(v, block->values);
  return !is_zero(v) && slot != NULL && is_valid(slot);
}

crema_status cr_tensor_alias_converted(cr_tensor *tensor, crema_context *context,
                                       const cr_tensor *block) {
  values *v = tensor->values;
  format_slot *slot = slot_in(v, block->values);
  crema_devptr memory = {0};
  if (slot == NULL || is_zero(v)) {
    return cr_fail(CREMA_E_STATE, "a tensor has no values in the memory that was converted");
  }
  CR_TRY(cr_syncedmem_overwrite(&slot->memory, context, &memory));
  set_valid(slot, true);
  atomic_fetch_add(&v->conversions, 1);
  CR_ASSERT(cr_tensor_check(v));
  return CREMA_OK;
}

static bool is_part_of(const cr_part *part) {
  const crema_shape *shape = &part->shape, *whole = &part->whole;
  if (shape->axes != whole->axes || part->axis >= shape->axes) return false;
  for (int i = 0; i < shape->axes; ++i) {
    if (i != part->axis && shape->dim[i] != whole->dim[i]) return false;
  }
  return part->at >= 0 && shape->dim[part->axis] <= whole->dim[part->axis] - part->at;
}

static bool is_same(const cr_tensor_alias *alias, const cr_tensor_alias *asked) {
  const cr_part *a = &alias->which, *b = &asked->which;
  return alias->whole == asked->whole && alias->read == asked->read && a->axis == b->axis &&
         a->at == b->at && crema_shape_equal(&a->shape, &b->shape) &&
         crema_shape_equal(&a->whole, &b->whole);
}

static int64_t count_of(const crema_shape *shape) {
  return crema_shape_count(shape, 0, shape->axes);
}

crema_status cr_tensor_alias_set(cr_tensor *tensor, cr_tensor *whole, const cr_part *part,
                                 bool read, bool *done) {
  values *v = tensor->values;
  cr_tensor_alias asked = {.part = v, .whole = whole->values, .which = *part, .read = read};
  const cr_tensor_alias *outer = whole->values->alias;
  *done = false;
  if (!is_part_of(part)) return CREMA_OK;
  if (outer != NULL) {
    if (outer->which.axis != part->axis || outer->read != read) return CREMA_OK;
    /* It may have another shape there, which places its parts elsewhere. */
    if (!crema_shape_equal(&outer->which.shape, &part->whole)) return CREMA_OK;
    asked.whole = outer->whole;
    asked.which.whole = outer->which.whole;
    asked.which.at += outer->which.at;
  }
  values *w = asked.whole;
  *done = v->alias != NULL && is_same(v->alias, &asked);
  if (v->alias != NULL || v->parts != NULL || w == v || has_pinned(v)) return CREMA_OK;
  if (v->type != w->type || v->view != NULL || w->view != NULL) return CREMA_OK;
  if (v->count != count_of(&asked.which.shape) || w->count != count_of(&asked.which.whole)) {
    return CREMA_OK;
  }
  cr_tensor_alias *alias = NULL;
  CR_TRY(CR_NEW(alias, 1, "a part of a tensor"));
  if (w->parts == NULL) {
    crema_status status = CR_NEW(w->parts, 1, "the parts of a tensor");
    if (status != CREMA_OK) {
      free(alias);
      return status;
    }
  }
  *alias = asked;
  alias->next = w->parts->first;
  w->parts->first = alias;
  w->parts->ordered = false;
  v->alias = alias;
  CR_ASSERT(cr_tensor_check(v) && cr_tensor_check(w));
  *done = true;
  return CREMA_OK;
}

/* Whether parts are written there; all are, or none. */
static bool is_written(const values *whole) {
  if (whole->parts == NULL || !whole->parts->ordered) return false;
  const cr_tensor_alias *a = whole->parts->first;
  while (a != NULL && a->read) a = a->next;
  return a != NULL && a->fits;
}

/* Finds the place of each part. */
static void find_places(cr_tensor_parts *parts, const cr_backend *backend) {
  bool fits = true, gaps = false;
  int64_t extents = 0, extent = 0;
  for (cr_tensor_alias *a = parts->first; a != NULL; a = a->next) {
    const cr_part *part = &a->which;
    a->fits = backend->part(parts->format, part, &a->place);
    if (a->read) continue;
    fits = fits && a->fits;
    gaps = gaps || (a->fits && a->place.format.layout != NULL && a->place.format.layout->gaps);
    extents += part->shape.dim[part->axis];
    extent = part->whole.dim[part->axis];
  }
  /* Kernels of libraries write without gaps, and their results are then copied to their place once.
   * That pays where parts consist of other parts, which are otherwise copied several times. */
  fits = fits && (!gaps || extents > extent);
  for (cr_tensor_alias *a = parts->first; a != NULL; a = a->next) {
    if (!a->read) a->fits = fits;
  }
}

void cr_tensor_alias_order(cr_tensor *tensor, crema_device *device, cr_format format) {
  const cr_tensor_alias *own = tensor->values->alias;
  const cr_backend *backend = device->backend;
  if (own == NULL || backend->part == NULL) return;
  cr_tensor_parts *parts = own->whole->parts;
  cr_format whole;
  if (format.type != own->whole->type) return;
  if (parts->ordered && (!own->read || is_written(own->whole))) return;
  if (!backend->enlarge(cr_format_packed(format), &own->which.whole, &whole)) return;
  const bool same = cr_format_equal(whole, parts->format);
  if (same && parts->ordered) return;
  for (cr_tensor_alias *a = parts->first; a != NULL && !same; a = a->next) {
    lose_memory(a->part); /* in the format that the whole had before */
  }
  parts->format = whole;
  find_places(parts, backend);
  parts->ordered = true;
  CR_ASSERT(cr_tensor_check(own->whole));
}

static bool has_place(const cr_tensor_alias *alias) {
  return alias != NULL && alias->whole->parts->ordered && alias->fits;
}

bool cr_tensor_alias_format(const cr_tensor *tensor, cr_format *out) {
  const cr_tensor_alias *alias = tensor->values->alias;
  if (!has_place(alias)) return false;
  *out = alias->place.format;
  return true;
}

bool cr_tensor_whole_format(const cr_tensor *tensor, cr_format *out) {
  const values *v = tensor->values;
  if (v->alias != NULL) return cr_tensor_alias_format(tensor, out);
  if (!is_written(v)) return false;
  *out = v->parts->format;
  return true;
}

bool cr_tensor_alias_can_read(const cr_tensor *tensor, const cr_tensor *whole) {
  const cr_tensor_alias *alias = tensor->values->alias;
  const values *w = whole->values;
  if (!has_place(alias) || !alias->read) return false;
  const format_slot *head = cr_tensor_newest(w);
  if (is_zero(w) || head == NULL) return false;
  if (w == alias->whole) return cr_format_equal(head->format, w->parts->format);
  return w->alias != NULL && w->alias->whole == alias->whole && head->aliased;
}

/* The address of the part's place; the whole gets memory if it has none. */
static crema_status find_place(const cr_tensor_alias *alias, crema_context *context,
                               crema_devptr *out) {
  format_slot *all = NULL;
  CR_TRY(cr_tensor_need_memory(alias->whole, context, alias->whole->parts->format, &all));
  *out = cr_syncedmem_address(&all->memory, context);
  if (out->address == 0) CR_TRY(cr_syncedmem_overwrite(&all->memory, context, out));
  out->address += alias->place.offset;
  return CREMA_OK;
}

crema_status cr_tensor_alias_enter(values *v, crema_context *context, format_slot *slot,
                                   bool keep) {
  const cr_tensor_alias *alias = v->alias;
  const cr_format format = slot->format;
  crema_devptr place = {0}, from = {0};
  if (!has_place(alias) || !cr_format_equal(format, alias->place.format)) return CREMA_OK;
  if (!context->device->backend->host_memory) return CREMA_OK;
  /* Memory that lasts longer than a pass may differ in the next pass. */
  if (!is_transient(alias->whole)) cr_trace_invalidate(context);
  CR_TRY(find_place(alias, context, &place));
  if (slot->aliased && (uintptr_t)slot->memory.host.data == place.address) return CREMA_OK;
  const bool moves = keep && is_valid(slot);
  if (moves) {
    CR_TRY(cr_syncedmem_read(&slot->memory, context, &from));
    cr_trace_add_conversion(context, v, format, place, format, from);
    CR_TRY(cr_watch_convert(context, v->label, v->count, format, place, format, from));
  }
  return lie_at(v, context, slot, place, moves);
}

crema_status cr_tensor_alias_move(cr_tensor *tensor, crema_context *context) {
  values *v = tensor->values;
  format_slot *slot = NULL;
  cr_format format;
  if (!cr_tensor_alias_format(tensor, &format)) {
    return cr_fail(CREMA_E_INTERNAL, "a tensor without a place in another tensor");
  }
  CR_TRY(cr_tensor_need_memory(v, context, format, &slot));
  CR_TRY(cr_tensor_alias_enter(v, context, slot, true));
  return cr_tensor_make_valid(v, context, slot);
}
