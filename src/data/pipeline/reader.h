/* The reader: a thread that walks endlessly through a database and deals its records out.
 *
 * Record number k goes to consumer k mod N, in key order; after the last record follows the first.
 * A free/full queue pair with a fixed number of records connects the reader and each consumer: a
 * slow consumer stalls the reader, and no record is dropped or reordered.
 *
 * Consumers enter and leave one by one (cr_reader_enter, cr_reader_leave); the thread runs while
 * all have entered. Solvers of one training share a reader through an input group
 * (data/pipeline/input_group.h). With other consumers in other processes a reader walks through all
 * records and deals out every N-th. */
#ifndef CR_DATA_READER_H
#define CR_DATA_READER_H

#include "core/buffer.h"
#include "data/db/db.h"

typedef struct cr_reader cr_reader;

/* A record in flight, valid until it is given back; cr_record_value returns its value. */
typedef struct cr_record {
  uint64_t index; /* earlier records of all consumers in all runs of the reader */
  cr_db_bytes key;
  cr_db_bytes value; /* data NULL: to be read from `offset` by `cursor` */
  uint64_t offset;
  cr_db_cursor *cursor;
  cr_buffer storage; /* of the bytes */
} cr_record;

/* The record's value, read into `store` if necessary; valid until `store` is reused or the record
 * given back. The consumer's threads may read several records at once. Errors: see
 * cr_db_cursor_read. */
crema_status cr_record_value(const cr_record *record, cr_buffer *store,
                             cr_db_bytes *out) CREMA_MUST_USE;

typedef struct cr_reader_options {
  const char *backend; /* as for cr_db_open */
  const char *source;  /* path */
  int consumers;       /* N, at least 1 */
  int depth;           /* records in flight to each consumer, at least 1 */
  bool alone;          /* serves only consumer `rank` */
  int rank;
  uint64_t skip; /* records to skip before record 0 */
  /* Keep the records of the first epoch in memory (keys, and values or their offsets in the file)
   * for later epochs. If memory runs short, a warning follows and nothing is kept. */
  bool cache;
  bool shuffle;         /* each epoch after the first has its own order; implies cache */
  uint64_t order_key;   /* of these orders */
  uint64_t cache_limit; /* bytes; 0: up to the size of the remaining memory */
} cr_reader_options;

/* Opens the database before its first record; starts no thread. Free with cr_reader_close. Errors:
 * see cr_db_open; CREMA_E_CORRUPT without records. */
crema_status cr_reader_open(const cr_reader_options *options, cr_reader **out) CREMA_MUST_USE;
/* Stops the thread; all consumers must have ended. Accepts NULL. */
void cr_reader_close(cr_reader *reader);

const char *cr_reader_source(const cr_reader *reader);
/* The number of records in the database. If the database does not record it: UINT64_MAX until the
 * reader or a preview has read from the first record to the last. */
uint64_t cr_reader_count(const cr_reader *reader);
/* Counts the records through its own cursor; may be called at any time. Errors: of reading. */
crema_status cr_reader_count_all(const cr_reader *reader, uint64_t *out) CREMA_MUST_USE;
/* Records in flight to each consumer. */
int cr_reader_depth(const cr_reader *reader);

/* Totals of the thread over all runs. May be called at any time. */
typedef struct cr_reader_stats {
  uint64_t records;    /* dealt out */
  double busy_seconds; /* without waiting for consumers */
  uint64_t reads;      /* records read from the database, also skipped ones */
} cr_reader_stats;
cr_reader_stats cr_reader_get_stats(const cr_reader *reader);

/* One consumer; each may be in its own thread: */

/* Returns, without taking it, the record number `ahead` (0: the first) that the consumer gets if it
 * starts at the beginning. Valid until the consumer's next call. Only for a consumer that has not
 * entered. Errors: of reading; CREMA_E_STATE. */
crema_status cr_reader_preview(cr_reader *reader, int consumer, uint64_t ahead, cr_db_bytes *key,
                               cr_db_bytes *value) CREMA_MUST_USE;

/* A position for snapshots. The consumer's last record has number index - 1 and `key`. */
typedef struct cr_reader_cursor {
  uint64_t index; /* 0: no record was taken, there is no key */
  cr_db_bytes key;
  int consumers; /* of the reader; 0: one */
  uint64_t skip; /* as in the options */
  uint64_t order_key;
  bool in_key_order; /* nothing is cached */
} cr_reader_cursor;

/* Makes the consumer resume after `cursor`, with its first unconsumed record. A cursor of another
 * rank, or of a reader with a different number of consumers, means the moment when each consumer
 * had taken this number of records. Skipped records may have put consumers ahead of each other; the
 * reader resumes at the earliest cursor and deals no record twice. Only for a consumer that has not
 * entered. Errors: CREMA_E_NOT_FOUND without such a record; the consumer then begins at the first.
 * CREMA_E_STATE. */
crema_status cr_reader_resume(cr_reader *reader, int consumer,
                              const cr_reader_cursor *cursor) CREMA_MUST_USE;

/* Fills in the fields of a cursor other than index and key. */
void cr_reader_note_cursor(cr_reader *reader, cr_reader_cursor *cursor);

/* Makes the consumer ready to take records. The last to enter starts the thread; until then takers
 * wait. Errors: CREMA_E_STATE if it has entered already; CREMA_E_CORRUPT, from the last, if the
 * cursors do not belong together. */
crema_status cr_reader_enter(cr_reader *reader, int consumer) CREMA_MUST_USE;

/* Stops the thread and takes the consumer's records back. Other consumers get CREMA_E_STATE after
 * the records dealt to them and must leave and enter again, as their positions are lost. A consumer
 * that enters again without a cursor begins at its first record. */
void cr_reader_leave(cr_reader *reader, int consumer);

/* All consumers that have entered get this failure after the records dealt to them. */
void cr_reader_fail(cr_reader *reader, crema_status status, const char *text);

/* Waits for the next record of `consumer`. Errors: of the reading thread, with its text;
 * CREMA_E_INTERRUPTED if the calling thread should stop. */
crema_status cr_reader_take(cr_reader *reader, int consumer, cr_record **out) CREMA_MUST_USE;
/* Gives `count` records (cr_record *) back and wakes the reading thread once. */
crema_status cr_reader_give_back(cr_reader *reader, int consumer, void *const *record,
                                 size_t count) CREMA_MUST_USE;

/* The number of records that `consumer` can take without waiting. */
size_t cr_reader_ready(const cr_reader *reader, int consumer);

#endif
