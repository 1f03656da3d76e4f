/* What the pool knows of its device's memory, and when it asks: rows S1-26, S1-27, S4-07, S4-11,
 * S4-14, S4-15. */
#include "device/pool_fixture.h"
#include "log_lines.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/thread.h"
#include "device/memory/block.h"
#include "device/memory/device_memory.h"
#include "device/memory/memory_lock.h"
#include "device/memory/tracking.h"

TEST(s1_26_tracking) {
  pool_fixture f = begin(CR_POOL_NONE);
  cr_tracking_totals totals;
  assert_int_equal(cr_tracking_read(NULL, &totals), CREMA_E_STATE);
  crema_devptr before = take(&f, 5000, 0);
  cr_tracking_enable(true);
  crema_devptr a = take(&f, 1000, 0), b = take(&f, 2000, 0);
  give(&f, a, 0);
  ok(cr_tracking_read(f.device, &totals));
  assert_int_equal(totals.current, 2000);
  assert_int_equal(totals.highest, 3000);
  /* Another device has totals of its own; together they make the total of all. */
  crema_device *other = sim_test_device(1);
  crema_devptr c = {0};
  ok(cr_device_alloc(other, 4096, &c));
  ok(cr_tracking_read(other, &totals));
  assert_int_equal(totals.current, 4096);
  ok(cr_tracking_read(NULL, &totals));
  assert_int_equal(totals.current, 6096);
  assert_int_equal(totals.highest, 6096);
  cr_device_free(other, c);
  ok(cr_tracking_read(other, &totals));
  assert_int_equal(totals.current, 0);
  assert_int_equal(totals.highest, 4096);
  ok(cr_tracking_read(cr_cpu_device(), &totals));
  assert_int_equal(totals.highest, 0);
  /* Blocks from before are not subtracted. */
  give(&f, before, 0);
  give(&f, b, 0);
  ok(cr_tracking_read(NULL, &totals));
  assert_int_equal(totals.current, 0);
  assert_int_equal(totals.highest, 6096);
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
  pool_fixture *f;
  atomic_bool collective;
  atomic_int inside; /* allocations seen during a collective */
  atomic_bool stop;
} storm;

/* Calls that must not happen while a collective is launched. */
static uint64_t driver_calls(void) {
  static const cr_sim_op op[] = {CR_SIM_ALLOC,       CR_SIM_FREE,        CR_SIM_HOST_ALLOC,
                                 CR_SIM_HOST_FREE,   CR_SIM_MEMORY_INFO, CR_SIM_STREAM_OPEN,
                                 CR_SIM_STREAM_CLOSE};
  uint64_t calls = 0;
  for (size_t i = 0; i < sizeof op / sizeof op[0]; ++i) calls += cr_sim_count(op[i], -1);
  return calls;
}

static crema_status launch_collectives(void *arg) {
  storm *s = arg;
  for (int i = 0; i < 200; ++i) {
    cr_collective_begin();
    uint64_t before = driver_calls();
    cr_clock_sleep(0.0001);
    uint64_t after = driver_calls();
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

static crema_status open_pin_and_ask_all_the_time(void *arg) {
  storm *s = arg;
  while (!atomic_load(&s->stop)) {
    cr_block pinned;
    crema_device_info info;
    size_t free_bytes = 0, total = 0;
    crema_context *context = NULL;
    CR_TRY(crema_context_create(s->f->device, 1, &context));
    crema_context_destroy(context);
    CR_TRY(cr_block_new(s->f->device, 100, &(cr_block_options){.pinned = true}, &pinned));
    CR_TRY(cr_block_free(&pinned));
    CR_TRY(cr_pool_memory(s->f->pool, true, &free_bytes, &total));
    CR_TRY(crema_device_describe(s->f->device, &info));
  }
  return CREMA_OK;
}

TEST(s1_27_s4_07_no_allocation_inside_a_collective) {
  pool_fixture f = begin(CR_POOL_NONE);
  storm s = {.f = &f};
  cr_thread *collective = NULL, *alloc[4] = {0};
  ok(cr_thread_start(&collective, "collective", launch_collectives, &s));
  for (int i = 0; i < 4; ++i) {
    ok(cr_thread_start(&alloc[i], "alloc",
                       i < 2 ? allocate_all_the_time : open_pin_and_ask_all_the_time, &s));
  }
  ok(cr_thread_join(&collective));
  for (int i = 0; i < 4; ++i) ok(cr_thread_join(&alloc[i]));
  assert_int_equal(atomic_load(&s.inside), 0);
  assert_true(cr_sim_count(CR_SIM_ALLOC, -1) > 0);
  assert_true(cr_sim_count(CR_SIM_HOST_ALLOC, -1) > 0);
  assert_true(cr_sim_count(CR_SIM_MEMORY_INFO, -1) > 0);
  end(&f);
}

static log_lines lines;

/* What the log says while a device is used, or not named at all, or both. */
static int warnings_of(bool named) {
  crema_device *device = NULL;
  crema_devptr memory[2] = {{0}};
  int both[2] = {0, 1};
  cr_sim_options sim = sim_test_options(2);
  sim_begin(&sim);
  listen_to(&lines, CREMA_LOG_WARNING);
  if (named) {
    /* All are opened at once, a second time is a no-op. */
    ok(crema_device_open(CREMA_DEVICE_SIM, both, 2));
    assert_int_equal(cr_sim_count(CR_SIM_MEMORY_INFO, 0), 1);
    assert_int_equal(cr_sim_count(CR_SIM_MEMORY_INFO, 1), 1);
    ok(crema_device_open(CREMA_DEVICE_SIM, both, 2));
  }
  ok(crema_device_get(CREMA_DEVICE_SIM, 0, &device));
  const cr_pool *first = device->pool;
  for (int i = 0; i < 2; ++i) ok(cr_device_alloc(device, 100, &memory[i]));
  assert_ptr_equal(device->pool, first);
  assert_int_equal(cr_sim_count(CR_SIM_MEMORY_INFO, 0), 1);
  stop_listening();
  for (int i = 0; i < 2; ++i) cr_device_free(device, memory[i]);
  sim_end();
  return count_lines(&lines, "sim:0");
}

TEST(s4_11_devices_named_at_the_start) {
  assert_int_equal(warnings_of(true), 0);
  assert_int_equal(warnings_of(false), 1);
  cr_sim_options sim = sim_test_options(2);
  int missing[2] = {1, 2};
  sim_begin(&sim);
  assert_fails(crema_device_open(CREMA_DEVICE_SIM, missing, 2), CREMA_E_NO_DEVICE, "sim:2");
  sim_end();
}

TEST(s4_11_events_are_printed_on_demand) {
  for (int wanted = 0; wanted < 2; ++wanted) {
    if (wanted == 1) assert_int_equal(setenv("DEBUG_GPU_MEM", "1", 1), 0);
    pool_fixture f = begin(CR_POOL_NONE);
    assert_int_equal(unsetenv("DEBUG_GPU_MEM"), 0);
    listen_to(&lines, CREMA_LOG_INFO);
    give(&f, take(&f, 100, 0), 0);
    stop_listening();
    assert_int_equal(count_lines(&lines, "sim:0"), 2 * wanted);
    end(&f);
  }
}

TEST(s4_14_estimate_of_free_memory) {
  pool_fixture f = begin(CR_POOL_NONE);
  size_t free_bytes = 0, total = 0, mb = (size_t)1 << 20;
  uint64_t asked = cr_pool_describe(f.pool).driver_queries;
  assert_int_equal(asked, 1);
  /* 64 MB free, threshold 57.6: the first allocations only subtract. */
  crema_devptr a = take(&f, 4 * mb, 0);
  assert_int_equal(cr_pool_describe(f.pool).driver_queries, asked);
  ok(cr_pool_memory(f.pool, false, &free_bytes, &total));
  assert_int_equal(total, 64 * mb);
  assert_int_equal(free_bytes, 60 * mb);
  /* Another process takes 20 MB, which the estimate does not know. */
  cr_sim_set_foreign_bytes(0, 20 * mb);
  crema_devptr b = take(&f, 4 * mb, 0);
  ok(cr_pool_memory(f.pool, false, &free_bytes, &total));
  assert_int_equal(free_bytes, 56 * mb);
  /* Below the threshold now: the driver is asked, the threshold falls by a tenth. */
  crema_devptr c = take(&f, mb, 0);
  assert_int_equal(cr_pool_describe(f.pool).driver_queries, asked + 1);
  ok(cr_pool_memory(f.pool, false, &free_bytes, &total));
  assert_int_equal(free_bytes, 35 * mb);
  /* After a failure the driver is asked again, and the failure is counted. */
  cr_sim_set_foreign_bytes(0, 50 * mb);
  crema_devptr d = {0};
  assert_int_equal(cr_pool_alloc(f.pool, 10 * mb, 0, &d), CREMA_E_NO_MEMORY);
  assert_int_equal(cr_pool_describe(f.pool).flushes, 1);
  assert_int_equal(cr_pool_describe(f.pool).driver_queries, asked + 2);
  ok(cr_pool_memory(f.pool, false, &free_bytes, &total));
  assert_int_equal(free_bytes, 5 * mb);
  cr_sim_set_foreign_bytes(0, 0);
  ok(cr_pool_memory(f.pool, true, &free_bytes, &total));
  assert_int_equal(free_bytes, 55 * mb);
  give(&f, a, 0);
  give(&f, b, 0);
  give(&f, c, 0);
  end(&f);
}

/* The driver is also asked at a request beyond the estimate, and at one that is served after idle
 * blocks went back; not for blocks from the cache. */
TEST(s4_14_when_the_driver_is_asked) {
  size_t mb = (size_t)1 << 20, free_bytes = 0, total = 0;
  pool_fixture f = begin(CR_POOL_BINS);
  uint64_t asked = cr_pool_describe(f.pool).driver_queries;
  for (int i = 0; i < 100; ++i) give(&f, take(&f, 1000, 0), 0);
  assert_int_equal(cr_pool_describe(f.pool).driver_queries, asked);
  end(&f);
  /* A threshold of 0 leaves only the second rule. Foreign memory comes and goes unseen. */
  cr_pool_options options = cr_pool_options_for(CR_POOL_NONE);
  options.threshold = 0;
  f = begin_pool(options, false);
  asked = cr_pool_describe(f.pool).driver_queries;
  cr_sim_set_foreign_bytes(0, 60 * mb);
  ok(cr_pool_memory(f.pool, true, &free_bytes, &total));
  assert_int_equal(free_bytes, 4 * mb);
  cr_sim_set_foreign_bytes(0, 0);
  crema_devptr small = take(&f, 3 * mb, 0);
  assert_int_equal(cr_pool_describe(f.pool).driver_queries, asked + 1);
  crema_devptr large = take(&f, 10 * mb, 0);
  assert_int_equal(cr_pool_describe(f.pool).driver_queries, asked + 2);
  ok(cr_pool_memory(f.pool, false, &free_bytes, &total));
  assert_int_equal(free_bytes, 51 * mb);
  give(&f, small, 0);
  give(&f, large, 0);
  end(&f);
  /* The threshold falls by a tenth at each question, 57.6 and then 51.84 MiB: what is above it is
   * only subtracted. */
  f = begin(CR_POOL_NONE);
  asked = cr_pool_describe(f.pool).driver_queries;
  crema_devptr of[4];
  of[0] = take(&f, 8 * mb, 0); /* 64 -> 56 */
  of[1] = take(&f, 2 * mb, 0); /* 56 < 57.6: asked, 54 */
  assert_int_equal(cr_pool_describe(f.pool).driver_queries, asked + 1);
  of[2] = take(&f, 3 * mb, 0); /* 54 > 51.84 -> 51 */
  assert_int_equal(cr_pool_describe(f.pool).driver_queries, asked + 1);
  of[3] = take(&f, 1 * mb, 0); /* 51 < 51.84: asked */
  assert_int_equal(cr_pool_describe(f.pool).driver_queries, asked + 2);
  for (int i = 0; i < 4; ++i) give(&f, of[i], 0);
  end(&f);
  /* A request that is served in a second try has asked, too. */
  f = begin(CR_POOL_BINS);
  crema_devptr idle[15];
  for (int i = 0; i < 15; ++i) idle[i] = take(&f, 1 << 22, 0);
  for (int i = 0; i < 15; ++i) give(&f, idle[i], 0);
  asked = cr_pool_describe(f.pool).driver_queries;
  large = take(&f, 40 * mb, 0);
  assert_int_equal(cr_pool_describe(f.pool).flushes, 1);
  assert_int_equal(cr_pool_describe(f.pool).driver_queries, asked + 1);
  ok(cr_pool_memory(f.pool, false, &free_bytes, &total));
  assert_int_equal(free_bytes, 24 * mb);
  give(&f, large, 0);
  end(&f);
}

TEST(s4_15_the_smaller_total_counts) {
  size_t mb = (size_t)1 << 20;
  for (size_t driver = 32; driver <= 128; driver *= 4) {
    cr_sim_options sim = sim_test_options(1);
    sim.memory = 64 * mb;
    sim.driver_memory = driver * mb;
    sim_begin(&sim);
    cr_pool *pool = NULL;
    cr_pool_options options = cr_pool_options_for(CR_POOL_BINS);
    size_t free_bytes = 0, total = 0, smaller = driver < 64 ? driver * mb : 64 * mb;
    ok(cr_pool_create(sim_test_device(0), &options, &pool));
    ok(cr_pool_memory(pool, false, &free_bytes, &total));
    assert_int_equal(total, smaller);
    assert_int_equal(free_bytes, smaller);
    cr_pool_destroy(pool);
    sim_end();
  }
}

/* Where the driver reports less than there is, freeing does not raise the estimate beyond it. */
TEST(s4_14_never_more_free_than_there_is) {
  size_t mb = (size_t)1 << 20, free_bytes = 0, total = 0;
  cr_sim_options sim = sim_test_options(1);
  sim.memory = 64 * mb;
  sim.driver_memory = 32 * mb;
  sim_begin(&sim);
  cr_pool_options options = cr_pool_options_for(CR_POOL_NONE);
  options.threshold = 0;
  cr_pool *pool = NULL;
  crema_devptr memory = {0};
  ok(cr_pool_create(sim_test_device(0), &options, &pool));
  ok(cr_pool_alloc(pool, 10 * mb, 0, &memory));
  ok(cr_pool_memory(pool, true, &free_bytes, &total));
  assert_int_equal(free_bytes, 32 * mb);
  ok(cr_pool_free(pool, memory, 0));
  ok(cr_pool_alloc(pool, 20 * mb, 0, &memory));
  ok(cr_pool_memory(pool, false, &free_bytes, &total));
  assert_int_equal(free_bytes, 12 * mb);
  ok(cr_pool_free(pool, memory, 0));
  cr_pool_destroy(pool);
  sim_end();
}

TEST(s4_15_s4_16_idle_blocks_count_as_free) {
  pool_fixture f = begin(CR_POOL_BINS);
  size_t free_bytes = 0, total = 0, mb = (size_t)1 << 20;
  crema_devptr memory = take(&f, 2 * mb, 0);
  ok(cr_pool_memory(f.pool, true, &free_bytes, &total));
  assert_int_equal(free_bytes, 62 * mb);
  give(&f, memory, 0);
  ok(cr_pool_memory(f.pool, true, &free_bytes, &total));
  assert_int_equal(free_bytes, 64 * mb);
  assert_int_equal(cr_sim_live_bytes(0), 2 * mb);
  /* Without asking: a block that goes back to its bin was not freed, so it counts once (S4-16). */
  crema_devptr other = take(&f, 4 * mb, 0), back = take(&f, 2 * mb, 0);
  give(&f, back, 0);
  ok(cr_pool_memory(f.pool, false, &free_bytes, &total));
  assert_int_equal(free_bytes, 60 * mb);
  give(&f, other, 0);
  end(&f);
}

/* A request that was served only after idle blocks had gone back is counted like any other. */
TEST(s4_18_a_retried_request_is_counted) {
  pool_fixture f = begin(CR_POOL_BINS);
  const size_t mb = (size_t)1 << 20;
  crema_devptr memory[15];
  for (int i = 0; i < 15; ++i) memory[i] = take(&f, 4 * mb, 0);
  for (int i = 0; i < 15; ++i) give(&f, memory[i], 0);
  crema_devptr big = take(&f, 62 * mb, 0);
  assert_int_equal(cr_pool_describe(f.pool).peak_bytes, 62 * mb);
  give(&f, big, 0);
  crema_devptr small = take(&f, mb, 0);
  assert_int_equal(cr_pool_describe(f.pool).peak_bytes, 62 * mb);
  give(&f, small, 0);
  end(&f);
}

enum { HAND_OVERS = 4000, PARTIES = 8 };

typedef struct hand_over {
  pool_fixture *f;
  _Atomic uintptr_t block; /* from the first party to the last; 0: none */
  atomic_int met;
} hand_over;

/* Each new thread has the pool's next part for its own: the parties, all of different parts, are
 * met in the order in which the parts are counted or in a rotation of it. */
static crema_status hand_blocks_over(void *arg) {
  hand_over *h = arg;
  crema_devptr memory = {0};
  CR_TRY(cr_pool_alloc(h->f->pool, 64, 0, &memory));
  CR_TRY(cr_pool_free(h->f->pool, memory, 0));
  int party = atomic_fetch_add(&h->met, 1);
  for (int i = 0; i < HAND_OVERS && party == 0; ++i) {
    CR_TRY(cr_pool_alloc(h->f->pool, 64, 0, &memory));
    atomic_store(&h->block, memory.address);
    while (atomic_load(&h->block) != 0) sched_yield();
  }
  for (int i = 0; i < HAND_OVERS && party == PARTIES - 1; ++i) {
    while ((memory.address = atomic_load(&h->block)) == 0) sched_yield();
    CR_TRY(cr_pool_free(h->f->pool, memory, 0));
    atomic_store(&h->block, 0);
  }
  if (party == PARTIES - 1) atomic_fetch_add(&h->met, 1);
  return CREMA_OK;
}

/* Whoever looks while one thread takes a block and another frees it sees it once or not at all. */
TEST(s1_26_counts_hold_at_any_moment) {
  pool_fixture f = begin(CR_POOL_NONE);
  hand_over h = {.f = &f};
  cr_thread *thread[PARTIES] = {0};
  size_t most = 0;
  for (int i = 0; i < PARTIES; ++i) {
    ok(cr_thread_start(&thread[i], "party", hand_blocks_over, &h));
    while (atomic_load(&h.met) <= i) sched_yield();
  }
  while (atomic_load(&h.met) <= PARTIES) {
    size_t live = cr_pool_describe(f.pool).live_blocks;
    if (live > most) most = live;
  }
  for (int i = 0; i < PARTIES; ++i) ok(cr_thread_join(&thread[i]));
  assert_in_range(most, 0, 1);
  end(&f);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
