/* Host memory for values that live for a part of a pass. */
#include <stdlib.h>

#include "check.h"
#include "core/rng.h"
#include "device/memory/heap.h"
#include "memory/reversed_fixture.h"

enum { UNIT = 100000, MANY = 20000, BLOCKS = 40 };

static cr_block take(const fixture *f, size_t bytes) {
  cr_block block = {0};
  assert_true(cr_heap_take(f->context, bytes, &block));
  assert_true(block.bytes >= bytes);
  assert_int_equal(block.address % 64, 0);
  memset((void *)block.address, 0x5a, bytes);
  return block;
}

static cr_heap_usage usage(const fixture *f) {
  return cr_heap_usage_of(f->context);
}

/* Whatever there was: some other test may have opened it. */
static void open_heap(const fixture *f) {
  cr_heap_close(f->context);
  ok(cr_heap_open(f->context));
  ok(cr_heap_open(f->context)); /* a no-op */
}

FIXTURE_TEST(a_context_without_a_heap_gives_nothing) {
  const fixture *f = *state;
  cr_block block = {0};
  cr_heap_close(f->context);
  cr_heap_close(f->context);
  cr_heap_rest(f->context);
  assert_false(cr_heap_take(f->context, UNIT, &block));
  assert_int_equal(usage(f).held, 0);
}

FIXTURE_TEST(memory_that_was_let_go_of_can_be_used_again) {
  const fixture *f = *state;
  cr_block block = {0}, other = {0};
  open_heap(f);
  block = take(f, UNIT);
  ok(cr_block_free(&block));
  const uint64_t stamp = cr_heap_stamp(f->context);
  block = take(f, UNIT);
  assert_true(cr_heap_has(f->context, (crema_devptr){block.address}));
  assert_false(cr_heap_has(f->context, (crema_devptr){(uintptr_t)&block}));
  assert_true(cr_heap_stamp(f->context) != stamp);
  assert_false(cr_heap_enter(f->context, stamp));
  const uintptr_t address = block.address;
  ok(cr_block_free(&block));
  assert_true(cr_heap_stamp(f->context) == stamp);
  assert_true(cr_heap_enter(f->context, stamp));
  memset((void *)address, 1, UNIT);
  assert_false(cr_heap_take(f->context, UNIT, &other));
  cr_heap_leave(f->context);
  other = take(f, UNIT);
  ok(cr_block_free(&other));
  cr_heap_close(f->context);
  assert_true(cr_heap_stamp(f->context) == 0);
  assert_false(cr_heap_enter(f->context, 0));
  assert_false(cr_heap_has(f->context, (crema_devptr){address}));
}

FIXTURE_TEST(blocks_that_are_in_use_do_not_overlap) {
  const fixture *f = *state;
  cr_mt19937 rng;
  cr_block block[BLOCKS] = {{0}};
  cr_mt19937_seed(&rng, 7);
  open_heap(f);
  for (int step = 0; step < 4000; ++step) {
    const size_t i = cr_mt19937_below(&rng, BLOCKS);
    if (block[i].address != 0) {
      const unsigned char *byte = (const unsigned char *)block[i].address;
      for (size_t k = 0; k < block[i].bytes; k += 97) assert_int_equal(byte[k], i);
      assert_int_equal(byte[block[i].bytes - 1], i);
      ok(cr_block_free(&block[i]));
    } else {
      block[i] = take(f, 1 + cr_mt19937_below(&rng, 50000));
      memset((void *)block[i].address, (int)i, block[i].bytes);
    }
    if (step % 500 == 0) cr_heap_rest(f->context);
  }
  for (int i = 0; i < BLOCKS; ++i) ok(cr_block_free(&block[i]));
  assert_int_equal(usage(f).in_use, 0);
}

/* A pass of blocks that live for two steps each, of sizes that do not fit into each other's gaps,
 * and one that lives through the whole pass. */
static void run_pass(const fixture *f, size_t unit) {
  cr_block first = take(f, 3 * unit), before = {0};
  for (size_t i = 1; i <= 10; ++i) {
    cr_block next = take(f, i * unit);
    ok(cr_block_free(&before));
    before = next;
  }
  ok(cr_block_free(&before));
  ok(cr_block_free(&first));
}

FIXTURE_TEST(a_pass_like_the_last_one_takes_what_is_in_use_at_once_and_nothing_from_the_system) {
  const fixture *f = *state;
  open_heap(f);
  cr_heap_rest(f->context);
  run_pass(f, UNIT);
  const size_t most = usage(f).highest;
  assert_in_range(most, 22 * UNIT, 22 * UNIT + 3 * 128);
  cr_block_report_enable(true);
  cr_heap_rest(f->context);
  assert_in_range(usage(f).held, most, most + most / 20);
  const size_t made = cr_block_report_read().blocks;
  for (int pass = 0; pass < 3; ++pass) {
    cr_heap_rest(f->context);
    run_pass(f, UNIT);
    assert_int_equal(cr_block_report_read().blocks, made);
    assert_in_range(usage(f).held, most, most + most / 20);
  }
  cr_block_report_enable(false);
}

/* Smaller passes find room in what there is; a larger one makes the region larger, once. */
FIXTURE_TEST(other_passes_are_served_too) {
  const fixture *f = *state;
  open_heap(f);
  for (int round = 0; round < 3; ++round) {
    cr_heap_rest(f->context);
    run_pass(f, UNIT);
    cr_heap_rest(f->context);
    run_pass(f, UNIT / 10);
  }
  const size_t held = usage(f).held;
  assert_in_range(held, 22 * UNIT, 24 * UNIT);
  cr_heap_rest(f->context);
  run_pass(f, 2 * UNIT);
  cr_heap_rest(f->context);
  assert_in_range(usage(f).held, 44 * UNIT, 47 * UNIT);
}

/* The calls before a part of a pass, and that part, which frees a block and leaves one. */
static cr_block begin_part(const fixture *f, bool planned) {
  if (planned) cr_heap_rest(f->context);
  return take(f, UNIT);
}

static void run_part(const fixture *f, cr_block *left) {
  cr_block more = take(f, 2 * UNIT), next = take(f, UNIT);
  ok(cr_block_free(left));
  ok(cr_block_free(&more));
  *left = next;
}

/* At the same position the same calls get the same blocks, with a plan and without. */
FIXTURE_TEST(recorded_calls_can_be_repeated) {
  const fixture *f = *state;
  cr_heap_calls calls = {0};
  open_heap(f);
  for (int planned = 0; planned < 2; ++planned) {
    cr_block left = begin_part(f, planned);
    run_part(f, &left);
    ok(cr_block_free(&left));
    left = begin_part(f, planned);
    const uint64_t position = cr_heap_position(f->context);
    calls.count = 0;
    cr_heap_record(f->context, &calls);
    run_part(f, &left);
    cr_heap_record(f->context, NULL);
    assert_int_equal(calls.count, 4);
    const uint64_t after = cr_heap_position(f->context);
    const cr_block made = left;
    assert_true(after != position);
    ok(cr_block_free(&left));
    left = begin_part(f, planned);
    assert_true(cr_heap_position(f->context) == position);
    ok(cr_heap_repeat(f->context, &calls));
    assert_true(cr_heap_position(f->context) == after);
    left = cr_heap_block(f->context, made.address, made.bytes);
    ok(cr_block_free(&left));
    assert_int_equal(usage(f).in_use, 0);
  }
  free(calls.call);
}

FIXTURE_TEST(blocks_outlive_the_context_of_the_heap) {
  const fixture *f = *state;
  cr_block_report_enable(true);
  open_heap(f);
  cr_block a = take(f, UNIT), b = take(f, UNIT);
  cr_heap_close(f->context);
  ok(cr_block_free(&a));
  memset((void *)b.address, 1, UNIT);
  assert_int_equal(cr_block_report_read().blocks, 1);
  ok(cr_block_free(&b));
  assert_int_equal(cr_block_report_read().blocks, 0);
  cr_block_report_enable(false);
}

/* ---- tensors ---- */

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
  open_heap(f);
  const float *floats = write_floats(f, a, 1.5f);
  assert_true(usage(f).in_use >= MANY * sizeof(float));
  ok(cr_tensor_settle(a, f->context));
  assert_int_equal(usage(f).in_use, 0);
  /* A tensor's own type stays and takes memory of its own. */
  ok(cr_tensor_write(b, f->context, (cr_format){CREMA_F64, NULL}, &out));
  assert_int_equal(usage(f).in_use, 0);
  assert_ptr_equal(write_floats(f, b, 2.5f), floats);
  ok(cr_tensor_settle(b, f->context));
  /* Memory that held other values reads as zeros. */
  const float *value = read_floats(f, zero, CR_PLAIN_F32);
  assert_ptr_equal(value, floats);
  for (int i = 0; i < MANY; ++i) assert_true(value[i] == 0);
  assert_true(read_floats(f, a, CR_PLAIN_F32)[MANY - 1] == 1.5f);
  assert_true(read_floats(f, b, CR_PLAIN_F32)[MANY - 1] == 2.5f);
  cr_tensor_destroy(zero);
  cr_tensor_destroy(b);
  cr_tensor_destroy(a);
}

static const double *read_own(fixture *f, cr_tensor *tensor) {
  crema_devptr out = {0};
  ok(cr_tensor_read(tensor, f->context, (cr_format){CREMA_F64, NULL}, &out));
  return (const double *)out.address;
}

static crema_devptr write_own(fixture *f, cr_tensor *tensor) {
  crema_devptr out = {0};
  ok(cr_tensor_write(tensor, f->context, (cr_format){CREMA_F64, NULL}, &out));
  return out;
}

FIXTURE_TEST(passing_values_are_let_go_and_cannot_be_read_then) {
  fixture *f = *state;
  const cr_format own = {CREMA_F64, NULL};
  cr_tensor *a = new_doubles(), *sharer = new_doubles();
  crema_devptr out = {0};
  open_heap(f);
  ok(cr_tensor_share(sharer, a));
  write_own(f, a);
  cr_tensor_release(a); /* not passing: a no-op */
  ok(cr_tensor_read(a, f->context, own, &out));
  cr_tensor_destroy(a);
  a = new_doubles();
  ok(cr_tensor_share(sharer, a));
  cr_tensor_set_transient(a, true);
  write_own(f, sharer);
  assert_true(usage(f).in_use >= MANY * sizeof(double));
  cr_tensor_release(a);
  assert_int_equal(usage(f).in_use, 0);
  assert_int_equal(cr_tensor_read(sharer, f->context, own, &out), CREMA_E_STATE);
  assert_int_equal(cr_tensor_update(a, f->context, CR_PLAIN_F32, &out), CREMA_E_STATE);
  cr_tensor_release(a);
  write_own(f, a);
  ok(cr_tensor_read(sharer, f->context, own, &out));
  /* Zeros need no memory. */
  cr_tensor_set_zero(a);
  cr_tensor_release(a);
  assert_int_equal(usage(f).in_use, 0);
  assert_true(read_own(f, a)[MANY - 1] == 0);
  /* What is kept from now on is not released any more. */
  cr_tensor_set_transient(sharer, false);
  cr_tensor_release(a);
  ok(cr_tensor_read(a, f->context, own, &out));
  cr_tensor_destroy(sharer);
  cr_tensor_destroy(a);
}

/* A new count makes zeros of values that were released, and of values that do not fit. */
FIXTURE_TEST(values_that_were_let_go_can_be_resized) {
  fixture *f = *state;
  open_heap(f);
  const int64_t counts[] = {MANY / 2, 2 * MANY};
  for (int i = 0; i < 2; ++i) {
    cr_tensor *a = new_doubles();
    cr_tensor_set_transient(a, true);
    write_own(f, a);
    cr_tensor_release(a);
    ok(cr_tensor_prepare_resize(a, counts[i]));
    ok(cr_tensor_resize(a, counts[i]));
    const double *value = read_own(f, a);
    for (int64_t k = 0; k < counts[i]; ++k) assert_true(value[k] == 0);
    cr_tensor_destroy(a);
  }
}

FIXTURE_TEST(formats_that_are_stale_or_not_the_last_one_give_up_their_memory) {
  fixture *f = *state;
  open_heap(f);
  for (int passing = 0; passing < 2; ++passing) {
    cr_tensor *a = new_doubles();
    cr_tensor_set_transient(a, passing != 0);
    crema_devptr out = {0};
    ok(cr_tensor_write(a, f->context, (cr_format){CREMA_F64, NULL}, &out));
    const size_t one = cr_tensor_memory_of(a).host;
    write_floats(f, a, 0.5f);
    assert_true(cr_tensor_memory_of(a).host > one);
    cr_tensor_drop_stale(a);
    assert_int_equal(cr_tensor_memory_of(a).host, passing ? one / 2 : one + one / 2);
    const double *value = read_own(f, a);
    assert_true(value[MANY - 1] == 0.5);
    cr_tensor_drop_stale(a);
    assert_int_equal(cr_tensor_memory_of(a).host, one + one / 2);
    cr_tensor_keep_head(a);
    assert_int_equal(cr_tensor_memory_of(a).host, passing ? one / 2 : one + one / 2);
    value = read_own(f, a);
    assert_true(value[0] == 0.5);
    cr_tensor_destroy(a);
  }
}

/* Without a heap it goes back to the system. */
FIXTURE_TEST(settling_without_a_heap_keeps_nothing) {
  fixture *f = *state;
  cr_tensor *a = new_doubles();
  cr_heap_close(f->context);
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
