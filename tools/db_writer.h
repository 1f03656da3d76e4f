/* Writing a new database record by record, for the convert_ and extract_ commands. */
#ifndef CREMA_TOOLS_DB_WRITER_H
#define CREMA_TOOLS_DB_WRITER_H

#include "data/db/datum.h"
#include "data/db/db.h"

typedef struct db_writer {
  cr_db *db;
  cr_db_txn *txn;
  size_t pending; /* bytes in the transaction */
  int64_t count;  /* records put */
  cr_buffer value;
} db_writer;

/* Whether `text`, the value of the flag or argument `name`, is a kind of database; with `hdf5` also
 * hdf5 or h5. False with the error printed. */
bool db_writer_check_kind(const char *name, const char *text, bool hdf5);

/* Makes a database that must not exist yet. Zero-initialise *writer ({0}); end with
 * db_writer_end. */
crema_status db_writer_begin(db_writer *writer, const char *backend,
                             const char *path) CREMA_MUST_USE;

/* Adds one record; commits now and then and logs the progress. */
crema_status db_writer_put(db_writer *writer, const char *key,
                           const cr_datum *datum) CREMA_MUST_USE;

/* The same with a record that is in wire form already. */
crema_status db_writer_put_value(db_writer *writer, const char *key, const void *bytes,
                                 size_t size) CREMA_MUST_USE;

/* For records of images that a list names. They replace the content of `out` by the path of a name
 * relative to a folder, and by the key of record `number`. */
crema_status db_writer_path(const char *folder, const char *name, cr_buffer *out) CREMA_MUST_USE;
crema_status db_writer_key(size_t number, const char *name, cr_buffer *out) CREMA_MUST_USE;

/* Commits the pending records and closes; the database then has its name. When `status` is a
 * failure, or the commit fails, the half-written database is removed and that failure returned. */
crema_status db_writer_end(db_writer *writer, crema_status status) CREMA_MUST_USE;

#endif
