#include "data/db/lmdb_file.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/io.h"
#include "core/system.h"

/* A meta page: header, magic (4), version (4), address (8), map size (8), the trees of free pages
 * and of records (48 each), last page (8), transaction (8). A tree: pad (4; in the first the page
 * size), flags (2), depth (2), numbers of branch, leaf and overflow pages and of entries, root (8
 * each). */
enum { META_MAGIC = 16, META_FREE_TREE = META_MAGIC + 24, META_MAIN_TREE = META_FREE_TREE + 48 };
enum {
  META_LAST_PAGE = META_MAIN_TREE + 48,
  META_TXN = META_LAST_PAGE + 8,
  META_END = META_TXN + 8
};
_Static_assert((int)META_END == (int)CR_LMDB_META_SIZE, "the size in the header");
enum { TREE_FLAGS = 4, TREE_PAGES = 8, TREE_ENTRIES = 32, TREE_ROOT = 40 };
enum { TREE_SORTED_DUPLICATES = 0x04 };
static const uint32_t magic = 0xbeefc0de;

static uint64_t read_64(const uint8_t *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static uint64_t pages_of(const uint8_t *tree) {
  return read_64(tree + TREE_PAGES) + read_64(tree + TREE_PAGES + 8) +
         read_64(tree + TREE_PAGES + 16);
}

crema_status cr_lmdb_meta_parse(const uint8_t bytes[CR_LMDB_META_SIZE], cr_lmdb_meta *out) {
  uint32_t found = 0, size = 0;
  uint16_t flags = 0;
  memcpy(&found, bytes + META_MAGIC, sizeof found);
  memcpy(&size, bytes + META_FREE_TREE, sizeof size);
  memcpy(&flags, bytes + META_MAIN_TREE + TREE_FLAGS, sizeof flags);
  if (found != magic) return cr_fail(CREMA_E_CORRUPT, "not an LMDB database (no magic number)");
  if (size < 256 || size > 65536 || (size & (size - 1)) != 0) {
    return cr_fail(CREMA_E_CORRUPT, "the LMDB database is corrupt: pages of %u bytes", size);
  }
  *out = (cr_lmdb_meta){
      .page_size = size,
      .txn = read_64(bytes + META_TXN),
      .last_page = read_64(bytes + META_LAST_PAGE),
      .used_pages = 2 + pages_of(bytes + META_FREE_TREE) + pages_of(bytes + META_MAIN_TREE),
      .entries = read_64(bytes + META_MAIN_TREE + TREE_ENTRIES),
      .root = read_64(bytes + META_MAIN_TREE + TREE_ROOT),
      .duplicates = (flags & TREE_SORTED_DUPLICATES) != 0};
  return CREMA_OK;
}

static crema_status read_all(int fd, uint64_t offset, void *bytes, size_t size) {
  ssize_t got = cr_io_read_at(fd, bytes, size, (off_t)offset);
  if (got < 0) return cr_fail_errno(errno, "cannot read the database");
  if ((size_t)got == size) return CREMA_OK;
  return cr_fail(CREMA_E_CORRUPT, "truncated LMDB database: it ends at byte %llu",
                 (unsigned long long)offset + (unsigned long long)got);
}

static crema_status read_meta(int fd, uint64_t offset, uint8_t bytes[CR_LMDB_META_SIZE],
                              cr_lmdb_meta *out) {
  CR_TRY(read_all(fd, offset, bytes, CR_LMDB_META_SIZE));
  return cr_lmdb_meta_parse(bytes, out);
}

crema_status cr_lmdb_meta_newest(int fd, cr_lmdb_meta *out) {
  uint8_t bytes[CR_LMDB_META_SIZE];
  cr_lmdb_meta second;
  CR_TRY(read_meta(fd, 0, bytes, out));
  CR_TRY(read_meta(fd, out->page_size, bytes, &second));
  if (second.page_size != out->page_size) {
    return cr_fail(CREMA_E_CORRUPT, "the LMDB database is corrupt: pages of %zu and %zu bytes",
                   out->page_size, second.page_size);
  }
  if (second.txn > out->txn) *out = second;
  return CREMA_OK;
}

/* The size, and the time of the last status change in nanoseconds, which programs cannot set. */
static crema_status look_at(int fd, uint64_t *size, int64_t *change) {
  struct stat info;
  if (fstat(fd, &info) != 0) return cr_fail_errno(errno, "cannot read the database");
  *size = (uint64_t)info.st_size;
  *change = (int64_t)info.st_ctim.tv_sec * 1000000000 + info.st_ctim.tv_nsec;
  return CREMA_OK;
}

static crema_status fail_replaced(void) {
  return cr_fail(CREMA_E_IO, "the database was replaced or damaged while it was read");
}

/* Fails unless the snapshot's meta page is unchanged or of a later transaction. A writer may be
 * writing it; the number of the transaction is written last. */
static crema_status check_meta(cr_lmdb_file *file) {
  enum { TRIES = 10 };
  uint8_t bytes[CR_LMDB_META_SIZE];
  cr_lmdb_meta now;
  for (int i = 0; i < TRIES; ++i) {
    crema_status status =
        read_meta(file->fd, (file->meta.txn & 1) * file->meta.page_size, bytes, &now);
    if (status == CREMA_E_CORRUPT) return fail_replaced();
    CR_TRY(status);
    if (now.page_size != file->meta.page_size || now.txn < file->meta.txn) return fail_replaced();
    if (now.txn > file->meta.txn || memcmp(bytes, file->meta_bytes, sizeof bytes) == 0) {
      return CREMA_OK;
    }
    cr_clock_sleep(1e-4);
  }
  return fail_replaced();
}

static crema_status check_root(cr_lmdb_file *file) {
  size_t size = file->meta.page_size;
  if (file->root == NULL) return CREMA_OK;
  uint8_t *now = malloc(size);
  if (now == NULL) return cr_fail_memory(size, "a page of a database");
  crema_status status = read_all(file->fd, file->meta.root * size, now, size);
  if (status == CREMA_E_CORRUPT || (status == CREMA_OK && memcmp(now, file->root, size) != 0)) {
    status = fail_replaced();
  }
  free(now);
  return status;
}

static crema_status check_same(cr_lmdb_file *file) {
  uint64_t size = 0;
  int64_t change = 0;
  CR_TRY(look_at(file->fd, &size, &change));
  if (size < file->size) {
    return cr_fail(CREMA_E_IO,
                   "the database was truncated while it was read (%llu bytes of %llu are left)",
                   (unsigned long long)size, (unsigned long long)file->size);
  }
  if (change == atomic_load_explicit(&file->last_change, memory_order_relaxed)) return CREMA_OK;
  CR_TRY(check_meta(file));
  CR_TRY(check_root(file));
  atomic_store_explicit(&file->last_change, change, memory_order_relaxed);
  return CREMA_OK;
}

crema_status cr_lmdb_file_read(cr_lmdb_file *file, uint64_t offset, void *bytes, size_t size) {
  crema_status status = read_all(file->fd, offset, bytes, size);
  if (status == CREMA_OK || status == CREMA_E_CORRUPT) CR_TRY(check_same(file));
  return status;
}

static crema_status open_snapshot(uint64_t txn, cr_lmdb_file *file, bool *current) {
  int64_t change = 0;
  uint8_t first[CR_LMDB_META_SIZE];
  CR_TRY(look_at(file->fd, &file->size, &change));
  atomic_init(&file->last_change, change);
  CR_TRY(read_meta(file->fd, 0, first, &file->meta));
  size_t page_size = file->meta.page_size;
  /* Transactions write the two meta pages in turn. */
  CR_TRY(read_meta(file->fd, (txn & 1) * page_size, file->meta_bytes, &file->meta));
  if (file->meta.page_size != page_size) {
    return cr_fail(CREMA_E_CORRUPT, "the LMDB database is corrupt: pages of %zu and %zu bytes",
                   page_size, file->meta.page_size);
  }
  *current = file->meta.txn == txn;
  const uint64_t root = file->meta.root;
  /* Without a root page in the file the walk reports the damage. */
  if (!*current || root < 2 || root >= file->size / page_size) return CREMA_OK;
  file->root = malloc(page_size);
  if (file->root == NULL) return cr_fail_memory(page_size, "a page of a database");
  return read_all(file->fd, root * page_size, file->root, page_size);
}

crema_status cr_lmdb_file_open(int fd, uint64_t txn, cr_lmdb_file *file, bool *current) {
  *file = (cr_lmdb_file){.fd = fd};
  *current = false;
  crema_status status = open_snapshot(txn, file, current);
  if (status != CREMA_OK || !*current) cr_lmdb_file_close(file);
  return status;
}

void cr_lmdb_file_close(cr_lmdb_file *file) {
  free(file->root);
  file->root = NULL;
}
