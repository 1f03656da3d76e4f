/* The reader: one thread that walks through a database for ever and deals its records out.
 *
 * Record number k goes to consumer k mod N, in the order of the keys; after the last record the
 * first one follows. Between the reader and each consumer is a free/full queue pair with a fixed
 * number of records, so a slow consumer stalls the reader and nothing is dropped or reordered.
 *
 * Consumers come and go one by one (cr_reader_enter, cr_reader_leave); the thread runs while all of
 * them have entered. Solvers that train one net together share a reader through an input group
 * (data/pipeline/input_group.h). A reader may also serve only one of the N consumers when the
 * others are in other processes: it then walks through all records and deals out every N-th. */
#ifndef CR_DATA_READER_H
#define CR_DATA_READER_H

#include "core/buffer.h"
#include "data/db/db.h"

typedef struct cr_reader cr_reader;

/* One record in flight. It stays valid until it is given back; cr_record_value returns its
 * value. */
typedef struct cr_record {
  /* Its number: records before it, for all consumers and in all runs of the reader. */
  uint64_t index;
  cr_db_bytes key;
  cr_db_bytes value; /* its data is NULL when it is still to be read, from `offset` by `cursor` */
  uint64_t offset;
  cr_db_cursor *cursor;
  cr_buffer storage; /* of the bytes */
} cr_record;

/* The record's value. It may have to be read into `store`; *out is valid until `store` is used
 * again or the record is given back. The consumer's threads may read several records at once.
 * Errors: those of cr_db_cursor_read. */
crema_status cr_record_value(const cr_record *record, cr_buffer *store,
                             cr_db_bytes *out) CREMA_MUST_USE;

typedef struct cr_reader_options {
  const char *backend; /* as for cr_db_open */
  const char *source;  /* path */
  int consumers;       /* N, at least 1 */
  int depth;           /* records in flight to each consumer, at least 1 */
  bool alone;          /* only consumer `rank` is served here */
  int rank;
  uint64_t skip; /* records to pass over before record 0 */
  /* Keep the records of the first epoch in memory (keys, and values or where they lie in the file)
   * and take later epochs from there. When memory would run short, caching is given up with a
   * warning. */
  bool cache;
  bool shuffle;         /* each epoch after the first in an order of its own; implies cache */
  uint64_t order_key;   /* of these orders */
  uint64_t cache_limit; /* bytes; 0: as long as the cache is not larger than the memory left */
} cr_reader_options;

/* Opens the database before its first record; no thread runs yet. Free with cr_reader_close.
 * Errors: those of cr_db_open; CREMA_E_CORRUPT when there are no records. */
crema_status cr_reader_open(const cr_reader_options *options, cr_reader **out) CREMA_MUST_USE;
/* Stops the thread first; all consumers must have ended. Accepts NULL. */
void cr_reader_close(cr_reader *reader);

const char *cr_reader_source(const cr_reader *reader);
/* Number of records in the database; UINT64_MAX until the reader, or a preview, has come from the
 * first record to the last, if the database does not know it. */
uint64_t cr_reader_count(const cr_reader *reader);
/* Records in flight to each consumer. */
int cr_reader_depth(const cr_reader *reader);

/* What the thread did since the reader was opened; `busy_seconds` without waiting for consumers.
 * May be called at any time. */
typedef struct cr_reader_stats {
  uint64_t records; /* dealt out */
  double busy_seconds;
  uint64_t reads; /* records that were read from the database, including skipped ones */
} cr_reader_stats;
cr_reader_stats cr_reader_get_stats(const cr_reader *reader);

/* ---- one consumer; each may be in a thread of its own ---- */

/* Looks at the record number `ahead` (0: the first) that the consumer will get when it starts at
 * the beginning, without taking it. Valid until the consumer's next call. Not to be called after
 * the consumer has entered. Errors: those of reading; CREMA_E_STATE. */
crema_status cr_reader_preview(cr_reader *reader, int consumer, uint64_t ahead, cr_db_bytes *key,
                               cr_db_bytes *value) CREMA_MUST_USE;

/* A position that a snapshot keeps: the number of records that were consumed when this consumer had
 * taken its last one, which has number index - 1 and `key`. */
typedef struct cr_reader_cursor {
  uint64_t index; /* 0: none was taken yet, there is no key */
  cr_db_bytes key;
  int consumers; /* of the reader at that time; 0: one */
  uint64_t skip; /* as in the options */
  uint64_t order_key;
  bool in_key_order; /* caching was given up or never asked for */
} cr_reader_cursor;

/* Makes the consumer resume after `cursor`, with the first record of its own that was not consumed.
 * A cursor of a consumer of another rank, or of a reader with another number of consumers, means
 * the moment when all consumers had taken as many records as that one. Skipped records may have put
 * consumers ahead of each other; the reader resumes at the earliest cursor and deals nothing twice.
 * Not to be called after the consumer has entered. Errors: CREMA_E_NOT_FOUND when the database has
 * no such record; the consumer then begins at the first one. CREMA_E_STATE. */
crema_status cr_reader_resume(cr_reader *reader, int consumer,
                              const cr_reader_cursor *cursor) CREMA_MUST_USE;

/* Fills in the fields of a cursor other than index and key. */
void cr_reader_note_cursor(cr_reader *reader, cr_reader_cursor *cursor);

/* The consumer is ready to take records. The last one to enter starts the thread; until then the
 * others wait when they take. Errors: CREMA_E_STATE when it has entered already; CREMA_E_CORRUPT,
 * from the last one, when the cursors do not belong together. */
crema_status cr_reader_enter(cr_reader *reader, int consumer) CREMA_MUST_USE;

/* Stops the thread. The records are taken back, so their holder must have ended. Consumers that are
 * still in get CREMA_E_STATE after what was dealt to them, and have to leave and enter again, as
 * their positions are lost. A consumer that enters again without a cursor begins at its first
 * record. */
void cr_reader_leave(cr_reader *reader, int consumer);

/* All consumers that are in get this failure after what was dealt to them, as from cr_reader_leave.
 */
void cr_reader_fail(cr_reader *reader, crema_status status, const char *text);

/* The next record for `consumer`; waits for it. Errors: those of the reading thread, with its
 * text; CREMA_E_INTERRUPTED when the calling thread was asked to stop. */
crema_status cr_reader_take(cr_reader *reader, int consumer, cr_record **out) CREMA_MUST_USE;
/* Gives `count` records (cr_record *) back at once, for which the reading thread is woken once. */
crema_status cr_reader_give_back(cr_reader *reader, int consumer, void *const *record,
                                 size_t count) CREMA_MUST_USE;

/* How many records `consumer` can take without waiting. */
size_t cr_reader_ready(const cr_reader *reader, int consumer);

#endif
