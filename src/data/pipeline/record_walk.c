#include "data/pipeline/record_walk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/mem_available.h"
#include "core/thread.h"

void cr_record_walk_keep_nothing(cr_record_walk *walk) {
  cr_record_cache_destroy(walk->cache);
  walk->cache = NULL;
  walk->from_memory = false;
  walk->in_key_order = true;
}

static void give_up(cr_record_walk *walk) {
  uint64_t left = cr_mem_available();
  cr_log_warning("%s: memory runs short (%" PRIu64 " MB are free) after %" PRIu64
                 " records of "
                 "%" PRIu64 " MB; they are not kept and all epochs are read from the database%s",
                 walk->db->path, left >> 20, cr_record_cache_count(walk->cache),
                 cr_record_cache_bytes(walk->cache) >> 20,
                 walk->order.shuffle ? ", in the order of the keys: they cannot be shuffled" : "");
  cr_record_walk_keep_nothing(walk);
}

/* Makes the cursor's record the current one. */
static void arrive(cr_record_walk *walk) {
  walk->key = walk->cursor->key;
  walk->value = walk->cursor->value;
  walk->value_offset = walk->cursor->offset;
  walk->stable = false;
  atomic_fetch_add_explicit(&walk->reads, 1, memory_order_relaxed);
  if (walk->cache == NULL) return;
  if (!cr_record_cache_add(walk->cache, walk->key, walk->value, walk->value_offset)) give_up(walk);
}

static crema_status recall(cr_record_walk *walk) {
  uint64_t count = walk->count;
  size_t index = (size_t)(walk->position % count);
  if (walk->order.shuffle && walk->position >= count) {
    CR_TRY(cr_order_at(&walk->order, walk->position, &index));
  }
  const cr_cached_record record = cr_record_cache_get(walk->cache, index);
  walk->key = record.key;
  walk->value = record.value;
  walk->value_offset = record.offset;
  walk->stable = true;
  return CREMA_OK;
}

/* All records are in the cache: later epochs are read from it. */
static crema_status turn_to_memory(cr_record_walk *walk) {
  walk->from_memory = true;
  walk->order.count = (size_t)walk->count;
  cr_log_info("%s: %" PRIu64 " records are kept (%" PRIu64 " MB); later epochs come from memory%s",
              walk->db->path, (uint64_t)walk->count, cr_record_cache_bytes(walk->cache) >> 20,
              walk->order.shuffle ? ", shuffled" : "");
  return recall(walk);
}

static crema_status go_first(cr_record_walk *walk) {
  walk->walked = 0;
  walk->from_first = true;
  CR_TRY(cr_db_cursor_first(walk->cursor));
  if (!walk->cursor->valid) {
    return cr_fail(CREMA_E_CORRUPT, "%s: the database has no records", walk->db->path);
  }
  arrive(walk);
  return CREMA_OK;
}

crema_status cr_record_walk_next(cr_record_walk *walk) {
  ++walk->position;
  if (walk->from_memory) return recall(walk);
  CR_TRY(cr_db_cursor_next(walk->cursor));
  ++walk->walked;
  if (walk->cursor->valid) {
    arrive(walk);
    return CREMA_OK;
  }
  if (walk->from_first) walk->count = walk->walked;
  cr_log_debug("%s: restarting from the first record", walk->db->path);
  if (walk->cache != NULL) return turn_to_memory(walk);
  return go_first(walk);
}

/* Skips whole epochs. */
static void leap(cr_record_walk *walk, uint64_t position) {
  uint64_t count = walk->count;
  if (walk->cache != NULL || count == UINT64_MAX || !walk->from_first || walk->walked != 0) return;
  walk->position += (position - walk->position) / count * count;
}

crema_status cr_record_walk_go(cr_record_walk *walk, uint64_t position) {
  walk->position = 0;
  if (!walk->from_memory) {
    if (!walk->in_key_order) {
      cr_record_cache_destroy(walk->cache);
      walk->cache = NULL;
      CR_TRY(cr_record_cache_create(cr_db_has_offsets(walk->db), walk->cache_limit, &walk->cache));
    }
    CR_TRY(go_first(walk));
    for (;;) {
      leap(walk, position);
      if (walk->position >= position || walk->from_memory) break;
      if (cr_thread_must_stop()) return CREMA_E_INTERRUPTED;
      CR_TRY(cr_record_walk_next(walk));
    }
  }
  walk->position = position;
  return walk->from_memory ? recall(walk) : CREMA_OK;
}

crema_status cr_record_walk_go_after(cr_record_walk *walk, cr_db_bytes key) {
  CR_TRY(cr_db_cursor_seek(walk->cursor, key));
  walk->from_first = false;
  return cr_record_walk_next(walk);
}

bool cr_record_walk_key_at(cr_record_walk *walk, uint64_t position, cr_db_bytes *key) {
  size_t index = (size_t)position;
  if (walk->cache == NULL) return false;
  if (walk->from_memory) {
    index = (size_t)(position % walk->count);
    if (walk->order.shuffle && position >= walk->count &&
        cr_order_at(&walk->order, position, &index) != CREMA_OK) {
      return false;
    }
  }
  if (index >= cr_record_cache_count(walk->cache)) return false;
  *key = cr_record_cache_get(walk->cache, index).key;
  return true;
}

void cr_record_walk_set_order(cr_record_walk *walk, uint64_t order_key) {
  if (walk->order.key == order_key) return;
  walk->order.key = order_key;
  walk->order.drawn = false;
}

crema_status cr_record_walk_open(const cr_record_walk_options *options, cr_record_walk *walk) {
  crema_status status = CREMA_OK;
  uint64_t count = UINT64_MAX;
  memset(walk, 0, sizeof *walk);
  walk->cache_limit = options->cache_limit;
  walk->in_key_order = !options->cache;
  walk->order.shuffle = options->shuffle && options->cache;
  walk->order.key = options->order_key;
  CR_TRY_GOTO(cr_db_open(options->backend, options->source, CR_DB_READ, &walk->db), fail);
  if (!walk->db->backend->slow_count) CR_TRY_GOTO(cr_db_count(walk->db, &count), fail);
  walk->count = count;
  CR_TRY_GOTO(cr_db_cursor_open_deferred(walk->db, &walk->cursor), fail);
  CR_TRY_GOTO(cr_record_walk_go(walk, 0), fail);
  return CREMA_OK;
fail:
  cr_record_walk_close(walk);
  return status;
}

void cr_record_walk_close(cr_record_walk *walk) {
  cr_order_free(&walk->order);
  cr_record_cache_destroy(walk->cache);
  cr_db_cursor_close(walk->cursor);
  cr_db_close(walk->db);
  memset(walk, 0, sizeof *walk);
}
