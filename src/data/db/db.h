/* Databases of records: ordered keys with values, as Caffe data sets are stored.
 *
 * A back end is a table of functions (db.c lists them). One database handle belongs to one
 * thread at a time; a cursor of a database opened for reading may be handed to another
 * thread as long as only one uses it. */
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
  CR_DB_WRITE, /* made when it does not exist */
  CR_DB_NEW    /* must not exist; appears, complete, with cr_db_finish */
} cr_db_mode;

/* Bytes that belong to somebody else. */
typedef struct cr_db_bytes {
  const uint8_t *data;
  size_t size;
} cr_db_bytes;

/* What a back end provides. Calls get handles whose first member is the struct below, so each
 * back end extends them; db.c checks modes and arguments. */
typedef struct cr_db_backend {
  const char *name; /* "lmdb", "leveldb"; compared without regard to case */
  /* Counting walks through all records. */
  bool slow_count;
  /* Opens for reading, or for writing, which makes the folder unless it exists. */
  crema_status (*open)(const char *path, bool write, cr_db **out);
  void (*close)(cr_db *db);
  crema_status (*count)(cr_db *db, uint64_t *out);
  crema_status (*cursor_open)(cr_db *db, cr_db_cursor **out);
  void (*cursor_close)(cr_db_cursor *cursor);
  /* Move and fill cursor->key, value, valid. Running past the end is no failure. */
  crema_status (*first)(cr_db_cursor *cursor);
  crema_status (*next)(cr_db_cursor *cursor);
  crema_status (*seek)(cr_db_cursor *cursor, cr_db_bytes key);
  /* As cr_db_cursor_read and cr_db_cursor_expect; both NULL when values have no offsets.
   */
  crema_status (*read)(cr_db_cursor *cursor, uint64_t offset, size_t size, cr_buffer *store,
                       cr_db_bytes *out);
  void (*expect)(cr_db_cursor *cursor, uint64_t offset, size_t size);
  crema_status (*txn_begin)(cr_db *db, cr_db_txn **out);
  crema_status (*put)(cr_db_txn *txn, cr_db_bytes key, cr_db_bytes value);
  crema_status (*commit)(cr_db_txn *txn);
  void (*abort)(cr_db_txn *txn);
} cr_db_backend;

struct cr_db {
  const cr_db_backend *backend;
  char *path; /* for messages */
  bool write;
  bool is_new;
  cr_file_location location; /* of a new database */
};

struct cr_db_cursor {
  cr_db *db;
  bool valid; /* stands on a record */
  bool defer; /* the owner's choice: large values are not read while moving, their data is NULL */
  cr_db_bytes key, value;
  uint64_t offset; /* of the value in the file, if values have offsets */
};

struct cr_db_txn {
  cr_db *db;
};

/* Opens the database at `path` with the back end called `backend` ("lmdb" or "leveldb";
 * any case).
 * Close with cr_db_close, after its cursors and transactions. Errors name the path:
 * CREMA_E_NOT_FOUND (READ), CREMA_E_EXISTS (NEW), CREMA_E_CORRUPT (foreign or truncated file),
 * CREMA_E_UNKNOWN_NAME (back end), CREMA_E_STATE (another process holds a LevelDB), CREMA_E_IO. */
crema_status cr_db_open(const char *backend, const char *path, cr_db_mode mode,
                        cr_db **out) CREMA_MUST_USE;
/* Accepts NULL. A new database is removed. */
void cr_db_close(cr_db *db);

/* Closes a new database. When `content` is CREMA_OK it takes its name, complete and on the disk;
 * otherwise it is removed and `content` passed on. Until then it has another name in the same
 * folder (cr_file_location), so that a kill leaves nothing that looks like a database. */
crema_status cr_db_finish(cr_db *db, crema_status content) CREMA_MUST_USE;

/* The back end whose files lie at `path`: "lmdb", "leveldb", or NULL when it cannot be told. */
const char *cr_db_detect(const char *path);

/* Number of records. LevelDB has to walk through all of them. */
crema_status cr_db_count(cr_db *db, uint64_t *out) CREMA_MUST_USE;

/* A cursor on the first record (not valid when there is none). Free with cr_db_cursor_close. */
crema_status cr_db_cursor_open(cr_db *db, cr_db_cursor **out) CREMA_MUST_USE;
/* The same with `defer` set. */
crema_status cr_db_cursor_open_deferred(cr_db *db, cr_db_cursor **out) CREMA_MUST_USE;
void cr_db_cursor_close(cr_db_cursor *cursor);

/* To the first record; to the next one (cursor->valid is false past the last); to the record
 * with exactly this key (CREMA_E_NOT_FOUND, the cursor is then not valid). key and value stay
 * owned by the cursor until it moves. */
crema_status cr_db_cursor_first(cr_db_cursor *cursor) CREMA_MUST_USE;
crema_status cr_db_cursor_next(cr_db_cursor *cursor) CREMA_MUST_USE;
crema_status cr_db_cursor_seek(cr_db_cursor *cursor, cr_db_bytes key) CREMA_MUST_USE;

/* Whether values have offsets, at which they can be read again. */
bool cr_db_has_offsets(const cr_db *db);
/* Reads a value of `size` bytes at the offset that a cursor of this snapshot gave. *out points into
 * `store`, whose content it replaces. May be called by several threads at once while the cursor is
 * open, even while it moves. Errors, which do not name the path: CREMA_E_IO, also when the file was
 * truncated or replaced since; CREMA_E_CORRUPT, CREMA_E_NO_MEMORY. */
crema_status cr_db_cursor_read(cr_db_cursor *cursor, uint64_t offset, size_t size, cr_buffer *store,
                               cr_db_bytes *out) CREMA_MUST_USE;
/* Lets the system fetch a value that will be read soon. */
void cr_db_cursor_expect(cr_db_cursor *cursor, uint64_t offset, size_t size);

/* A batch of writes. Nothing is visible to readers before the commit. Commit and abort both
 * free the transaction; abort accepts NULL. A record whose key exists replaces the old one. */
crema_status cr_db_txn_begin(cr_db *db, cr_db_txn **out) CREMA_MUST_USE;
crema_status cr_db_put(cr_db_txn *txn, cr_db_bytes key, cr_db_bytes value) CREMA_MUST_USE;
crema_status cr_db_commit(cr_db_txn *txn) CREMA_MUST_USE;
void cr_db_abort(cr_db_txn *txn);

/* Writes the key for messages: printable bytes as they are, others as \xNN, shortened to fit.
 * Returns `text`. */
const char *cr_db_key_text(cr_db_bytes key, char *text, size_t size);

#endif
