/* Arenas: many small blocks that are freed together. */
#include <string.h>

#include "check.h"
#include "core/arena.h"
#include "core/large_requests.h"

enum { CHUNK = 16384 };

static char *block_of(cr_arena *arena, size_t size) {
  void *block = NULL;
  ok(cr_arena_alloc(arena, size, &block));
  assert_int_equal((uintptr_t)block % 16, 0);
  for (size_t i = 0; i < size; ++i) assert_int_equal(((char *)block)[i], 0);
  return block;
}

/* Blocks smaller and larger than what an arena takes from the system at once: none overlap. */
TEST(blocks_are_zero_and_apart) {
  enum { BLOCKS = 300 };
  static char *block[BLOCKS];
  size_t size[BLOCKS], total = 0;
  cr_arena arena = {0};
  for (int i = 0; i < BLOCKS; ++i) {
    size[i] = i % 50 == 49 ? CHUNK + (size_t)i : (size_t)(i * 37 % 700);
    block[i] = block_of(&arena, size[i]);
    memset(block[i], i + 1, size[i]);
    total += size[i] == 0 ? 16 : (size[i] + 15) / 16 * 16;
    assert_int_equal(arena.total, total);
  }
  for (int i = 0; i < BLOCKS; ++i) {
    for (size_t k = 0; k < size[i]; ++k) assert_int_equal(block[i][k], (char)(i + 1));
  }
  cr_arena_free(&arena);
  assert_null(arena.chunk);
  assert_int_equal(arena.total, 0);
  /* It can be used again. */
  block_of(&arena, 8);
  cr_arena_free(&arena);
}

/* The rest of a chunk is used to the last byte, and not beyond. */
TEST(chunks_are_filled) {
  cr_arena arena = {0};
  char *first = block_of(&arena, CHUNK - 32);
  const struct cr_arena_chunk *chunk = arena.chunk;
  assert_ptr_equal(block_of(&arena, 32), first + CHUNK - 32);
  assert_ptr_equal(arena.chunk, chunk);
  assert_int_equal(arena.used, CHUNK);
  block_of(&arena, 1);
  assert_ptr_not_equal(arena.chunk, chunk);
  assert_int_equal(arena.used, 16);
  cr_arena_free(&arena);
}

/* Two blocks of 0 bytes have different addresses, as those of malloc usually do. */
TEST(empty_blocks_differ) {
  cr_arena arena = {0};
  assert_ptr_not_equal(block_of(&arena, 0), block_of(&arena, 0));
  cr_arena_free(&arena);
}

TEST(texts_are_copied) {
  cr_arena arena = {0};
  char text[] = "a text", *copy = NULL, *empty = NULL;
  ok(cr_arena_text(&arena, text, &copy));
  ok(cr_arena_text(&arena, "", &empty));
  text[0] = 'b';
  assert_string_equal(copy, "a text");
  assert_string_equal(empty, "");
  assert_int_equal(arena.total, 32);
  cr_arena_free(&arena);
}

TEST(too_much_is_refused) {
  static const size_t sizes[] = {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 2, SIZE_MAX / 4};
  cr_arena arena = {0};
  void *block = NULL;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    assert_fails(cr_arena_alloc(&arena, sizes[i], &block), CREMA_E_NO_MEMORY, "an arena");
    assert_null(block);
    assert_null(arena.chunk);
  }
  cr_arena_free(&arena);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
