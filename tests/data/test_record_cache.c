/* The cache of records: what it keeps, how much memory it says it takes, and that it stops exactly
 * at its limit. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "data/pipeline/record_cache.h"

enum {
  BLOCK = 8 << 20,
  BLOCK_OF_KEYS = 64 << 10,
  FIRST_ENTRIES = 1024 * (int)sizeof(cr_cached_record)
};

static cr_record_cache *make(bool has_offsets, uint64_t limit) {
  cr_record_cache *cache = NULL;
  ok(cr_record_cache_create(has_offsets, limit, &cache));
  assert_int_equal(cr_record_cache_count(cache), 0);
  assert_int_equal(cr_record_cache_bytes(cache), 0);
  return cache;
}

static cr_db_bytes bytes_of(const void *data, size_t size) {
  return (cr_db_bytes){data, size};
}

static bool add(cr_record_cache *cache, size_t key_size, size_t value_size, uint64_t offset) {
  static uint8_t bytes[2 * BLOCK];
  return cr_record_cache_add(cache, bytes_of(bytes, key_size), bytes_of(bytes, value_size), offset);
}

/* Copies of keys and values, or of keys alone. */
TEST(copies) {
  for (int has_offsets = 0; has_offsets < 2; ++has_offsets) {
    cr_record_cache *cache = make(has_offsets == 1, 0);
    char key[8] = "key", value[8] = "value";
    assert_true(cr_record_cache_add(cache, bytes_of(key, 3), bytes_of(value, 5), 77));
    assert_true(cr_record_cache_add(cache, bytes_of(NULL, 0), bytes_of(NULL, 0), 78));
    assert_true(cr_record_cache_add(cache, bytes_of("k2", 2), bytes_of("v", 1), 79));
    memset(key, '?', sizeof key);
    memset(value, '?', sizeof value);
    assert_int_equal(cr_record_cache_count(cache), 3);
    cr_cached_record record = cr_record_cache_get(cache, 0);
    assert_int_equal(record.key.size, 3);
    assert_memory_equal(record.key.data, "key", 3);
    assert_int_equal(record.value.size, 5);
    assert_int_equal(record.offset, 77);
    if (has_offsets == 1) assert_null(record.value.data);
    else assert_memory_equal(record.value.data, "value", 5);
    record = cr_record_cache_get(cache, 1);
    assert_true(record.key.size == 0 && record.value.size == 0 && record.offset == 78);
    record = cr_record_cache_get(cache, 2);
    assert_memory_equal(record.key.data, "k2", 2);
    assert_int_equal(record.offset, 79);
    if (has_offsets == 0) assert_memory_equal(record.value.data, "v", 1);
    cr_record_cache_destroy(cache);
  }
  cr_record_cache_destroy(NULL);
}

/* A block is used to its last byte; larger records get one of their own. */
TEST(blocks) {
  cr_record_cache *cache = make(false, 0);
  assert_true(add(cache, 1, BLOCK / 2 - 1, 0));
  assert_int_equal(cr_record_cache_bytes(cache), FIRST_ENTRIES + BLOCK);
  assert_true(add(cache, BLOCK / 2, 0, 0));
  assert_int_equal(cr_record_cache_bytes(cache), FIRST_ENTRIES + BLOCK);
  assert_true(add(cache, 1, 0, 0));
  assert_int_equal(cr_record_cache_bytes(cache), FIRST_ENTRIES + 2 * BLOCK);
  assert_true(add(cache, 0, BLOCK, 0));
  assert_int_equal(cr_record_cache_bytes(cache), FIRST_ENTRIES + 3 * BLOCK);
  assert_true(add(cache, 1, BLOCK, 0));
  assert_int_equal(cr_record_cache_bytes(cache), FIRST_ENTRIES + 4 * BLOCK + 1);
  cr_record_cache_destroy(cache);
  cache = make(true, 0);
  assert_true(add(cache, BLOCK_OF_KEYS, BLOCK, 0));
  assert_int_equal(cr_record_cache_bytes(cache), FIRST_ENTRIES + BLOCK_OF_KEYS);
  assert_true(add(cache, BLOCK_OF_KEYS + 5, BLOCK, 0));
  assert_int_equal(cr_record_cache_bytes(cache), FIRST_ENTRIES + 2 * BLOCK_OF_KEYS + 5);
  cr_record_cache_destroy(cache);
}

/* The limit may be reached and not passed, be it with entries or with a block. */
TEST(limits) {
  cr_record_cache *cache = make(true, FIRST_ENTRIES + BLOCK_OF_KEYS);
  assert_true(add(cache, BLOCK_OF_KEYS, 0, 0));
  assert_false(add(cache, 1, 0, 0));
  assert_int_equal(cr_record_cache_count(cache), 1);
  assert_int_equal(cr_record_cache_bytes(cache), FIRST_ENTRIES + BLOCK_OF_KEYS);
  cr_record_cache_destroy(cache);
  cache = make(true, FIRST_ENTRIES + BLOCK_OF_KEYS - 1);
  assert_false(add(cache, 1, 0, 0));
  assert_int_equal(cr_record_cache_count(cache), 0);
  cr_record_cache_destroy(cache);
  cache = make(true, FIRST_ENTRIES - 1);
  assert_false(add(cache, 1, 0, 0));
  assert_int_equal(cr_record_cache_bytes(cache), 0);
  cr_record_cache_destroy(cache);
  /* 1024 entries, then twice as many. */
  cache = make(true, FIRST_ENTRIES + BLOCK_OF_KEYS);
  for (int i = 0; i < 1024; ++i) assert_true(add(cache, 1, 0, (uint64_t)i));
  assert_false(add(cache, 1, 0, 0));
  assert_int_equal(cr_record_cache_count(cache), 1024);
  cr_record_cache_destroy(cache);
  cache = make(true, 2 * FIRST_ENTRIES + BLOCK_OF_KEYS);
  for (int i = 0; i < 2048; ++i) assert_true(add(cache, 1, 0, (uint64_t)i));
  assert_int_equal(cr_record_cache_bytes(cache), 2 * FIRST_ENTRIES + BLOCK_OF_KEYS);
  assert_false(add(cache, 1, 0, 0));
  for (uint64_t i = 0; i < 2048; ++i) assert_int_equal(cr_record_cache_get(cache, i).offset, i);
  cr_record_cache_destroy(cache);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
