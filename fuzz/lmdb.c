/* LMDB files of any bytes: walking through the records, and looking each key up. */
#include <string.h>

#include "data/lmdb_walk.h"
#include "support/support.h"

enum { MAX_RECORDS = 1000 };

/* Reads the ends of the value, which must lie inside the file. */
static void touch(const cr_lmdb_walk *walk) {
  const volatile uint8_t *value = walk->value.data;
  if (walk->value.size == 0) return;
  (void)value[0];
  (void)value[walk->value.size - 1];
}

static void walk_file(const uint8_t *bytes, size_t size, uint64_t txn_id) {
  cr_lmdb_walk walk, other;
  bool current = false, valid = false;
  if (cr_lmdb_walk_begin(&walk, bytes, size, txn_id, &current) != CREMA_OK || !current) return;
  other = walk;
  crema_status status = cr_lmdb_walk_first(&walk, &valid);
  for (int i = 0; status == CREMA_OK && valid && i < MAX_RECORDS; ++i) {
    bool found = false;
    touch(&walk);
    if (cr_lmdb_walk_seek(&other, walk.key, &found) == CREMA_OK && found) touch(&other);
    status = cr_lmdb_walk_next(&walk, &valid);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  /* The newest snapshot by either meta page, as LMDB would choose it. */
  for (size_t page_size = 256; page_size <= 4096; page_size *= 2) {
    for (size_t i = 0; i < 2; ++i) {
      uint64_t txn_id = 0;
      size_t at = i * page_size + CR_LMDB_META_SIZE - sizeof txn_id;
      if (at + sizeof txn_id > size) continue;
      memcpy(&txn_id, bytes + at, sizeof txn_id);
      walk_file(bytes, size, txn_id);
    }
  }
  return 0;
}
