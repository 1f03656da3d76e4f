/* Walks through the records of an LMDB file without trusting it.
 *
 * LMDB follows each offset and page number in a file unchecked: 411 of 3,000 files with one to four
 * damaged bytes crashed LMDB 0.9.24. This walker checks each step through the B+tree against the
 * file's size. It reads one snapshot, which the caller pins with a read transaction of LMDB. It
 * reads pages one by one (data/db/lmdb_file.h), large values only on request. Format: LMDB 0.9 of
 * this word size and byte order, as LMDB itself. */
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
  uint8_t *page;    /* a copy, until the next page of this level */
  int index, count; /* of its nodes */
} cr_lmdb_level;

typedef struct cr_lmdb_walk {
  cr_lmdb_file *file;
  size_t page_size;
  uint64_t pages, root, entries;
  uint64_t visited; /* records, with the first */
  int depth;        /* levels in use; 0: on no record */
  cr_lmdb_level level[CR_LMDB_MAX_DEPTH];
  /* The present record, valid until the walk moves. A large value's data is NULL. */
  cr_db_bytes key, value;
  uint64_t offset; /* of the value in the file */
} cr_lmdb_walk;

/* Begins a walk through the caller's open snapshot. Errors: CREMA_E_CORRUPT, CREMA_E_UNSUPPORTED
 * (keys with several values). */
crema_status cr_lmdb_walk_begin(cr_lmdb_walk *walk, cr_lmdb_file *file) CREMA_MUST_USE;
/* Frees the pages. Accepts a zeroed struct. */
void cr_lmdb_walk_end(cr_lmdb_walk *walk);

/* Moves to the first record, the next, or the record with this key; *valid: there is one. Errors:
 * CREMA_E_CORRUPT with the page's number, errors of cr_lmdb_file_read. */
crema_status cr_lmdb_walk_first(cr_lmdb_walk *walk, bool *valid) CREMA_MUST_USE;
crema_status cr_lmdb_walk_next(cr_lmdb_walk *walk, bool *valid) CREMA_MUST_USE;
crema_status cr_lmdb_walk_seek(cr_lmdb_walk *walk, cr_db_bytes key, bool *valid) CREMA_MUST_USE;

/* Reads the value of `size` bytes at `offset`, as found by a walk through this snapshot. Several
 * threads may call it at once. *out points into `store`, whose content it replaces. Errors: as
 * above, CREMA_E_NO_MEMORY. */
crema_status cr_lmdb_read_value(cr_lmdb_file *file, uint64_t offset, size_t size, cr_buffer *store,
                                cr_db_bytes *out) CREMA_MUST_USE;

#endif
