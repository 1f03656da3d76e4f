/* The data file of an LMDB, read without mapping it.
 *
 * LMDB maps its file. Truncating a mapped file ends the process with SIGBUS, and a file that is
 * replaced in place is read as if it were the old file. Here pread reads bytes, and the file's size
 * and time of change then show whether the file may have changed. LMDB's own writers change both
 * too, but never the pages of a pinned snapshot. */
#ifndef CR_DATA_LMDB_FILE_H
#define CR_DATA_LMDB_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema/status.h"

enum { CR_LMDB_META_SIZE = 152 };

/* The content of a meta page. */
typedef struct cr_lmdb_meta {
  size_t page_size;
  uint64_t txn;        /* the transaction of the snapshot */
  uint64_t last_page;  /* the highest index of a page ever used */
  uint64_t used_pages; /* meta pages, records and the list of free pages */
  uint64_t entries;    /* records */
  uint64_t root;       /* page; UINT64_MAX: there are no records */
  bool duplicates;     /* several values per key */
} cr_lmdb_meta;

/* Reads the first bytes of a meta page. Errors: CREMA_E_CORRUPT. */
crema_status cr_lmdb_meta_parse(const uint8_t bytes[CR_LMDB_META_SIZE],
                                cr_lmdb_meta *out) CREMA_MUST_USE;

/* Reads both meta pages of the open file and returns the newer one. Errors: CREMA_E_CORRUPT (also
 * if their page sizes differ, which makes LMDB crash), CREMA_E_IO. */
crema_status cr_lmdb_meta_newest(int fd, cr_lmdb_meta *out) CREMA_MUST_USE;

/* One snapshot in an open file. */
typedef struct cr_lmdb_file {
  int fd;
  uint64_t size; /* at the opening */
  cr_lmdb_meta meta;
  uint8_t meta_bytes[CR_LMDB_META_SIZE];
  uint8_t *root;               /* the snapshot's root page; NULL: not in the file */
  _Atomic int64_t last_change; /* of the file when the last check passed */
} cr_lmdb_file;

/* Begins to read the snapshot of transaction `txn` in the caller's open file, which must stay open.
 * Sets *current to whether the file has that snapshot; if not, there is nothing to close. Errors:
 * CREMA_E_CORRUPT, CREMA_E_IO, CREMA_E_NO_MEMORY. */
crema_status cr_lmdb_file_open(int fd, uint64_t txn, cr_lmdb_file *file,
                               bool *current) CREMA_MUST_USE;
/* Accepts a zeroed struct. */
void cr_lmdb_file_close(cr_lmdb_file *file);

/* Reads `size` bytes at `offset`; several threads may call it at once. Errors: CREMA_E_IO, also if
 * the file was truncated or replaced: the bytes are then worthless. */
crema_status cr_lmdb_file_read(cr_lmdb_file *file, uint64_t offset, void *bytes,
                               size_t size) CREMA_MUST_USE;

#endif
