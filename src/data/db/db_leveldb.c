/* The LevelDB back end.
 *
 * Reading uses a view (leveldb_view.h), which leaves the database unchanged and allows several
 * readers. A transaction is a write batch, which LevelDB writes completely or not at all. LevelDB
 * may start a thread while it opens, reads or writes; signals are held during these calls, so that
 * the thread starts with them blocked. */
#include <errno.h>
#include <leveldb/c.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/io.h"
#include "core/mem_probe.h"
#include "core/signals.h"
#include "data/db/db.h"
#include "data/db/leveldb_reader.h"
#include "data/db/leveldb_view.h"

/* The memory that must be available before a call of LevelDB, which ends the process without it. */
static const size_t RESERVE = (size_t)32 << 20;

typedef struct level_db {
  cr_db base;
  /* For reading. */
  cr_leveldb_view view;
  cr_leveldb_reader *reader;
  /* For writing. */
  leveldb_options_t *options;
  leveldb_writeoptions_t *write;
  leveldb_t *db;
} level_db;

typedef struct level_cursor {
  cr_db_cursor base;
  cr_leveldb_cursor *cursor;
} level_cursor;

typedef struct level_txn {
  cr_db_txn base;
  leveldb_writebatch_t *batch;
} level_txn;

/* The table's name in "...missing files; e.g.: <temporary folder>/<name>", or NULL. */
static const char *missing_table(const char *text) {
  const char *slash = strstr(text, "missing files") == NULL ? NULL : strrchr(text, '/');
  return slash == NULL ? NULL : slash + 1;
}

/* Turns LevelDB's text into a failure and frees it. */
static crema_status fail_leveldb(char *text, const char *path, const char *what) {
  crema_status status = CREMA_OK;
  if (strstr(text, "LOCK: ") != NULL || strncmp(text, "IO error: lock ", 15) == 0) {
    status = cr_fail(CREMA_E_STATE, "%s: %s: locked, it is open elsewhere (%s)", path, what, text);
  } else if (strstr(text, "No space left on device") != NULL) {
    status = cr_fail(CREMA_E_IO, "%s: %s: the disk is full", path, what);
  } else if (missing_table(text) != NULL) {
    status = cr_fail(CREMA_E_CORRUPT,
                     "%s/%s: a table of the LevelDB database that is missing, truncated or corrupt",
                     path, missing_table(text));
  } else if (strncmp(text, "Corruption", 10) == 0 || strncmp(text, "NotFound", 8) == 0 ||
             strncmp(text, "Invalid argument", 16) == 0) {
    status =
        cr_fail(CREMA_E_CORRUPT, "%s: %s: the LevelDB database is corrupt (%s)", path, what, text);
  } else {
    status = cr_fail(CREMA_E_IO, "%s: %s: %s", path, what, text);
  }
  leveldb_free(text);
  return status;
}

/* Caffe's sizes, except for its write buffer of 256 MB: each opening needs that much memory for the
 * log. */
static void make_options(level_db *db) {
  enum { BLOCK = 64 << 10, WRITE_BUFFER = 64 << 20, OPEN_FILES = 100 };
  db->options = leveldb_options_create();
  leveldb_options_set_block_size(db->options, BLOCK);
  leveldb_options_set_write_buffer_size(db->options, WRITE_BUFFER);
  leveldb_options_set_max_open_files(db->options, OPEN_FILES);
  leveldb_options_set_paranoid_checks(db->options, 1);
  leveldb_options_set_create_if_missing(db->options, 1);
  db->write = leveldb_writeoptions_create();
  leveldb_writeoptions_set_sync(db->write, 1);
}

static void level_close(cr_db *base) {
  level_db *db = (level_db *)base;
  if (db->db != NULL) leveldb_close(db->db);
  if (db->write != NULL) leveldb_writeoptions_destroy(db->write);
  if (db->options != NULL) leveldb_options_destroy(db->options);
  cr_leveldb_reader_close(db->reader);
  cr_leveldb_view_close(&db->view);
  free(db);
}

/* Makes the folder, or checks the database in it. */
static crema_status prepare_write(const char *path) {
  struct stat info;
  if (cr_io_make_folder(path, 0755)) return CREMA_OK;
  if (errno != EEXIST) return cr_fail_errno(errno, "%s: cannot make the database", path);
  if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode)) {
    return cr_fail(CREMA_E_CORRUPT, "%s: a file, not a LevelDB database", path);
  }
  return cr_db_detect(path) == NULL ? CREMA_OK : cr_leveldb_check(path);
}

static crema_status level_open(const char *path, bool write, cr_db **out) {
  level_db *db = calloc(1, sizeof *db);
  if (db == NULL) return cr_fail_memory(sizeof *db, "a database");
  db->view.lock = db->view.folder.lock = -1;
  crema_status status = CREMA_OK;
  if (write) CR_TRY_GOTO(prepare_write(path), fail);
  else CR_TRY_GOTO(cr_leveldb_view_open(path, &db->view), fail);
  CR_TRY_GOTO(cr_fail_in(cr_need_memory(RESERVE, "LevelDB"), "%s", path), fail);
  char *error = NULL;
  cr_signals_hold();
  if (write) {
    make_options(db);
    db->db = leveldb_open(db->options, path, &error);
  } else {
    db->reader = cr_leveldb_reader_open(db->view.folder.path, &error);
  }
  cr_signals_release();
  if (error != NULL) {
    status = fail_leveldb(error, path, "cannot open the database");
    goto fail;
  }
  *out = &db->base;
  return CREMA_OK;
fail:
  level_close(&db->base);
  return status;
}

static void level_cursor_close(cr_db_cursor *base) {
  level_cursor *cursor = (level_cursor *)base;
  cr_leveldb_cursor_close(cursor->cursor);
  free(cursor);
}

static crema_status level_cursor_open(cr_db *base, cr_db_cursor **out) {
  level_db *db = (level_db *)base;
  CR_TRY(cr_fail_in(cr_need_memory(RESERVE, "LevelDB"), "%s", base->path));
  level_cursor *cursor = calloc(1, sizeof *cursor);
  if (cursor == NULL) return cr_fail_memory(sizeof *cursor, "a cursor");
  cursor->cursor = cr_leveldb_cursor_open(db->reader);
  *out = &cursor->base;
  return CREMA_OK;
}

/* Sets key and value from the cursor's record. */
static crema_status take_record(level_cursor *cursor) {
  cr_db_cursor *base = &cursor->base;
  char *error = NULL;
  base->valid = cr_leveldb_cursor_valid(cursor->cursor, &error);
  if (base->valid) {
    base->key.data = cr_leveldb_cursor_key(cursor->cursor, &base->key.size);
    base->value.data = cr_leveldb_cursor_value(cursor->cursor, &base->value.size);
    return CREMA_OK;
  }
  base->key = base->value = (cr_db_bytes){NULL, 0};
  return error == NULL ? CREMA_OK : fail_leveldb(error, base->db->path, "cannot read");
}

static crema_status level_first(cr_db_cursor *base) {
  level_cursor *cursor = (level_cursor *)base;
  cr_signals_hold();
  cr_leveldb_cursor_first(cursor->cursor);
  cr_signals_release();
  return take_record(cursor);
}

static crema_status level_next(cr_db_cursor *base) {
  level_cursor *cursor = (level_cursor *)base;
  cr_signals_hold();
  cr_leveldb_cursor_next(cursor->cursor);
  cr_signals_release();
  return take_record(cursor);
}

/* LevelDB stops at the first key that is not below `key`. */
static crema_status level_seek(cr_db_cursor *base, cr_db_bytes key) {
  level_cursor *cursor = (level_cursor *)base;
  cr_signals_hold();
  cr_leveldb_cursor_seek(cursor->cursor, key.data, key.size);
  cr_signals_release();
  CR_TRY(take_record(cursor));
  base->valid = base->valid && base->key.size == key.size &&
                (key.size == 0 || memcmp(base->key.data, key.data, key.size) == 0);
  return CREMA_OK;
}

static crema_status level_count(cr_db *base, uint64_t *out) {
  cr_db_cursor *cursor = NULL;
  uint64_t count = 0;
  CR_TRY(level_cursor_open(base, &cursor));
  cursor->db = base;
  crema_status status = level_first(cursor);
  while (status == CREMA_OK && cursor->valid) {
    ++count;
    status = level_next(cursor);
  }
  level_cursor_close(cursor);
  if (status == CREMA_OK) *out = count;
  return status;
}

static void level_abort(cr_db_txn *base) {
  level_txn *txn = (level_txn *)base;
  leveldb_writebatch_destroy(txn->batch);
  free(txn);
}

static crema_status level_txn_begin(cr_db *base, cr_db_txn **out) {
  CR_TRY(cr_fail_in(cr_need_memory(RESERVE, "LevelDB"), "%s", base->path));
  level_txn *txn = calloc(1, sizeof *txn);
  if (txn == NULL) return cr_fail_memory(sizeof *txn, "a transaction");
  txn->batch = leveldb_writebatch_create();
  *out = &txn->base;
  return CREMA_OK;
}

static crema_status level_put(cr_db_txn *base, cr_db_bytes key, cr_db_bytes value) {
  level_txn *txn = (level_txn *)base;
  if (key.size > UINT32_MAX || value.size > UINT32_MAX) {
    char text[64];
    return cr_fail(CREMA_E_RANGE, "%s: record '%s' of %zu bytes; LevelDB allows 4 GB",
                   base->db->path, cr_db_key_text(key, text, sizeof text), value.size);
  }
  leveldb_writebatch_put(txn->batch, (const char *)key.data, key.size, (const char *)value.data,
                         value.size);
  return CREMA_OK;
}

static crema_status level_commit(cr_db_txn *base) {
  level_txn *txn = (level_txn *)base;
  level_db *db = (level_db *)base->db;
  char *error = NULL;
  cr_signals_hold();
  leveldb_write(db->db, db->write, txn->batch, &error);
  cr_signals_release();
  crema_status status =
      error == NULL ? CREMA_OK : fail_leveldb(error, base->db->path, "cannot write");
  level_abort(base);
  return status;
}

const cr_db_backend cr_db_leveldb = {
    .name = "leveldb",
    .slow_count = true,
    .open = level_open,
    .close = level_close,
    .count = level_count,
    .cursor_open = level_cursor_open,
    .cursor_close = level_cursor_close,
    .first = level_first,
    .next = level_next,
    .seek = level_seek,
    .txn_begin = level_txn_begin,
    .put = level_put,
    .commit = level_commit,
    .abort = level_abort,
};
