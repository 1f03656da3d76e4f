/* Walking through the records of an LMDB file without trusting it.
 *
 * LMDB itself follows every offset and page number that a file holds: of 3000 data files with one
 * to four damaged bytes, 411 made a reader of Debian's LMDB 0.9.24 crash. This walker reads the
 * same B+tree with every step checked against the file's size. It sees one snapshot, which the
 * caller pins with a read transaction of LMDB. Pages are read one by one (data/db/lmdb_file.h),
 * large values only when they are asked for. Format: LMDB 0.9, of machines of this word size and
 * byte order, which is all that LMDB reads as well. */
#ifndef CR_DATA_LMDB_WALK_H
#define CR_DATA_LMDB_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buffer.h"
#include "data/db/db.h"
#include "data/db/lmdb_file.h"

enum { CR_LMDB_MAX_DEPTH = 32 };

/* A position in one page of the tree. */
typedef struct cr_lmdb_level {
  uint8_t *page;    /* a copy; its memory is used again by the next page of this level */
  int index, count; /* of its nodes */
} cr_lmdb_level;

typedef struct cr_lmdb_walk {
  cr_lmdb_file *file;
  size_t page_size;
  uint64_t pages, root, entries;
  uint64_t visited; /* records since the first one */
  int depth;        /* levels in use; 0: on no record */
  cr_lmdb_level level[CR_LMDB_MAX_DEPTH];
  /* The record that the walk is at, valid until it moves. A large value's data is NULL. */
  cr_db_bytes key, value;
  uint64_t offset; /* of the value in the file */
} cr_lmdb_walk;

/* Begins on an open snapshot (the caller's, open to the end of the walk). Errors: CREMA_E_CORRUPT,
 * CREMA_E_UNSUPPORTED (keys with several values). */
crema_status cr_lmdb_walk_begin(cr_lmdb_walk *walk, cr_lmdb_file *file) CREMA_MUST_USE;
/* Frees the pages. Accepts a zeroed one. */
void cr_lmdb_walk_end(cr_lmdb_walk *walk);

/* Moves to the first record, to the next one, or to the one with this key; *valid tells whether
 * there is one. Errors: CREMA_E_CORRUPT with the page's number; those of cr_lmdb_file_read. */
crema_status cr_lmdb_walk_first(cr_lmdb_walk *walk, bool *valid) CREMA_MUST_USE;
crema_status cr_lmdb_walk_next(cr_lmdb_walk *walk, bool *valid) CREMA_MUST_USE;
crema_status cr_lmdb_walk_seek(cr_lmdb_walk *walk, cr_db_bytes key, bool *valid) CREMA_MUST_USE;

/* Reads the value of `size` bytes at `offset`, where a walk through this snapshot found it; may be
 * called by several threads at once. *out points into `store`, whose content it replaces. Errors:
 * as above, CREMA_E_NO_MEMORY. */
crema_status cr_lmdb_read_value(cr_lmdb_file *file, uint64_t offset, size_t size, cr_buffer *store,
                                cr_db_bytes *out) CREMA_MUST_USE;

#endif
