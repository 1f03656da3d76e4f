/* Data layers of nets on a (simulated) device: batches are copied ahead, on a stream of their own,
 * and arrive on both sides. */
#include "device/memory/host_memory.h"
#include "layers/common/input_class.h"
#include "memory/sim_fixture.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/rng.h"
#include "data/pipeline/pipeline.h"
#include "fixture.h"
#include "net/net.h"

enum { BATCH = 4, ITEM = 4 * 5, DATA_BYTES = BATCH * ITEM * 4, LABEL_BYTES = BATCH * 4 };

/* The labels and the sums of pixels show which batch a kernel worked on. */
static crema_status make_net(crema_device *device, const char *db, const char *rest,
                             crema_net **out) {
  char text[1024];
  int size = snprintf(text, sizeof text,
                      "layer { name: 'in' type: 'Data' top: 'data' top: 'label' data_param { "
                      "source: '%s' backend: LMDB batch_size: %d %s } } "
                      "layer { name: 'twice' type: 'Power' bottom: 'data' top: 'twice' "
                      "power_param { scale: 2 } } "
                      "layer { name: 'label2' type: 'Power' bottom: 'label' top: 'label2' "
                      "power_param { scale: 2 } }",
                      db, BATCH, rest);
  crema_net_options options;
  crema_net_options_init(&options);
  options.phase = CREMA_TRAIN;
  options.seed = 1;
  options.device = device;
  return crema_net_parse(text, (size_t)size, "test", &options, out);
}

static void forward(crema_net *net) {
  if (crema_net_forward(net, NULL) != CREMA_OK) fail_msg("%s", crema_error_text());
}

static const float *values(crema_net *net, const char *name) {
  crema_blob *blob = NULL;
  const float *data = NULL;
  assert_int_equal(crema_net_blob(net, name, &blob), CREMA_OK);
  assert_int_equal(crema_blob_cpu_data(blob, &data), CREMA_OK);
  return data;
}

static void expect_batch(crema_net *net, int k, int records) {
  const float *twice = values(net, "twice"), *label = values(net, "label2");
  for (int i = 0; i < BATCH; ++i) {
    int record = (k * BATCH + i) % records;
    assert_true(label[i] == (float)(2 * record));
    for (int v = 0; v < ITEM; ++v) assert_true(twice[i * ITEM + v] == (float)(2 * (record % 251)));
  }
}

static void begin(cr_sim_options options, crema_device **device) {
  sim_begin(&options);
  *device = sim_test_device(0);
}

/* ---- S2-19 --------------------------------------------------------------- */

/* Memory on both sides is there before the first pass; after it nothing is made any more. */
static void s2_19_nothing_is_allocated_after_the_start(void **state) {
  fixture f;
  crema_device *device = NULL;
  crema_net *net = NULL;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 10, fixture_gray);
  begin(sim_test_options(1), &device);
  uint64_t before = cr_sim_count(CR_SIM_ALLOC, 0), host = cr_sim_count(CR_SIM_HOST_ALLOC, 0);
  assert_int_equal(make_net(device, db, "prefetch: 3", &net), CREMA_OK);
  assert_int_equal(cr_sim_count(CR_SIM_HOST_ALLOC, 0) - host, 3 * 2);
  assert_true(cr_sim_count(CR_SIM_ALLOC, 0) - before >= 2);
  forward(net);
  expect_batch(net, 0, 10);
  uint64_t allocs = cr_sim_count(CR_SIM_ALLOC, 0), hosts = cr_sim_count(CR_SIM_HOST_ALLOC, 0);
  uint64_t frees = cr_sim_count(CR_SIM_FREE, 0), streams = cr_sim_count(CR_SIM_STREAM_OPEN, 0);
  for (int k = 1; k < 40; ++k) {
    forward(net);
    expect_batch(net, k, 10);
  }
  assert_int_equal(cr_sim_count(CR_SIM_ALLOC, 0), allocs);
  assert_int_equal(cr_sim_count(CR_SIM_HOST_ALLOC, 0), hosts);
  assert_int_equal(cr_sim_count(CR_SIM_FREE, 0), frees);
  assert_int_equal(cr_sim_count(CR_SIM_STREAM_OPEN, 0), streams);
  crema_net_destroy(net);
  sim_end();
  fixture_remove(&f);
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
static void s2_19_on_the_host_as_well(void **state) {
  static const crema_host_allocator counting = {counting_alloc, counting_free, NULL};
  fixture f;
  crema_net *net = NULL;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 10, fixture_gray);
  cr_host_set_allocator(&counting);
  int before = atomic_load(&host_blocks);
  assert_int_equal(make_net(cr_cpu_device(), db, "prefetch: 3", &net), CREMA_OK);
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
  fixture_remove(&f);
}

/* ---- S2-20 --------------------------------------------------------------- */

/* The stream that copied a whole batch's data; all of them by the same one. */
static uint64_t push_stream(const cr_sim_record *log, size_t count) {
  uint64_t stream = 0;
  for (size_t i = 0; i < count; ++i) {
    if (log[i].op != CR_SIM_H2D || log[i].bytes != DATA_BYTES) continue;
    if (stream == 0) stream = log[i].stream;
    assert_int_equal(log[i].stream, stream);
  }
  assert_true(stream != 0);
  return stream;
}

/* Data, label, wait, again and again on one stream, on which no kernel runs; kernels read a batch's
 * memory after its copy was waited for. */
static void s2_20_copy_then_wait_then_hand_over(void **state) {
  enum { PASSES = 12 };
  const cr_sim_record *log = NULL;
  fixture f;
  crema_device *device = NULL;
  crema_net *net = NULL;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 10, fixture_gray);
  begin(sim_test_options(1), &device);
  assert_int_equal(make_net(device, db, "prefetch: 3", &net), CREMA_OK);
  for (int k = 0; k < PASSES; ++k) {
    forward(net);
    expect_batch(net, k, 10);
  }
  crema_net_destroy(net);
  size_t count = cr_sim_log(&log);
  assert_true(count > 0);
  uint64_t stream = push_stream(log, count);
  int copies = 0, step = 0; /* 0: data is next, 1: label, 2: waiting */
  for (size_t i = 0; i < count; ++i) {
    if (log[i].stream != stream) {
      /* No other stream copies batches. */
      assert_false(log[i].op == CR_SIM_H2D &&
                   (log[i].bytes == DATA_BYTES || log[i].bytes == LABEL_BYTES));
      continue;
    }
    assert_true(log[i].op != CR_SIM_KERNEL && log[i].op != CR_SIM_D2H);
    if (log[i].op == CR_SIM_H2D) {
      assert_int_equal(log[i].bytes, step == 0 ? DATA_BYTES : LABEL_BYTES);
      assert_true(step < 2);
      copies += step++ == 0;
    } else if (log[i].op == CR_SIM_FINISH && step == 2) {
      step = 0;
    }
  }
  assert_in_range(copies, PASSES, PASSES + 3);
  sim_end();
  fixture_remove(&f);
}

/* Both sides hold a batch when it arrives: reading either costs no copy. */
static void s2_20_batches_arrive_synced(void **state) {
  fixture f;
  crema_device *device = NULL;
  crema_net *net = NULL;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 10, fixture_gray);
  begin(sim_test_options(1), &device);
  assert_int_equal(make_net(device, db, "prefetch: 2", &net), CREMA_OK);
  for (int k = 0; k < 8; ++k) {
    crema_blob *data = NULL;
    crema_devptr on_device = {0};
    forward(net);
    uint64_t back = cr_sim_count(CR_SIM_D2H, 0);
    assert_int_equal(crema_net_blob(net, "data", &data), CREMA_OK);
    for (int i = 0; i < BATCH; ++i) {
      assert_true(values(net, "data")[i * ITEM] == (float)((k * BATCH + i) % 10));
      assert_true(values(net, "label")[i] == (float)((k * BATCH + i) % 10));
    }
    assert_int_equal(cr_sim_count(CR_SIM_D2H, 0), back);
    /* Batches to come may be copied at any time, but this one is there already. */
    const cr_format plain = {CREMA_F32, NULL};
    assert_int_equal(cr_tensor_read(data->data, net->context, plain, &on_device), CREMA_OK);
    assert_ptr_equal(cr_tensor_head_device(data->data), device);
    expect_batch(net, k, 10);
  }
  crema_net_destroy(net);
  sim_end();
  fixture_remove(&f);
}

/* A batch's device memory is not overwritten before the kernels that were queued on it are done:
 * the checker of the simulation sees every other order. */
static void s2_20_memory_is_not_reused_too_early(void **state) {
  fixture f;
  crema_device *device = NULL;
  crema_net *net = NULL;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 10, fixture_gray);
  for (int depth = 1; depth <= 3; ++depth) {
    char rest[32];
    cr_sim_options options = sim_test_options(1);
    options.keep_log = false;
    begin(options, &device);
    snprintf(rest, sizeof rest, "prefetch: %d", depth);
    assert_int_equal(make_net(device, db, rest, &net), CREMA_OK);
    /* The host runs ahead of the device for most of the time. */
    for (int k = 0; k < 200; ++k) {
      forward(net);
      if (k % 7 == 0) expect_batch(net, k, 10);
    }
    crema_net_destroy(net);
    sim_end();
  }
  fixture_remove(&f);
}

/* Nets that end while batches are read, copied, waited for: nothing is left behind. */
static void s2_20_stops_in_the_middle(void **state) {
  fixture f;
  crema_device *device = NULL;
  cr_mt19937 rng;
  (void)state;
  fixture_make(&f);
  cr_mt19937_seed(&rng, 3);
  const char *db = fixture_db(&f, "db", 10, fixture_gray);
  cr_sim_options options = sim_test_options(1);
  options.keep_log = false;
  options.latency = 1e-5;
  begin(options, &device);
  int cycles = fixture_cycles(200);
  for (int i = 0; i < cycles; ++i) {
    crema_net *net = NULL;
    assert_int_equal(make_net(device, db, i % 2 == 0 ? "prefetch: 2" : "", &net), CREMA_OK);
    uint32_t passes = cr_mt19937_below(&rng, 4);
    for (uint32_t k = 0; k < passes; ++k) forward(net);
    if (cr_mt19937_below(&rng, 3) == 0) cr_clock_sleep(2e-5);
    crema_net_destroy(net);
  }
  sim_end();
  fixture_remove(&f);
}

/* A device that fails while copying is told with the layer's name; no hang. */
static void s2_20_a_failing_copy_is_told(void **state) {
  fixture f;
  crema_device *device = NULL;
  crema_net *net = NULL;
  crema_status status = CREMA_OK;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 10, fixture_gray);
  begin(sim_test_options(1), &device);
  /* Not enough memory on the device. */
  cr_sim_set_foreign_bytes(0, SIM_TEST_MEMORY - 64);
  assert_int_equal(make_net(device, db, "prefetch: 2", &net), CREMA_E_NO_MEMORY);
  assert_non_null(strstr(crema_error_text(), "layer 'in' (Data)"));
  assert_null(net);
  cr_sim_set_foreign_bytes(0, 0);
  cr_sim_fail(CR_SIM_H2D, 9, CREMA_E_DEVICE, false);
  assert_int_equal(make_net(device, db, "prefetch: 2", &net), CREMA_OK);
  int passes = 0;
  while (status == CREMA_OK && passes < 20) {
    status = crema_net_forward(net, NULL);
    passes += status == CREMA_OK;
  }
  assert_int_equal(status, CREMA_E_DEVICE);
  assert_int_equal(passes, 4);
  assert_non_null(strstr(crema_error_text(), "layer 'in' (Data)"));
  assert_int_equal(crema_net_forward(net, NULL), CREMA_E_DEVICE);
  crema_net_destroy(net);
  cr_sim_clear_faults();
  sim_end();
  fixture_remove(&f);
}

/* ---- S2-30 --------------------------------------------------------------- */

/* While the work on a batch is queued and has not even begun, the next one is copied. Streams run
 * step by step here, so that no clock is needed to see it. */
static void s2_30_the_next_batch_is_copied_during_work(void **state) {
  fixture f;
  crema_device *device = NULL;
  crema_net *net = NULL;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 10, fixture_gray);
  cr_sim_options options = sim_test_options(1);
  options.stepped = true;
  begin(options, &device);
  assert_int_equal(make_net(device, db, "prefetch: 3", &net), CREMA_OK);
  int overlaps = 0;
  for (int k = 0; k < 10; ++k) {
    forward(net);
    size_t pending = cr_sim_pending(net->context);
    /* Data and label of the batches up to the next one. */
    double start = cr_clock_seconds();
    while (cr_sim_count(CR_SIM_H2D, 0) < 2 * ((uint64_t)k + 2) && cr_clock_seconds() < start + 10) {
      cr_clock_sleep(1e-5);
    }
    assert_true(cr_sim_count(CR_SIM_H2D, 0) >= 2 * ((uint64_t)k + 2));
    overlaps += pending > 0 && cr_sim_pending(net->context) == pending;
    expect_batch(net, k, 10);
  }
  assert_int_equal(overlaps, 10);
  crema_net_destroy(net);
  sim_end();
  fixture_remove(&f);
}

/* ---- S2-28, automatic numbers -------------------------------------------- */

static void s2_28_depth_follows_free_memory(void **state) {
  (void)state;
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
static void s2_28_depth_follows_the_device(void **state) {
  static const char *const rest[] = {"", "prefetch: 0", "prefetch: 6", ""};
  static const int depth[] = {4, 4, 6, 2};
  fixture f;
  crema_device *device = NULL;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 10, fixture_gray);
  for (int i = 0; i < 4; ++i) {
    crema_net *net = NULL;
    cr_input_stats stats;
    cr_sim_options options = sim_test_options(1);
    begin(options, &device);
    /* Room for about ten batches, a quarter of which may be used. */
    if (i == 3) cr_sim_set_foreign_bytes(0, SIM_TEST_MEMORY - 10 * DATA_BYTES);
    crema_status status = make_net(device, db, rest[i], &net);
    if (status != CREMA_OK) fail_msg("%s", crema_error_text());
    forward(net);
    expect_batch(net, 0, 10);
    cr_layer *layer = net->layer[0].layer;
    layer->class->input->stats(layer, &stats);
    assert_int_equal(stats.pipeline.depth, depth[i]);
    crema_net_destroy(net);
    cr_sim_set_foreign_bytes(0, 0);
    sim_end();
  }
  fixture_remove(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(s2_19_nothing_is_allocated_after_the_start),
      cmocka_unit_test(s2_19_on_the_host_as_well),
      cmocka_unit_test(s2_20_copy_then_wait_then_hand_over),
      cmocka_unit_test(s2_20_batches_arrive_synced),
      cmocka_unit_test(s2_20_memory_is_not_reused_too_early),
      cmocka_unit_test(s2_20_stops_in_the_middle),
      cmocka_unit_test(s2_20_a_failing_copy_is_told),
      cmocka_unit_test(s2_30_the_next_batch_is_copied_during_work),
      cmocka_unit_test(s2_28_depth_follows_free_memory),
      cmocka_unit_test(s2_28_depth_follows_the_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
