/* The parts of a tensor. The states of the values and their changes: memory/tensor.c. */
#ifndef CR_MEMORY_TENSOR_PRIVATE_H
#define CR_MEMORY_TENSOR_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "memory/syncedmem.h"
#include "memory/tensor.h"
#include "memory/tensor_source.h"

/* One format that is held. */
typedef struct format_slot {
  struct format_slot *_Atomic next;
  cr_format format;  /* of a valid slot it never changes, so that readers need no lock */
  atomic_bool valid; /* holds the newest values */
  bool aliased;      /* the memory is a part of the memory of `block` or of the alias's whole */
  struct cr_tensor_values *block; /* pinned: a fixed part of these values, kept alive; or NULL */
  unsigned access;                /* grows with each use of another slot; for LRU eviction */
  crema_syncedmem memory;
} format_slot;

/* A plan to store the values in the memory of another tensor (cr_tensor_alias_set). Belongs to the
 * part; ends with either of the two tensors. */
typedef struct cr_tensor_alias {
  struct cr_tensor_values *part, *whole;
  bool read;           /* the part is read from the whole, not written there */
  bool fits;           /* the whole's order has a place for the part */
  cr_part which;       /* the part's position */
  cr_part_place place; /* in the whole's order */
  struct cr_tensor_alias *next;
} cr_tensor_alias;

/* The planned parts of a whole. */
typedef struct cr_tensor_parts {
  cr_tensor_alias *first;
  bool ordered;     /* `format` is known */
  cr_format format; /* the order in which the parts are stored */
} cr_tensor_parts;

/* The source of values that are not loaded yet. */
typedef struct cr_tensor_pending {
  cr_tensor_source *source; /* NULL: nothing is pending */
  uint64_t at;
  bool used; /* the values were used once without being kept */
} cr_tensor_pending;

typedef enum cr_tensor_state {
  CR_TENSOR_NEW,      /* all zero; never set since the values were made or grew */
  CR_TENSOR_ZERO,     /* all zero; set so */
  CR_TENSOR_SET,      /* other values: in the valid slots, or pending */
  CR_TENSOR_RELEASED, /* given up: a read fails until a write */
} cr_tensor_state;

typedef enum cr_tensor_lifetime {
  CR_TENSOR_LASTS,
  CR_TENSOR_TRANSIENT, /* see cr_tensor_set_transient */
  CR_TENSOR_PER_USE,   /* see cr_tensor_set_per_use */
  CR_TENSOR_CONSTANT,  /* see cr_tensor_set_constant */
} cr_tensor_lifetime;

/* The values; sharing tensors point to the same values. Reads of several threads meet here: they
 * change members under the lock, and read without it only atomic members. A thread that changes the
 * values in other ways has exclusive use of them. */
typedef struct cr_tensor_values {
  atomic_int tensors; /* number of tensors that point here */
  crema_dtype type;
  int64_t count;
  crema_device *device;         /* the thread's current device when the values were made */
  _Atomic uint64_t conversions; /* between element types, since the values were made */
  cr_tensor_state state;
  cr_tensor_lifetime lifetime;
  format_slot *_Atomic head; /* the slot with the newest values; NULL: none, or pending */
  cr_format head_format;     /* that was written last */
  cr_tensor_pending pending; /* for users with the lock, or the only user */
  uint64_t generation;       /* unique among all tensors; changes when host memory is replaced */
  pthread_mutex_t lock;
  format_slot *_Atomic first;
  crema_view *view;       /* see memory/view.h; NULL: none */
  const char *label;      /* see cr_tensor_set_label */
  cr_tensor_alias *alias; /* NULL: the memory is the values' own */
  cr_tensor_parts *parts; /* the parts stored in these values; NULL: none */
} values;

/* The tensor that a tensor got its values from. It lives as long as the tensor or any tensor with
 * values from it. A cycle is therefore found even if a donor in the middle is destroyed. */
typedef struct origin {
  atomic_int users;
  struct origin *donor;
} origin;

struct cr_tensor {
  values *values;
  values *prepared; /* its own values for a resize, while it shares values; NULL: none */
  origin *origin;   /* NULL: never shared */
};

/* Defined in memory/tensor_values.c: */

/* CREMA_E_TYPE and CREMA_E_SHAPE for an unknown type or an impossible count. */
crema_status cr_tensor_check_count(crema_dtype type, int64_t count) CREMA_MUST_USE;

/* New values, which one tensor has. */
crema_status cr_tensor_values_create(crema_dtype type, int64_t count, values **out) CREMA_MUST_USE;
void cr_tensor_values_set_zero(values *v);

/* The bytes of the values in `format`; of `count` values with the memory that is allocated for
 * them.
 */
size_t cr_tensor_value_bytes(const values *v, cr_format format);
size_t cr_tensor_bytes_of(int64_t count, cr_format format);

/* A number that no memory has had. */
uint64_t cr_tensor_next_generation(void);

/* The slot of `format`, valid or not; NULL: none. With the lock, or with no other user. */
format_slot *cr_tensor_find_slot(const values *v, cr_format format);
/* The same; the slot is made if it is not there. `need_memory` takes memory of the context's heap
 * for formats that are soon released. */
crema_status cr_tensor_need_slot(values *v, crema_device *device, cr_format format,
                                 format_slot **out) CREMA_MUST_USE;
crema_status cr_tensor_need_memory(values *v, crema_context *context, cr_format format,
                                   format_slot **out) CREMA_MUST_USE;

/* Gives a slot without memory on the context's side memory of its heap, if it is soon released. */
void cr_tensor_take_heap(const values *v, crema_context *context, format_slot *slot);

/* The slot with the newest values; NULL if they are zero, pending or released. */
format_slot *cr_tensor_newest(const values *v);
/* Whether there are values other than zeros. */
bool cr_tensor_has_values(const values *v);
/* Brings the newest values into `slot`, on the cheapest side. */
crema_status cr_tensor_make_valid(values *v, crema_context *context,
                                  format_slot *slot) CREMA_MUST_USE;
/* Reads values of the source to `dst`. */
crema_status cr_tensor_read_source(const values *v, cr_format format,
                                   crema_devptr dst) CREMA_MUST_USE;
/* The slot has been written: it becomes the head, and all others stale. */
void cr_tensor_only_valid(values *v, format_slot *slot);

/* Releases the memory of a slot; the slot itself; all slots but `keep`, which may be NULL; the
 * memory of all stale slots. */
void cr_tensor_clear_slot(format_slot *slot);
void cr_tensor_drop_slot(values *v, format_slot *slot);
void cr_tensor_drop_slots_but(values *v, const format_slot *keep);
void cr_tensor_clear_stale(values *v);

/* Replaces the source of the values. */
void cr_tensor_drop_source(values *v);

/* Defined in memory/tensor_alias.c: */

/* Gives the slot memory in the alias's whole, if its format belongs there; with `keep` its values
 * move along. */
crema_status cr_tensor_alias_enter(values *v, crema_context *context, format_slot *slot,
                                   bool keep) CREMA_MUST_USE;
/* Removes the memory of `slot` from the parts stored there, with values that are stored only there.
 */
void cr_tensor_alias_release_parts(values *v, const format_slot *slot);
/* Ends the planned aliases in which the values are a part or the whole. */
void cr_tensor_alias_end_all(values *v);
/* The slot is not a part of a block; its memory is not touched. */
void cr_tensor_unpin(format_slot *slot);

static inline format_slot *first_slot(const values *v) {
  return atomic_load_explicit(&v->first, memory_order_acquire);
}

static inline format_slot *next_slot(const format_slot *slot) {
  return atomic_load_explicit(&slot->next, memory_order_acquire);
}

static inline format_slot *head_slot(const values *v) {
  return atomic_load_explicit(&v->head, memory_order_acquire);
}

static inline void set_head(values *v, format_slot *slot) {
  atomic_store_explicit(&v->head, slot, memory_order_release);
}

static inline bool is_valid(const format_slot *slot) {
  return atomic_load_explicit(&slot->valid, memory_order_acquire);
}

static inline void set_valid(format_slot *slot, bool valid) {
  atomic_store_explicit(&slot->valid, valid, memory_order_release);
}

/* Whether the slot is in a block; eviction skips such slots. */
static inline bool is_pinned(const format_slot *slot) {
  return slot->block != NULL;
}

static inline bool has_pinned(const values *v) {
  const format_slot *s = first_slot(v);
  while (s != NULL && !is_pinned(s)) s = next_slot(s);
  return s != NULL;
}

static inline bool is_zero(const values *v) {
  return v->state <= CR_TENSOR_ZERO;
}

static inline bool has_source(const values *v) {
  return v->pending.source != NULL;
}

/* No other thread can be reading the values. */
static inline bool has_alone(const values *v) {
  return atomic_load_explicit(&v->tensors, memory_order_acquire) == 1;
}

static inline bool is_transient(const values *v) {
  return v->lifetime == CR_TENSOR_TRANSIENT;
}

static inline cr_format own_format(const values *v) {
  return (cr_format){v->type, NULL};
}

#endif
