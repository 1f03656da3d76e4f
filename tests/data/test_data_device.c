/* Data layers of nets on a (simulated) device: batches are copied ahead, on a stream of their own,
 * and arrive on both sides. */
#include <stdatomic.h>
#include <stdlib.h>

#include "data/pipeline/pipeline.h"
#include "device/memory/host_memory.h"
#include "device_input.h"
#include "fixture.h"

enum { BATCH = 4, ITEM = 4 * 5, DATA_BYTES = BATCH * ITEM * 4, LABEL_BYTES = BATCH * 4 };

static crema_status make_net(crema_device *device, const char *db, const char *rest,
                             crema_net **out) {
  const crema_net_options options = net_options(CREMA_TRAIN, 1, device);
  return parse_net(&options, NULL, out,
                   "layer { name: 'in' type: 'Data' top: 'data' top: 'label' data_param { "
                   "source: '%s' backend: LMDB batch_size: %d %s } } " KERNELS,
                   db, BATCH, rest);
}

static void expect_batch(crema_net *net, int k, int records) {
  const float *twice = values(net, "twice"), *label = values(net, "label2");
  for (int i = 0; i < BATCH; ++i) {
    int record = (k * BATCH + i) % records;
    assert_true(label[i] == (float)(2 * record));
    for (int v = 0; v < ITEM; ++v) assert_true(twice[i * ITEM + v] == (float)(2 * (record % 251)));
  }
}

/* ---- S2-19 --------------------------------------------------------------- */

/* Memory on both sides is there before the first pass; after it nothing is made any more. */
FIXTURE_TEST(s2_19_nothing_is_allocated_after_the_start) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", 10, fixture_gray);
  crema_device *device = begin(sim_test_options(1));
  const resources before = count_resources();
  ok(make_net(device, db, "prefetch: 3", &net));
  assert_int_equal(count_resources().host - before.host, 3 * 2);
  assert_true(count_resources().device - before.device >= 2);
  forward(net);
  expect_batch(net, 0, 10);
  const resources made = count_resources();
  for (int k = 1; k < 40; ++k) {
    forward(net);
    expect_batch(net, k, 10);
  }
  expect_no_more_than(&made);
  crema_net_destroy(net);
  sim_end();
}

static atomic_int host_blocks;

static void *counting_alloc(void *user, size_t bytes, size_t alignment) {
  (void)user;
  atomic_fetch_add(&host_blocks, 1);
  return aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
}

static void counting_free(void *user, void *memory) {
  (void)user;
  free(memory);
}

/* The same on the host alone. */
FIXTURE_TEST(s2_19_on_the_host_as_well) {
  static const crema_host_allocator counting = {counting_alloc, counting_free, NULL};
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", 10, fixture_gray);
  cr_host_set_allocator(&counting);
  int before = atomic_load(&host_blocks);
  ok(make_net(cr_cpu_device(), db, "prefetch: 3", &net));
  assert_true(atomic_load(&host_blocks) - before >= 3 * 2);
  forward(net);
  expect_batch(net, 0, 10);
  int made = atomic_load(&host_blocks);
  for (int k = 1; k < 40; ++k) {
    forward(net);
    expect_batch(net, k, 10);
  }
  assert_int_equal(atomic_load(&host_blocks), made);
  crema_net_destroy(net);
  cr_host_set_allocator(NULL);
}

/* ---- S2-20 --------------------------------------------------------------- */

/* Data, label, wait, again and again on one stream, on which no kernel runs; kernels read a batch's
 * memory after its copy was waited for. */
FIXTURE_TEST(s2_20_copy_then_wait_then_hand_over) {
  enum { PASSES = 12 };
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", 10, fixture_gray);
  crema_device *device = begin(sim_test_options(1));
  ok(make_net(device, db, "prefetch: 3", &net));
  for (int k = 0; k < PASSES; ++k) {
    forward(net);
    expect_batch(net, k, 10);
  }
  crema_net_destroy(net);
  expect_copies(DATA_BYTES, LABEL_BYTES, PASSES, PASSES + 3);
  sim_end();
}

/* Both sides hold a batch when it arrives: reading either costs no copy. */
FIXTURE_TEST(s2_20_batches_arrive_synced) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", 10, fixture_gray);
  crema_device *device = begin(sim_test_options(1));
  ok(make_net(device, db, "prefetch: 2", &net));
  for (int k = 0; k < 8; ++k) {
    crema_blob *data = NULL;
    crema_devptr on_device = {0};
    forward(net);
    uint64_t back = cr_sim_count(CR_SIM_D2H, 0);
    ok(crema_net_blob(net, "data", &data));
    for (int i = 0; i < BATCH; ++i) {
      assert_true(values(net, "data")[i * ITEM] == (float)((k * BATCH + i) % 10));
      assert_true(values(net, "label")[i] == (float)((k * BATCH + i) % 10));
    }
    assert_int_equal(cr_sim_count(CR_SIM_D2H, 0), back);
    /* Batches to come may be copied at any time, but this one is there already. */
    const cr_format plain = {CREMA_F32, NULL};
    ok(cr_tensor_read(data->data, net->context, plain, &on_device));
    assert_ptr_equal(cr_tensor_head_device(data->data), device);
    expect_batch(net, k, 10);
  }
  crema_net_destroy(net);
  sim_end();
}

/* A batch's device memory is not overwritten before the kernels that were queued on it are done:
 * the checker of the simulation sees every other order. */
FIXTURE_TEST(s2_20_memory_is_not_reused_too_early) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", 10, fixture_gray);
  for (int depth = 1; depth <= 3; ++depth) {
    char rest[32];
    crema_device *device = begin(without_log());
    snprintf(rest, sizeof rest, "prefetch: %d", depth);
    ok(make_net(device, db, rest, &net));
    /* The host runs ahead of the device for most of the time. */
    for (int k = 0; k < 200; ++k) {
      forward(net);
      if (k % 7 == 0) expect_batch(net, k, 10);
    }
    crema_net_destroy(net);
    sim_end();
  }
}

/* Nets that end while batches are read, copied, waited for: nothing is left behind. */
FIXTURE_TEST(s2_20_stops_in_the_middle) {
  const fixture *f = *state;
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 3);
  const char *db = fixture_db(f, "db", 10, fixture_gray);
  cr_sim_options options = without_log();
  options.latency = 1e-5;
  crema_device *device = begin(options);
  int cycles = fixture_cycles(200);
  for (int i = 0; i < cycles; ++i) {
    crema_net *net = NULL;
    ok(make_net(device, db, i % 2 == 0 ? "prefetch: 2" : "", &net));
    use_and_destroy(net, &rng);
  }
  sim_end();
}

/* A device that fails while copying is told with the layer's name; no hang. */
FIXTURE_TEST(s2_20_a_failing_copy_is_told) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", 10, fixture_gray);
  crema_device *device = begin(sim_test_options(1));
  /* Not enough memory on the device. */
  cr_sim_set_foreign_bytes(0, SIM_TEST_MEMORY - 64);
  assert_fails(make_net(device, db, "prefetch: 2", &net), CREMA_E_NO_MEMORY, "layer 'in' (Data)");
  assert_null(net);
  cr_sim_set_foreign_bytes(0, 0);
  cr_sim_fail(CR_SIM_H2D, 9, CREMA_E_DEVICE, false);
  ok(make_net(device, db, "prefetch: 2", &net));
  expect_failed_copy(net, "layer 'in' (Data)");
}

/* ---- S2-30 --------------------------------------------------------------- */

/* While the work on a batch is queued and has not even begun, the next one is copied. */
FIXTURE_TEST(s2_30_the_next_batch_is_copied_during_work) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", 10, fixture_gray);
  crema_device *device = begin(sim_stepped_options());
  ok(make_net(device, db, "prefetch: 3", &net));
  for (int k = 0; k < 10; ++k) {
    expect_copy_during_work(net, k);
    expect_batch(net, k, 10);
  }
  crema_net_destroy(net);
  sim_end();
}

/* ---- S2-28, automatic numbers -------------------------------------------- */

TEST(s2_28_depth_follows_free_memory) {
  const uint64_t much = (uint64_t)1 << 40, batch = 100 << 20;
  assert_int_equal(cr_pipeline_depth_for(batch, much, UINT64_MAX), CR_PIPELINE_USUAL_DEPTH);
  assert_int_equal(cr_pipeline_depth_for(batch, UINT64_MAX, UINT64_MAX), CR_PIPELINE_USUAL_DEPTH);
  assert_int_equal(cr_pipeline_depth_for(batch, 12 * batch, UINT64_MAX), 3);
  assert_int_equal(cr_pipeline_depth_for(batch, much, 12 * batch), 3);
  assert_int_equal(cr_pipeline_depth_for(batch, much, batch), 2);
  assert_int_equal(cr_pipeline_depth_for(batch, 0, much), 2);
  assert_int_equal(cr_pipeline_depth_for(0, 0, 0), CR_PIPELINE_USUAL_DEPTH);
}

/* Fewer batches are made where the device has little memory, unless the net says how many. */
FIXTURE_TEST(s2_28_depth_follows_the_device) {
  static const char *const rest[] = {"", "prefetch: 0", "prefetch: 6", ""};
  static const int depth[] = {4, 4, 6, 2};
  const fixture *f = *state;
  const char *db = fixture_db(f, "db", 10, fixture_gray);
  for (int i = 0; i < 4; ++i) {
    crema_net *net = NULL;
    crema_device *device = begin(sim_test_options(1));
    /* Room for about ten batches, a quarter of which may be used. */
    if (i == 3) cr_sim_set_foreign_bytes(0, SIM_TEST_MEMORY - 10 * DATA_BYTES);
    ok(make_net(device, db, rest[i], &net));
    forward(net);
    expect_batch(net, 0, 10);
    assert_int_equal(input_stats(net).pipeline.depth, depth[i]);
    crema_net_destroy(net);
    cr_sim_set_foreign_bytes(0, 0);
    sim_end();
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
