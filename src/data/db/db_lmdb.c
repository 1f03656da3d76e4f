/* The LMDB back end.
 *
 * Reading: a read-only environment without thread-local reader slots and one transaction per
 * cursor, so that any thread can use a cursor. LMDB protects the snapshot from writers; lmdb_walk.c
 * finds records even in damaged files, lmdb_file.c reads them even if files are truncated or
 * replaced. LMDB's own map is read only for the meta pages when an environment and a cursor are
 * opened. Writing: a transaction's records are gathered in memory and written at the commit; if the
 * map is full it is doubled and the whole batch written again. */
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/file_kind.h"
#include "core/io.h"
#include "core/log.h"
#include "core/system.h"
#include "data/db/db.h"
#include "data/db/lmdb_env.h"
#include "data/db/lmdb_walk.h"

typedef struct lmdb_db {
  cr_db base;
  MDB_env *env;
  bool shared;        /* with all readers of the file (lmdb_env.h) */
  MDB_dbi dbi;        /* for writing */
  uint64_t file_size; /* of the data file when it was opened for reading */
} lmdb_db;

typedef struct lmdb_cursor {
  cr_db_cursor base;
  MDB_txn *txn; /* pins the snapshot that the walk reads */
  cr_lmdb_file file;
  cr_lmdb_walk walk;
  cr_buffer value; /* if it is large */
} lmdb_cursor;

/* A gathered record: key, then value, in `bytes` at `offset`. */
typedef struct lmdb_record {
  size_t offset, key_size, value_size;
} lmdb_record;

typedef struct lmdb_txn {
  cr_db_txn base;
  cr_buffer bytes;
  cr_buffer records; /* of lmdb_record */
} lmdb_txn;

/* The cause of a failed write: LMDB reports a full disk as an input/output error. */
static int cause_of(int rc, MDB_env *env) {
  enum { LITTLE = 64 << 10 };
  struct statvfs info;
  mdb_filehandle_t fd = -1;
  if (rc != EIO || mdb_env_get_fd(env, &fd) != 0 || fstatvfs(fd, &info) != 0) return rc;
  return (uint64_t)info.f_bavail * info.f_frsize < LITTLE ? ENOSPC : rc;
}

static crema_status fail_lmdb(int rc, const char *path, const char *what) {
  switch (rc) {
    case ENOMEM: return cr_fail(CREMA_E_NO_MEMORY, "%s: %s: out of memory", path, what);
    case ENOSPC: return cr_fail(CREMA_E_IO, "%s: %s: the disk is full", path, what);
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
      return cr_fail(CREMA_E_CORRUPT, "%s: not an LMDB database (%s)", path, mdb_strerror(rc));
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_PANIC:
      return cr_fail(CREMA_E_CORRUPT, "%s: %s: the database is corrupt (%s)", path, what,
                     mdb_strerror(rc));
    default: return cr_fail(CREMA_E_IO, "%s: %s: %s", path, what, mdb_strerror(rc));
  }
}

static const char *kind_of(int fd) {
  uint8_t bytes[CR_FILE_KIND_BYTES];
  const ssize_t size = cr_io_read_at(fd, bytes, sizeof bytes, 0);
  return size > 0 ? cr_file_kind(bytes, (size_t)size) : NULL;
}

/* The file holds the two meta pages, the records and the list of free pages. It lacks pages at its
 * end that became free before they were written. */
static crema_status check_pages(int fd, const char *path, uint64_t size) {
  cr_lmdb_meta meta;
  crema_status status = cr_lmdb_meta_newest(fd, &meta);
  const char *kind = status == CREMA_E_CORRUPT ? kind_of(fd) : NULL;
  if (kind != NULL) {
    return cr_fail(status, "%s: the file looks like %s; expected an LMDB database", path, kind);
  }
  if (status != CREMA_OK) return cr_fail_in(status, "%s", path);
  uint64_t pages = size / meta.page_size;
  if (pages >= 2 && meta.used_pages <= pages) return CREMA_OK;
  return cr_fail(CREMA_E_CORRUPT, "%s: truncated LMDB database (%llu bytes, its pages need %llu)",
                 path, (unsigned long long)size,
                 (unsigned long long)meta.used_pages * meta.page_size);
}

/* Checks a database before LMDB, which trusts its files, opens it. */
static crema_status check_existing(const char *path, bool *is_file, uint64_t *size) {
  struct stat info, other;
  cr_buffer data = {0};
  *is_file = false;
  if (stat(path, &info) != 0) {
    if (errno == ENOENT) return cr_fail(CREMA_E_NOT_FOUND, "%s: no such database", path);
    return cr_fail_errno(errno, "%s: cannot open the database", path);
  }
  *is_file = S_ISREG(info.st_mode);
  if (!*is_file && !cr_file_is_in(path, "data.mdb", &info)) {
    if (cr_file_is_in(path, "CURRENT", &other)) {
      return cr_fail(CREMA_E_CORRUPT, "%s: a LevelDB database, not an LMDB one (backend: LEVELDB)",
                     path);
    }
    return cr_fail(CREMA_E_NOT_FOUND,
                   "%s: no database: neither data.mdb (LMDB) nor CURRENT (LevelDB) is in it", path);
  }
  *size = (uint64_t)info.st_size;
  CR_TRY(cr_buffer_print(&data, "%s%s", path, *is_file ? "" : "/data.mdb"));
  int fd = open(data.data, O_RDONLY | O_CLOEXEC);
  cr_buffer_free(&data);
  if (fd < 0) return cr_fail_errno(errno, "%s: cannot open the database", path);
  crema_status status = check_pages(fd, path, *size);
  close(fd);
  return status;
}

static crema_status open_dbi(lmdb_db *db, const char *path) {
  MDB_txn *txn = NULL;
  int rc = mdb_txn_begin(db->env, NULL, 0, &txn);
  if (rc != 0) return fail_lmdb(rc, path, "cannot begin");
  rc = mdb_dbi_open(txn, NULL, 0, &db->dbi);
  if (rc != 0) {
    mdb_txn_abort(txn);
    return fail_lmdb(rc, path, "cannot open");
  }
  rc = mdb_txn_commit(txn);
  return rc == 0 ? CREMA_OK : fail_lmdb(cause_of(rc, db->env), path, "cannot open");
}

static crema_status open_read(const char *path, lmdb_db *db) {
  bool is_file = false;
  CR_TRY(check_existing(path, &is_file, &db->file_size));
  unsigned flags = MDB_RDONLY | MDB_NOTLS | (is_file ? MDB_NOSUBDIR : 0);
  cr_buffer data = {0};
  CR_TRY(cr_buffer_print(&data, "%s%s", path, is_file ? "" : "/data.mdb"));
  int rc = cr_lmdb_env_open(path, data.data, flags, &db->env);
  if (rc == EACCES || rc == EROFS || rc == EPERM || rc == ENOLCK) {
    /* No lock file can be made (read-only place, network file system). Reading without a lock works
     * without a writer. */
    cr_log_info("%s: opened without a lock (%s)", path, mdb_strerror(rc));
    rc = cr_lmdb_env_open(path, data.data, flags | MDB_NOLOCK, &db->env);
  }
  cr_buffer_free(&data);
  db->shared = rc == 0;
  if (rc != 0) return fail_lmdb(rc, path, "cannot open the database");
  return CREMA_OK;
}

static crema_status open_write(const char *path, lmdb_db *db) {
  enum { FIRST_MAP = 64 << 20 };
  if (!cr_io_make_folder(path, 0755) && errno != EEXIST) {
    return cr_fail_errno(errno, "%s: cannot make the database", path);
  }
  struct stat info;
  size_t map = FIRST_MAP;
  if (cr_file_is_in(path, "data.mdb", &info) && info.st_size > 0) {
    bool is_file = false;
    CR_TRY(check_existing(path, &is_file, &db->file_size));
    if ((uint64_t)info.st_size > map) map = (size_t)info.st_size;
  }
  int rc;
  do rc = cr_lmdb_env_new(path, MDB_NOTLS, map, &db->env);
  while (rc == EINTR); /* LMDB fails when a signal interrupts it */
  if (rc != 0) return fail_lmdb(rc, path, "cannot open the database for writing");
  return open_dbi(db, path);
}

static void lmdb_close(cr_db *base) {
  lmdb_db *db = (lmdb_db *)base;
  if (db->shared) cr_lmdb_env_release(db->env);
  else if (db->env != NULL) mdb_env_close(db->env);
  free(db);
}

static crema_status lmdb_open(const char *path, bool write, cr_db **out) {
  lmdb_db *db = calloc(1, sizeof *db);
  if (db == NULL) return cr_fail_memory(sizeof *db, "a database");
  crema_status status = write ? open_write(path, db) : open_read(path, db);
  if (status != CREMA_OK) {
    lmdb_close(&db->base);
    return status;
  }
  *out = &db->base;
  return CREMA_OK;
}

static crema_status lmdb_count(cr_db *base, uint64_t *out) {
  lmdb_db *db = (lmdb_db *)base;
  mdb_filehandle_t fd = -1;
  cr_lmdb_meta meta;
  int rc = mdb_env_get_fd(db->env, &fd);
  if (rc != 0) return fail_lmdb(rc, base->path, "cannot count the records");
  crema_status status = cr_lmdb_meta_newest(fd, &meta);
  if (status != CREMA_OK) return cr_fail_in(status, "%s", base->path);
  *out = meta.entries;
  return CREMA_OK;
}

static void end_read(const lmdb_db *db, MDB_txn *txn) {
  if (db->shared) cr_lmdb_env_end_read(db->env, txn);
  else mdb_txn_abort(txn);
}

static void lmdb_cursor_close(cr_db_cursor *base) {
  lmdb_cursor *cursor = (lmdb_cursor *)base;
  cr_lmdb_walk_end(&cursor->walk);
  cr_lmdb_file_close(&cursor->file);
  if (cursor->txn != NULL) end_read((lmdb_db *)base->db, cursor->txn);
  cr_buffer_free(&cursor->value);
  free(cursor);
}

/* Takes a newer snapshot if a writer that commits twice between the two steps has overwritten the
 * snapshot's meta page. */
static crema_status open_snapshot(const lmdb_db *db, const char *path, lmdb_cursor *cursor) {
  enum { TRIES = 100 };
  mdb_filehandle_t fd = -1;
  for (int i = 0; i < TRIES; ++i) {
    bool current = false;
    int dead = 0;
    if (db->shared) CR_TRY(cr_fail_in(cr_lmdb_env_check(db->env), "%s", path));
    int rc = mdb_txn_begin(db->env, NULL, MDB_RDONLY, &cursor->txn);
    /* Killed readers keep their few slots until a process checks for them. */
    if (rc == MDB_READERS_FULL && mdb_reader_check(db->env, &dead) == 0 && dead > 0) {
      rc = mdb_txn_begin(db->env, NULL, MDB_RDONLY, &cursor->txn);
    }
    if (rc != 0) cursor->txn = NULL;
    if (rc == 0) rc = mdb_env_get_fd(db->env, &fd);
    if (rc != 0) return fail_lmdb(rc, path, "cannot read");
    crema_status status = cr_lmdb_file_open(fd, mdb_txn_id(cursor->txn), &cursor->file, &current);
    if (status != CREMA_OK) return cr_fail_in(status, "%s", path);
    if (current) return CREMA_OK;
    end_read(db, cursor->txn);
    cursor->txn = NULL;
  }
  return cr_fail(CREMA_E_CORRUPT, "%s: the database is corrupt or being written all the time",
                 path);
}

static crema_status lmdb_cursor_open(cr_db *base, cr_db_cursor **out) {
  lmdb_db *db = (lmdb_db *)base;
  lmdb_cursor *cursor = calloc(1, sizeof *cursor);
  if (cursor == NULL) return cr_fail_memory(sizeof *cursor, "a cursor");
  cursor->base.db = base;
  crema_status status = open_snapshot(db, base->path, cursor);
  if (status == CREMA_OK) {
    status = cr_fail_in(cr_lmdb_walk_begin(&cursor->walk, &cursor->file), "%s", base->path);
  }
  if (status != CREMA_OK) {
    lmdb_cursor_close(&cursor->base);
    return status;
  }
  *out = &cursor->base;
  return CREMA_OK;
}

/* Sets key and value from the walk's record. */
static crema_status take_record(cr_db_cursor *base, crema_status status, bool valid) {
  lmdb_cursor *cursor = (lmdb_cursor *)base;
  base->key = cursor->walk.key;
  base->value = cursor->walk.value;
  base->offset = cursor->walk.offset;
  if (status == CREMA_OK && valid && base->value.data == NULL && !base->defer) {
    status = cr_lmdb_read_value(&cursor->file, base->offset, base->value.size, &cursor->value,
                                &base->value);
  }
  base->valid = valid && status == CREMA_OK;
  return status == CREMA_OK ? CREMA_OK : cr_fail_in(status, "%s", base->db->path);
}

static crema_status lmdb_first(cr_db_cursor *base) {
  bool valid = false;
  crema_status status = cr_lmdb_walk_first(&((lmdb_cursor *)base)->walk, &valid);
  return take_record(base, status, valid);
}

static crema_status lmdb_next(cr_db_cursor *base) {
  bool valid = false;
  crema_status status = cr_lmdb_walk_next(&((lmdb_cursor *)base)->walk, &valid);
  return take_record(base, status, valid);
}

static crema_status lmdb_seek(cr_db_cursor *base, cr_db_bytes key) {
  bool valid = false;
  crema_status status = cr_lmdb_walk_seek(&((lmdb_cursor *)base)->walk, key, &valid);
  return take_record(base, status, valid);
}

static crema_status lmdb_read(cr_db_cursor *base, uint64_t offset, size_t size, cr_buffer *store,
                              cr_db_bytes *out) {
  return cr_lmdb_read_value(&((lmdb_cursor *)base)->file, offset, size, store, out);
}

static void lmdb_expect(cr_db_cursor *base, uint64_t offset, size_t size) {
  (void)posix_fadvise(((lmdb_cursor *)base)->file.fd, (off_t)offset, (off_t)size,
                      POSIX_FADV_WILLNEED);
}

static void lmdb_abort(cr_db_txn *base) {
  lmdb_txn *txn = (lmdb_txn *)base;
  cr_buffer_free(&txn->bytes);
  cr_buffer_free(&txn->records);
  free(txn);
}

static crema_status lmdb_txn_begin(cr_db *base, cr_db_txn **out) {
  (void)base;
  lmdb_txn *txn = calloc(1, sizeof *txn);
  if (txn == NULL) return cr_fail_memory(sizeof *txn, "a transaction");
  *out = &txn->base;
  return CREMA_OK;
}

static crema_status lmdb_put(cr_db_txn *base, cr_db_bytes key, cr_db_bytes value) {
  lmdb_txn *txn = (lmdb_txn *)base;
  lmdb_db *db = (lmdb_db *)base->db;
  size_t limit = (size_t)mdb_env_get_maxkeysize(db->env);
  if (key.size == 0 || key.size > limit) {
    char text[64];
    return cr_fail(CREMA_E_RANGE, "%s: key '%s' has %zu bytes; LMDB allows 1 to %zu",
                   base->db->path, cr_db_key_text(key, text, sizeof text), key.size, limit);
  }
  lmdb_record record = {txn->bytes.size, key.size, value.size};
  CR_TRY(cr_buffer_append(&txn->bytes, key.data, key.size));
  CR_TRY(cr_buffer_append(&txn->bytes, value.data, value.size));
  return cr_buffer_append(&txn->records, &record, sizeof record);
}

static int write_all(lmdb_db *db, const lmdb_txn *txn) {
  MDB_txn *mdb = NULL;
  int rc = mdb_txn_begin(db->env, NULL, 0, &mdb);
  if (rc != 0) return rc;
  size_t count = txn->records.size / sizeof(lmdb_record);
  for (size_t i = 0; rc == 0 && i < count; ++i) {
    lmdb_record record;
    memcpy(&record, txn->records.data + i * sizeof record, sizeof record);
    char *bytes = txn->bytes.data + record.offset;
    MDB_val key = {record.key_size, bytes};
    MDB_val value = {record.value_size, bytes + record.key_size};
    rc = mdb_put(mdb, db->dbi, &key, &value, 0);
  }
  if (rc != 0) {
    mdb_txn_abort(mdb);
    return rc;
  }
  return mdb_txn_commit(mdb);
}

static int double_map(lmdb_db *db) {
  MDB_envinfo info;
  int rc = mdb_env_info(db->env, &info);
  if (rc != 0) return rc;
  if (info.me_mapsize > SIZE_MAX / 2) return ENOMEM;
  cr_log_info("%s: map doubled to %zu MB", db->base.path, (info.me_mapsize * 2) >> 20);
  return mdb_env_set_mapsize(db->env, info.me_mapsize * 2);
}

static crema_status lmdb_commit(cr_db_txn *base) {
  lmdb_txn *txn = (lmdb_txn *)base;
  lmdb_db *db = (lmdb_db *)base->db;
  int rc = 0;
  if (txn->records.size > 0) rc = write_all(db, txn);
  while (rc == MDB_MAP_FULL || rc == MDB_MAP_RESIZED || rc == EINTR) {
    /* Resized: another process grew the database; size 0 adopts its size. */
    if (rc == MDB_MAP_FULL) rc = double_map(db);
    else rc = rc == MDB_MAP_RESIZED ? mdb_env_set_mapsize(db->env, 0) : 0;
    if (rc == 0) rc = write_all(db, txn);
  }
  crema_status status =
      rc == 0 ? CREMA_OK : fail_lmdb(cause_of(rc, db->env), base->db->path, "cannot write");
  lmdb_abort(base);
  return status;
}

const cr_db_backend cr_db_lmdb = {
    .name = "lmdb",
    .open = lmdb_open,
    .close = lmdb_close,
    .count = lmdb_count,
    .cursor_open = lmdb_cursor_open,
    .cursor_close = lmdb_cursor_close,
    .first = lmdb_first,
    .next = lmdb_next,
    .seek = lmdb_seek,
    .read = lmdb_read,
    .expect = lmdb_expect,
    .txn_begin = lmdb_txn_begin,
    .put = lmdb_put,
    .commit = lmdb_commit,
    .abort = lmdb_abort,
};
