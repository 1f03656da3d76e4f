/* The caching pool: rows S1-22 to S1-25, S4-10, S4-12, S4-13, S4-16 to S4-19. */
#include "device/pool_fixture.h"
#include "log_lines.h"

#include <stdatomic.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/rng.h"
#include "core/thread.h"
#include "device/copy.h"
#include "device/memory/block.h"
#include "device/memory/device_memory.h"

TEST(s1_22_without_a_pool) {
  pool_fixture f = begin(CR_POOL_NONE);
  assert_int_equal(take(&f, 0, 0).address, 0);
  crema_devptr memory = take(&f, 100, 0);
  assert_int_equal(cr_sim_bytes(CR_SIM_ALLOC, 0), 100);
  give(&f, memory, 0);
  assert_int_equal(cr_sim_count(CR_SIM_FREE, 0), 1);
  assert_int_equal(cr_pool_describe(f.pool).idle_blocks, 0);
  end(&f);
}

/* Freeing memory after the driver was unloaded is ignored. */
TEST(s0_06_s1_22_s4_13_freeing_after_the_driver_has_gone) {
  static log_lines lines;
  for (int mode = CR_POOL_NONE; mode <= CR_POOL_THC; ++mode) {
    pool_fixture f = begin((cr_pool_mode)mode);
    cr_block pinned;
    ok(cr_block_new(f.device, 100, &(cr_block_options){.pinned = true}, &pinned));
    crema_devptr own = take(&f, 100, 0), used = take(&f, 100, f.context->id);
    crema_devptr large = take(&f, 5 << 20, 0), of_device = {0}, refused = {0};
    ok(cr_device_alloc(f.device, 100, &of_device));
    crema_context *context = sim_test_context(f.device);
    cr_sim_reset_counts();
    listen_to(&lines, CREMA_LOG_DEBUG);
    cr_sim_set_unloading(true);
    give(&f, own, 0);
    give(&f, used, f.context->id);
    give(&f, large, 0);
    give(&f, (crema_devptr){0}, 0);
    cr_device_free(f.device, of_device);
    ok(cr_block_free(&pinned));
    assert_int_equal(cr_pool_alloc(f.pool, 20 << 20, 0, &refused), CREMA_E_CLOSED);
    crema_context_destroy(context);
    cr_sim_set_unloading(false);
    stop_listening();
    assert_int_equal(lines.count, 0);
    assert_int_equal(cr_pool_describe(f.pool).live_blocks, 0);
    assert_int_equal(crema_pinned_bytes(), 0);
    /* Only the simulated driver still knows the blocks: it ignored the calls. */
    assert_int_equal(cr_sim_pinned_blocks(), 1);
    cr_pool_destroy(f.pool);
    crema_context_destroy(f.context);
    cr_sim_leaks leaks = {0};
    cr_sim_stop(&leaks);
    assert_int_equal(leaks.host_blocks, 1);
    assert_int_equal(leaks.streams, 0);
  }
}

TEST(s1_23_cub_bins) {
  cr_pool_options options = cr_pool_options_for(CR_POOL_CUB);
  assert_int_equal(options.growth, 8);
  assert_int_equal(options.min_bin, 3);
  assert_int_equal(options.max_bin, 10);
  assert_int_equal(options.max_idle_bytes, (size_t)10240 << 20);
  pool_fixture f = begin(CR_POOL_CUB);
  crema_devptr memory = take(&f, 100, 0);
  assert_int_equal(cr_sim_bytes(CR_SIM_ALLOC, 0), 512);
  give(&f, memory, 0);
  crema_devptr same = take(&f, 512, 0), larger = take(&f, 513, 0);
  assert_int_equal(same.address, memory.address);
  assert_true(larger.address != memory.address);
  assert_int_equal(cr_sim_bytes(CR_SIM_ALLOC, 0), 512 + 4096);
  give(&f, same, 0);
  give(&f, larger, 0);
  assert_int_equal(cr_sim_count(CR_SIM_FREE, 0), 0);
  end(&f);
}

TEST(s1_23_no_more_idle_than_allowed) {
  cr_pool_options options = cr_pool_options_for(CR_POOL_CUB);
  options.max_idle_bytes = 1024;
  pool_fixture f = begin_pool(options, false);
  crema_devptr memory[3];
  for (int i = 0; i < 3; ++i) memory[i] = take(&f, 512, 0);
  for (int i = 0; i < 3; ++i) give(&f, memory[i], 0);
  assert_int_equal(cr_pool_describe(f.pool).idle_bytes, 1024);
  assert_int_equal(cr_sim_count(CR_SIM_FREE, 0), 1);
  end(&f);
}

/* Any sequence of requests: blocks never overlap, a freed block serves the next request of its bin
 * and no other, and the driver is asked only when the bin is empty. */
TEST(s1_23_any_sequence_of_requests) {
  enum { LIVE = 24, STEPS = 4000 };
  pool_fixture f = begin(CR_POOL_CUB);
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 5);
  crema_devptr live[LIVE] = {{0}};
  size_t bin[LIVE] = {0};
  for (int i = 0; i < STEPS; ++i) {
    uint32_t at = cr_mt19937_below(&rng, LIVE);
    if (live[at].address != 0) {
      uintptr_t freed = live[at].address;
      give(&f, live[at], 0);
      /* The same bin gives the same block, a larger one another. */
      crema_devptr same = take(&f, bin[at] - cr_mt19937_below(&rng, 100), 0);
      crema_devptr larger = take(&f, bin[at] + 1, 0);
      assert_int_equal(same.address, freed);
      assert_int_not_equal(larger.address, freed);
      give(&f, larger, 0);
      give(&f, same, 0);
      live[at].address = 0;
      continue;
    }
    size_t bytes = 1 + cr_mt19937_below(&rng, 40000);
    live[at] = take(&f, bytes, 0);
    for (bin[at] = 512; bin[at] < bytes; bin[at] *= 8) {
    }
    for (int k = 0; k < LIVE; ++k) {
      if (k == (int)at || live[k].address == 0) continue;
      assert_true(live[k].address + bin[k] <= live[at].address ||
                  live[at].address + bin[at] <= live[k].address);
    }
  }
  for (int k = 0; k < LIVE; ++k) give(&f, live[k], 0);
  assert_int_equal(cr_pool_describe(f.pool).live_blocks, 0);
  assert_true(cr_pool_describe(f.pool).cached > cr_pool_describe(f.pool).driver_allocs);
  end(&f);
}

/* Frees memory while a stream still fills it, takes it for another stream. */
static size_t races_of_reuse(cr_pool_mode mode) {
  pool_fixture f = begin_pool(cr_pool_options_for(mode), true);
  const cr_backend *backend = f.device->backend;
  crema_context *other = sim_test_context(f.device);
  crema_devptr memory = take(&f, 1000, f.context->id);
  ok(backend->zero(f.context, memory, 1000));
  give(&f, memory, f.context->id);
  crema_devptr reused = take(&f, 1000, other->id);
  ok(backend->zero(other, reused, 1000));
  size_t races = cr_sim_races(NULL, 0);
  ok(crema_context_finish(other));
  ok(crema_context_finish(f.context));
  give(&f, reused, 0);
  crema_context_destroy(other);
  end_with_races(&f, races);
  return races;
}

TEST(s1_24_one_stream_mode_shows_its_hazard) {
  assert_int_equal(races_of_reuse(CR_POOL_THC), 1);
  assert_int_equal(races_of_reuse(CR_POOL_BINS), 0);
}

TEST(s1_25_choosing_a_pool) {
  cr_pool_mode mode = CR_POOL_BINS;
  ok(cr_pool_mode_parse("", &mode));
  assert_int_equal(mode, CR_POOL_NONE);
  ok(cr_pool_mode_parse("none", &mode));
  ok(cr_pool_mode_parse("cub", &mode));
  assert_int_equal(mode, CR_POOL_CUB);
  ok(cr_pool_mode_parse("thc", &mode));
  assert_int_equal(mode, CR_POOL_THC);
  assert_fails(cr_pool_mode_parse("cnmem", &mode), CREMA_E_UNKNOWN_NAME, "cnmem");
  assert_int_equal(mode, CR_POOL_THC);
  /* A device was opened by the tests before: too late. */
  cr_pool_mode current = cr_pool_current_mode();
  ok(cr_pool_set_mode(current));
  assert_int_equal(cr_pool_set_mode(current == CR_POOL_CUB ? CR_POOL_BINS : CR_POOL_CUB),
                   CREMA_E_STATE);
  assert_int_equal(cr_pool_current_mode(), current);
  cr_pool_options odd = cr_pool_options_for(CR_POOL_CUB);
  odd.growth = 1;
  cr_pool *pool = NULL;
  assert_int_equal(cr_pool_create(cr_cpu_device(), &odd, &pool), CREMA_E_RANGE);
}

static crema_status churn(void *arg) {
  pool_fixture *f = arg;
  crema_devptr memory[16] = {{0}};
  uint32_t random = (uint32_t)(uintptr_t)&memory;
  for (int i = 0; i < 20000; ++i) {
    random = random * 1664525u + 1013904223u;
    crema_devptr *slot = &memory[random >> 28];
    CR_TRY(cr_pool_free(f->pool, *slot, 0));
    CR_TRY(cr_pool_alloc(f->pool, 1 + (random >> 8) % 5000, 0, slot));
  }
  for (int i = 0; i < 16; ++i) CR_TRY(cr_pool_free(f->pool, memory[i], 0));
  return CREMA_OK;
}

TEST(s4_10_every_mode_serves) {
  for (int mode = CR_POOL_NONE; mode <= CR_POOL_THC; ++mode) {
    pool_fixture f = begin((cr_pool_mode)mode);
    crema_devptr memory[40];
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 40; ++i) {
        memory[i] = take(&f, (size_t)(1 + i * 997), 0);
        for (int k = 0; k < i; ++k) assert_true(memory[k].address != memory[i].address);
      }
      for (int i = 0; i < 40; ++i) give(&f, memory[(i * 7) % 40], 0);
    }
    /* No bytes, a failure that leaves the pool as it was, threads, foreign addresses. */
    crema_devptr big = {0};
    assert_int_equal(take(&f, 0, 0).address, 0);
    assert_int_equal(cr_pool_alloc(f.pool, (size_t)65 << 20, 0, &big), CREMA_E_NO_MEMORY);
    give(&f, take(&f, (size_t)2 << 20, 0), 0);
    assert_int_equal(cr_pool_free(f.pool, (crema_devptr){12345}, 0), CREMA_E_ARGUMENT);
    cr_thread *thread[3] = {0};
    for (int i = 0; i < 3; ++i) {
      ok(cr_thread_start(&thread[i], "churn", churn, &f));
    }
    for (int i = 0; i < 3; ++i) ok(cr_thread_join(&thread[i]));
    assert_int_equal(cr_pool_describe(f.pool).live_blocks, 0);
    assert_int_equal(cr_pool_describe(f.pool).live_bytes, 0);
    end(&f);
  }
}

TEST(s4_12_s4_13_a_failure_is_a_status) {
  pool_fixture f = begin(CR_POOL_BINS);
  crema_devptr memory = {1};
  assert_int_equal(cr_pool_alloc(f.pool, (size_t)65 << 20, 0, &memory), CREMA_E_NO_MEMORY);
  assert_int_equal(memory.address, 0);
  assert_error_has("68157440 bytes on sim:0");
  memory = take(&f, 1 << 20, 0);
  give(&f, memory, 0);
  give(&f, (crema_devptr){0}, 0);
  ok(crema_context_finish(f.context));
  end(&f);
}

TEST(s4_16_size_table) {
  static const size_t table[][2] = {
      {1, 64},      {64, 64},     {65, 128},          {1000, 1024},
      {4096, 4096}, {4097, 8192}, {1 << 22, 1 << 22}, {(1 << 22) + 1, (1 << 22) + 1}};
  pool_fixture f = begin(CR_POOL_BINS);
  for (size_t i = 0; i < sizeof table / sizeof table[0]; ++i) {
    cr_sim_reset_counts();
    crema_devptr memory = take(&f, table[i][0], 0);
    /* A block that an earlier line left may be used. */
    if (cr_sim_count(CR_SIM_ALLOC, 0) > 0) {
      assert_int_equal(cr_sim_bytes(CR_SIM_ALLOC, 0), table[i][1]);
    }
    bool cached = table[i][0] <= 1 << 22;
    give(&f, memory, 0);
    assert_int_equal(cr_sim_count(CR_SIM_FREE, 0), cached ? 0 : 1);
  }
  end(&f);
}

TEST(s4_17_reuse_by_another_stream_waits) {
  pool_fixture f = begin_pool(cr_pool_options_for(CR_POOL_BINS), true);
  crema_context *other = sim_test_context(f.device);
  crema_devptr memory = take(&f, 1000, f.context->id);
  ok(f.device->backend->zero(f.context, memory, 1000));
  give(&f, memory, f.context->id);
  /* The same stream may have it at once. */
  crema_devptr again = take(&f, 1000, f.context->id);
  assert_int_equal(again.address, memory.address);
  ok(f.device->backend->zero(f.context, again, 1000));
  give(&f, again, f.context->id);
  /* Another stream and the host get other memory as long as the work is not done. */
  crema_devptr foreign = take(&f, 1000, other->id), host = take(&f, 1000, 0);
  assert_true(foreign.address != memory.address && host.address != memory.address);
  while (cr_sim_step(f.context)) {
  }
  crema_devptr later = take(&f, 1000, other->id);
  assert_int_equal(later.address, memory.address);
  give(&f, foreign, 0);
  give(&f, host, 0);
  give(&f, later, 0);
  crema_context_destroy(other);
  end(&f);
}

/* The block that was freed last may still be in use; one behind it that is not is taken. */
TEST(s4_17_a_ready_block_behind_a_busy_one) {
  pool_fixture f = begin_pool(cr_pool_options_for(CR_POOL_BINS), true);
  crema_devptr ready = take(&f, 1000, 0), busy = take(&f, 1000, f.context->id);
  ok(f.device->backend->zero(f.context, busy, 1000));
  give(&f, ready, 0);
  give(&f, busy, f.context->id);
  cr_sim_reset_counts();
  crema_devptr again = take(&f, 1000, 0);
  assert_int_equal(again.address, ready.address);
  assert_int_equal(cr_sim_count(CR_SIM_ALLOC, -1), 0);
  give(&f, again, 0);
  end(&f);
}

static crema_status query_fails(cr_native_event *event, bool *done) {
  (void)event;
  *done = false;
  return cr_fail(CREMA_E_DEVICE, "failed before the event");
}

/* Work that failed is over: others may have its memory, and the context still reports the failure.
 */
TEST(s4_17_reuse_after_failed_work) {
  pool_fixture f = begin_pool(cr_pool_options_for(CR_POOL_BINS), true);
  crema_context *other = sim_test_context(f.device);
  crema_devptr memory = take(&f, 1000, f.context->id);
  cr_sim_fail(CR_SIM_ZERO, 1, CREMA_E_DEVICE, true);
  ok(f.device->backend->zero(f.context, memory, 1000));
  give(&f, memory, f.context->id);
  crema_devptr before = take(&f, 1000, other->id);
  assert_int_not_equal(before.address, memory.address);
  while (cr_sim_step(f.context)) {
  }
  for (int i = 0; i < 3; ++i) {
    crema_devptr after = take(&f, 1000, other->id);
    assert_int_equal(after.address, memory.address);
    give(&f, after, 0);
  }
  give(&f, before, 0);
  assert_int_equal(crema_context_finish(f.context), CREMA_E_DEVICE);
  ok(crema_context_finish(f.context));
  /* Whatever else the driver reports. */
  memory = take(&f, 5000, f.context->id);
  ok(f.device->backend->zero(f.context, memory, 5000));
  give(&f, memory, f.context->id);
  const cr_backend *sound = f.device->backend;
  cr_backend backend = *sound;
  backend.event_query = query_fails;
  ok(crema_context_finish(f.context));
  f.device->backend = &backend;
  crema_devptr again = take(&f, 5000, other->id);
  f.device->backend = sound;
  assert_int_equal(again.address, memory.address);
  give(&f, again, 0);
  crema_context_destroy(other);
  end(&f);
}

static int given_up;

static void count_given_up(void *user, crema_log_level level, const char *file, int line,
                           const char *text) {
  (void)user, (void)file, (void)line;
  given_up += level == CREMA_LOG_ERROR && strstr(text, "is given up: ") != NULL;
}

/* Memory for whose last use no mark can be set is never used again, in its first life and in its
 * second, when it has a mark of the first; nothing else is lost. */
TEST(s4_17_memory_without_a_mark_is_given_up) {
  for (int lives = 1; lives <= 2; ++lives) {
    pool_fixture f = begin_pool(cr_pool_options_for(CR_POOL_BINS), true);
    crema_devptr memory = {0}, again = {0};
    given_up = 0;
    crema_log_set(count_given_up, NULL, CREMA_LOG_DEBUG);
    for (int life = 1; life <= lives; ++life) {
      assert_int_equal(cr_pool_alloc(f.pool, 1000, f.context->id, &memory), CREMA_OK);
      assert_int_equal(f.device->backend->zero(f.context, memory, 1000), CREMA_OK);
      if (life == lives) cr_sim_fail(CR_SIM_EVENT_RECORD, 1, CREMA_E_DEVICE, false);
      assert_int_equal(cr_pool_free(f.pool, memory, f.context->id), CREMA_OK);
      assert_int_equal(given_up, life == lives);
    }
    crema_log_set(NULL, NULL, CREMA_LOG_ERROR);
    cr_pool_info info = cr_pool_describe(f.pool);
    assert_int_equal(info.live_blocks, 0);
    assert_int_equal(info.live_bytes, 0);
    assert_int_equal(info.idle_blocks, 0);
    assert_int_equal(info.driver_allocs, 1);
    assert_int_equal(cr_pool_free(f.pool, memory, f.context->id), CREMA_E_ARGUMENT);
    assert_int_equal(crema_context_finish(f.context), CREMA_OK);
    assert_int_equal(cr_pool_alloc(f.pool, 1000, f.context->id, &again), CREMA_OK);
    assert_true(again.address != memory.address);
    assert_int_equal(cr_pool_free(f.pool, again, f.context->id), CREMA_OK);
    end_with_races(&f, 0);
  }
}

/* Work of a block's earlier owner may still be queued when its next owner, the same context, frees
 * it without having used it. */
TEST(s4_17_an_earlier_life_is_not_forgotten) {
  pool_fixture f = begin_pool(cr_pool_options_for(CR_POOL_BINS), true);
  crema_devptr memory = take(&f, 1000, f.context->id);
  ok(f.device->backend->zero(f.context, memory, 1000));
  give(&f, memory, f.context->id);
  crema_devptr unused = take(&f, 1000, f.context->id);
  assert_int_equal(unused.address, memory.address);
  give(&f, unused, 0);
  crema_devptr host = take(&f, 1000, 0);
  assert_true(host.address != memory.address);
  while (cr_sim_step(f.context)) {
  }
  crema_devptr later = take(&f, 1000, 0);
  assert_int_equal(later.address, memory.address);
  give(&f, host, 0);
  give(&f, later, 0);
  end(&f);
}

typedef struct closing {
  crema_context *context;
  atomic_bool closed;
} closing;

static crema_status close_context(void *arg) {
  closing *c = arg;
  crema_context_destroy(c->context);
  atomic_store(&c->closed, true);
  return CREMA_OK;
}

/* A context that is being destroyed in one thread has work to finish first; what another thread
 * frees meanwhile is not idle yet. */
TEST(s4_17_a_context_that_closes_still_uses_memory) {
  pool_fixture f = begin_slow(cr_pool_options_for(CR_POOL_BINS), false, 0.5);
  closing c = {.context = sim_test_context(f.device)};
  uint64_t id = c.context->id;
  char source[1000] = {0};
  crema_devptr memory = take(&f, sizeof source, id);
  ok(cr_copy_from_cpu(c.context, memory, source, sizeof source));
  cr_thread *closer = NULL;
  ok(cr_thread_start(&closer, "closer", close_context, &c));
  cr_clock_sleep(0.1);
  give(&f, memory, id);
  crema_devptr other = take(&f, sizeof source, 0);
  bool in_use = !atomic_load(&c.closed);
  assert_true(other.address != memory.address || !in_use);
  ok(cr_thread_join(&closer));
  give(&f, other, 0);
  end(&f);
}

TEST(s4_18_idle_blocks_go_before_a_request_fails) {
  pool_fixture f = begin(CR_POOL_BINS);
  crema_devptr memory[15], big = {0};
  for (int i = 0; i < 15; ++i) memory[i] = take(&f, 1 << 22, 0);
  assert_int_equal(cr_pool_alloc(f.pool, 6 << 20, 0, &big), CREMA_E_NO_MEMORY);
  for (int i = 0; i < 15; ++i) give(&f, memory[i], 0);
  assert_int_equal(cr_pool_describe(f.pool).idle_blocks, 15);
  big = take(&f, 50 << 20, 0);
  assert_int_equal(cr_pool_describe(f.pool).idle_blocks, 0);
  assert_int_equal(cr_pool_describe(f.pool).idle_bytes, 0);
  give(&f, big, 0);
  end(&f);
}

static crema_status free_one(void *arg) {
  void **pair = arg;
  pool_fixture *f = pair[0];
  return cr_pool_free(f->pool, *(crema_devptr *)pair[1], 0);
}

TEST(s4_19_any_thread_may_free) {
  pool_fixture f = begin(CR_POOL_BINS);
  crema_devptr memory = take(&f, 1000, 0);
  void *pair[2] = {&f, &memory};
  cr_thread *thread[4] = {0};
  ok(cr_thread_start(&thread[0], "free", free_one, pair));
  ok(cr_thread_join(&thread[0]));
  assert_int_equal(cr_pool_free(f.pool, memory, 0), CREMA_E_ARGUMENT);
  assert_int_equal(cr_pool_free(f.pool, (crema_devptr){12345}, 0), CREMA_E_ARGUMENT);
  /* Only its own device's pool knows a block. */
  crema_devptr foreign = {0};
  ok(cr_device_alloc(sim_test_device(1), 1000, &foreign));
  assert_fails(cr_pool_free(f.pool, foreign, 0), CREMA_E_ARGUMENT, "sim:0");
  cr_device_free(sim_test_device(1), foreign);
  for (int i = 0; i < 4; ++i) {
    ok(cr_thread_start(&thread[i], "churn", churn, &f));
  }
  for (int i = 0; i < 4; ++i) ok(cr_thread_join(&thread[i]));
  cr_pool_info info = cr_pool_describe(f.pool);
  assert_int_equal(info.live_blocks, 0);
  assert_int_equal(info.live_bytes, 0);
  assert_int_equal(info.idle_blocks, cr_sim_live_blocks(0));
  end(&f);
}

/* A block of just the limit stays, one that is larger does not. */
TEST(s1_23_one_block_may_be_all_that_is_idle) {
  for (size_t limit = 511; limit <= 512; ++limit) {
    cr_pool_options options = cr_pool_options_for(CR_POOL_CUB);
    options.max_idle_bytes = limit;
    pool_fixture f = begin_pool(options, false);
    give(&f, take(&f, 512, 0), 0);
    assert_int_equal(cr_pool_describe(f.pool).idle_bytes, limit == 512 ? 512 : 0);
    assert_int_equal(cr_sim_count(CR_SIM_FREE, 0), limit == 512 ? 0 : 1);
    end(&f);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
