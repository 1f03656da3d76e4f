/* Host memory that a context keeps during a pass. */
#include <string.h>

#include "check.h"
#include "device/memory/spares.h"
#include "memory/reversed_fixture.h"

enum { UNIT = 100000, MANY = 20000 };

static cr_block new_block(const fixture *f, int units) {
  cr_block block = {0};
  const cr_block_options options = {.keep_content = true};
  ok(cr_block_new(f->context->device, (size_t)units * UNIT, &options, &block));
  return block;
}

static void give(const fixture *f, int units) {
  cr_block block = new_block(f, units);
  cr_spares_give(f->context, &block);
  assert_true(block.address == 0);
}

static bool takes(const fixture *f, size_t bytes) {
  cr_block block = {0};
  if (!cr_spares_take(f->context, bytes, &block)) return false;
  assert_true(block.bytes >= bytes);
  ok(cr_block_free(&block));
  return true;
}

/* Blocks that are kept are counted by the report of host memory, as nobody has freed them. */
FIXTURE_TEST(blocks_are_kept_from_the_first_begin_to_the_last_end) {
  const fixture *f = *state;
  cr_block_report_enable(true);
  give(f, 3);
  assert_int_equal(cr_block_report_read().blocks, 0);
  assert_false(takes(f, UNIT));
  cr_spares_begin(f->context);
  cr_spares_begin(f->context);
  give(f, 3);
  cr_spares_end(f->context);
  assert_int_equal(cr_spares_bytes(f->context), 3 * UNIT);
  assert_int_equal(cr_block_report_read().blocks, 1);
  assert_int_equal(cr_block_report_read().bytes, 3 * UNIT);
  cr_spares_end(f->context);
  assert_int_equal(cr_spares_bytes(f->context), 0);
  assert_int_equal(cr_block_report_read().blocks, 0);
  assert_false(takes(f, UNIT));
  cr_block_report_enable(false);
}

FIXTURE_TEST(the_smallest_block_that_fits_is_taken_unless_it_is_far_too_large) {
  const fixture *f = *state;
  cr_block block = {0};
  cr_spares_begin(f->context);
  give(f, 8);
  give(f, 3);
  give(f, 5);
  assert_false(takes(f, 8 * UNIT + 1));
  assert_false(takes(f, 3 * UNIT / 5));
  assert_true(cr_spares_take(f->context, 2 * UNIT, &block));
  assert_int_equal(block.bytes, 3 * UNIT);
  ok(cr_block_free(&block));
  assert_true(cr_spares_take(f->context, 2 * UNIT, &block));
  assert_int_equal(block.bytes, 5 * UNIT);
  ok(cr_block_free(&block));
  assert_int_equal(cr_spares_bytes(f->context), 8 * UNIT);
  cr_spares_end(f->context);
}

FIXTURE_TEST(at_most_twice_the_largest_block_is_kept_and_the_oldest_goes) {
  const fixture *f = *state;
  cr_spares_begin(f->context);
  give(f, 10);
  give(f, 1);
  give(f, 9);
  assert_int_equal(cr_spares_bytes(f->context), 20 * UNIT);
  give(f, 4);
  assert_int_equal(cr_spares_bytes(f->context), 14 * UNIT);
  assert_false(takes(f, 10 * UNIT));
  assert_true(takes(f, 9 * UNIT));
  /* However small they are, there is a limit to their number. */
  for (int i = 0; i < 30; ++i) give(f, 1);
  assert_in_range(cr_spares_bytes(f->context), 10 * UNIT, 20 * UNIT);
  cr_spares_end(f->context);
}

static cr_tensor *new_doubles(void) {
  cr_tensor *tensor = NULL;
  ok(cr_tensor_create(CREMA_F64, MANY, &tensor));
  return tensor;
}

static float *write_floats(fixture *f, cr_tensor *tensor, float value) {
  crema_devptr out = {0};
  ok(cr_tensor_write(tensor, f->context, CR_PLAIN_F32, &out));
  for (int i = 0; i < MANY; ++i) ((float *)out.address)[i] = value;
  return (float *)out.address;
}

/* What one tensor settles, the next has its floats in; the values stay right. */
FIXTURE_TEST(memory_of_settled_formats_goes_to_the_next_tensor) {
  fixture *f = *state;
  cr_tensor *a = new_doubles(), *b = new_doubles(), *zero = new_doubles();
  crema_devptr out = {0};
  cr_spares_begin(f->context);
  const float *floats = write_floats(f, a, 1.5f);
  ok(cr_tensor_settle(a, f->context));
  assert_int_equal(cr_spares_bytes(f->context), MANY * sizeof(float));
  /* A tensor's own type stays and takes memory of its own. */
  ok(cr_tensor_write(b, f->context, (cr_format){CREMA_F64, NULL}, &out));
  assert_int_equal(cr_spares_bytes(f->context), MANY * sizeof(float));
  assert_ptr_equal(write_floats(f, b, 2.5f), floats);
  assert_int_equal(cr_spares_bytes(f->context), 0);
  ok(cr_tensor_settle(b, f->context));
  /* Memory that held other values reads as zeros. */
  const float *value = read_floats(f, zero, CR_PLAIN_F32);
  assert_ptr_equal(value, floats);
  for (int i = 0; i < MANY; ++i) assert_true(value[i] == 0);
  assert_true(read_floats(f, a, CR_PLAIN_F32)[MANY - 1] == 1.5f);
  assert_true(read_floats(f, b, CR_PLAIN_F32)[MANY - 1] == 2.5f);
  cr_spares_end(f->context);
  cr_tensor_destroy(zero);
  cr_tensor_destroy(b);
  cr_tensor_destroy(a);
}

/* Outside a pass it goes back to the system. */
FIXTURE_TEST(settling_without_a_pass_keeps_nothing) {
  fixture *f = *state;
  cr_tensor *a = new_doubles();
  cr_block_report_enable(true);
  write_floats(f, a, 1.5f);
  ok(cr_tensor_settle(a, f->context));
  assert_int_equal(cr_block_report_read().bytes, MANY * sizeof(double));
  cr_tensor_destroy(a);
  assert_int_equal(cr_block_report_read().blocks, 0);
  cr_block_report_enable(false);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
