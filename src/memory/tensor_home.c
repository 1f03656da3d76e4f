/* Tensors whose values lie in the memory of another one's, as a part of those. */
#include <stdlib.h>

#include "core/fail.h"
#include "memory/commands_private.h"

static void set_valid(format_slot *slot, bool valid) {
  atomic_store_explicit(&slot->valid, valid, memory_order_release);
}

/* ---- the end ------------------------------------------------------------- */

/* Takes the part's memory away, and its newest values with it where they are only there. */
static void lose_memory(values *part) {
  for (format_slot *s = first_slot(part); s != NULL; s = next_slot(s)) {
    if (!s->at_home) continue;
    set_valid(s, false);
    cr_tensor_clear_slot(s);
  }
  bool left = part->zero || part->source != NULL;
  for (const format_slot *s = first_slot(part); s != NULL; s = next_slot(s)) {
    left = left || is_valid(s);
  }
  if (part->head != NULL && !is_valid(part->head)) part->head = NULL;
  for (format_slot *s = first_slot(part); s != NULL && part->head == NULL; s = next_slot(s)) {
    if (!is_valid(s)) continue;
    part->head = s;
    part->head_format = s->format;
  }
  part->gone = part->gone || !left;
}

static void end_home(cr_tensor_home *home) {
  cr_tensor_home **link = &home->whole->parts;
  while (*link != home) link = &(*link)->next;
  *link = home->next;
  lose_memory(home->part);
  home->part->within = NULL;
  free(home);
}

void cr_tensor_end_homes(values *v) {
  if (v->within != NULL) end_home(v->within);
  while (v->parts != NULL) end_home(v->parts);
  v->ordered = false;
}

void cr_tensor_turn_out(values *v, const format_slot *slot) {
  if (!v->ordered || !cr_format_equal(slot->format, v->lies)) return;
  for (const cr_tensor_home *home = v->parts; home != NULL; home = home->next) {
    lose_memory(home->part);
  }
}

void cr_tensor_leave_home(cr_tensor *tensor) {
  if (tensor->values->within != NULL) end_home(tensor->values->within);
}

/* ---- the beginning ------------------------------------------------------- */

static bool is_part_of(const cr_part *part) {
  const crema_shape *shape = &part->shape, *whole = &part->whole;
  if (shape->axes != whole->axes || part->axis >= shape->axes) return false;
  for (int i = 0; i < shape->axes; ++i) {
    if (i != part->axis && shape->dim[i] != whole->dim[i]) return false;
  }
  return part->at >= 0 && shape->dim[part->axis] <= whole->dim[part->axis] - part->at;
}

/* Whether a home of `part` is the one that is asked for. */
static bool is_home(const cr_tensor_home *home, const cr_tensor_home *asked) {
  const cr_part *a = &home->which, *b = &asked->which;
  return home->whole == asked->whole && home->read == asked->read && a->axis == b->axis &&
         a->at == b->at && crema_shape_equal(&a->shape, &b->shape) &&
         crema_shape_equal(&a->whole, &b->whole);
}

static int64_t count_of(const crema_shape *shape) {
  return crema_shape_count(shape, 0, shape->axes);
}

crema_status cr_tensor_set_home(cr_tensor *tensor, cr_tensor *whole, const cr_part *part, bool read,
                                bool *done) {
  values *v = tensor->values;
  cr_tensor_home asked = {.part = v, .whole = whole->values, .which = *part, .read = read};
  const cr_tensor_home *outer = whole->values->within;
  *done = false;
  if (!is_part_of(part)) return CREMA_OK;
  if (outer != NULL) {
    if (outer->which.axis != part->axis || outer->read != read) return CREMA_OK;
    /* It may have another shape there, and its parts lie elsewhere then. */
    if (!crema_shape_equal(&outer->which.shape, &part->whole)) return CREMA_OK;
    asked.whole = outer->whole;
    asked.which.whole = outer->which.whole;
    asked.which.at += outer->which.at;
  }
  const values *w = asked.whole;
  *done = v->within != NULL && is_home(v->within, &asked);
  if (v->within != NULL || v->parts != NULL || w == v) return CREMA_OK;
  if (v->type != w->type || v->view != NULL || w->view != NULL) return CREMA_OK;
  if (v->count != count_of(&asked.which.shape) || w->count != count_of(&asked.which.whole)) {
    return CREMA_OK;
  }
  cr_tensor_home *home = NULL;
  CR_TRY(CR_NEW(home, 1, "a part of a tensor"));
  *home = asked;
  home->next = asked.whole->parts;
  asked.whole->parts = home;
  asked.whole->ordered = false;
  v->within = home;
  *done = true;
  return CREMA_OK;
}

/* ---- the order ----------------------------------------------------------- */

/* Whether parts are written there; all are, or none. */
static bool is_written(const values *whole) {
  const cr_tensor_home *home = whole->parts;
  while (home != NULL && home->read) home = home->next;
  return whole->ordered && home != NULL && home->fits;
}

/* Finds the place of each part. */
static void find_places(values *w, const cr_backend *backend) {
  bool fits = true, gaps = false;
  int64_t extents = 0, extent = 0;
  for (cr_tensor_home *home = w->parts; home != NULL; home = home->next) {
    const cr_part *part = &home->which;
    home->fits = backend->part(w->lies, part, &home->place);
    if (home->read) continue;
    fits = fits && home->fits;
    gaps = gaps ||
           (home->fits && home->place.format.layout != NULL && home->place.format.layout->gaps);
    extents += part->shape.dim[part->axis];
    extent = part->whole.dim[part->axis];
  }
  /* Kernels of libraries write without gaps, and what they wrote is then copied to its place once.
   * That is worth it where parts are made of others, which are copied again and again otherwise. */
  fits = fits && (!gaps || extents > extent);
  for (cr_tensor_home *home = w->parts; home != NULL; home = home->next) {
    if (!home->read) home->fits = fits;
  }
}

void cr_tensor_order_home(cr_tensor *tensor, crema_device *device, cr_format format) {
  const cr_tensor_home *own = tensor->values->within;
  const cr_backend *backend = device->backend;
  if (own == NULL || backend->part == NULL || format.type != own->whole->type) return;
  if (own->whole->ordered && (!own->read || is_written(own->whole))) return;
  values *w = own->whole;
  cr_format lies;
  if (!backend->enlarge(cr_format_packed(format), &own->which.whole, &lies)) return;
  const bool same = cr_format_equal(lies, w->lies);
  if (same && w->ordered) return;
  for (cr_tensor_home *home = w->parts; home != NULL && !same; home = home->next) {
    lose_memory(home->part); /* in the format that the whole had before */
  }
  w->lies = lies;
  find_places(w, backend);
  w->ordered = true;
}

bool cr_tensor_has_home(const cr_tensor *tensor, cr_format *out) {
  const cr_tensor_home *home = tensor->values->within;
  if (home == NULL || !home->whole->ordered || !home->fits) return false;
  *out = home->place.format;
  return true;
}

bool cr_tensor_lies_in_order(const cr_tensor *tensor, cr_format *out) {
  const values *v = tensor->values;
  if (v->within != NULL) return cr_tensor_has_home(tensor, out);
  *out = v->lies;
  return is_written(v);
}

bool cr_tensor_can_read_home(const cr_tensor *tensor, const cr_tensor *whole) {
  const cr_tensor_home *home = tensor->values->within;
  const values *w = whole->values;
  cr_format format;
  if (!cr_tensor_has_home(tensor, &format) || !home->read) return false;
  if (w->zero || w->head == NULL || !is_valid(w->head)) return false;
  if (w == home->whole) return cr_format_equal(w->head->format, w->lies);
  return w->within != NULL && w->within->whole == home->whole && w->head->at_home;
}

/* ---- moving in ----------------------------------------------------------- */

/* Where the part's place is, with memory for the whole. */
static crema_status find_place(const cr_tensor_home *home, crema_context *context,
                               crema_devptr *out) {
  format_slot *all = NULL;
  CR_TRY(cr_tensor_follow_former(home->whole));
  CR_TRY(cr_tensor_need_slot(home->whole, context, home->whole->lies, &all));
  *out = cr_syncedmem_address(&all->memory, context);
  if (out->address == 0) CR_TRY(cr_syncedmem_overwrite(&all->memory, context, out));
  out->address += home->place.offset;
  return CREMA_OK;
}

static crema_status move_values(const values *v, crema_context *context, format_slot *slot,
                                crema_devptr to) {
  crema_devptr from = {0};
  CR_TRY(cr_syncedmem_read(&slot->memory, context, &from));
  cr_commands_add_conversion(context, v, slot->format, to, slot->format, from);
  return context->device->backend->convert(context, v->count, slot->format, to, slot->format, from);
}

crema_status cr_tensor_bring_home(values *v, crema_context *context, format_slot *slot, bool keep) {
  const cr_tensor_home *home = v->within;
  crema_devptr place = {0};
  if (!home->whole->ordered || !home->fits) return CREMA_OK;
  if (!cr_format_equal(slot->format, home->place.format)) return CREMA_OK;
  if (!context->device->backend->host_memory) return CREMA_OK;
  /* Memory that lasts longer than a pass may be another one in the next. */
  if (!home->whole->passing) cr_commands_spoil(context);
  CR_TRY(find_place(home, context, &place));
  if (slot->at_home && (uintptr_t)slot->memory.host.data == place.address) return CREMA_OK;
  const bool moves = keep && is_valid(slot);
  if (moves) CR_TRY(move_values(v, context, slot, place));
  set_valid(slot, false);
  cr_tensor_clear_slot(slot);
  CR_TRY(cr_syncedmem_adopt(&slot->memory, context->device, place));
  slot->memory.size = slot->memory.capacity = slot->format.layout != NULL
                                                  ? slot->format.layout->bytes
                                                  : (size_t)v->count * crema_dtype_size(v->type);
  slot->at_home = true;
  set_valid(slot, moves);
  return CREMA_OK;
}

crema_status cr_tensor_go_home(cr_tensor *tensor, crema_context *context) {
  values *v = tensor->values;
  format_slot *slot = NULL;
  cr_format format;
  if (!cr_tensor_has_home(tensor, &format)) {
    return cr_fail(CREMA_E_INTERNAL, "a tensor without a place in another one");
  }
  CR_TRY(cr_tensor_follow_former(v));
  CR_TRY(cr_tensor_need_slot(v, context, format, &slot));
  CR_TRY(cr_tensor_bring_home(v, context, slot, true));
  return cr_tensor_make_valid(v, context, slot);
}
