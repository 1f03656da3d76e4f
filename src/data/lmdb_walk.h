/* Walking through the records of an LMDB file without trusting it.
 *
 * LMDB itself follows every offset and page number that a file holds: of 3000 data files with one
 * to four damaged bytes, 411 made a reader of Debian's LMDB 0.9.24 crash. This walker reads the
 * same B+tree with every step checked against the file's size. It sees one snapshot, which the
 * caller pins with a read transaction of LMDB. Format: LMDB 0.9, of machines of this word size and
 * byte order, which is all that LMDB reads as well. */
#ifndef CR_DATA_LMDB_WALK_H
#define CR_DATA_LMDB_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/db.h"

enum { CR_LMDB_MAX_DEPTH = 32, CR_LMDB_META_SIZE = 152 };

/* A place in one page of the tree. */
typedef struct cr_lmdb_level {
  const uint8_t *page;
  int index, count; /* of its nodes */
} cr_lmdb_level;

typedef struct cr_lmdb_walk {
  const uint8_t *map;
  size_t size;
  size_t page_size;
  uint64_t pages, root, entries;
  uint64_t visited; /* records since the first one */
  int depth;        /* levels in use; 0: on no record */
  cr_lmdb_level level[CR_LMDB_MAX_DEPTH];
  cr_db_bytes key, value; /* of the record that it stands on */
} cr_lmdb_walk;

/* Looks at the first bytes of one of the two meta pages, at the beginnings of the first two pages:
 * tells the page size. Opening a file whose meta pages disagree makes LMDB crash.
 * Errors: CREMA_E_CORRUPT. */
crema_status cr_lmdb_check_meta(const uint8_t bytes[CR_LMDB_META_SIZE],
                                size_t *page_size) CREMA_MUST_USE;

/* Begins on `size` bytes at `map` (the caller's, mapped to the end of the walk) with the snapshot
 * of transaction `txn_id`. *current is false when the file does not hold that snapshot any more.
 * Errors: CREMA_E_CORRUPT, CREMA_E_UNSUPPORTED (keys with several values). */
crema_status cr_lmdb_walk_begin(cr_lmdb_walk *walk, const uint8_t *map, size_t size,
                                uint64_t txn_id, bool *current) CREMA_MUST_USE;

/* To the first record, the next one, the one with this key; *valid tells whether there is one.
 * Errors: CREMA_E_CORRUPT with the page's number. */
crema_status cr_lmdb_walk_first(cr_lmdb_walk *walk, bool *valid) CREMA_MUST_USE;
crema_status cr_lmdb_walk_next(cr_lmdb_walk *walk, bool *valid) CREMA_MUST_USE;
crema_status cr_lmdb_walk_seek(cr_lmdb_walk *walk, cr_db_bytes key, bool *valid) CREMA_MUST_USE;

#endif
