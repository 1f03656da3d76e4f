/* In the steady state, forward and backward passes allocate nothing. */
#include "allocations.h"
#include "layers/layer_table.h"

/* Both passes; the number of allocations that they made. */
static long count_pass(rig *r, const layer_row *row) {
  long before = own_allocations();
  crema_status status = rig_forward(r);
  if (status == CREMA_OK && !has_flag(row, 'N')) status = rig_backward(r);
  long made = own_allocations() - before;
  ok(status);
  return made;
}

TEST(test_steady_state) {
  uint32_t random = 2463534242u;
  int wrong = 0;
  long all = 0;
  if (!COUNTS) skip(); /* a sanitizer has an allocator of its own */
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
TEST(test_counter) {
  if (!COUNTS) skip(); /* a sanitizer has an allocator of its own */
  long before = own_allocations();
  void *volatile memory = malloc(10);
  free(memory);
  assert_true(own_allocations() > before);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
