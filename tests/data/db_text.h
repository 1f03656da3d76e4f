/* Records of text in databases. */
#ifndef CR_TESTS_DATA_DB_TEXT_H
#define CR_TESTS_DATA_DB_TEXT_H

#include <string.h>

#include "check.h"
#include "data/db/db.h"

static inline cr_db_bytes bytes_of(const char *text) {
  return (cr_db_bytes){(const uint8_t *)text, strlen(text)};
}

static inline void assert_bytes(cr_db_bytes bytes, const char *text) {
  assert_int_equal(bytes.size, strlen(text));
  assert_memory_equal(bytes.data, text, bytes.size);
}

static inline void put(cr_db *db, const char *key, const char *value) {
  cr_db_txn *txn = NULL;
  ok(cr_db_txn_begin(db, &txn));
  ok(cr_db_put(txn, bytes_of(key), bytes_of(value)));
  ok(cr_db_commit(txn));
}

/* Records are read in the order of their keys, the last value of each. `written`: the back end's
 * name as a prototxt has it; `found`: as cr_db_detect tells it. */
static inline void check_round_trip(const char *path, const char *written, const char *found) {
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  cr_db_txn *txn = NULL;
  uint64_t count = 0;
  ok(cr_db_open(written, path, CR_DB_NEW, &db));
  put(db, "b", "two");
  put(db, "a", "one");
  put(db, "c", "three");
  put(db, "b", "TWO"); /* replaces */
  ok(cr_db_txn_begin(db, &txn));
  ok(cr_db_put(txn, bytes_of("d"), bytes_of("lost")));
  cr_db_abort(txn);
  ok(cr_db_finish(db, CREMA_OK));
  assert_string_equal(cr_db_detect(path), found);
  ok(cr_db_open(found, path, CR_DB_READ, &db));
  ok(cr_db_count(db, &count));
  assert_int_equal(count, 3);
  ok(cr_db_cursor_open(db, &cursor));
  assert_true(cursor->valid);
  assert_bytes(cursor->key, "a");
  assert_bytes(cursor->value, "one");
  ok(cr_db_cursor_next(cursor));
  assert_bytes(cursor->value, "TWO");
  ok(cr_db_cursor_next(cursor));
  ok(cr_db_cursor_next(cursor));
  assert_false(cursor->valid);
  ok(cr_db_cursor_next(cursor)); /* stays past the end */
  ok(cr_db_cursor_first(cursor));
  assert_bytes(cursor->key, "a");
  ok(cr_db_cursor_seek(cursor, bytes_of("c")));
  assert_bytes(cursor->value, "three");
  assert_fails(cr_db_cursor_seek(cursor, bytes_of("bb")), CREMA_E_NOT_FOUND, "'bb'");
  assert_error_has(path);
  assert_int_equal(cr_db_cursor_seek(cursor, bytes_of("zz")), CREMA_E_NOT_FOUND);
  assert_int_equal(cr_db_cursor_seek(cursor, bytes_of("")), CREMA_E_NOT_FOUND);
  assert_int_equal(cr_db_txn_begin(db, &txn), CREMA_E_STATE);
  cr_db_cursor_close(cursor);
  cr_db_close(db);
}

#endif
