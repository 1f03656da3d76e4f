#include "db_writer.h"

#include <string.h>
#include <strings.h>

#include "cli.h"
#include "core/fail.h"
#include "core/log.h"

/* Not after each record, as a commit waits for the disk; but large records fill memory. */
enum { COMMIT_RECORDS = 1000, COMMIT_BYTES = 64 << 20 };

bool db_writer_check_kind(const char *name, const char *text, bool hdf5) {
  static const char *const words[] = {"lmdb", "leveldb", "hdf5"};
  if (hdf5 && strcasecmp(text, "h5") == 0) return true;
  return cli_find_word(name, text, words, hdf5 ? 3 : 2) >= 0;
}

crema_status db_writer_begin(db_writer *writer, const char *backend, const char *path) {
  return cr_db_open(backend, path, CR_DB_NEW, &writer->db);
}

static crema_status commit(db_writer *writer) {
  cr_db_txn *txn = writer->txn;
  writer->txn = NULL;
  writer->pending = 0;
  CR_TRY(cr_db_commit(txn));
  cr_log_info("Processed %lld files.", (long long)writer->count);
  return CREMA_OK;
}

crema_status db_writer_put(db_writer *writer, const char *key, const cr_datum *datum) {
  cr_buffer_clear(&writer->value);
  CR_TRY(cr_datum_append(datum, &writer->value));
  return db_writer_put_value(writer, key, writer->value.data, writer->value.size);
}

crema_status db_writer_put_value(db_writer *writer, const char *key, const void *bytes,
                                 size_t size) {
  if (writer->txn == NULL) CR_TRY(cr_db_txn_begin(writer->db, &writer->txn));
  const cr_db_bytes key_bytes = {(const uint8_t *)key, strlen(key)};
  const cr_db_bytes value = {bytes, size};
  CR_TRY(cr_db_put(writer->txn, key_bytes, value));
  ++writer->count;
  writer->pending += key_bytes.size + value.size;
  bool full = writer->count % COMMIT_RECORDS == 0 || writer->pending >= COMMIT_BYTES;
  return full ? commit(writer) : CREMA_OK;
}

crema_status db_writer_path(const char *folder, const char *name, cr_buffer *out) {
  const size_t length = strlen(folder);
  const char *slash = length > 0 && folder[length - 1] != '/' ? "/" : "";
  cr_buffer_clear(out);
  return cr_buffer_print(out, "%s%s%s", folder, slash, name);
}

crema_status db_writer_key(size_t number, const char *name, cr_buffer *out) {
  cr_buffer_clear(out);
  return cr_buffer_print(out, "%08zu_%s", number, name);
}

crema_status db_writer_end(db_writer *writer, crema_status status) {
  if (status == CREMA_OK && writer->txn != NULL) status = commit(writer);
  cr_db_abort(writer->txn);
  if (writer->db != NULL) status = cr_db_finish(writer->db, status);
  cr_buffer_free(&writer->value);
  *writer = (db_writer){0};
  return status;
}
