#include "data/pipeline/record_cache.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/mem_available.h"

/* Copies are in blocks that never move, newest first. */
typedef struct cache_block {
  struct cache_block *next;
  size_t size, used;
  uint8_t bytes[];
} cache_block;

enum { BLOCK = 8 << 20, BLOCK_OF_KEYS = 64 << 10, FIRST_ENTRIES = 1024 };

struct cr_record_cache {
  bool has_offsets;
  uint64_t limit;
  uint64_t bytes; /* of the blocks and the entries */
  cr_cached_record *entry;
  uint64_t count, capacity;
  cache_block *blocks;
};

crema_status cr_record_cache_create(bool has_offsets, uint64_t limit, cr_record_cache **out) {
  cr_record_cache *cache = calloc(1, sizeof *cache);
  *out = cache;
  if (cache == NULL) return cr_fail_memory(sizeof *cache, "a cache of records");
  cache->has_offsets = has_offsets;
  cache->limit = limit;
  return CREMA_OK;
}

void cr_record_cache_destroy(cr_record_cache *cache) {
  if (cache == NULL) return;
  while (cache->blocks != NULL) {
    cache_block *next = cache->blocks->next;
    free(cache->blocks);
    cache->blocks = next;
  }
  free(cache->entry);
  free(cache);
}

/* Whether the cache may grow by `more` bytes. With an automatic limit, free memory of at least the
 * cache's size must remain. */
static bool may_take(const cr_record_cache *cache, uint64_t more) {
  uint64_t then = cache->bytes + more;
  if (cache->limit > 0) return then <= cache->limit;
  uint64_t left = cr_mem_available();
  return left >= more && then <= left - more;
}

static bool grow_entries(cr_record_cache *cache) {
  if (cache->count < cache->capacity) return true;
  uint64_t capacity = cache->capacity == 0 ? FIRST_ENTRIES : 2 * cache->capacity;
  uint64_t more = (capacity - cache->capacity) * sizeof *cache->entry;
  if (capacity > SIZE_MAX / sizeof *cache->entry || !may_take(cache, more)) return false;
  cr_cached_record *grown = realloc(cache->entry, (size_t)capacity * sizeof *grown);
  if (grown == NULL) return false;
  cache->entry = grown;
  cache->capacity = capacity;
  cache->bytes += more;
  return true;
}

/* Room for `size` bytes in one block; NULL: memory would run short. */
static uint8_t *take_room(cr_record_cache *cache, size_t size) {
  cache_block *newest = cache->blocks;
  if (newest == NULL || newest->size - newest->used < size) {
    size_t usual = cache->has_offsets ? BLOCK_OF_KEYS : BLOCK, wanted = size > usual ? size : usual;
    if (wanted > SIZE_MAX - sizeof *newest || !may_take(cache, wanted)) return NULL;
    newest = malloc(sizeof *newest + wanted);
    if (newest == NULL) return NULL;
    newest->next = cache->blocks;
    newest->size = wanted;
    newest->used = 0;
    cache->blocks = newest;
    cache->bytes += wanted;
  }
  uint8_t *at = newest->bytes + newest->used;
  newest->used += size;
  return at;
}

bool cr_record_cache_add(cr_record_cache *cache, cr_db_bytes key, cr_db_bytes value,
                         uint64_t offset) {
  if (!grow_entries(cache)) return false;
  size_t copied = cache->has_offsets ? 0 : value.size;
  uint8_t *at = take_room(cache, key.size + copied);
  if (at == NULL) return false;
  if (key.size > 0) memcpy(at, key.data, key.size);
  if (copied > 0) memcpy(at + key.size, value.data, copied);
  key.data = at;
  value.data = cache->has_offsets ? NULL : at + key.size;
  cache->entry[cache->count++] = (cr_cached_record){key, value, offset};
  return true;
}

cr_cached_record cr_record_cache_get(const cr_record_cache *cache, uint64_t index) {
  return cache->entry[index];
}

uint64_t cr_record_cache_count(const cr_record_cache *cache) {
  return cache->count;
}

uint64_t cr_record_cache_bytes(const cr_record_cache *cache) {
  return cache->bytes;
}
