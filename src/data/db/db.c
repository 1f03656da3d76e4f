#include "data/db/db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "core/file.h"

/* Every back end. */
static const cr_db_backend *const backends[] = {&cr_db_lmdb, &cr_db_leveldb};

static crema_status find_backend(const char *name, const char *path, const cr_db_backend **out) {
  for (size_t i = 0; i < sizeof backends / sizeof *backends; ++i) {
    if (strcasecmp(backends[i]->name, name) == 0) {
      *out = backends[i];
      return CREMA_OK;
    }
  }
  return cr_fail(CREMA_E_UNKNOWN_NAME, "%s: unknown database back end '%s' (known: lmdb, leveldb)",
                 path, name);
}

crema_status cr_db_open(const char *backend, const char *path, cr_db_mode mode, cr_db **out) {
  *out = NULL;
  const cr_db_backend *table = NULL;
  if (path == NULL || path[0] == '\0') {
    return cr_fail(CREMA_E_ARGUMENT, "the database has no path (source is empty)");
  }
  CR_TRY(find_backend(backend, path, &table));
  char *copy = strdup(path);
  if (copy == NULL) return cr_fail_memory(strlen(path) + 1, "a path");
  cr_db *db = NULL;
  cr_file_location location = {.lock = -1};
  crema_status status = CREMA_OK;
  if (mode == CR_DB_NEW) CR_TRY_GOTO(cr_file_location_begin(path, true, &location), fail);
  CR_TRY_GOTO(table->open(mode == CR_DB_NEW ? location.path : path, mode != CR_DB_READ, &db), end);
  db->backend = table;
  db->path = copy;
  db->write = mode != CR_DB_READ;
  db->is_new = mode == CR_DB_NEW;
  db->location = location;
  *out = db;
  return CREMA_OK;
end:
  if (mode == CR_DB_NEW) status = cr_file_location_end(&location, status);
fail:
  free(copy);
  return status;
}

const char *cr_db_detect(const char *path) {
  struct stat info;
  if (cr_file_is_in(path, "data.mdb", &info)) return "lmdb";
  if (cr_file_is_in(path, "CURRENT", &info)) return "leveldb";
  return NULL;
}

crema_status cr_db_finish(cr_db *db, crema_status content) {
  char *path = db->path;
  bool is_new = db->is_new;
  cr_file_location location = db->location;
  db->backend->close(db);
  free(path);
  return is_new ? cr_file_location_end(&location, content) : content;
}

void cr_db_close(cr_db *db) {
  if (db == NULL) return;
  crema_status status = cr_db_finish(db, CREMA_E_CLOSED);
  (void)status;
}

crema_status cr_db_count(cr_db *db, uint64_t *out) {
  return db->backend->count(db, out);
}

static crema_status open_cursor(cr_db *db, bool defer, cr_db_cursor **out) {
  cr_db_cursor *cursor = NULL;
  *out = NULL;
  CR_TRY(db->backend->cursor_open(db, &cursor));
  cursor->db = db;
  cursor->defer = defer;
  crema_status status = db->backend->first(cursor);
  if (status != CREMA_OK) {
    db->backend->cursor_close(cursor);
    return status;
  }
  *out = cursor;
  return CREMA_OK;
}

crema_status cr_db_cursor_open(cr_db *db, cr_db_cursor **out) {
  return open_cursor(db, false, out);
}

crema_status cr_db_cursor_open_deferred(cr_db *db, cr_db_cursor **out) {
  return open_cursor(db, true, out);
}

void cr_db_cursor_close(cr_db_cursor *cursor) {
  if (cursor != NULL) cursor->db->backend->cursor_close(cursor);
}

crema_status cr_db_cursor_first(cr_db_cursor *cursor) {
  return cursor->db->backend->first(cursor);
}

crema_status cr_db_cursor_next(cr_db_cursor *cursor) {
  if (!cursor->valid) return CREMA_OK;
  return cursor->db->backend->next(cursor);
}

crema_status cr_db_cursor_seek(cr_db_cursor *cursor, cr_db_bytes key) {
  CR_TRY(cursor->db->backend->seek(cursor, key));
  if (cursor->valid) return CREMA_OK;
  char text[64];
  return cr_fail(CREMA_E_NOT_FOUND, "%s: no record with key '%s'", cursor->db->path,
                 cr_db_key_text(key, text, sizeof text));
}

bool cr_db_has_offsets(const cr_db *db) {
  return db->backend->read != NULL;
}

crema_status cr_db_cursor_read(cr_db_cursor *cursor, uint64_t offset, size_t size, cr_buffer *store,
                               cr_db_bytes *out) {
  return cursor->db->backend->read(cursor, offset, size, store, out);
}

void cr_db_cursor_expect(cr_db_cursor *cursor, uint64_t offset, size_t size) {
  cursor->db->backend->expect(cursor, offset, size);
}

crema_status cr_db_txn_begin(cr_db *db, cr_db_txn **out) {
  *out = NULL;
  if (!db->write) {
    return cr_fail(CREMA_E_STATE, "%s: opened for reading, cannot be written", db->path);
  }
  CR_TRY(db->backend->txn_begin(db, out));
  (*out)->db = db;
  return CREMA_OK;
}

crema_status cr_db_put(cr_db_txn *txn, cr_db_bytes key, cr_db_bytes value) {
  return txn->db->backend->put(txn, key, value);
}

crema_status cr_db_commit(cr_db_txn *txn) {
  return txn->db->backend->commit(txn);
}

void cr_db_abort(cr_db_txn *txn) {
  if (txn != NULL) txn->db->backend->abort(txn);
}

const char *cr_db_key_text(cr_db_bytes key, char *text, size_t size) {
  size_t used = 0;
  for (size_t i = 0; i < key.size; ++i) {
    uint8_t byte = key.data[i];
    bool plain = byte >= 0x20 && byte < 0x7f && byte != '\\';
    size_t need = plain ? 1 : 4;
    if (used + need + 4 > size) { /* room for "..." and the end */
      used += (size_t)snprintf(text + used, size - used, "...");
      break;
    }
    used += (size_t)snprintf(text + used, size - used, plain ? "%c" : "\\x%02x", byte);
  }
  text[used < size ? used : size - 1] = '\0';
  return text;
}
