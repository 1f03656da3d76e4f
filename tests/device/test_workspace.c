/* Scratch memory, and page-locked buffers with an alias: rows S4-20 to S4-24. */
#include "device/memory/scratchpad.h"
#include "device/pool_fixture.h"

#include "core/fail.h"
#include "core/thread.h"
#include "device/memory/block.h"
#include "device/memory/workspace.h"

TEST(s4_20_workspaces_grow_only) {
  pool_fixture f = begin(CR_POOL_BINS);
  size_t mb = (size_t)1 << 20;
  cr_workspace w = {.device = f.device};
  ok(cr_workspace_reserve(&w, 0));
  assert_int_equal(w.memory.address, 0);
  ok(cr_workspace_reserve(&w, 40 * mb));
  uintptr_t address = w.memory.address;
  ok(cr_workspace_reserve(&w, 30 * mb));
  assert_int_equal(w.memory.address, address);
  assert_int_equal(w.bytes, 40 * mb);
  /* Both would not fit: the old memory goes first. */
  ok(cr_workspace_reserve(&w, 50 * mb));
  assert_int_equal(cr_workspace_reserve(&w, 70 * mb), CREMA_E_NO_MEMORY);
  assert_int_equal(w.memory.address, 0);
  assert_int_equal(w.bytes, 0);
  cr_workspace_release(&w);
  end(&f);
}

TEST(s4_21_safe_growth_keeps_the_old_block) {
  pool_fixture f = begin(CR_POOL_BINS);
  size_t mb = (size_t)1 << 20;
  cr_workspace w = {.device = f.device};
  ok(cr_workspace_reserve_safely(&w, 20 * mb));
  uintptr_t address = w.memory.address;
  ok(cr_workspace_reserve_safely(&w, 20 * mb));
  assert_int_equal(w.memory.address, address);
  assert_int_equal(cr_workspace_reserve_safely(&w, 65 * mb), CREMA_E_NO_MEMORY);
  assert_int_equal(w.memory.address, address);
  assert_int_equal(w.bytes, 20 * mb);
  /* Free memory is rounded down to whole 256 bytes. */
  cr_sim_set_foreign_bytes(0, 34 * mb - 300);
  cr_sim_reset_counts();
  assert_int_equal(cr_workspace_reserve_safely(&w, 30 * mb + 257), CREMA_E_NO_MEMORY);
  /* Not even tried, so that the old memory is never given up. */
  assert_int_equal(cr_sim_count(CR_SIM_ALLOC, -1) + cr_sim_count(CR_SIM_FREE, -1), 0);
  assert_int_equal(w.memory.address, address);
  ok(cr_workspace_reserve_safely(&w, 30 * mb + 256));
  /* The driver has less than it said: the old size is allocated again. */
  cr_sim_set_foreign_bytes(0, 0);
  cr_sim_fail(CR_SIM_ALLOC, 1, CREMA_E_NO_MEMORY, false);
  assert_int_equal(cr_workspace_reserve_safely(&w, 40 * mb), CREMA_E_NO_MEMORY);
  assert_int_equal(w.bytes, 30 * mb + 256);
  assert_true(w.memory.address != 0);
  cr_workspace_release(&w);
  end(&f);
}

typedef struct scratchpad_user {
  crema_device *device;
  crema_devptr memory;
  size_t bytes_together;
} scratchpad_user;

static crema_status use_scratchpad(void *arg) {
  scratchpad_user *u = arg;
  crema_context *context = NULL;
  CR_TRY(crema_context_create(u->device, 0, &context));
  crema_status status = cr_context_workspace(context, 4 << 20, &u->memory);
  u->bytes_together = cr_device_scratchpad_bytes(u->device);
  crema_context_destroy(context);
  return status;
}

TEST(s4_22_a_shared_workspace_is_as_large_as_its_largest_user) {
  pool_fixture f = begin_pool(cr_pool_options_for(CR_POOL_BINS), true);
  static const size_t need[] = {3 << 20, 9 << 20, 1 << 20, 7 << 20};
  /* Two nets of one thread, for training and for testing, have a context each. */
  crema_context *context[2] = {f.context, sim_test_context(f.device)};
  crema_devptr memory = {0}, last = {0};
  for (int pass = 0; pass < 4; ++pass) {
    for (int layer = 0; layer < 4; ++layer) {
      crema_context *user = context[pass % 2];
      ok(cr_context_workspace(user, need[layer], &memory));
      ok(f.device->backend->zero(user, memory, need[layer]));
      if (layer > 1) assert_int_equal(memory.address, last.address);
      last = memory;
    }
  }
  assert_int_equal(cr_device_scratchpad_bytes(f.device), 9 << 20);
  /* The other net's work comes first without the host waiting; the race checker finds no fault. */
  while (cr_sim_step(context[1])) {
  }
  assert_true(cr_sim_pending(context[1]) > 0);
  ok(crema_context_finish(context[1]));
  /* A failure leaves what there is. */
  cr_sim_set_foreign_bytes(0, (size_t)60 << 20);
  assert_int_equal(cr_context_workspace(f.context, 20 << 20, &memory), CREMA_E_NO_MEMORY);
  cr_sim_set_foreign_bytes(0, 0);
  ok(cr_context_workspace(f.context, 0, &memory));
  assert_int_equal(memory.address, last.address);
  /* Another thread may run at the same time, so it has its own, as long as it has a context. */
  scratchpad_user other = {.device = f.device};
  cr_thread *thread = NULL;
  ok(cr_thread_start(&thread, "scratch", use_scratchpad, &other));
  ok(cr_thread_join(&thread));
  assert_int_not_equal(other.memory.address, last.address);
  assert_int_equal(other.bytes_together, 13 << 20);
  assert_int_equal(cr_device_scratchpad_bytes(f.device), 9 << 20);
  /* It goes with the last context that used it. */
  crema_context_destroy(context[1]);
  assert_int_equal(cr_device_scratchpad_bytes(f.device), 9 << 20);
  crema_context_destroy(f.context);
  assert_int_equal(cr_device_scratchpad_bytes(f.device), 0);
  f.context = NULL;
  end(&f);
}

TEST(s4_23_budget_of_the_algorithm_search) {
  pool_fixture f = begin(CR_POOL_BINS);
  size_t mb = (size_t)1 << 20, budget = 0;
  cr_workspace w = {.device = f.device};
  /* Half of the total is the limit while much is free. */
  ok(cr_workspace_budget(&w, 0, 1, &budget));
  assert_int_equal(budget, 32 * mb - 8192);
  ok(cr_workspace_budget(&w, mb + 1, 2, &budget));
  assert_int_equal(budget, (32 * mb - 8192 - mb - 1) / 2 / 256 * 256);
  cr_sim_set_foreign_bytes(0, 60 * mb);
  ok(cr_workspace_budget(&w, 0, 1, &budget));
  assert_int_equal(budget, 4 * mb - 8192);
  ok(cr_workspace_budget(&w, 5 * mb, 1, &budget));
  assert_int_equal(budget, 0);
  assert_int_equal(cr_workspace_budget(&w, 0, 0, &budget), CREMA_E_RANGE);
  cr_sim_set_foreign_bytes(0, 0);
  end(&f);
}

/* What is known of two layers' algorithms: the faster, the more memory. */
static const cr_algorithm layer_a[] = {
    {7, 3.0, 0}, {1, 1.0, 30 << 20}, {4, 2.0, 10 << 20}, {5, 2.0, 12 << 20}, {2, 0.5, 60 << 20}};
static const cr_algorithm layer_b[] = {{3, 2.5, 2 << 20}, {6, 2.0, 6 << 20}, {9, 2.0, 5 << 20}};

/* Work that uses the whole scratchpad, queued and not yet done. */
static void use_all(crema_context *context, size_t bytes) {
  crema_devptr memory = {0};
  ok(cr_context_workspace(context, bytes, &memory));
  ok(context->device->backend->zero(context, memory, bytes));
}

/* The old block goes first, as soon as nobody uses it. */
TEST(s4_21_a_scratchpad_grows_where_both_blocks_do_not_fit) {
  pool_fixture f = begin_pool(cr_pool_options_for(CR_POOL_BINS), true);
  const size_t mb = (size_t)1 << 20;
  crema_context *other = sim_test_context(f.device);
  crema_devptr memory = {0};
  use_all(f.context, 40 * mb);
  use_all(other, 50 * mb);
  assert_int_equal(cr_sim_pending(f.context), 0);
  assert_int_equal(cr_device_scratchpad_bytes(f.device), 50 * mb);
  assert_int_equal(cr_context_workspace(f.context, 70 * mb, &memory), CREMA_E_NO_MEMORY);
  assert_int_equal(cr_device_scratchpad_bytes(f.device), 50 * mb);
  use_all(f.context, 50 * mb);
  ok(crema_context_finish(f.context));
  crema_context_destroy(other);
  end(&f);
}

TEST(s4_23_the_scratchpad_shrinks_after_two_backward_passes) {
  pool_fixture f = begin_pool(cr_pool_options_for(CR_POOL_BINS), true);
  const size_t mb = (size_t)1 << 20;
  int id = -1;
  /* Nothing was asked for yet. */
  ok(cr_context_end_backward(f.context));
  ok(cr_context_choose(f.context, layer_a, 5, &id));
  assert_int_equal(id, 1);
  for (int pass = 0; pass < 3; ++pass) {
    use_all(f.context, 30 * mb);
    ok(cr_context_end_backward(f.context));
    assert_int_equal(cr_device_scratchpad_bytes(f.device), 30 * mb);
  }
  /* Smaller shapes: 5 MiB for the convolution and 8 MiB for another op. */
  ok(cr_context_choose(f.context, layer_b, 3, &id));
  assert_int_equal(id, 9);
  for (int pass = 0; pass < 3; ++pass) {
    use_all(f.context, 5 * mb);
    use_all(f.context, 8 * mb);
    ok(cr_context_end_backward(f.context));
    assert_int_equal(cr_device_scratchpad_bytes(f.device), (pass < 1 ? 30 : 8) * mb);
  }
  /* What grows later, as in a test now and then, stays. */
  use_all(f.context, 12 * mb);
  for (int pass = 0; pass < 3; ++pass) {
    ok(cr_context_end_backward(f.context));
  }
  assert_int_equal(cr_device_scratchpad_bytes(f.device), 12 * mb);
  end(&f);
}

/* The scratchpad becomes as large as what is chosen needs. */
TEST(s4_23_scratchpad_memory_for_the_fastest) {
  pool_fixture f = begin_pool(cr_pool_options_for(CR_POOL_BINS), true);
  size_t mb = (size_t)1 << 20;
  int id = -1;
  /* The device has less than it says: what needs less is next, and the one after that. */
  cr_sim_fail(CR_SIM_ALLOC, 1, CREMA_E_NO_MEMORY, false);
  ok(cr_context_choose(f.context, layer_a, 5, &id));
  assert_int_equal(id, 4);
  assert_int_equal(cr_device_scratchpad_bytes(f.device), 10 * mb);
  cr_sim_set_foreign_bytes(0, 50 * mb);
  /* Of the 4 MiB that are free and the 10 that are its own it may use all but two pages. */
  ok(cr_context_choose(f.context, layer_b, 3, &id));
  assert_int_equal(id, 9);
  assert_int_equal(cr_context_choose(f.context, &layer_a[1], 1, &id), CREMA_E_UNSUPPORTED);
  assert_int_equal(id, 9);
  assert_int_equal(cr_device_scratchpad_bytes(f.device), 10 * mb);
  cr_sim_set_foreign_bytes(0, 0);
  ok(cr_context_choose(f.context, layer_a, 5, &id));
  assert_int_equal(id, 1);
  assert_int_equal(cr_device_scratchpad_bytes(f.device), 30 * mb);
  /* After any other failure it does not go on. */
  const cr_algorithm larger[] = {{8, 1.0, 31 << 20}, {3, 2.0, 0}};
  cr_sim_fail(CR_SIM_ALLOC, 1, CREMA_E_DEVICE, false);
  assert_int_equal(cr_context_choose(f.context, larger, 2, &id), CREMA_E_DEVICE);
  end(&f);
}

TEST(s4_24_pinned_buffer) {
  pool_fixture f = begin(CR_POOL_BINS);
  cr_block buffer;
  crema_devptr alias = {0};
  assert_int_equal(cr_block_new_pinned(f.device, 0, &buffer, &alias), CREMA_E_ARGUMENT);
  ok(cr_block_new_pinned(f.device, 256, &buffer, &alias));
  assert_true(cr_sim_is_pinned((const void *)buffer.address));
  memset((void *)buffer.address, 7, 256);
  /* The device reads the host's bytes through the alias. */
  crema_devptr memory = take(&f, 256, f.context->id);
  ok(f.device->backend->copy(f.context, CR_COPY_SAME_DEVICE, memory.address, alias.address, 256));
  ok(crema_context_finish(f.context));
  unsigned char bytes[256];
  assert_true(cr_sim_peek(memory, bytes, 256));
  for (int i = 0; i < 256; ++i) assert_int_equal(bytes[i], 7);
  give(&f, memory, 0);
  ok(cr_block_free(&buffer));
  assert_int_equal(cr_sim_pinned_blocks(), 0);
  end(&f);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
