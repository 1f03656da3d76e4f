#include "data/pipeline/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "data/pipeline/reader_private.h"

static crema_status check_options(const cr_reader_options *options) {
  if (options->consumers < 1 || options->depth < 1) {
    return cr_fail(CREMA_E_ARGUMENT, "%s: a reader for %d consumers with %d records each",
                   options->source, options->consumers, options->depth);
  }
  if (!options->alone || (options->rank >= 0 && options->rank < options->consumers)) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_RANGE, "%s: a reader for consumer %d of %d", options->source,
                 options->rank, options->consumers);
}

static crema_status make_slots(const cr_reader_options *options, cr_reader *reader) {
  CR_TRY(CR_NEW(reader->slot, options->consumers, "a reader"));
  reader->consumers = options->consumers;
  for (int i = 0; i < options->consumers; ++i) {
    reader->slot[i].here = !options->alone || i == options->rank;
    reader->slot[i].next = (uint64_t)i;
  }
  return CREMA_OK;
}

/* Goes to record number 0. */
static crema_status go_to_start(cr_reader *reader) {
  CR_TRY(cr_record_walk_go(&reader->walk, reader->skip));
  uint64_t count = reader->walk.count;
  if (reader->skip >= count) {
    /* Epochs are counted from record 0. */
    reader->skip %= count;
    if (reader->walk.from_memory) CR_TRY(cr_record_walk_go(&reader->walk, reader->skip));
  }
  return CREMA_OK;
}

crema_status cr_reader_open(const cr_reader_options *options, cr_reader **out) {
  *out = NULL;
  CR_TRY(check_options(options));
  cr_reader *reader = calloc(1, sizeof *reader);
  if (reader == NULL) return cr_fail_memory(sizeof *reader, "a reader");
  pthread_mutex_init(&reader->lock, NULL);
  reader->depth = options->depth;
  reader->skip = options->skip;
  const cr_record_walk_options walk = {.backend = options->backend,
                                       .source = options->source,
                                       .cache = options->cache || options->shuffle,
                                       .shuffle = options->shuffle,
                                       .order_key = options->order_key,
                                       .cache_limit = options->cache_limit};
  reader->caches = walk.cache;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(make_slots(options, reader), fail);
  CR_TRY_GOTO(cr_record_walk_open(&walk, &reader->walk), fail);
  reader->fresh = true;
  if (options->skip > 0) CR_TRY_GOTO(go_to_start(reader), fail);
  *out = reader;
  return CREMA_OK;
fail:
  cr_reader_close(reader);
  return status;
}

void cr_reader_close(cr_reader *reader) {
  if (reader == NULL) return;
  for (int i = 0; i < reader->consumers; ++i) {
    cr_reader_leave(reader, i);
    cr_db_cursor_close(reader->slot[i].preview);
    cr_buffer_free(&reader->slot[i].key);
  }
  free(reader->slot);
  cr_record_walk_close(&reader->walk);
  pthread_mutex_destroy(&reader->lock);
  free(reader);
}

const char *cr_reader_source(const cr_reader *reader) {
  return reader->walk.db->path;
}

uint64_t cr_reader_count(const cr_reader *reader) {
  return reader->walk.count;
}

crema_status cr_reader_count_all(const cr_reader *reader, uint64_t *out) {
  return cr_db_count(reader->walk.db, out);
}

int cr_reader_depth(const cr_reader *reader) {
  return reader->depth;
}

cr_reader_stats cr_reader_get_stats(const cr_reader *reader) {
  return (cr_reader_stats){
      .records = atomic_load_explicit(&reader->dealt, memory_order_relaxed),
      .busy_seconds = 1e-9 * (double)atomic_load_explicit(&reader->busy_ns, memory_order_relaxed),
      .reads = atomic_load_explicit(&reader->walk.reads, memory_order_relaxed)};
}

/* Fails unless the consumer exists and has not entered. */
static crema_status check_out(const cr_reader *reader, int consumer) {
  if (consumer < 0 || consumer >= reader->consumers || !reader->slot[consumer].here) {
    return cr_fail(CREMA_E_RANGE, "%s: there is no consumer %d of %d", cr_reader_source(reader),
                   consumer, reader->consumers);
  }
  if (!reader->slot[consumer].in) return CREMA_OK;
  return cr_fail(CREMA_E_STATE, "%s: the reader is running already", cr_reader_source(reader));
}

/* Moves the consumer's own cursor, which does not affect other consumers. Past the last record the
 * number of records is known, so that a search for a record that does not exist can stop. */
static crema_status move_preview(cr_reader *reader, cr_reader_slot *slot, uint64_t position) {
  if (slot->preview == NULL) {
    CR_TRY(cr_db_cursor_open(reader->walk.db, &slot->preview));
    slot->previewed = 0;
  }
  if (slot->previewed > position) {
    CR_TRY(cr_db_cursor_first(slot->preview));
    slot->previewed = 0;
  }
  for (; slot->previewed < position; ++slot->previewed) {
    CR_TRY(cr_db_cursor_next(slot->preview));
    if (slot->preview->valid) continue;
    if (reader->walk.count == UINT64_MAX) reader->walk.count = slot->previewed + 1;
    CR_TRY(cr_db_cursor_first(slot->preview));
  }
  return CREMA_OK;
}

static crema_status preview(cr_reader *reader, int consumer, uint64_t ahead, cr_db_bytes *key,
                            cr_db_bytes *value) {
  CR_TRY(check_out(reader, consumer));
  cr_reader_slot *slot = &reader->slot[consumer];
  uint64_t index = (uint64_t)consumer + ahead * (uint64_t)reader->consumers;
  uint64_t position = reader->skip + index, count = reader->walk.count;
  CR_TRY(move_preview(reader, slot, count == UINT64_MAX ? position : position % count));
  *key = slot->preview->key;
  *value = slot->preview->value;
  return CREMA_OK;
}

crema_status cr_reader_preview(cr_reader *reader, int consumer, uint64_t ahead, cr_db_bytes *key,
                               cr_db_bytes *value) {
  pthread_mutex_lock(&reader->lock);
  crema_status status = preview(reader, consumer, ahead, key, value);
  pthread_mutex_unlock(&reader->lock);
  return status;
}

static void begin_at_first(cr_reader *reader, int consumer) {
  cr_reader_slot *slot = &reader->slot[consumer];
  slot->index = 0;
  slot->next = (uint64_t)consumer;
  cr_buffer_clear(&slot->key);
}

/* The number of the first record for `consumer` after the cursor. */
static uint64_t first_after(const cr_reader *reader, int consumer, const cr_reader_cursor *cursor) {
  uint64_t own = (uint64_t)consumer, now = (uint64_t)reader->consumers;
  uint64_t then = cursor->consumers > 1 ? (uint64_t)cursor->consumers : 1;
  if (cursor->index == 0) return own;
  /* The consumer's next turn after the first record that no consumer has taken, if all have taken
   * equally many. For its own cursor that is N after its last record. */
  uint64_t base = ((cursor->index - 1) / then + 1) * then;
  return base + (own + now - base % now) % now;
}

/* Settings of the reader: the first consumer's cursor determines them, and all other cursors must
 * agree. */
static crema_status take_settings(cr_reader *reader, const cr_reader_cursor *cursor) {
  bool first = true;
  for (int i = 0; i < reader->consumers; ++i) {
    if (reader->slot[i].resumed) first = false;
  }
  if (!first && (cursor->skip != reader->skip || cursor->order_key != reader->walk.order.key)) {
    return cr_fail(CREMA_E_CORRUPT, "%s: the cursors of the solvers do not belong together",
                   cr_reader_source(reader));
  }
  if (cursor->skip != reader->skip) reader->fresh = false;
  reader->skip = cursor->skip;
  cr_record_walk_set_order(&reader->walk, cursor->order_key);
  if (cursor->in_key_order && !reader->walk.in_key_order) {
    cr_record_walk_keep_nothing(&reader->walk);
    reader->fresh = false;
  }
  return CREMA_OK;
}

static crema_status resume(cr_reader *reader, int consumer, const cr_reader_cursor *cursor) {
  CR_TRY(check_out(reader, consumer));
  cr_reader_slot *slot = &reader->slot[consumer];
  begin_at_first(reader, consumer);
  CR_TRY(take_settings(reader, cursor));
  slot->resumed = true;
  if (cursor->index == 0) return CREMA_OK;
  cr_db_cursor *there = NULL;
  CR_TRY(cr_db_cursor_open(reader->walk.db, &there));
  crema_status exists = cr_db_cursor_seek(there, cursor->key);
  cr_db_cursor_close(there);
  CR_TRY(exists);
  CR_TRY(cr_buffer_append(&slot->key, cursor->key.data, cursor->key.size));
  slot->index = cursor->index;
  slot->next = first_after(reader, consumer, cursor);
  return CREMA_OK;
}

crema_status cr_reader_resume(cr_reader *reader, int consumer, const cr_reader_cursor *cursor) {
  pthread_mutex_lock(&reader->lock);
  crema_status status = resume(reader, consumer, cursor);
  pthread_mutex_unlock(&reader->lock);
  return status;
}

void cr_reader_note_cursor(cr_reader *reader, cr_reader_cursor *cursor) {
  pthread_mutex_lock(&reader->lock);
  cursor->consumers = reader->consumers;
  cursor->skip = reader->skip;
  cursor->order_key = reader->walk.order.key;
  cursor->in_key_order = reader->caches && reader->walk.in_key_order;
  pthread_mutex_unlock(&reader->lock);
}

static void free_queues(const cr_reader *reader, cr_reader_slot *slot) {
  cr_queue_pair_free(&slot->pair, NULL);
  for (int i = 0; slot->record != NULL && i < reader->depth; ++i) {
    cr_buffer_free(&slot->record[i].storage);
  }
  free(slot->record);
  slot->record = NULL;
}

static crema_status make_queues(const cr_reader *reader, cr_reader_slot *slot) {
  size_t depth = (size_t)reader->depth;
  void **element = NULL;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(CR_NEW(element, depth, "a reader's records"), out);
  CR_TRY_GOTO(CR_NEW(slot->record, depth, "a reader's records"), out);
  for (size_t k = 0; k < depth; ++k) element[k] = &slot->record[k];
  CR_TRY_GOTO(cr_queue_pair_init(&slot->pair, element, depth), out);
out:
  free(element);
  if (status != CREMA_OK) free_queues(reader, slot);
  return status;
}

static bool all_are_in(const cr_reader *reader) {
  for (int i = 0; i < reader->consumers; ++i) {
    const cr_reader_slot *slot = &reader->slot[i];
    if (slot->here && (!slot->in || slot->lost)) return false;
  }
  return true;
}

/* Fails unless all consumers begin or all resume. */
static crema_status check_cursors(const cr_reader *reader) {
  int begin = 0, go_on = 0;
  for (int i = 0; i < reader->consumers; ++i) {
    if (!reader->slot[i].here) continue;
    if (reader->slot[i].index == 0) ++begin;
    else ++go_on;
  }
  if (begin == 0 || go_on == 0) return CREMA_OK;
  return cr_fail(
      CREMA_E_CORRUPT,
      "%s: the cursors of the solvers do not belong together: %d of %d begin at the first "
      "record",
      cr_reader_source(reader), begin, begin + go_on);
}

static crema_status enter(cr_reader *reader, int consumer) {
  CR_TRY(check_out(reader, consumer));
  cr_reader_slot *slot = &reader->slot[consumer];
  CR_TRY(make_queues(reader, slot));
  cr_db_cursor_close(slot->preview);
  slot->preview = NULL;
  slot->in = true;
  slot->lost = false;
  if (!all_are_in(reader)) return CREMA_OK;
  crema_status status = check_cursors(reader);
  if (status == CREMA_OK) {
    status = cr_thread_start(&reader->thread, "crema-reader", cr_reader_run, reader);
  }
  if (status == CREMA_OK) return CREMA_OK;
  slot->in = false;
  free_queues(reader, slot);
  return status;
}

crema_status cr_reader_enter(cr_reader *reader, int consumer) {
  pthread_mutex_lock(&reader->lock);
  crema_status status = enter(reader, consumer);
  pthread_mutex_unlock(&reader->lock);
  return status;
}

/* Fails the queues of all consumers except `gone`. */
static void fail_others(cr_reader *reader, int gone, crema_status status, const char *text) {
  for (int i = 0; i < reader->consumers; ++i) {
    cr_reader_slot *slot = &reader->slot[i];
    if (i == gone || !slot->in) continue;
    cr_queue_fail(slot->pair.full, status, text);
    slot->lost = true;
  }
}

void cr_reader_fail(cr_reader *reader, crema_status status, const char *text) {
  pthread_mutex_lock(&reader->lock);
  fail_others(reader, -1, status, text);
  pthread_mutex_unlock(&reader->lock);
}

static void leave(cr_reader *reader, int consumer) {
  cr_reader_slot *slot = &reader->slot[consumer];
  if (!slot->in) return;
  if (reader->thread != NULL) {
    (void)!cr_thread_stop(&reader->thread); /* the consumers know of a failure in the thread */
    reader->fresh = false;
    char text[1024];
    snprintf(text, sizeof text, "%s: solver %d of %d has stopped reading", cr_reader_source(reader),
             consumer, reader->consumers);
    fail_others(reader, consumer, CREMA_E_STATE, text);
  }
  slot->in = false;
  slot->lost = false;
  slot->resumed = false;
  begin_at_first(reader, consumer);
  free_queues(reader, slot);
}

void cr_reader_leave(cr_reader *reader, int consumer) {
  pthread_mutex_lock(&reader->lock);
  leave(reader, consumer);
  pthread_mutex_unlock(&reader->lock);
}

crema_status cr_reader_take(cr_reader *reader, int consumer, cr_record **out) {
  void *item = NULL;
  CR_TRY(cr_queue_pop(reader->slot[consumer].pair.full, "a record", &item));
  *out = item;
  return CREMA_OK;
}

crema_status cr_reader_give_back(cr_reader *reader, int consumer, void *const *record,
                                 size_t count) {
  return cr_queue_push_all(reader->slot[consumer].pair.free, record, count);
}

crema_status cr_record_value(const cr_record *record, cr_buffer *store, cr_db_bytes *out) {
  *out = record->value;
  if (record->value.data != NULL || record->value.size == 0) return CREMA_OK;
  return cr_db_cursor_read(record->cursor, record->offset, record->value.size, store, out);
}

size_t cr_reader_ready(const cr_reader *reader, int consumer) {
  return cr_queue_size(reader->slot[consumer].pair.full);
}
