/* What a tensor is made of. */
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
  unsigned access;   /* number of the last access, for eviction */
  bool aliased;      /* the memory is a part of the memory of the alias's whole */
  crema_syncedmem memory;
} format_slot;

/* The values lie in the memory of another tensor. Belongs to the part. A pinned alias is a fixed
 * part of a block (cr_tensor_alias_block), which it keeps alive. Other aliases are planned
 * (cr_tensor_alias_set) and end with either of the two tensors; they have the members below. */
typedef struct cr_tensor_alias {
  struct cr_tensor_values *part, *whole;
  bool pinned;
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
  cr_format format; /* in which the parts lie */
} cr_tensor_parts;

/* The values; sharing tensors point to the same ones. Reads of several threads meet here: what they
 * change, they change under the lock, and what they look at before, is atomic. Whatever else
 * changes the values has them to itself. */
typedef struct cr_tensor_values {
  atomic_int tensors; /* how many point here */
  crema_dtype type;
  int64_t count;
  crema_device *home;           /* that the thread worked on when the values were made */
  _Atomic uint64_t conversions; /* between element types, since the values were made */
  bool zero;                    /* all values are zero, whatever the slots say */
  bool given;                   /* with `zero`: somebody said so; they are not just new */
  bool passing;                 /* see cr_tensor_set_passing */
  bool constant;                /* see cr_tensor_set_constant */
  bool gone;                    /* see cr_tensor_let_go */
  bool per_use;                 /* see cr_tensor_set_per_use */
  format_slot *head;            /* slot written last, NULL when none */
  cr_format head_format;
  /* Where the values still have to be read from, and the slot that they were first made in: they
   * are the newest ones when there is no head. Used with the lock, or alone. */
  cr_tensor_source *source;
  uint64_t source_at;
  bool used; /* values of the source were used once without being kept */
  format_slot *made;
  unsigned accesses;
  uint64_t generation; /* unique among all tensors; changes when host memory is replaced */
  pthread_mutex_t lock;
  int slots;
  format_slot *_Atomic first;
  crema_view *view;  /* see memory/view.h; NULL: none */
  const char *label; /* see cr_tensor_set_label */
  /* Of values that left others: those others, until these are first used; and the other way round,
   * the last ones that did. See memory/tensor_resize.c. */
  struct cr_tensor_values *former, *heir;
  cr_tensor_alias *alias; /* NULL: the memory is the values' own */
  cr_tensor_parts *parts; /* that lie in these values; NULL: none */
} values;

/* The tensor from which a tensor has its values. Lives as long as the tensor or anybody who has
 * values from it, so that a circle is found even when a donor in the middle is gone. */
typedef struct origin {
  atomic_int users;
  struct origin *donor;
} origin;

struct cr_tensor {
  values *values;
  values *prepared; /* for a resize that leaves shared values; NULL: none */
  origin *origin;   /* NULL: never shared */
};

/* Of memory/tensor.c. The slot of `format`, made when it is not there; with memory of the context's
 * heap where that is due; the newest values in it; memory let go. */
crema_status cr_tensor_need_slot(values *v, crema_device *device, cr_format format,
                                 format_slot **out) CREMA_MUST_USE;
crema_status cr_tensor_need_memory(values *v, crema_context *context, cr_format format,
                                   format_slot **out) CREMA_MUST_USE;
crema_status cr_tensor_make_valid(values *v, crema_context *context,
                                  format_slot *slot) CREMA_MUST_USE;
void cr_tensor_clear_slot(values *v, format_slot *slot);

/* Whether there are values other than zeros; their bytes; one user less. */
bool cr_tensor_has_values(const values *v);
size_t cr_tensor_value_bytes(const values *v, cr_format format);
void cr_tensor_values_release(values *v);

/* The same, for memory/tensor_resize.c: new values, which one tensor has; the bytes that are
 * allocated for `count` values; a number for new memory; the slot of a format, or NULL; slots let
 * go, but for `keep` (may be NULL); the source let go; zeros; the newest values for reading, with
 * the lock. */
crema_status cr_tensor_values_create(crema_dtype type, int64_t count, values **out) CREMA_MUST_USE;
size_t cr_tensor_bytes_of(int64_t count, cr_format format);
uint64_t cr_tensor_next_generation(void);
format_slot *cr_tensor_find_slot(const values *v, cr_format format);
void cr_tensor_drop_slots_but(values *v, const format_slot *keep);
void cr_tensor_forget_source(values *v);
void cr_tensor_values_set_zero(values *v);
crema_status cr_tensor_make_readable(values *v, crema_context *context, cr_format format,
                                     crema_devptr *out) CREMA_MUST_USE;

/* Of memory/tensor_resize.c, for memory/tensor.c: a refusal of what is no type or count. Before
 * values are first used that left others: what they keep of those. When they are written instead,
 * there is nothing to keep. */
crema_status cr_tensor_check_count(crema_dtype type, int64_t count) CREMA_MUST_USE;
crema_status cr_tensor_follow_former(values *v) CREMA_MUST_USE;
void cr_tensor_forget_former(values *v);

/* Of memory/tensor_alias.c. Gives the slot memory in the alias's whole, if its format belongs
 * there; with `keep` its values move along. */
crema_status cr_tensor_alias_enter(values *v, crema_context *context, format_slot *slot,
                                   bool keep) CREMA_MUST_USE;
/* Takes the memory in the whole from a part, and its newest values if they are only there. */
void cr_tensor_alias_lose_memory(values *part);
/* The same for all parts that lie in the memory of `slot`, which goes. */
void cr_tensor_alias_release_parts(values *v, const format_slot *slot);
/* Ends the planned aliases of which the values are a part or the whole. */
void cr_tensor_alias_end_all(values *v);
/* Ends a pinned alias; the slot's memory is not touched. */
void cr_tensor_alias_unpin(values *v);

static inline format_slot *first_slot(const values *v) {
  return atomic_load_explicit(&v->first, memory_order_acquire);
}

/* Whether the slot lies in a block; it is not evicted. */
static inline bool is_pinned(const values *v, const format_slot *slot) {
  return slot->aliased && v->alias != NULL && v->alias->pinned;
}

static inline format_slot *next_slot(const format_slot *slot) {
  return atomic_load_explicit(&slot->next, memory_order_acquire);
}

static inline bool is_valid(const format_slot *slot) {
  return atomic_load_explicit(&slot->valid, memory_order_acquire);
}

#endif
