/* The records of a database one after another, for ever: in the order of the keys, then from the
 * first one on again; or, when they are kept in memory, each later epoch from there, in the same
 * order or in one of its own.
 *
 * Positions are counted: position p is record p % count of epoch p / count. Epoch 0 is always in
 * the order of the keys, because it is the one that fills the memory. May be used by one thread at
 * a time. */
#ifndef CR_DATA_RECORD_WALK_H
#define CR_DATA_RECORD_WALK_H

#include <stdatomic.h>

#include "data/db/db.h"
#include "data/pipeline/order.h"
#include "data/pipeline/record_cache.h"

typedef struct cr_record_walk_options {
  const char *backend;  /* as for cr_db_open */
  const char *source;   /* path */
  bool cache;           /* keep the records of the first epoch in memory */
  bool shuffle;         /* each later epoch has a permutation of its own; needs cache */
  uint64_t order_key;   /* of the permutations */
  uint64_t cache_limit; /* as for cr_record_cache_create */
} cr_record_walk_options;

typedef struct cr_record_walk {
  cr_db *db;
  cr_db_cursor *cursor;
  _Atomic uint64_t count;    /* records; UINT64_MAX: not known yet */
  _Atomic uint64_t reads;    /* records that the cursor reached, for the statistics */
  _Atomic bool in_key_order; /* nothing is kept (any more): all epochs come from the database */
  bool from_memory;          /* the cache is complete */
  bool from_first;           /* the cursor has visited every record since the first */
  uint64_t walked;           /* records between the first and the cursor */
  uint64_t cache_limit;
  cr_record_cache *cache; /* NULL: nothing is kept */
  cr_order order;
  uint64_t position; /* of the record below; not counted while nothing is kept */
  /* When the value's data is NULL, it has to be read at `value_offset` with `cursor`. */
  cr_db_bytes key, value;
  uint64_t value_offset;
  bool stable; /* key and value stay where they are as long as the walk keeps its records */
} cr_record_walk;

/* Opens the database at position 0. `walk` may be in any state before; after a failure there is
 * nothing to close. Errors: those of cr_db_open; CREMA_E_CORRUPT when there are no records. */
crema_status cr_record_walk_open(const cr_record_walk_options *options,
                                 cr_record_walk *walk) CREMA_MUST_USE;
/* Accepts a zeroed one. */
void cr_record_walk_close(cr_record_walk *walk);

/* Moves to the next record. */
crema_status cr_record_walk_next(cr_record_walk *walk) CREMA_MUST_USE;

/* Moves to a position, counted from the first record. A walk that keeps records visits those before
 * it unless it has them. */
crema_status cr_record_walk_go(cr_record_walk *walk, uint64_t position) CREMA_MUST_USE;

/* Moves to the record after the one with `key`; only for walks in key order. Errors:
 * CREMA_E_NOT_FOUND when there is no such record; the walk must then be moved elsewhere. */
crema_status cr_record_walk_go_after(cr_record_walk *walk, cr_db_bytes key) CREMA_MUST_USE;

/* From now on all epochs are in key order and nothing is kept. */
void cr_record_walk_keep_nothing(cr_record_walk *walk);

/* The key at a position, without moving there; false when it is not in memory. */
bool cr_record_walk_key_at(cr_record_walk *walk, uint64_t position, cr_db_bytes *key);

/* Epochs are shuffled by this key from now on. */
void cr_record_walk_set_order(cr_record_walk *walk, uint64_t order_key);

#endif
