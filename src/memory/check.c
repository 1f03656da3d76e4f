#include "memory/check.h"

#include "memory/tensor_private.h"

#ifdef CR_CHECKS
static void check_slots(const values *v) {
  int heads = 0, aliased = 0;
  for (const format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    heads += s == head_slot(v);
    aliased += s->aliased && !is_pinned(s);
    for (const format_slot *t = next_slot(s); t != NULL; t = next_slot(t)) {
      CR_ASSERT(!cr_format_equal(s->format, t->format));
    }
    CR_ASSERT(!is_valid(s) || s->memory.head != CREMA_UNINITIALIZED);
    CR_ASSERT(s->aliased == is_pinned(s) || (s->aliased && v->alias != NULL));
  }
  CR_ASSERT(heads == (head_slot(v) != NULL));
  CR_ASSERT(aliased <= 1);
}

static void check_state(const values *v) {
  bool valid = false;
  for (const format_slot *s = first_slot(v); s != NULL; s = next_slot(s))
    valid = valid || is_valid(s);
  const bool source = has_source(v);
  const bool newest = head_slot(v) != NULL && is_valid(head_slot(v));
  switch (v->state) {
    case CR_TENSOR_NEW:
    case CR_TENSOR_ZERO: CR_ASSERT(!source); break;
    case CR_TENSOR_SET:
      CR_ASSERT(newest + source == 1);
      CR_ASSERT(newest || !valid);
      break;
    case CR_TENSOR_RELEASED: CR_ASSERT(!valid && !source); break;
    default: CR_ASSERT(!"a state");
  }
}

static bool is_listed(const cr_tensor_alias *alias) {
  const cr_tensor_parts *parts = alias->whole->parts;
  const cr_tensor_alias *a = parts == NULL ? NULL : parts->first;
  while (a != NULL && a != alias) a = a->next;
  return a == alias;
}

static void check_aliases(const values *v) {
  const cr_tensor_alias *alias = v->alias;
  if (alias != NULL) {
    CR_ASSERT(alias->part == v && alias->whole != v);
    CR_ASSERT(is_listed(alias) && v->type == alias->whole->type);
  }
  if (v->parts == NULL) return;
  CR_ASSERT(v->parts->first != NULL);
  for (const cr_tensor_alias *a = v->parts->first; a != NULL; a = a->next) {
    CR_ASSERT(a->whole == v && a->part->alias == a);
    for (const format_slot *s = first_slot(a->part); s != NULL; s = next_slot(s)) {
      CR_ASSERT(!s->aliased || cr_format_equal(s->format, a->place.format));
    }
  }
}

bool cr_tensor_check(const values *v) {
  check_slots(v);
  check_state(v);
  check_aliases(v);
  return true;
}

bool cr_syncedmem_check(const crema_syncedmem *memory, crema_head head) {
  const bool host = memory->host.data != NULL, gpu = memory->gpu.data.address != 0;
  CR_ASSERT(memory->size <= memory->capacity);
  CR_ASSERT((host || !memory->host.own) && (gpu || !memory->gpu.own));
  switch (head) {
    case CREMA_UNINITIALIZED: break;
    case CREMA_HEAD_AT_CPU: CR_ASSERT(host); break;
    case CREMA_HEAD_AT_GPU: CR_ASSERT(gpu); break;
    case CREMA_SYNCED: CR_ASSERT(host && gpu && memory->head != CREMA_UNINITIALIZED); break;
    default: CR_ASSERT(!"a head");
  }
  return true;
}
#endif
