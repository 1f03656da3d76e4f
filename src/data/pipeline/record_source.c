#include "data/pipeline/record_source.h"

#include <string.h>

#include "core/fail.h"
#include "core/log.h"

static cr_record *record_of(const cr_batch *batch, int item) {
  return ((const cr_record_item *)cr_batch_item(batch, item))->record;
}

crema_status cr_record_source_start(void *user) {
  const cr_record_source *source = user;
  return cr_reader_enter(source->reader, source->consumer);
}

void cr_record_source_stop(void *user) {
  const cr_record_source *source = user;
  cr_reader_leave(source->reader, source->consumer);
}

crema_status cr_record_source_take(void *user, cr_batch *batch, int item) {
  const cr_record_source *source = user;
  cr_record_item *to = cr_batch_item(batch, item);
  return cr_reader_take(source->reader, source->consumer, &to->record);
}

size_t cr_record_source_ready(void *user) {
  const cr_record_source *source = user;
  return cr_reader_ready(source->reader, source->consumer);
}

crema_status cr_record_source_fail(const cr_record_source *source, cr_db_bytes key,
                                   crema_status status) {
  char text[96];
  return cr_fail_in(status, "%s: record '%s'", cr_reader_source(source->reader),
                    cr_db_key_text(key, text, sizeof text));
}

/* Whether the record itself caused the failure. */
static bool is_corrupt(crema_status status) {
  return status == CREMA_E_CORRUPT || status == CREMA_E_UNSUPPORTED;
}

/* False also if all records of the database fail. That is certain only after twice this number of
 * consecutive failures, because a good record may be the first of an epoch and the last of the
 * next. */
bool cr_record_source_pass_over(void *user, cr_batch *batch, int item, crema_status status,
                                uint64_t row) {
  const cr_record_source *source = user;
  if (!source->skip_corrupt || !is_corrupt(status)) return false;
  if (row / 2 >= cr_reader_count(source->reader)) return false;
  cr_log_warning("%s; skipped", crema_error_text());
  void *const record[] = {record_of(batch, item)};
  return cr_reader_give_back(source->reader, source->consumer, record, 1) == CREMA_OK;
}

/* Gives many back at once, so that a waiting reader is woken once. */
static crema_status give_back_records(const cr_record_source *source, const cr_batch *batch) {
  enum { TOGETHER = 64 };
  void *record[TOGETHER];
  size_t count = 0;
  for (int i = 0; i < batch->items; ++i) {
    record[count++] = record_of(batch, i);
    if (count < TOGETHER && i + 1 < batch->items) continue;
    CR_TRY(cr_reader_give_back(source->reader, source->consumer, record, count));
    count = 0;
  }
  return CREMA_OK;
}

crema_status cr_record_source_finish(void *user, cr_batch *batch) {
  const cr_record *last = record_of(batch, batch->items - 1);
  uint64_t consumed = last->index + 1;
  CR_TRY(cr_buffer_append(&batch->cursor, &consumed, sizeof consumed));
  CR_TRY(cr_buffer_append(&batch->cursor, last->key.data, last->key.size));
  return give_back_records(user, batch);
}

uint64_t cr_record_source_cursor(const cr_batch *batch, cr_db_bytes *key) {
  uint64_t consumed = 0;
  memcpy(&consumed, batch->cursor.data, sizeof consumed);
  *key = (cr_db_bytes){(const uint8_t *)batch->cursor.data + sizeof consumed,
                       batch->cursor.size - sizeof consumed};
  return consumed;
}

crema_status cr_record_source_look(const cr_record_source *source,
                                   crema_status (*look)(void *user, cr_db_bytes value),
                                   void *user) {
  for (uint64_t tried = 0;;) {
    cr_db_bytes key, value;
    CR_TRY(cr_reader_preview(source->reader, source->consumer, tried, &key, &value));
    crema_status status = cr_record_source_fail(source, key, look(user, value));
    if (!source->skip_corrupt || !is_corrupt(status)) return status;
    if (++tried >= cr_reader_count(source->reader)) return status;
  }
}
