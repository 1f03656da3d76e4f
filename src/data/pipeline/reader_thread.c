/* The reader's thread: walks over the records from the earliest cursor on and deals record k to
 * consumer k mod N. It waits only for a free record of that consumer. */
#include <inttypes.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/timeline.h"
#include "data/pipeline/reader_private.h"

static crema_status check_key(const cr_reader *reader, const cr_reader_slot *slot,
                              cr_db_bytes found) {
  if (found.size == slot->key.size &&
      (found.size == 0 || memcmp(found.data, slot->key.data, found.size) == 0)) {
    return CREMA_OK;
  }
  char wanted[64], text[64];
  const cr_db_bytes key = {(const uint8_t *)slot->key.data, slot->key.size};
  return cr_fail(
      CREMA_E_CORRUPT,
      "%s: the cursors of the solvers do not belong together, or the database was changed: "
      "record %" PRIu64 " is '%s', not '%s'",
      reader->walk.db->path, slot->index - 1, cr_db_key_text(found, text, sizeof text),
      cr_db_key_text(key, wanted, sizeof wanted));
}

/* The slot with the earliest cursor. */
static const cr_reader_slot *first_slot(const cr_reader *reader) {
  const cr_reader_slot *first = NULL;
  for (int i = 0; i < reader->consumers; ++i) {
    const cr_reader_slot *slot = &reader->slot[i];
    if (slot->here && (first == NULL || slot->index < first->index)) first = slot;
  }
  return first;
}

/* Moves the walk to the first record that may be dealt; *index: its number. */
static crema_status go_to_cursors(cr_reader *reader, uint64_t *index) {
  cr_record_walk *walk = &reader->walk;
  const cr_reader_slot *first = first_slot(reader);
  *index = first->index;
  if (reader->fresh && *index == 0) return CREMA_OK;
  reader->fresh = false;
  if (*index == 0) return cr_record_walk_go(walk, reader->skip);
  const cr_db_bytes key = {(const uint8_t *)first->key.data, first->key.size};
  if (walk->in_key_order) return cr_record_walk_go_after(walk, key);
  cr_log_info("%s: going through the records before number %" PRIu64 " to keep them",
              walk->db->path, *index);
  CR_TRY(cr_record_walk_go(walk, reader->skip + *index));
  cr_db_bytes found;
  if (!cr_record_walk_key_at(walk, reader->skip + *index - 1, &found)) return CREMA_OK;
  return check_key(reader, first, found);
}

/* Checks later consumers' cursors when the walk reaches them. */
static crema_status check_cursors(const cr_reader *reader, uint64_t index) {
  for (int i = 0; i < reader->consumers; ++i) {
    const cr_reader_slot *slot = &reader->slot[i];
    if (slot->here && slot->index == index + 1) {
      CR_TRY(check_key(reader, slot, reader->walk.key));
    }
  }
  return CREMA_OK;
}

/* The decoding thread reads a value that is in the file; here the system prefetches it. */
static crema_status fill(const cr_record_walk *walk, uint64_t index, cr_record *record) {
  record->index = index;
  record->key = walk->key;
  record->value = walk->value;
  record->offset = walk->value_offset;
  record->cursor = walk->cursor;
  if (walk->value.data == NULL && walk->value.size > 0) {
    cr_db_cursor_expect(walk->cursor, walk->value_offset, walk->value.size);
  }
  if (walk->stable) return CREMA_OK;
  cr_buffer_clear(&record->storage);
  CR_TRY(cr_buffer_append(&record->storage, walk->key.data, walk->key.size));
  if (walk->value.data != NULL) {
    CR_TRY(cr_buffer_append(&record->storage, walk->value.data, walk->value.size));
    record->value.data = (const uint8_t *)record->storage.data + walk->key.size;
  }
  record->key.data = (const uint8_t *)record->storage.data;
  return CREMA_OK;
}

static void add_time(cr_reader *reader, double start) {
  atomic_fetch_add_explicit(&reader->busy_ns, (uint64_t)(1e9 * (cr_clock_seconds() - start)),
                            memory_order_relaxed);
}

/* A span for the records between two waits for the consumers. */
static void trace_records(cr_reader *reader, double waited_since) {
  const double now = cr_clock_seconds();
  enum { MOST_RECORDS = 256 };
  if (reader->traced.records > 0 &&
      (now - waited_since > 20e-6 || reader->traced.records == MOST_RECORDS)) {
    cr_timeline_span_until(0, "data", "read", reader->traced.begin, waited_since, "\"records\":%d",
                           reader->traced.records);
    reader->traced.records = 0;
  }
  if (reader->traced.records == 0) reader->traced.begin = now;
  reader->traced.records += 1;
}

/* Puts the record into the queue of `slot` (NULL: no consumer here gets it) and moves on. */
static crema_status deal(cr_reader *reader, cr_reader_slot *slot, uint64_t index) {
  void *item = NULL;
  const double traced = cr_timeline_now();
  if (slot != NULL) CR_TRY(cr_queue_pop(slot->pair.free, NULL, &item));
  if (traced > 0) trace_records(reader, traced);
  double start = cr_clock_seconds();
  if (slot != NULL) {
    CR_TRY(fill(&reader->walk, index, item));
    /* Never waits: the queue has room for all records. */
    CR_TRY(cr_queue_push(slot->pair.full, item));
    atomic_fetch_add_explicit(&reader->dealt, 1, memory_order_relaxed);
  }
  CR_TRY(cr_record_walk_next(&reader->walk));
  add_time(reader, start);
  return CREMA_OK;
}

static crema_status deal_for_ever(cr_reader *reader) {
  uint64_t index = 0, last_cursor = 0;
  double start = cr_clock_seconds();
  CR_TRY(go_to_cursors(reader, &index));
  add_time(reader, start);
  for (int i = 0; i < reader->consumers; ++i) {
    if (reader->slot[i].index > last_cursor) last_cursor = reader->slot[i].index;
  }
  for (;; ++index) {
    cr_reader_slot *slot = &reader->slot[index % (uint64_t)reader->consumers];
    bool dealt = slot->here && index >= slot->next;
    if (index < last_cursor) CR_TRY(check_cursors(reader, index));
    /* Only popping from a queue notices a request to stop. */
    if (!dealt && cr_thread_must_stop()) return CREMA_E_INTERRUPTED;
    CR_TRY(deal(reader, dealt ? slot : NULL, index));
  }
}

crema_status cr_reader_run(void *arg) {
  cr_reader *reader = arg;
  crema_status status = deal_for_ever(reader);
  if (status == CREMA_E_INTERRUPTED || status == CREMA_E_CLOSED) return status;
  for (int i = 0; i < reader->consumers; ++i) {
    if (reader->slot[i].here) cr_queue_fail(reader->slot[i].pair.full, status, NULL);
  }
  return status;
}
