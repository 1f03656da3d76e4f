/* The reader: one thread that walks through a database for ever and deals its records out.
 *
 * Record number k goes to consumer k mod N, in the order of the keys; past the last record the
 * first one follows. Between the reader and each consumer stands a free/full queue pair with a
 * fixed number of records, so a slow consumer stalls the reader and nothing is dropped or
 * reordered. */
#ifndef CR_DATA_READER_H
#define CR_DATA_READER_H

#include "core/buffer.h"
#include "data/db.h"

typedef struct cr_reader cr_reader;

/* One record on its way. key and value stay valid until it is given back. */
typedef struct cr_record {
  uint64_t index; /* records dealt out before this one, by all runs of the reader */
  cr_db_bytes key, value;
  cr_buffer storage; /* holds their bytes where the database does not keep them in place */
} cr_record;

typedef struct cr_reader_options {
  const char *backend; /* as for cr_db_open */
  const char *source;  /* path */
  int consumers;       /* at least 1 */
  int depth;           /* records on their way to each consumer, at least 1 */
} cr_reader_options;

/* Opens the database and stands before its first record; no thread runs yet. Free with
 * cr_reader_close. Errors: those of cr_db_open; CREMA_E_CORRUPT when there are no records. */
crema_status cr_reader_open(const cr_reader_options *options, cr_reader **out) CREMA_MUST_USE;
/* Stops the thread first. Accepts NULL. */
void cr_reader_close(cr_reader *reader);

const char *cr_reader_source(const cr_reader *reader);
/* Number of records in the database; UINT64_MAX where it is not known before the reader came from
 * the first record to the last. */
uint64_t cr_reader_count(const cr_reader *reader);
/* Records on their way to each consumer. */
int cr_reader_depth(const cr_reader *reader);

/* What the thread did since the reader was opened; `busy_seconds` without waiting for consumers.
 * May be called at any time. */
typedef struct cr_reader_stats {
  uint64_t records;
  double busy_seconds;
} cr_reader_stats;
cr_reader_stats cr_reader_get_stats(const cr_reader *reader);

/* ---- while the thread does not run ---- */

/* The record that will be dealt out first; it is not taken. */
void cr_reader_peek(const cr_reader *reader, cr_db_bytes *key, cr_db_bytes *value);

/* Passes over `count` records, which do not count as dealt out. */
crema_status cr_reader_skip(cr_reader *reader, uint64_t count) CREMA_MUST_USE;

/* Goes on after the record with `key`, with number `index`. Errors: CREMA_E_NOT_FOUND when the
 * database has no such record; the reader then stands before its first record. */
crema_status cr_reader_seek(cr_reader *reader, cr_db_bytes key, uint64_t index) CREMA_MUST_USE;

/* Starts and stops the thread. A stopped reader has lost its place: the next call must be
 * cr_reader_seek, cr_reader_rewind or cr_reader_close. All records must have been given back or
 * their holder must have ended. */
crema_status cr_reader_start(cr_reader *reader) CREMA_MUST_USE;
void cr_reader_stop(cr_reader *reader);

/* Stands before the first record again; its number is 0. */
crema_status cr_reader_rewind(cr_reader *reader) CREMA_MUST_USE;

/* ---- while it runs; one thread for each consumer ---- */

/* The next record for `consumer`; waits for it. Errors: those of the reading thread, with its
 * text; CREMA_E_INTERRUPTED when the calling thread was asked to stop. */
crema_status cr_reader_take(cr_reader *reader, int consumer, cr_record **out) CREMA_MUST_USE;
crema_status cr_reader_give_back(cr_reader *reader, int consumer, cr_record *record) CREMA_MUST_USE;

/* How many records `consumer` can take without waiting. */
size_t cr_reader_ready(const cr_reader *reader, int consumer);

#endif
