/* A pool on a simulated device of 64 MiB, for one test. */
#ifndef CR_TESTS_DEVICE_POOL_FIXTURE_H
#define CR_TESTS_DEVICE_POOL_FIXTURE_H

#include "device/memory/pool.h"
#include "memory/sim_fixture.h"

typedef struct pool_fixture {
  crema_device *device;
  crema_context *context;
  cr_pool *pool;
} pool_fixture;

static inline pool_fixture begin_slow(cr_pool_options options, bool stepped, double latency) {
  pool_fixture f = {0};
  cr_sim_options sim = sim_test_options(2);
  sim.memory = (size_t)64 << 20;
  sim.stepped = stepped;
  sim.latency = latency;
  sim.poison = false;
  sim_begin(&sim);
  f.device = sim_test_device(0);
  f.context = sim_test_context(f.device);
  ok(cr_pool_create(f.device, &options, &f.pool));
  cr_sim_reset_counts();
  return f;
}

static inline pool_fixture begin_pool(cr_pool_options options, bool stepped) {
  return begin_slow(options, stepped, 0);
}

static inline pool_fixture begin(cr_pool_mode mode) {
  return begin_pool(cr_pool_options_for(mode), false);
}

static inline void end_with_races(pool_fixture *f, size_t races) {
  cr_pool_destroy(f->pool);
  crema_context_destroy(f->context);
  sim_end_with_races(races);
}

static inline void end(pool_fixture *f) {
  end_with_races(f, 0);
}

static inline crema_devptr take(pool_fixture *f, size_t bytes, uint64_t user) {
  crema_devptr memory = {0};
  ok(cr_pool_alloc(f->pool, bytes, user, &memory));
  return memory;
}

static inline void give(pool_fixture *f, crema_devptr memory, uint64_t user) {
  ok(cr_pool_free(f->pool, memory, user));
}

#endif
