/* LMDB files of any bytes: walking through the records, and looking each key up. */
#define _GNU_SOURCE /* memfd_create */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/db/lmdb_walk.h"
#include "support/support.h"

enum { MAX_RECORDS = 1000 };

/* Reads the value and looks at its ends. */
static void touch(const cr_lmdb_walk *walk, cr_buffer *store) {
  cr_db_bytes read = walk->value;
  if (read.size == 0) return;
  if (read.data == NULL &&
      cr_lmdb_read_value(walk->file, walk->offset, read.size, store, &read) != CREMA_OK) {
    return;
  }
  const volatile uint8_t *value = read.data;
  (void)value[0];
  (void)value[read.size - 1];
}

static void walk_file(cr_lmdb_file *file) {
  cr_lmdb_walk walk, other;
  cr_buffer store = {0};
  bool valid = false;
  crema_status status = cr_lmdb_walk_begin(&walk, file);
  if (status != CREMA_OK) return;
  other = walk;
  status = cr_lmdb_walk_first(&walk, &valid);
  for (int i = 0; status == CREMA_OK && valid && i < MAX_RECORDS; ++i) {
    bool found = false;
    touch(&walk, &store);
    if (cr_lmdb_walk_seek(&other, walk.key, &found) == CREMA_OK && found) touch(&other, &store);
    status = cr_lmdb_walk_next(&walk, &valid);
  }
  cr_lmdb_walk_end(&walk);
  cr_lmdb_walk_end(&other);
  cr_buffer_free(&store);
}

static void walk_snapshot(int fd, uint64_t txn_id) {
  cr_lmdb_file file;
  bool current = false;
  if (cr_lmdb_file_open(fd, txn_id, &file, &current) != CREMA_OK || !current) return;
  walk_file(&file);
  cr_lmdb_file_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  int fd = memfd_create("lmdb", MFD_CLOEXEC);
  if (fd < 0 || write(fd, bytes, size) != (ssize_t)size) {
    if (fd >= 0) close(fd);
    return 0;
  }
  /* The newest snapshot by either meta page, as LMDB would choose it. */
  for (size_t page_size = 256; page_size <= 4096; page_size *= 2) {
    for (size_t i = 0; i < 2; ++i) {
      uint64_t txn_id = 0;
      size_t at = i * page_size + CR_LMDB_META_SIZE - sizeof txn_id;
      if (at + sizeof txn_id > size) continue;
      memcpy(&txn_id, bytes + at, sizeof txn_id);
      walk_snapshot(fd, txn_id);
    }
  }
  close(fd);
  return 0;
}
