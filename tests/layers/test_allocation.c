/* In the steady state, forward and backward passes allocate nothing. The program's own malloc
 * family counts; sanitizers bring one of their own, so the test is for other builds. */
#include "layers/layer_table.h"

#include <errno.h>
#include <stdatomic.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS 0
#else
#define COUNTS 1
#endif

static atomic_long allocations;

#if COUNTS
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

/* From the linker: where the program's own code lies. */
extern const char __executable_start, etext;

/* Counted functions are not inlined: they would see the return address of their caller. */
#define COUNTED __attribute__((noinline))

static void count(const void *caller) {
  uintptr_t at = (uintptr_t)caller;
  if (at < (uintptr_t)&__executable_start || at >= (uintptr_t)&etext) return;
  atomic_fetch_add(&allocations, 1);
}

COUNTED void *malloc(size_t size) {
  count(__builtin_return_address(0));
  return __libc_malloc(size);
}

COUNTED void *calloc(size_t items, size_t size) {
  count(__builtin_return_address(0));
  return __libc_calloc(items, size);
}

COUNTED void *realloc(void *memory, size_t size) {
  count(__builtin_return_address(0));
  return __libc_realloc(memory, size);
}

COUNTED void *aligned_alloc(size_t alignment, size_t size) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}

COUNTED int posix_memalign(void **out, size_t alignment, size_t size) {
  count(__builtin_return_address(0));
  *out = __libc_memalign(alignment, size);
  return *out ? 0 : ENOMEM;
}
#endif

/* Both passes; the number of allocations that they made. */
static long count_pass(rig *r, const layer_row *row) {
  long before = atomic_load(&allocations);
  crema_status status = rig_forward(r);
  if (status == CREMA_OK && !has_flag(row, 'N')) status = rig_backward(r);
  long made = atomic_load(&allocations) - before;
  RIG_OK(status);
  return made;
}

static void test_steady_state(void **state) {
  uint32_t random = 2463534242u;
  int wrong = 0;
  long all = 0;
  (void)state;
  if (!COUNTS) skip();
  for (size_t i = 0; i < ROWS; ++i) {
    const layer_row *row = &rows[i];
    rig r;
    long made = 0;
    /* Filter's tops change their shape from pass to pass. */
    if (has_flag(row, 'S') || strcmp(row->type, "Filter") == 0) continue;
    make(&r, row, false, &random);
    long first = count_pass(&r, row);
    all += first;
    set_top_diffs(&r, row);
    for (int pass = 0; pass < 3; ++pass) made = count_pass(&r, row);
    if (made != 0) {
      print_error("%s %s: %ld allocations in a pass, %ld in the first\n", row->type, row->body,
                  made, first);
      ++wrong;
    }
    rig_free(&r);
  }
  assert_true(all > 0); /* first passes plan and allocate */
  assert_int_equal(wrong, 0);
}

/* The counter counts. */
static void test_counter(void **state) {
  (void)state;
  if (!COUNTS) skip();
  long before = atomic_load(&allocations);
  void *volatile memory = malloc(10);
  free(memory);
  assert_true(atomic_load(&allocations) > before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counter),
      cmocka_unit_test(test_steady_state),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
