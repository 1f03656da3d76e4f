/* Common parts of exchanges between threads of one process: the ends, the links between them, and
 * failures, which reach all ranks. */
#ifndef CR_PARALLEL_GROUP_H
#define CR_PARALLEL_GROUP_H

#include "core/fail.h"
#include "parallel/exchange.h"
#include "parallel/link.h"
#include "parallel/span_add.h"

typedef struct cr_group cr_group;

/* The division of runs into pieces, so that one piece is added while the next is transferred. */
typedef struct cr_piece_cut {
  int most; /* pieces per run */
  size_t bytes;
} cr_piece_cut;

/* One rank's end. */
typedef struct cr_group_end {
  cr_exchange base;
  cr_group *group;
  cr_exchange_span *span;
  cr_piece_cut pieces; /* set by the class in prepare */
  uint64_t calls;
  cr_span_adder adder;
  /* Copies to other ranks are queued here and run alongside the additions of the caller's context.
   */
  crema_context *carrier;
  cr_native_event *turn; /* orders the two contexts */
  cr_native_event *sent; /* the end of the last call's copies */
} cr_group_end;

struct cr_group {
  pthread_mutex_t lock; /* for the members marked "guarded" */
  int ranks;
  int ends;               /* not destroyed; guarded */
  int prepared;           /* guarded */
  int spans;              /* -1: no rank has named its spans; guarded */
  cr_exchange_span *span; /* counts and types that all ranks must have; guarded */
  int links;
  cr_link *link;
  int failed_rank;                     /* the rank that failed first; -1: none; guarded */
  crema_status status;                 /* its failure; guarded */
  cr_error *error;                     /* likewise */
  void (*free_class)(cr_group *group); /* frees class_data; may be NULL */
  void *class_data;
};

/* A group of one end per device, of class `class`, and `links` links, which the class sets up.
 * Errors: as cr_exchange_create_tree; end[] is all NULL then. */
crema_status cr_group_create(crema_device *const *device, int ranks, const cr_exchange_class *class,
                             int links, cr_exchange **end, cr_group **out) CREMA_MUST_USE;

/* Records the spans, which all ranks must name alike, and makes the end's carrier. */
crema_status cr_group_begin_prepare(cr_group_end *end, const cr_exchange_span *span,
                                    int spans) CREMA_MUST_USE;

/* Opens the links to this rank, with slots for a piece each; the rank is then prepared. */
crema_status cr_group_end_prepare(cr_group_end *end, int slots) CREMA_MUST_USE;

/* Begins a call, whose first piece gets *tag. Errors: a rank has failed or is not prepared. */
crema_status cr_group_begin_call(cr_group_end *end, int span, bool sum, cr_tag *tag) CREMA_MUST_USE;

crema_status cr_group_finish(cr_exchange *end) CREMA_MUST_USE;
/* Destroys all ends of a group that could not be set up. */
void cr_group_drop(cr_exchange **end, int ranks);

void cr_group_fail(cr_exchange *end, crema_status status);
/* The failure of a rank; CREMA_OK: none. */
crema_status cr_group_failure(cr_group *group) CREMA_MUST_USE;
void cr_group_destroy_end(cr_exchange *end);

static inline cr_group_end *cr_group_end_of(cr_exchange *end) {
  return (cr_group_end *)end;
}

/* Pieces: */

cr_piece_cut cr_piece_cut_for(size_t most_bytes);

/* A part of a span: values begin to begin + count - 1. */
typedef struct cr_run {
  int64_t begin, count;
} cr_run;

/* Piece number `index` of a run of a span; count 0 after the last. */
cr_run cr_run_piece(cr_run run, const cr_piece_cut *pieces, crema_dtype type, int64_t index);

static inline crema_devptr cr_exchange_span_at(const cr_exchange_span *span, int64_t value) {
  return (crema_devptr){span->memory.address + (size_t)value * crema_dtype_size(span->type)};
}

static inline size_t cr_run_bytes(cr_run run, crema_dtype type) {
  return (size_t)run.count * crema_dtype_size(type);
}

/* Adds the values in `slot` to the piece of the span and releases the slot. */
crema_status cr_group_add(cr_group_end *end, crema_context *context, cr_link *link,
                          cr_link_slot *slot, const cr_exchange_span *span,
                          cr_run piece) CREMA_MUST_USE;

/* Prepares for additions of all pieces of a run. */
crema_status cr_group_need_additions(cr_group_end *end, crema_dtype type,
                                     cr_run run) CREMA_MUST_USE;

/* The end's carrier waits for `context`. */
crema_status cr_group_to_carrier(cr_group_end *end, crema_context *context) CREMA_MUST_USE;
/* The reverse, at the end of a call. */
crema_status cr_group_from_carrier(cr_group_end *end, crema_context *context) CREMA_MUST_USE;

#endif
