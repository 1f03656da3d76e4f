/* Databases of records: ordered keys with values, the storage of Caffe data sets.
 *
 * A back end is a table of functions (db.c lists them). A database handle belongs to one thread at
 * a time, and so each cursor of a database that is opened for reading. */
#ifndef CR_DATA_DB_H
#define CR_DATA_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buffer.h"
#include "core/file.h"
#include "crema/status.h"

typedef struct cr_db cr_db;
typedef struct cr_db_cursor cr_db_cursor;
typedef struct cr_db_txn cr_db_txn;

typedef enum cr_db_mode {
  CR_DB_READ,  /* must exist */
  CR_DB_WRITE, /* made if it does not exist */
  CR_DB_NEW    /* must not exist; appears, complete, with cr_db_finish */
} cr_db_mode;

/* Bytes with another owner. */
typedef struct cr_db_bytes {
  const uint8_t *data;
  size_t size;
} cr_db_bytes;

/* The functions of a back end. Its handles begin with the structs below; db.c checks modes and
 * arguments. */
typedef struct cr_db_backend {
  const char *name; /* "lmdb", "leveldb"; in any case */
  bool slow_count;  /* counting walks through all records */
  /* With `write` makes the folder unless it exists. */
  crema_status (*open)(const char *path, bool write, cr_db **out);
  void (*close)(cr_db *db);
  crema_status (*count)(cr_db *db, uint64_t *out);
  crema_status (*cursor_open)(cr_db *db, cr_db_cursor **out);
  void (*cursor_close)(cr_db_cursor *cursor);
  /* Move and fill cursor->key, value, valid. Running past the end is no failure. */
  crema_status (*first)(cr_db_cursor *cursor);
  crema_status (*next)(cr_db_cursor *cursor);
  crema_status (*seek)(cr_db_cursor *cursor, cr_db_bytes key);
  /* As cr_db_cursor_read and cr_db_cursor_expect; both NULL if values have no offsets. */
  crema_status (*read)(cr_db_cursor *cursor, uint64_t offset, size_t size, cr_buffer *store,
                       cr_db_bytes *out);
  void (*expect)(cr_db_cursor *cursor, uint64_t offset, size_t size);
  crema_status (*txn_begin)(cr_db *db, cr_db_txn **out);
  crema_status (*put)(cr_db_txn *txn, cr_db_bytes key, cr_db_bytes value);
  crema_status (*commit)(cr_db_txn *txn);
  void (*abort)(cr_db_txn *txn);
} cr_db_backend;

extern const cr_db_backend cr_db_lmdb, cr_db_leveldb;

struct cr_db {
  const cr_db_backend *backend;
  char *path; /* for messages */
  bool write;
  bool is_new;
  cr_file_location location; /* of a new database */
};

struct cr_db_cursor {
  cr_db *db;
  bool valid; /* is on a record */
  bool defer; /* moving does not read large values, whose data is then NULL */
  cr_db_bytes key, value;
  uint64_t offset; /* of the value in the file, if values have offsets */
};

struct cr_db_txn {
  cr_db *db;
};

/* Opens the database at `path` with the back end called `backend` ("lmdb" or "leveldb", in any
 * case). Close it with cr_db_close after its cursors and transactions. Errors name the path:
 * CREMA_E_NOT_FOUND (READ), CREMA_E_EXISTS (NEW), CREMA_E_CORRUPT (foreign or truncated file),
 * CREMA_E_UNKNOWN_NAME (back end), CREMA_E_STATE (another process holds a LevelDB), CREMA_E_IO. */
crema_status cr_db_open(const char *backend, const char *path, cr_db_mode mode,
                        cr_db **out) CREMA_MUST_USE;
/* Accepts NULL. A new database is removed. */
void cr_db_close(cr_db *db);

/* Closes a new database. If `content` is CREMA_OK it takes its name, complete and on the disk;
 * otherwise it is removed and `content` returned. Until then it has another name in the same folder
 * (cr_file_location), so that a kill leaves no incomplete database. */
crema_status cr_db_finish(cr_db *db, crema_status content) CREMA_MUST_USE;

/* The back end of the files at `path`: "lmdb", "leveldb", or NULL: unknown. */
const char *cr_db_detect(const char *path);

/* The number of records. LevelDB walks through all. */
crema_status cr_db_count(cr_db *db, uint64_t *out) CREMA_MUST_USE;

/* A cursor on the first record (not valid if there is none). Free it with cr_db_cursor_close. */
crema_status cr_db_cursor_open(cr_db *db, cr_db_cursor **out) CREMA_MUST_USE;
/* The same with `defer` set. */
crema_status cr_db_cursor_open_deferred(cr_db *db, cr_db_cursor **out) CREMA_MUST_USE;
void cr_db_cursor_close(cr_db_cursor *cursor);

/* Moves to the first record; to the next (cursor->valid is false at the end); to the record with
 * this key (CREMA_E_NOT_FOUND, the cursor is then not valid). The cursor owns key and value until
 * it moves. */
crema_status cr_db_cursor_first(cr_db_cursor *cursor) CREMA_MUST_USE;
crema_status cr_db_cursor_next(cr_db_cursor *cursor) CREMA_MUST_USE;
crema_status cr_db_cursor_seek(cr_db_cursor *cursor, cr_db_bytes key) CREMA_MUST_USE;

/* Whether values have offsets for cr_db_cursor_read. */
bool cr_db_has_offsets(const cr_db *db);
/* Reads a value of `size` bytes at the offset that a cursor of this snapshot gave. *out points into
 * `store`, whose content it replaces. Several threads may call it at once while the cursor is open,
 * even while it moves. Errors, which do not name the path: CREMA_E_IO, also for a file that was
 * truncated or replaced; CREMA_E_CORRUPT, CREMA_E_NO_MEMORY. */
crema_status cr_db_cursor_read(cr_db_cursor *cursor, uint64_t offset, size_t size, cr_buffer *store,
                               cr_db_bytes *out) CREMA_MUST_USE;
/* Makes the system prefetch a value. */
void cr_db_cursor_expect(cr_db_cursor *cursor, uint64_t offset, size_t size);

/* A batch of writes, which readers see after the commit. A record replaces the record of the same
 * key. Commit and abort free the transaction; abort accepts NULL. */
crema_status cr_db_txn_begin(cr_db *db, cr_db_txn **out) CREMA_MUST_USE;
crema_status cr_db_put(cr_db_txn *txn, cr_db_bytes key, cr_db_bytes value) CREMA_MUST_USE;
crema_status cr_db_commit(cr_db_txn *txn) CREMA_MUST_USE;
void cr_db_abort(cr_db_txn *txn);

/* The key for messages: printable bytes, and others as \xNN, shortened to fit. Returns `text`. */
const char *cr_db_key_text(cr_db_bytes key, char *text, size_t size);

#endif
