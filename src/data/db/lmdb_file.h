/* The data file of an LMDB, read without being mapped.
 *
 * LMDB maps its file, and so does everybody who takes values from it: a file that is truncated then
 * ends the process with SIGBUS, and one that is replaced in place is read as if it were the old
 * one. Here bytes are read by pread, and after each reading the file's size and time of change tell
 * whether it can still be what it was. A writer that keeps LMDB's rules changes both as well, but
 * never the pages of a snapshot that somebody has pinned. */
#ifndef CR_DATA_LMDB_FILE_H
#define CR_DATA_LMDB_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema/status.h"

enum { CR_LMDB_META_SIZE = 152 };

/* What one of the two meta pages says. */
typedef struct cr_lmdb_meta {
  size_t page_size;
  uint64_t txn;        /* whose snapshot it describes */
  uint64_t last_page;  /* index of the last page that was ever used */
  uint64_t used_pages; /* meta pages, records and the list of free pages */
  uint64_t entries;    /* records */
  uint64_t root;       /* page; UINT64_MAX: there are no records */
  bool duplicates;     /* several values per key */
} cr_lmdb_meta;

/* Reads the first bytes of a meta page. Errors: CREMA_E_CORRUPT. */
crema_status cr_lmdb_meta_parse(const uint8_t bytes[CR_LMDB_META_SIZE],
                                cr_lmdb_meta *out) CREMA_MUST_USE;

/* Reads both meta pages of the open file and returns the newer one. Errors: CREMA_E_CORRUPT (also
 * when they disagree about the size of pages, which makes LMDB crash), CREMA_E_IO. */
crema_status cr_lmdb_meta_newest(int fd, cr_lmdb_meta *out) CREMA_MUST_USE;

/* One snapshot in an open file. */
typedef struct cr_lmdb_file {
  int fd;
  uint64_t size; /* when it was opened */
  cr_lmdb_meta meta;
  uint8_t meta_bytes[CR_LMDB_META_SIZE];
  uint8_t *root;               /* the snapshot's root page; NULL: it has none in the file */
  _Atomic int64_t last_change; /* of the file, when it was last known to hold the snapshot */
} cr_lmdb_file;

/* Begins on the open file (the caller's, open to the end) with the snapshot of transaction `txn`.
 * *current is false when the file does not hold that snapshot any more; then there is nothing to
 * close. Errors: CREMA_E_CORRUPT, CREMA_E_IO, CREMA_E_NO_MEMORY. */
crema_status cr_lmdb_file_open(int fd, uint64_t txn, cr_lmdb_file *file,
                               bool *current) CREMA_MUST_USE;
/* Accepts a zeroed one. */
void cr_lmdb_file_close(cr_lmdb_file *file);

/* Reads `size` bytes at `offset`; by several threads at once. Errors: CREMA_E_IO when they cannot
 * be read, and when the file was truncated or replaced since it was opened: what was read is then
 * worth nothing. */
crema_status cr_lmdb_file_read(cr_lmdb_file *file, uint64_t offset, void *bytes,
                               size_t size) CREMA_MUST_USE;

#endif
