/* The caching pool, its estimate of free memory, workspaces, tracking: rows S1-22 to S1-27, S4-07,
 * S4-10 to S4-24. */
#include "memory/sim_fixture.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/thread.h"
#include "device/block.h"
#include "device/memory_lock.h"
#include "device/pool.h"
#include "device/tracking.h"
#include "device/workspace.h"

typedef struct fixture {
  crema_device *device;
  crema_context *context;
  cr_pool *pool;
} fixture;

static fixture begin_pool(cr_pool_options options, bool stepped) {
  fixture f = {0};
  cr_sim_options sim = sim_test_options(2);
  sim.memory = (size_t)64 << 20;
  sim.stepped = stepped;
  sim.poison = false;
  sim_begin(&sim);
  f.device = sim_test_device(0);
  f.context = sim_test_context(f.device);
  assert_int_equal(cr_pool_create(f.device, &options, &f.pool), CREMA_OK);
  cr_sim_reset_counts();
  return f;
}

static fixture begin(cr_pool_mode mode) {
  return begin_pool(cr_pool_options_for(mode), false);
}

static void end_with_races(fixture *f, size_t races) {
  cr_pool_destroy(f->pool);
  crema_context_destroy(f->context);
  sim_end_with_races(races);
}

static void end(fixture *f) {
  end_with_races(f, 0);
}

static crema_devptr take(fixture *f, size_t bytes, uint64_t user) {
  crema_devptr memory = {0};
  assert_int_equal(cr_pool_alloc(f->pool, bytes, user, &memory), CREMA_OK);
  return memory;
}

static void give(fixture *f, crema_devptr memory, uint64_t user) {
  assert_int_equal(cr_pool_free(f->pool, memory, user), CREMA_OK);
}

static void s1_22_without_a_pool(void **state) {
  (void)state;
  fixture f = begin(CR_POOL_NONE);
  assert_int_equal(take(&f, 0, 0).address, 0);
  crema_devptr memory = take(&f, 100, 0);
  assert_int_equal(cr_sim_bytes(CR_SIM_ALLOC, 0), 100);
  give(&f, memory, 0);
  assert_int_equal(cr_sim_count(CR_SIM_FREE, 0), 1);
  assert_int_equal(cr_pool_describe(f.pool).idle_blocks, 0);
  end(&f);
}

static void s1_23_cub_bins(void **state) {
  (void)state;
  cr_pool_options options = cr_pool_options_for(CR_POOL_CUB);
  assert_int_equal(options.growth, 8);
  assert_int_equal(options.min_bin, 3);
  assert_int_equal(options.max_bin, 10);
  assert_int_equal(options.max_idle_bytes, (size_t)10240 << 20);
  fixture f = begin(CR_POOL_CUB);
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

static void s1_23_no_more_idle_than_allowed(void **state) {
  (void)state;
  cr_pool_options options = cr_pool_options_for(CR_POOL_CUB);
  options.max_idle_bytes = 1024;
  fixture f = begin_pool(options, false);
  crema_devptr memory[3];
  for (int i = 0; i < 3; i++) memory[i] = take(&f, 512, 0);
  for (int i = 0; i < 3; i++) give(&f, memory[i], 0);
  assert_int_equal(cr_pool_describe(f.pool).idle_bytes, 1024);
  assert_int_equal(cr_sim_count(CR_SIM_FREE, 0), 1);
  end(&f);
}

/* Frees memory while a stream still fills it, takes it for another stream. */
static size_t races_of_reuse(cr_pool_mode mode) {
  fixture f = begin_pool(cr_pool_options_for(mode), true);
  const cr_backend *backend = f.device->backend;
  crema_context *other = sim_test_context(f.device);
  crema_devptr memory = take(&f, 1000, f.context->id);
  assert_int_equal(backend->zero(f.context, memory, 1000), CREMA_OK);
  give(&f, memory, f.context->id);
  crema_devptr reused = take(&f, 1000, other->id);
  assert_int_equal(backend->zero(other, reused, 1000), CREMA_OK);
  size_t races = cr_sim_races(NULL, 0);
  assert_int_equal(crema_context_finish(other), CREMA_OK);
  assert_int_equal(crema_context_finish(f.context), CREMA_OK);
  give(&f, reused, 0);
  crema_context_destroy(other);
  end_with_races(&f, races);
  return races;
}

static void s1_24_one_stream_mode_shows_its_hazard(void **state) {
  (void)state;
  assert_int_equal(races_of_reuse(CR_POOL_THC), 1);
  assert_int_equal(races_of_reuse(CR_POOL_BINS), 0);
}

static void s1_25_choosing_a_pool(void **state) {
  (void)state;
  cr_pool_mode mode = CR_POOL_BINS;
  assert_int_equal(cr_pool_mode_parse("", &mode), CREMA_OK);
  assert_int_equal(mode, CR_POOL_NONE);
  assert_int_equal(cr_pool_mode_parse("none", &mode), CREMA_OK);
  assert_int_equal(cr_pool_mode_parse("cub", &mode), CREMA_OK);
  assert_int_equal(mode, CR_POOL_CUB);
  assert_int_equal(cr_pool_mode_parse("thc", &mode), CREMA_OK);
  assert_int_equal(mode, CR_POOL_THC);
  assert_int_equal(cr_pool_mode_parse("cnmem", &mode), CREMA_E_UNKNOWN_NAME);
  assert_non_null(strstr(crema_error_text(), "cnmem"));
  assert_int_equal(mode, CR_POOL_THC);
  /* A device was opened by the tests before: too late. */
  cr_pool_mode current = cr_pool_current_mode();
  assert_int_equal(cr_pool_set_mode(current), CREMA_OK);
  assert_int_equal(cr_pool_set_mode(current == CR_POOL_CUB ? CR_POOL_BINS : CR_POOL_CUB),
                   CREMA_E_STATE);
  assert_int_equal(cr_pool_current_mode(), current);
  cr_pool_options odd = cr_pool_options_for(CR_POOL_CUB);
  odd.growth = 1;
  cr_pool *pool = NULL;
  assert_int_equal(cr_pool_create(cr_cpu_device(), &odd, &pool), CREMA_E_RANGE);
}

static void s1_26_tracking(void **state) {
  (void)state;
  fixture f = begin(CR_POOL_NONE);
  cr_tracking_totals totals;
  assert_int_equal(cr_tracking_read(NULL, &totals), CREMA_E_STATE);
  crema_devptr before = take(&f, 5000, 0);
  cr_tracking_enable(true);
  crema_devptr a = take(&f, 1000, 0), b = take(&f, 2000, 0);
  give(&f, a, 0);
  assert_int_equal(cr_tracking_read(f.device, &totals), CREMA_OK);
  assert_int_equal(totals.current, 2000);
  assert_int_equal(totals.highest, 3000);
  /* What was there before is not taken off. */
  give(&f, before, 0);
  give(&f, b, 0);
  assert_int_equal(cr_tracking_read(NULL, &totals), CREMA_OK);
  assert_int_equal(totals.current, 0);
  assert_int_equal(totals.highest, 3000);
  assert_int_equal(cr_tracking_reports(), 0);
  assert_true(cr_tracking_add(f.device, (size_t)129 << 20));
  assert_int_equal(cr_tracking_reports(), 1);
  assert_true(cr_tracking_add(f.device, (size_t)100 << 20));
  assert_int_equal(cr_tracking_reports(), 1);
  assert_true(cr_tracking_add(f.device, (size_t)30 << 20));
  assert_int_equal(cr_tracking_reports(), 2);
  cr_tracking_enable(false);
  assert_int_equal(cr_tracking_read(NULL, &totals), CREMA_E_STATE);
  end(&f);
}

typedef struct storm {
  fixture *f;
  atomic_bool collective;
  atomic_int inside; /* allocations seen during a collective */
  atomic_bool stop;
} storm;

static crema_status launch_collectives(void *arg) {
  storm *s = arg;
  for (int i = 0; i < 200; i++) {
    cr_collective_begin();
    uint64_t before = cr_sim_count(CR_SIM_ALLOC, -1) + cr_sim_count(CR_SIM_FREE, -1);
    cr_clock_sleep(0.0001);
    uint64_t after = cr_sim_count(CR_SIM_ALLOC, -1) + cr_sim_count(CR_SIM_FREE, -1);
    if (before != after) atomic_fetch_add(&s->inside, 1);
    cr_collective_end();
  }
  atomic_store(&s->stop, true);
  return CREMA_OK;
}

static crema_status allocate_all_the_time(void *arg) {
  storm *s = arg;
  while (!atomic_load(&s->stop)) {
    crema_devptr memory = {0};
    CR_TRY(cr_pool_alloc(s->f->pool, 100, 0, &memory));
    CR_TRY(cr_pool_free(s->f->pool, memory, 0));
  }
  return CREMA_OK;
}

static void s1_27_s4_07_no_allocation_inside_a_collective(void **state) {
  (void)state;
  fixture f = begin(CR_POOL_NONE);
  storm s = {.f = &f};
  cr_thread *collective = NULL, *alloc[2] = {0};
  assert_int_equal(cr_thread_start(&collective, "collective", launch_collectives, &s), CREMA_OK);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(cr_thread_start(&alloc[i], "alloc", allocate_all_the_time, &s), CREMA_OK);
  }
  assert_int_equal(cr_thread_join(&collective), CREMA_OK);
  for (int i = 0; i < 2; i++) assert_int_equal(cr_thread_join(&alloc[i]), CREMA_OK);
  assert_int_equal(atomic_load(&s.inside), 0);
  assert_true(cr_sim_count(CR_SIM_ALLOC, -1) > 0);
  end(&f);
}

static void s4_10_every_mode_serves(void **state) {
  (void)state;
  for (int mode = CR_POOL_NONE; mode <= CR_POOL_THC; mode++) {
    fixture f = begin((cr_pool_mode)mode);
    crema_devptr memory[40];
    for (int round = 0; round < 3; round++) {
      for (int i = 0; i < 40; i++) {
        memory[i] = take(&f, (size_t)(1 + i * 997), 0);
        for (int k = 0; k < i; k++) assert_true(memory[k].address != memory[i].address);
      }
      for (int i = 0; i < 40; i++) give(&f, memory[(i * 7) % 40], 0);
    }
    assert_int_equal(cr_pool_describe(f.pool).live_blocks, 0);
    assert_int_equal(cr_pool_describe(f.pool).live_bytes, 0);
    end(&f);
  }
}

static int lines;

static void count_line(void *user, crema_log_level level, const char *file, int line,
                       const char *message) {
  (void)user;
  (void)level;
  (void)file;
  (void)line;
  lines += strstr(message, "sim:0: ") != NULL && strstr(message, "bytes") != NULL;
}

static void s4_11_devices_open_by_themselves_and_print_on_demand(void **state) {
  (void)state;
  /* No scope is opened: the first allocation opens the device, a second opening is the same. */
  cr_sim_options sim = sim_test_options(1);
  sim_begin(&sim);
  crema_devptr memory = {0};
  assert_int_equal(cr_device_alloc(sim_test_device(0), 100, &memory), CREMA_OK);
  cr_pool *first = sim_test_device(0)->pool;
  assert_ptr_equal(sim_test_device(0)->pool, first);
  cr_device_free(sim_test_device(0), memory);
  sim_end();
  assert_int_equal(setenv("DEBUG_GPU_MEM", "1", 1), 0);
  fixture f = begin(CR_POOL_NONE);
  assert_int_equal(unsetenv("DEBUG_GPU_MEM"), 0);
  lines = 0;
  crema_log_set(count_line, NULL, CREMA_LOG_INFO);
  give(&f, take(&f, 100, 0), 0);
  crema_log_set(NULL, NULL, CREMA_LOG_INFO);
  assert_int_equal(lines, 2);
  end(&f);
}

static void s4_12_s4_13_a_failure_is_a_status(void **state) {
  (void)state;
  fixture f = begin(CR_POOL_BINS);
  crema_devptr memory = {1};
  assert_int_equal(cr_pool_alloc(f.pool, (size_t)65 << 20, 0, &memory), CREMA_E_NO_MEMORY);
  assert_int_equal(memory.address, 0);
  assert_non_null(strstr(crema_error_text(), "68157440 bytes on sim:0"));
  memory = take(&f, 1 << 20, 0);
  give(&f, memory, 0);
  give(&f, (crema_devptr){0}, 0);
  assert_int_equal(crema_context_finish(f.context), CREMA_OK);
  end(&f);
}

static void s4_14_estimate_of_free_memory(void **state) {
  (void)state;
  fixture f = begin(CR_POOL_NONE);
  size_t free_bytes = 0, total = 0, mb = (size_t)1 << 20;
  uint64_t asked = cr_pool_describe(f.pool).driver_queries;
  assert_int_equal(asked, 1);
  /* 64 MB free, threshold 57.6: the first allocations only subtract. */
  crema_devptr a = take(&f, 4 * mb, 0);
  assert_int_equal(cr_pool_describe(f.pool).driver_queries, asked);
  assert_int_equal(cr_pool_memory(f.pool, false, &free_bytes, &total), CREMA_OK);
  assert_int_equal(total, 64 * mb);
  assert_int_equal(free_bytes, 60 * mb);
  /* Somebody else takes 20 MB, which the estimate does not know. */
  cr_sim_set_foreign_bytes(0, 20 * mb);
  crema_devptr b = take(&f, 4 * mb, 0);
  assert_int_equal(cr_pool_memory(f.pool, false, &free_bytes, &total), CREMA_OK);
  assert_int_equal(free_bytes, 56 * mb);
  /* Below the threshold now: the driver is asked, the threshold falls by a tenth. */
  crema_devptr c = take(&f, mb, 0);
  assert_int_equal(cr_pool_describe(f.pool).driver_queries, asked + 1);
  assert_int_equal(cr_pool_memory(f.pool, false, &free_bytes, &total), CREMA_OK);
  assert_int_equal(free_bytes, 35 * mb);
  /* A failure asks again and is counted. */
  cr_sim_set_foreign_bytes(0, 50 * mb);
  crema_devptr d = {0};
  assert_int_equal(cr_pool_alloc(f.pool, 10 * mb, 0, &d), CREMA_E_NO_MEMORY);
  assert_int_equal(cr_pool_describe(f.pool).flushes, 1);
  assert_int_equal(cr_pool_describe(f.pool).driver_queries, asked + 2);
  assert_int_equal(cr_pool_memory(f.pool, false, &free_bytes, &total), CREMA_OK);
  assert_int_equal(free_bytes, 5 * mb);
  cr_sim_set_foreign_bytes(0, 0);
  assert_int_equal(cr_pool_memory(f.pool, true, &free_bytes, &total), CREMA_OK);
  assert_int_equal(free_bytes, 55 * mb);
  give(&f, a, 0);
  give(&f, b, 0);
  give(&f, c, 0);
  end(&f);
}

static void s4_15_idle_blocks_count_as_free(void **state) {
  (void)state;
  fixture f = begin(CR_POOL_BINS);
  size_t free_bytes = 0, total = 0, mb = (size_t)1 << 20;
  crema_devptr memory = take(&f, 2 * mb, 0);
  assert_int_equal(cr_pool_memory(f.pool, true, &free_bytes, &total), CREMA_OK);
  assert_int_equal(free_bytes, 62 * mb);
  give(&f, memory, 0);
  assert_int_equal(cr_pool_memory(f.pool, true, &free_bytes, &total), CREMA_OK);
  assert_int_equal(free_bytes, 64 * mb);
  assert_int_equal(cr_sim_live_bytes(0), 2 * mb);
  end(&f);
}

static void s4_16_size_table(void **state) {
  (void)state;
  static const size_t table[][2] = {
      {1, 64},      {64, 64},     {65, 128},          {1000, 1024},
      {4096, 4096}, {4097, 8192}, {1 << 22, 1 << 22}, {(1 << 22) + 1, (1 << 22) + 1}};
  fixture f = begin(CR_POOL_BINS);
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    cr_sim_reset_counts();
    crema_devptr memory = take(&f, table[i][0], 0);
    /* A block left by an earlier line may serve. */
    if (cr_sim_count(CR_SIM_ALLOC, 0) > 0) {
      assert_int_equal(cr_sim_bytes(CR_SIM_ALLOC, 0), table[i][1]);
    }
    bool cached = table[i][0] <= 1 << 22;
    give(&f, memory, 0);
    assert_int_equal(cr_sim_count(CR_SIM_FREE, 0), cached ? 0 : 1);
  }
  end(&f);
}

static void s4_17_reuse_by_another_stream_waits(void **state) {
  (void)state;
  fixture f = begin_pool(cr_pool_options_for(CR_POOL_BINS), true);
  crema_context *other = sim_test_context(f.device);
  crema_devptr memory = take(&f, 1000, f.context->id);
  assert_int_equal(f.device->backend->zero(f.context, memory, 1000), CREMA_OK);
  give(&f, memory, f.context->id);
  /* The same stream may have it at once. */
  crema_devptr again = take(&f, 1000, f.context->id);
  assert_int_equal(again.address, memory.address);
  assert_int_equal(f.device->backend->zero(f.context, again, 1000), CREMA_OK);
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

static void s4_18_idle_blocks_go_before_a_request_fails(void **state) {
  (void)state;
  fixture f = begin(CR_POOL_BINS);
  crema_devptr memory[15], big = {0};
  for (int i = 0; i < 15; i++) memory[i] = take(&f, 1 << 22, 0);
  assert_int_equal(cr_pool_alloc(f.pool, 6 << 20, 0, &big), CREMA_E_NO_MEMORY);
  for (int i = 0; i < 15; i++) give(&f, memory[i], 0);
  assert_int_equal(cr_pool_describe(f.pool).idle_blocks, 15);
  big = take(&f, 50 << 20, 0);
  assert_int_equal(cr_pool_describe(f.pool).idle_blocks, 0);
  assert_int_equal(cr_pool_describe(f.pool).idle_bytes, 0);
  give(&f, big, 0);
  end(&f);
}

static crema_status churn(void *arg) {
  fixture *f = arg;
  crema_devptr memory[16] = {{0}};
  uint32_t random = (uint32_t)(uintptr_t)&memory;
  for (int i = 0; i < 20000; i++) {
    random = random * 1664525u + 1013904223u;
    crema_devptr *slot = &memory[random >> 28];
    CR_TRY(cr_pool_free(f->pool, *slot, 0));
    CR_TRY(cr_pool_alloc(f->pool, 1 + (random >> 8) % 5000, 0, slot));
  }
  for (int i = 0; i < 16; i++) CR_TRY(cr_pool_free(f->pool, memory[i], 0));
  return CREMA_OK;
}

static crema_status free_one(void *arg) {
  void **pair = arg;
  fixture *f = pair[0];
  return cr_pool_free(f->pool, *(crema_devptr *)pair[1], 0);
}

static void s4_19_any_thread_may_free(void **state) {
  (void)state;
  fixture f = begin(CR_POOL_BINS);
  crema_devptr memory = take(&f, 1000, 0);
  void *pair[2] = {&f, &memory};
  cr_thread *thread[4] = {0};
  assert_int_equal(cr_thread_start(&thread[0], "free", free_one, pair), CREMA_OK);
  assert_int_equal(cr_thread_join(&thread[0]), CREMA_OK);
  assert_int_equal(cr_pool_free(f.pool, memory, 0), CREMA_E_ARGUMENT);
  assert_int_equal(cr_pool_free(f.pool, (crema_devptr){12345}, 0), CREMA_E_ARGUMENT);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(cr_thread_start(&thread[i], "churn", churn, &f), CREMA_OK);
  }
  for (int i = 0; i < 4; i++) assert_int_equal(cr_thread_join(&thread[i]), CREMA_OK);
  cr_pool_info info = cr_pool_describe(f.pool);
  assert_int_equal(info.live_blocks, 0);
  assert_int_equal(info.live_bytes, 0);
  assert_int_equal(info.idle_blocks, cr_sim_live_blocks(0));
  end(&f);
}

static void s4_20_workspaces_grow_only(void **state) {
  (void)state;
  fixture f = begin(CR_POOL_BINS);
  size_t mb = (size_t)1 << 20;
  cr_workspace w = {.device = f.device};
  assert_int_equal(cr_workspace_reserve(&w, 0), CREMA_OK);
  assert_int_equal(w.memory.address, 0);
  assert_int_equal(cr_workspace_reserve(&w, 40 * mb), CREMA_OK);
  uintptr_t address = w.memory.address;
  assert_int_equal(cr_workspace_reserve(&w, 30 * mb), CREMA_OK);
  assert_int_equal(w.memory.address, address);
  assert_int_equal(w.bytes, 40 * mb);
  /* Both would not fit: the old memory goes first. */
  assert_int_equal(cr_workspace_reserve(&w, 50 * mb), CREMA_OK);
  assert_int_equal(cr_workspace_reserve(&w, 70 * mb), CREMA_E_NO_MEMORY);
  assert_int_equal(w.memory.address, 0);
  assert_int_equal(w.bytes, 0);
  cr_workspace_release(&w);
  end(&f);
}

static void s4_21_safe_growth_keeps_the_old_block(void **state) {
  (void)state;
  fixture f = begin(CR_POOL_BINS);
  size_t mb = (size_t)1 << 20;
  cr_workspace w = {.device = f.device};
  bool grown = true;
  assert_int_equal(cr_workspace_reserve_safely(&w, 20 * mb, &grown), CREMA_OK);
  assert_true(grown);
  uintptr_t address = w.memory.address;
  assert_int_equal(cr_workspace_reserve_safely(&w, 20 * mb, &grown), CREMA_OK);
  assert_false(grown);
  assert_int_equal(cr_workspace_reserve_safely(&w, 65 * mb, &grown), CREMA_E_NO_MEMORY);
  assert_false(grown);
  assert_int_equal(w.memory.address, address);
  assert_int_equal(w.bytes, 20 * mb);
  assert_int_equal(cr_workspace_reserve_safely(&w, 60 * mb, &grown), CREMA_OK);
  assert_true(grown);
  cr_workspace_release(&w);
  end(&f);
}

static void s4_22_a_shared_workspace_is_as_large_as_its_largest_user(void **state) {
  (void)state;
  fixture f = begin(CR_POOL_BINS);
  static const size_t need[] = {3 << 20, 9 << 20, 1 << 20, 7 << 20};
  crema_devptr memory = {0};
  for (int pass = 0; pass < 3; pass++) {
    for (int layer = 0; layer < 4; layer++) {
      assert_int_equal(cr_context_workspace(f.context, need[layer], &memory), CREMA_OK);
    }
  }
  assert_int_equal(cr_device_scratch_bytes(f.device), 9 << 20);
  assert_int_equal(cr_pool_describe(f.device->pool).live_bytes, 9 << 20);
  end(&f);
}

static void s4_23_budget_of_the_algorithm_search(void **state) {
  (void)state;
  fixture f = begin(CR_POOL_BINS);
  size_t mb = (size_t)1 << 20, budget = 0;
  cr_workspace w = {.device = f.device};
  /* Half of the total is the limit while much is free. */
  assert_int_equal(cr_workspace_budget(&w, 0, 1, &budget), CREMA_OK);
  assert_int_equal(budget, 32 * mb - 8192);
  assert_int_equal(cr_workspace_budget(&w, mb + 1, 2, &budget), CREMA_OK);
  assert_int_equal(budget, (32 * mb - 8192 - mb - 1) / 2 / 256 * 256);
  cr_sim_set_foreign_bytes(0, 60 * mb);
  assert_int_equal(cr_workspace_budget(&w, 0, 1, &budget), CREMA_OK);
  assert_int_equal(budget, 4 * mb - 8192);
  assert_int_equal(cr_workspace_budget(&w, 5 * mb, 1, &budget), CREMA_OK);
  assert_int_equal(budget, 0);
  assert_int_equal(cr_workspace_budget(&w, 0, 0, &budget), CREMA_E_RANGE);
  cr_sim_set_foreign_bytes(0, 0);
  end(&f);
}

static void s4_24_pinned_buffer(void **state) {
  (void)state;
  fixture f = begin(CR_POOL_BINS);
  cr_block buffer;
  crema_devptr alias = {0};
  assert_int_equal(cr_block_new_pinned(f.device, 0, &buffer, &alias), CREMA_E_ARGUMENT);
  assert_int_equal(cr_block_new_pinned(f.device, 256, &buffer, &alias), CREMA_OK);
  assert_true(cr_sim_is_pinned((const void *)buffer.address));
  memset((void *)buffer.address, 7, 256);
  /* The device reads the host's bytes by the alias. */
  crema_devptr memory = take(&f, 256, f.context->id);
  assert_int_equal(
      f.device->backend->copy(f.context, CR_COPY_SAME_DEVICE, memory.address, alias.address, 256),
      CREMA_OK);
  assert_int_equal(crema_context_finish(f.context), CREMA_OK);
  unsigned char bytes[256];
  assert_true(cr_sim_peek(memory, bytes, 256));
  for (int i = 0; i < 256; i++) assert_int_equal(bytes[i], 7);
  give(&f, memory, 0);
  cr_block_free(&buffer);
  assert_int_equal(cr_sim_pinned_blocks(), 0);
  end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(s1_22_without_a_pool),
      cmocka_unit_test(s1_23_cub_bins),
      cmocka_unit_test(s1_23_no_more_idle_than_allowed),
      cmocka_unit_test(s1_24_one_stream_mode_shows_its_hazard),
      cmocka_unit_test(s1_25_choosing_a_pool),
      cmocka_unit_test(s1_26_tracking),
      cmocka_unit_test(s1_27_s4_07_no_allocation_inside_a_collective),
      cmocka_unit_test(s4_10_every_mode_serves),
      cmocka_unit_test(s4_11_devices_open_by_themselves_and_print_on_demand),
      cmocka_unit_test(s4_12_s4_13_a_failure_is_a_status),
      cmocka_unit_test(s4_14_estimate_of_free_memory),
      cmocka_unit_test(s4_15_idle_blocks_count_as_free),
      cmocka_unit_test(s4_16_size_table),
      cmocka_unit_test(s4_17_reuse_by_another_stream_waits),
      cmocka_unit_test(s4_18_idle_blocks_go_before_a_request_fails),
      cmocka_unit_test(s4_19_any_thread_may_free),
      cmocka_unit_test(s4_20_workspaces_grow_only),
      cmocka_unit_test(s4_21_safe_growth_keeps_the_old_block),
      cmocka_unit_test(s4_22_a_shared_workspace_is_as_large_as_its_largest_user),
      cmocka_unit_test(s4_23_budget_of_the_algorithm_search),
      cmocka_unit_test(s4_24_pinned_buffer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
