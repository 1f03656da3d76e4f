/* A heap of a device's memory: the order of its users, and passes that take nothing from the
 * driver. */
#include "device/backend/order.h"
#include "device/memory/heap.h"
#include "device/memory/pool.h"
#include "memory/sim_fixture.h"

enum { BYTES = 1000, UNIT = 100000 };

static cr_block take(crema_context *context, size_t bytes) {
  cr_block block = {0};
  assert_true(cr_heap_take(context, bytes, &block));
  assert_int_equal(block.address % 256, 0);
  assert_true(block.user == context->id);
  return block;
}

static void fill(crema_context *context, const cr_block *block) {
  ok(context->device->backend->zero(context, (crema_devptr){block->address}, block->bytes));
}

/* As the last user of a block frees it. */
static void give(cr_block *block, const crema_context *user) {
  block->user = user->id;
  ok(cr_block_free(block));
}

/* A context with a heap and another one, whose work waits to be stepped: what is not ordered would
 * be a race. */
static crema_device *begin(crema_context **own, crema_context **other) {
  cr_sim_options options = sim_stepped_options();
  options.memory = (size_t)64 << 20;
  sim_begin(&options);
  crema_device *device = sim_test_device(0);
  *own = sim_test_context(device);
  *other = sim_test_context(device);
  ok(cr_heap_open(*own));
  return device;
}

TEST(the_next_user_comes_after_the_last_one) {
  crema_context *own, *other;
  (void)begin(&own, &other);
  cr_block block = take(own, BYTES);
  const uintptr_t address = block.address;
  fill(own, &block);
  give(&block, own);
  block = take(own, BYTES);
  assert_int_equal(block.address, address);
  fill(own, &block);
  ok(crema_context_finish(own));
  fill(other, &block);
  give(&block, other);
  block = take(own, BYTES);
  assert_int_equal(block.address, address);
  fill(own, &block);
  ok(crema_context_finish(own));
  ok(crema_context_finish(other));
  give(&block, own);
  crema_context_destroy(other);
  crema_context_destroy(own);
  sim_end();
}

TEST(memory_of_a_context_that_is_gone_waits_for_its_last_user) {
  crema_context *own, *other;
  crema_device *device = begin(&own, &other);
  cr_block first = take(own, BYTES), last = take(own, BYTES);
  crema_context_destroy(own);
  fill(other, &first);
  give(&first, other);
  bool busy = true;
  ok(cr_context_busy(other, &busy));
  assert_false(busy);
  assert_true(cr_pool_describe(device->pool).live_blocks > 0);
  fill(other, &last);
  give(&last, other);
  ok(cr_context_busy(other, &busy));
  assert_false(busy);
  assert_int_equal(cr_pool_describe(device->pool).live_blocks, 0);
  crema_context_destroy(other);
  sim_end();
}

static void run_pass(crema_context *context) {
  cr_block first = take(context, 3 * UNIT), before = {0};
  for (size_t i = 1; i <= 10; ++i) {
    cr_block next = take(context, i * UNIT);
    fill(context, &next);
    if (before.address != 0) give(&before, context);
    before = next;
  }
  fill(context, &first);
  give(&before, context);
  give(&first, context);
}

/* The region of the first pass is let go of while its work is still queued. */
TEST(a_pass_like_the_last_one_takes_nothing_from_the_driver) {
  crema_context *context, *other;
  crema_device *device = begin(&context, &other);
  cr_heap_rest(context);
  run_pass(context);
  cr_heap_rest(context);
  const cr_heap_usage planned = cr_heap_usage_of(context);
  assert_in_range(planned.held, planned.highest, planned.highest + planned.highest / 20);
  const cr_pool_info before = cr_pool_describe(device->pool);
  for (int pass = 0; pass < 3; ++pass) {
    run_pass(context);
    cr_heap_rest(context);
  }
  const cr_pool_info after = cr_pool_describe(device->pool);
  assert_int_equal(after.driver_allocs, before.driver_allocs);
  assert_int_equal(after.live_bytes, before.live_bytes);
  assert_int_equal(cr_heap_usage_of(context).held, planned.held);
  ok(crema_context_finish(context));
  crema_context_destroy(other);
  crema_context_destroy(context);
  sim_end();
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
