/* Host memory: what is asked of the allocator, what no machine can have, and slabs. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "core/fail.h"
#include "device/memory/host_memory.h"
#include "interpose.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* ---- the machine ---- */

enum { PAGE = 4096 };

static long pages, page = PAGE;

INTERPOSED long sysconf(int name) {
  if (!from_program()) return REAL(sysconf)(name);
  if (name == _SC_PHYS_PAGES) return pages;
  if (name == _SC_PAGESIZE) return page;
  return REAL(sysconf)(name);
}

static int slabs_refused, slabs_asked;

INTERPOSED int posix_memalign(void **out, size_t alignment, size_t size) {
  if (size == 8 * MIB && alignment == 8 * MIB) {
    ++slabs_asked;
    if (slabs_refused > 0 && slabs_refused-- > 0) return 12;
  }
  return REAL(posix_memalign)(out, alignment, size);
}

/* ---- an allocator that notes what it is asked ---- */

typedef struct seen {
  int calls;
  size_t bytes, alignment;
} seen;

static void *refuse(void *user, size_t bytes, size_t alignment) {
  seen *s = user;
  *s = (seen){s->calls + 1, bytes, alignment};
  return NULL;
}

static void give_back(void *user, void *memory) {
  (void)user;
  free(memory);
}

static seen ask(size_t bytes) {
  seen s = {0};
  const crema_host_allocator noting = {refuse, give_back, &s};
  void *memory = NULL;
  cr_host_set_allocator(&noting);
  assert_int_equal(cr_host_alloc(bytes, &memory), CREMA_E_NO_MEMORY);
  cr_host_set_allocator(NULL);
  assert_null(memory);
  assert_error_has("host memory");
  return s;
}

/* A header of 64 bytes, and whole lines of 64; large pages from 4 MiB on. */
TEST(what_is_asked_for) {
  static const struct {
    size_t bytes, asked, alignment;
  } rows[] = {
      {0, 64, 64},
      {1, 128, 64},
      {64, 128, 64},
      {65, 192, 64},
      {4 * MIB - 1, 4 * MIB + 64, 64},
      {4 * MIB, 4 * MIB + 64, 2 * MIB},
      {4 * MIB + 1, 4 * MIB + 128, 2 * MIB},
  };
  pages = 1;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    seen s = ask(rows[i].bytes);
    assert_int_equal(s.calls, 1);
    assert_int_equal(s.bytes, rows[i].asked);
    assert_int_equal(s.alignment, rows[i].alignment);
  }
}

/* From 32 GiB on no more than four times what the machine has. */
TEST(what_no_machine_has) {
  static const struct {
    size_t bytes;
    long pages;
    bool asked;
  } rows[] = {
      {32 * GIB - 1, 1, true},
      {32 * GIB, 1, false},
      {32 * GIB, 8 * GIB / PAGE, true},
      {32 * GIB, 8 * GIB / PAGE - 1, false},
      {64 * GIB, 16 * GIB / PAGE, true},
      {64 * GIB + 4 * PAGE - 1, 16 * GIB / PAGE, true},
      {64 * GIB + 4 * PAGE, 16 * GIB / PAGE, false},
      {64 * GIB, 0, true}, /* unknown */
      {64 * GIB, -1, true},
      {PTRDIFF_MAX - 4 * MIB, -1, true},
      {PTRDIFF_MAX - 4 * MIB + 1, -1, false},
      {SIZE_MAX, -1, false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    pages = rows[i].pages;
    if (ask(rows[i].bytes).calls != rows[i].asked) fail_msg("row %zu", i);
  }
  /* The size of a page is not known. */
  pages = 1;
  page = -1;
  assert_int_equal(ask(64 * GIB).calls, 1);
  page = PAGE;
}

/* ---- slabs ---- */

#if !defined(__SANITIZE_ADDRESS__)
static char *new_block(size_t bytes) {
  void *memory = NULL;
  ok(cr_host_alloc(bytes, &memory));
  assert_int_equal((uintptr_t)memory % 64, 0);
  memset(memory, 1, bytes);
  return memory;
}

static uintptr_t slab_of(const char *block) {
  return (uintptr_t)block / (8 * MIB);
}

/* From 32 KiB up to 4 MiB blocks lie one behind the other. */
TEST(medium_blocks_share_a_slab) {
  pages = 0;
  slabs_asked = 0;
  char *small = new_block(32 * KIB - 1);
  assert_int_equal(slabs_asked, 0);
  char *a = new_block(32 * KIB), *b = new_block(32 * KIB + 1), *c = new_block(4 * MIB - 1);
  assert_int_equal(slabs_asked, 1);
  assert_ptr_equal(b, a + 32 * KIB + 64);
  assert_ptr_equal(c, b + 32 * KIB + 128);
  char *large = new_block(4 * MIB);
  assert_int_equal(slabs_asked, 1);
  /* What is freed is used again at once, by what fits in. */
  cr_host_free(c);
  assert_ptr_equal(new_block(1 * MIB), c);
  cr_host_free(a);
  char *d = new_block(32 * KIB + 1);
  assert_ptr_equal(d, c + 1 * MIB + 64);
  assert_ptr_equal(new_block(32 * KIB), a);
  cr_host_free(d);
  cr_host_free(a);
  cr_host_free(c);
  cr_host_free(b);
  /* All have gone: the slab is cut from its beginning. */
  assert_ptr_equal(new_block(2 * MIB), a);
  cr_host_free(a);
  cr_host_free(large);
  cr_host_free(small);
  cr_host_free(NULL);
}

/* Holes side by side are one, whichever is freed first, and what is left of one is used, too. */
TEST(holes_are_joined) {
  static const int orders[6][3] = {{1, 2, 3}, {1, 3, 2}, {2, 1, 3},
                                   {2, 3, 1}, {3, 1, 2}, {3, 2, 1}};
  for (int k = 0; k < 6; ++k) {
    char *block[5];
    for (int i = 0; i < 5; ++i) block[i] = new_block(64 * KIB);
    for (int i = 0; i < 3; ++i) cr_host_free(block[orders[k][i]]);
    char *most = new_block(2 * 64 * KIB + 64), *left = new_block(64 * KIB);
    assert_ptr_equal(most, block[1]);
    assert_ptr_equal(left, block[3]);
    cr_host_free(most);
    cr_host_free(left);
    char *all = new_block(3 * 64 * KIB + 2 * 64), *behind = new_block(64 * KIB);
    assert_ptr_equal(all, block[1]);
    assert_ptr_equal(behind, block[4] + 64 * KIB + 64);
    cr_host_free(behind);
    cr_host_free(all);
    cr_host_free(block[4]);
    cr_host_free(block[0]);
  }
}

/* Blocks never overlap, and slabs that have become empty go back, but for one. */
TEST(a_walk_through_slabs) {
  enum { BLOCKS = 60, STEPS = 4000 };
  char *block[BLOCKS] = {NULL};
  size_t bytes[BLOCKS];
  uint64_t number = 1;
  slabs_asked = 0;
  for (int step = 0; step < STEPS; ++step) {
    number = number * 6364136223846793005u + 1442695040888963407u;
    const int i = (int)((number >> 33) % BLOCKS);
    if (block[i] == NULL) {
      bytes[i] = 32 * KIB + (size_t)(number >> 40) % (step % 7 == 0 ? 3 * MIB : 100 * KIB);
      block[i] = new_block(bytes[i]);
      memset(block[i], i + 1, bytes[i]);
      continue;
    }
    for (size_t at = 0; at < bytes[i]; ++at) {
      if (block[i][at] != i + 1) fail_msg("step %d: block %d was written over", step, i);
    }
    cr_host_free(block[i]);
    block[i] = NULL;
  }
  for (int i = 0; i < BLOCKS; ++i) cr_host_free(block[i]);
  /* Some 20 MiB live at a time. */
  assert_true(slabs_asked < 100);
  const int asked = slabs_asked;
  char *a = new_block(4 * MIB - 64), *b = new_block(4 * MIB - 256), *c = new_block(1 * MIB);
  assert_int_equal(slabs_asked, asked + 1);
  cr_host_free(a);
  cr_host_free(b);
  cr_host_free(c);
}

/* A slab of 8 MiB holds its own line of 64 bytes, and blocks to the last byte. */
TEST(a_slab_is_filled) {
  char *block[8];
  slabs_asked = 0;
  for (int i = 0; i < 7; ++i) block[i] = new_block(1 * MIB);
  size_t rest = 8 * MIB - 64 - 7 * (1 * MIB + 64);
  char *large = new_block(rest);
  /* It takes its header along: too large by that. */
  assert_int_not_equal(slab_of(large), slab_of(block[0]));
  cr_host_free(large);
  int asked = slabs_asked;
  char *fresh = new_block(8 * 64 * KIB);
  assert_int_equal(slabs_asked, asked);
  /* The room behind the seven blocks is not lost. */
  assert_int_equal(slab_of(fresh), slab_of(block[0]));
  cr_host_free(fresh);
  for (int i = 0; i < 7; ++i) cr_host_free(block[i]);
  for (int i = 0; i < 8; ++i) {
    block[i] = new_block(1 * MIB - 64 - (i == 7 ? 64 : 0));
    assert_int_equal(slab_of(block[i]), slab_of(block[0]));
  }
  for (int i = 0; i < 8; ++i) cr_host_free(block[i]);
}

/* Where there is no memory for a slab there may be for the block. */
TEST(blocks_without_a_slab) {
  char *filling = new_block(4 * MIB - 64), *rest = new_block(4 * MIB - 256);
  assert_int_equal(slab_of(filling), slab_of(rest));
  slabs_refused = 1;
  char *alone = new_block(3 * MIB);
  assert_int_equal(slabs_refused, 0);
  assert_int_not_equal(slab_of(alone), slab_of(filling));
  cr_host_free(alone);
  cr_host_free(rest);
  cr_host_free(filling);
}
#endif

int main(void) {
  return run_all_tests(NULL, NULL);
}
