#include "data/reader.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/queue.h"
#include "core/thread.h"

struct cr_reader {
  cr_db *db;
  cr_db_cursor *cursor;   /* belongs to the thread while it runs */
  _Atomic uint64_t count; /* UINT64_MAX: not known yet */
  bool from_first;        /* walked on from the first record without a gap */
  uint64_t walked;        /* records between the first and the cursor */
  uint64_t index;         /* number of the record under the cursor */
  int consumers, depth;
  cr_record *record;   /* consumers * depth of them, while the thread runs */
  cr_queue_pair *pair; /* one a consumer */
  cr_thread *thread;
  _Atomic uint64_t dealt, busy_ns; /* for the statistics */
};

crema_status cr_reader_open(const cr_reader_options *options, cr_reader **out) {
  *out = NULL;
  if (options->consumers < 1 || options->depth < 1) {
    return cr_fail(CREMA_E_ARGUMENT, "%s: a reader for %d consumers with %d records each",
                   options->source, options->consumers, options->depth);
  }
  cr_reader *reader = calloc(1, sizeof *reader);
  if (reader == NULL) return cr_fail_memory(sizeof *reader, "a reader");
  reader->consumers = options->consumers;
  reader->depth = options->depth;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(cr_db_open(options->backend, options->source, CR_DB_READ, &reader->db), fail);
  uint64_t count = UINT64_MAX;
  if (!reader->db->backend->slow_count) CR_TRY_GOTO(cr_db_count(reader->db, &count), fail);
  reader->count = count;
  CR_TRY_GOTO(cr_db_cursor_open(reader->db, &reader->cursor), fail);
  if (!reader->cursor->valid) {
    status = cr_fail(CREMA_E_CORRUPT, "%s: the database has no records", options->source);
    goto fail;
  }
  reader->from_first = true;
  *out = reader;
  return CREMA_OK;
fail:
  cr_reader_close(reader);
  return status;
}

void cr_reader_close(cr_reader *reader) {
  if (reader == NULL) return;
  cr_reader_stop(reader);
  cr_db_cursor_close(reader->cursor);
  cr_db_close(reader->db);
  free(reader);
}

const char *cr_reader_source(const cr_reader *reader) {
  return reader->db->path;
}

uint64_t cr_reader_count(const cr_reader *reader) {
  return reader->count;
}

int cr_reader_depth(const cr_reader *reader) {
  return reader->depth;
}

cr_reader_stats cr_reader_get_stats(const cr_reader *reader) {
  return (cr_reader_stats){
      .records = atomic_load_explicit(&reader->dealt, memory_order_relaxed),
      .busy_seconds = 1e-9 * (double)atomic_load_explicit(&reader->busy_ns, memory_order_relaxed)};
}

/* ---- the cursor ---------------------------------------------------------- */

/* To the next record, from the last one to the first. */
static crema_status advance(cr_reader *reader) {
  CR_TRY(cr_db_cursor_next(reader->cursor));
  ++reader->walked;
  if (reader->cursor->valid) return CREMA_OK;
  if (reader->from_first) reader->count = reader->walked;
  reader->from_first = true;
  reader->walked = 0;
  cr_log_debug("%s: restarting from the first record", reader->db->path);
  CR_TRY(cr_db_cursor_first(reader->cursor));
  if (reader->cursor->valid) return CREMA_OK;
  return cr_fail(CREMA_E_CORRUPT, "%s: the database has no records any more", reader->db->path);
}

void cr_reader_peek(const cr_reader *reader, cr_db_bytes *key, cr_db_bytes *value) {
  *key = reader->cursor->key;
  *value = reader->cursor->value;
}

crema_status cr_reader_skip(cr_reader *reader, uint64_t count) {
  /* The count may become known on the way. */
  uint64_t known = reader->count;
  if (known > 0) count %= known;
  for (uint64_t i = 0; i < count; ++i) {
    CR_TRY(advance(reader));
    if (reader->count != known && reader->walked == 0) {
      known = reader->count;
      count = i + 1 + (count - i - 1) % known;
    }
  }
  return CREMA_OK;
}

crema_status cr_reader_rewind(cr_reader *reader) {
  reader->index = 0;
  reader->walked = 0;
  reader->from_first = true;
  CR_TRY(cr_db_cursor_first(reader->cursor));
  if (reader->cursor->valid) return CREMA_OK;
  return cr_fail(CREMA_E_CORRUPT, "%s: the database has no records", reader->db->path);
}

crema_status cr_reader_seek(cr_reader *reader, cr_db_bytes key, uint64_t index) {
  crema_status status = cr_db_cursor_seek(reader->cursor, key);
  if (status == CREMA_E_NOT_FOUND) {
    /* Keep this failure's text: rewinding has its own only when it fails too. */
    crema_status rewound = cr_reader_rewind(reader);
    return rewound == CREMA_OK ? status : rewound;
  }
  if (status != CREMA_OK) return status;
  reader->index = index;
  reader->from_first = false;
  return advance(reader);
}

/* ---- the thread ---------------------------------------------------------- */

/* Brings the pages of a value into memory here, so that the consumer does not wait for the
 * disk. Reads one byte a page. */
static void touch(cr_db_bytes bytes) {
  enum { PAGE = 4096 };
  const volatile uint8_t *data = bytes.data;
  for (size_t i = 0; i < bytes.size; i += PAGE) (void)data[i];
}

static crema_status fill(cr_reader *reader, cr_record *record) {
  const cr_db_cursor *cursor = reader->cursor;
  record->index = reader->index;
  record->key = cursor->key;
  record->value = cursor->value;
  if (reader->db->backend->stable_values) {
    touch(cursor->value);
    return CREMA_OK;
  }
  cr_buffer_clear(&record->storage);
  CR_TRY(cr_buffer_append(&record->storage, cursor->key.data, cursor->key.size));
  CR_TRY(cr_buffer_append(&record->storage, cursor->value.data, cursor->value.size));
  record->key.data = (const uint8_t *)record->storage.data;
  record->value.data = record->key.data + record->key.size;
  return CREMA_OK;
}

static crema_status deal_out(cr_reader *reader) {
  for (;;) {
    cr_queue_pair *pair = &reader->pair[reader->index % (uint64_t)reader->consumers];
    void *item = NULL;
    CR_TRY(cr_queue_pop(pair->free, NULL, &item));
    double start = cr_clock_seconds();
    CR_TRY(fill(reader, item));
    /* Nobody waits here: the queue has room for all records. */
    CR_TRY(cr_queue_push(pair->full, item));
    ++reader->index;
    CR_TRY(advance(reader));
    atomic_fetch_add_explicit(&reader->busy_ns, (uint64_t)(1e9 * (cr_clock_seconds() - start)),
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&reader->dealt, 1, memory_order_relaxed);
  }
}

/* Ends only by failing or being stopped; consumers see a failure after what was read before. */
static crema_status read_for_ever(void *arg) {
  cr_reader *reader = arg;
  crema_status status = deal_out(reader);
  if (status == CREMA_E_INTERRUPTED || status == CREMA_E_CLOSED) return status;
  for (int i = 0; i < reader->consumers; ++i) cr_queue_fail(reader->pair[i].full, status, NULL);
  return status;
}

static void free_queues(cr_reader *reader) {
  if (reader->pair != NULL) {
    for (int i = 0; i < reader->consumers; ++i) cr_queue_pair_free(&reader->pair[i], NULL);
  }
  if (reader->record != NULL) {
    int records = reader->consumers * reader->depth;
    for (int i = 0; i < records; ++i) cr_buffer_free(&reader->record[i].storage);
  }
  free(reader->pair);
  free(reader->record);
  reader->pair = NULL;
  reader->record = NULL;
}

static crema_status make_queues(cr_reader *reader) {
  size_t depth = (size_t)reader->depth, consumers = (size_t)reader->consumers;
  void **element = calloc(depth, sizeof *element);
  reader->record = calloc(depth * consumers, sizeof *reader->record);
  reader->pair = calloc(consumers, sizeof *reader->pair);
  crema_status status = CREMA_OK;
  if (element == NULL || reader->record == NULL || reader->pair == NULL) {
    status = cr_fail_memory(depth * consumers * sizeof *reader->record, "a reader's records");
    goto out;
  }
  for (size_t i = 0; i < consumers; ++i) {
    for (size_t k = 0; k < depth; ++k) element[k] = &reader->record[i * depth + k];
    CR_TRY_GOTO(cr_queue_pair_init(&reader->pair[i], element, depth), out);
  }
out:
  free(element);
  if (status != CREMA_OK) free_queues(reader);
  return status;
}

crema_status cr_reader_start(cr_reader *reader) {
  if (reader->thread != NULL) {
    return cr_fail(CREMA_E_STATE, "%s: the reader runs already", reader->db->path);
  }
  CR_TRY(make_queues(reader));
  crema_status status = cr_thread_start(&reader->thread, "crema-reader", read_for_ever, reader);
  if (status != CREMA_OK) free_queues(reader);
  return status;
}

void cr_reader_stop(cr_reader *reader) {
  /* What went wrong in the thread was told to the consumers. */
  crema_status ended = cr_thread_stop(&reader->thread);
  (void)ended;
  free_queues(reader);
}

crema_status cr_reader_take(cr_reader *reader, int consumer, cr_record **out) {
  void *item = NULL;
  CR_TRY(cr_queue_pop(reader->pair[consumer].full, "a record", &item));
  *out = item;
  return CREMA_OK;
}

crema_status cr_reader_give_back(cr_reader *reader, int consumer, cr_record *record) {
  return cr_queue_push(reader->pair[consumer].free, record);
}

size_t cr_reader_ready(const cr_reader *reader, int consumer) {
  return cr_queue_size(reader->pair[consumer].full);
}
