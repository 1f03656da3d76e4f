/* The endless sequence of the records of a database: each epoch in key order, or later epochs from
 * memory, in key order or shuffled.
 *
 * Position p is record p % count of epoch p / count. Epoch 0 is in key order, because it fills the
 * memory. For one thread at a time. */
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
  bool shuffle;         /* each later epoch has its own permutation; needs cache */
  uint64_t order_key;   /* of the permutations */
  uint64_t cache_limit; /* as for cr_record_cache_create */
} cr_record_walk_options;

typedef struct cr_record_walk {
  cr_db *db;
  cr_db_cursor *cursor;
  _Atomic uint64_t count;    /* records; UINT64_MAX: unknown */
  _Atomic uint64_t reads;    /* records that the cursor reached, for the statistics */
  _Atomic bool in_key_order; /* no records are kept: all epochs are read from the database */
  bool from_memory;          /* the cache is complete */
  bool from_first;           /* the cursor has visited each record from the first */
  uint64_t walked;           /* records between the first and the cursor */
  uint64_t cache_limit;
  cr_record_cache *cache; /* NULL: no records are kept */
  cr_order order;
  uint64_t position; /* of the record below; not counted while nothing is kept */
  /* Data NULL: read the value at `value_offset` with `cursor`. */
  cr_db_bytes key, value;
  uint64_t value_offset;
  bool stable; /* key and value stay valid while the walk keeps its records */
} cr_record_walk;

/* Opens the database at position 0. After a failure there is nothing to close. Errors: see
 * cr_db_open; CREMA_E_CORRUPT without records. */
crema_status cr_record_walk_open(const cr_record_walk_options *options,
                                 cr_record_walk *walk) CREMA_MUST_USE;
/* Accepts a zeroed struct. */
void cr_record_walk_close(cr_record_walk *walk);

/* Moves to the next record. */
crema_status cr_record_walk_next(cr_record_walk *walk) CREMA_MUST_USE;

/* Moves to a position. A walk that keeps records visits earlier records unless it has them. */
crema_status cr_record_walk_go(cr_record_walk *walk, uint64_t position) CREMA_MUST_USE;

/* Moves to the record after `key`; only for walks in key order. Errors: CREMA_E_NOT_FOUND without
 * such a record; the walk must then be moved elsewhere. */
crema_status cr_record_walk_go_after(cr_record_walk *walk, cr_db_bytes key) CREMA_MUST_USE;

/* All further epochs are in key order and nothing is kept. */
void cr_record_walk_keep_nothing(cr_record_walk *walk);

/* The key at a position, without moving there; false: it is not in memory. */
bool cr_record_walk_key_at(cr_record_walk *walk, uint64_t position, cr_db_bytes *key);

/* Sets the key for shuffling further epochs. */
void cr_record_walk_set_order(cr_record_walk *walk, uint64_t order_key);

#endif
