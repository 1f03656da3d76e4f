/* Records of a database as items of batches: the common part of sources that read through a reader.
 */
#ifndef CR_DATA_RECORD_SOURCE_H
#define CR_DATA_RECORD_SOURCE_H

#include "data/pipeline/pipeline.h"

/* The first member of such a source; zero-initialise, then set. */
typedef struct cr_record_source {
  cr_reader *reader;
  int consumer;      /* the source's number at the reader */
  bool skip_corrupt; /* warn about records that cannot be decoded, instead of failing */
} cr_record_source;

/* The first member of such a source's data on an item. */
typedef struct cr_record_item {
  cr_record *record;
} cr_record_item;

/* For the source's table (cr_source); `user` is the cr_record_source. */
crema_status cr_record_source_start(void *user) CREMA_MUST_USE;
void cr_record_source_stop(void *user);
crema_status cr_record_source_take(void *user, cr_batch *batch, int item) CREMA_MUST_USE;
size_t cr_record_source_ready(void *user);
bool cr_record_source_pass_over(void *user, cr_batch *batch, int item, crema_status status,
                                uint64_t row);
/* Gives the records back and puts a cursor into the batch. */
crema_status cr_record_source_finish(void *user, cr_batch *batch) CREMA_MUST_USE;

/* The common part of the tables of such sources, without `finish`. */
#define CR_RECORD_SOURCE(load_function)                                                          \
  .start = cr_record_source_start, .stop = cr_record_source_stop, .take = cr_record_source_take, \
  .ready = cr_record_source_ready, .load = load_function, .pass_over = cr_record_source_pass_over

/* The cursor of a batch: the number of records consumed at its end, and the key of the last, which
 * stays in the batch. */
uint64_t cr_record_source_cursor(const cr_batch *batch, cr_db_bytes *key);

/* Calls `look` with the value of the first record (with skip_corrupt the first good record) before
 * the source starts. Errors: of `look`, with source and key; of the reader. */
crema_status cr_record_source_look(const cr_record_source *source,
                                   crema_status (*look)(void *user, cr_db_bytes value),
                                   void *user) CREMA_MUST_USE;

/* Prefixes the error text of a failure with source and key. Returns `status`. */
crema_status cr_record_source_fail(const cr_record_source *source, cr_db_bytes key,
                                   crema_status status);

#endif
