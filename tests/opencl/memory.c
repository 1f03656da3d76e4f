/* What crema counts of an OpenCL device's memory, against the buffers that the driver holds, which
 * the loader of faulty_opencl.c counts. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "core/fail.h"
#include "crema/net.h"
#include "crema/solver.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "device/memory/pool.h"
#include "device/memory/scratchpad.h"
#include "device/memory/tracking.h"
#include "faulty_opencl.h"
#include "folder.h"
#include "net/net.h"

enum { SKIPPED = 77, MIB = 1 << 20 };

static crema_device *device;
static crema_context *context;
static faulty_state *loader;

static void expect_driver_bytes(size_t bytes) {
  if (becomes(&loader->device_bytes, bytes)) return;
  assert_int_equal(atomic_load(&loader->device_bytes), bytes);
}

static size_t driver_bytes(void) {
  return atomic_load(&loader->device_bytes);
}

static crema_devptr take(cr_pool *pool, size_t bytes) {
  crema_devptr memory = {0};
  ok(cr_pool_alloc(pool, bytes, 0, &memory));
  return memory;
}

static cr_pool *make_pool(cr_pool_mode mode) {
  const cr_pool_options options = cr_pool_options_for(mode);
  cr_pool *pool = NULL;
  ok(cr_pool_create(device, &options, &pool));
  return pool;
}

/* ---- S1-26 ---- */

static cr_tracking_totals totals_of(const crema_device *of) {
  cr_tracking_totals totals = {0};
  ok(cr_tracking_read(of, &totals));
  return totals;
}

TEST(s1_26_tracking) {
  cr_tracking_totals totals;
  crema_device *second = NULL;
  cr_pool *pool = make_pool(CR_POOL_NONE), *others = NULL;
  ok(crema_device_get(CREMA_DEVICE_OPENCL, 1, &second));
  const cr_pool_options options = cr_pool_options_for(CR_POOL_NONE);
  ok(cr_pool_create(second, &options, &others));
  assert_int_equal(cr_tracking_read(device, &totals), CREMA_E_STATE);
  const crema_devptr before = take(pool, 5000);
  const size_t held = driver_bytes();
  cr_tracking_enable(true);
  const crema_devptr a = take(pool, 1000), b = take(pool, 2000);
  expect_driver_bytes(held + totals_of(device).current);
  ok(cr_pool_free(pool, a, 0));
  assert_int_equal(totals_of(device).current, 2000);
  expect_driver_bytes(held + totals_of(device).current);
  assert_int_equal(totals_of(device).highest, 3000);
  /* Another device has its own totals; together they make the total of all. */
  const crema_devptr c = take(others, 4096);
  assert_int_equal(totals_of(second).current, 4096);
  assert_int_equal(totals_of(NULL).current, 6096);
  ok(cr_pool_free(others, c, 0));
  assert_int_equal(totals_of(second).current, 0);
  assert_int_equal(totals_of(second).highest, 4096);
  /* Blocks from before are not subtracted. */
  ok(cr_pool_free(pool, before, 0));
  ok(cr_pool_free(pool, b, 0));
  assert_int_equal(totals_of(NULL).current, 0);
  assert_int_equal(totals_of(NULL).highest, 6096);
  cr_tracking_enable(false);
  cr_pool_destroy(pool);
  cr_pool_destroy(others);
  expect_driver_bytes(held - 5000);
}

/* ---- the pool: what the driver holds of it ---- */

TEST(s4_16_freed_blocks_stay_with_the_driver) {
  const size_t held = driver_bytes();
  cr_pool *pool = make_pool(CR_POOL_BINS);
  const crema_devptr a = take(pool, 1000), b = take(pool, 5 * MIB);
  expect_driver_bytes(held + 1024 + 5 * MIB);
  ok(cr_pool_free(pool, a, 0));
  ok(cr_pool_free(pool, b, 0));
  /* Of a bin: kept. Larger: freed at once. */
  cr_pool_info info = cr_pool_describe(pool);
  assert_int_equal(info.live_bytes, 0);
  assert_int_equal(info.idle_bytes, 1024);
  assert_int_equal(info.peak_bytes, 1024 + 5 * MIB);
  expect_driver_bytes(held + 1024);
  const size_t made = atomic_load(&loader->made);
  assert_int_equal(take(pool, 900).address, a.address);
  assert_int_equal(atomic_load(&loader->made), made);
  ok(cr_pool_free(pool, a, 0));
  assert_int_equal(cr_pool_trim(pool), 1024);
  expect_driver_bytes(held);
  cr_pool_destroy(pool);
}

TEST(s4_18_idle_blocks_go_before_a_request_fails) {
  enum { BLOCKS = 15 };
  crema_devptr memory[BLOCKS], big = {0};
  cr_pool *pool = make_pool(CR_POOL_BINS);
  const size_t held = driver_bytes();
  atomic_store(&loader->room, held + 64 * MIB);
  for (int i = 0; i < BLOCKS; ++i) memory[i] = take(pool, 4 * MIB);
  assert_fails(cr_pool_alloc(pool, 6 * MIB, 0, &big), CREMA_E_NO_MEMORY, "no memory for a buffer");
  for (int i = 0; i < BLOCKS; ++i) ok(cr_pool_free(pool, memory[i], 0));
  assert_int_equal(cr_pool_describe(pool).idle_blocks, BLOCKS);
  expect_driver_bytes(held + BLOCKS * 4 * MIB);
  const size_t refused = atomic_load(&loader->refused);
  big = take(pool, 50 * MIB);
  assert_int_equal(atomic_load(&loader->refused), refused + 1);
  assert_int_equal(cr_pool_describe(pool).idle_bytes, 0);
  expect_driver_bytes(held + 50 * MIB);
  ok(cr_pool_free(pool, big, 0));
  cr_pool_destroy(pool);
  atomic_store(&loader->room, 0);
  expect_driver_bytes(held);
}

/* ---- S4-31 ---- */

static const char net_text[] =
    "name: 'n' force_backward: true\n"
    "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: 16 } } }\n"
    "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' inner_product_param {"
    " num_output: 16 bias_term: false weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'relu' type: 'ReLU' bottom: 'a' top: 'a' }\n"
    "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' inner_product_param {"
    " num_output: 16 bias_term: false weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'sum' type: 'Reduction' bottom: 'b' top: 'sum' loss_weight: 1 }\n";

static void feed(crema_net *net) {
  float *data = NULL;
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  for (int i = 0; i < 32; ++i) data[i] = (float)(i % 5);
}

static crema_device_memory used(void) {
  crema_device_memory memory = {0};
  ok(crema_device_memory_read(device, &memory));
  return memory;
}

/* The report of a net is the pool's count, and with the idle blocks what the driver holds. */
TEST(s4_31_memory_of_a_net) {
  enum { WEIGHTS = 256 * sizeof(float) };
  double loss = 0;
  crema_net *net = NULL;
  crema_net_options options;
  cr_net_memory found = {0};
  crema_net_options_init(&options);
  options.device = device;
  options.phase = CREMA_TRAIN;
  const crema_device_memory before = used();
  ok(crema_net_parse(net_text, strlen(net_text), "net", &options, &net));
  /* Memory that is the context's own: page-locked, with an alias on the device. */
  const size_t own = driver_bytes() - used().current - used().pooled;
  feed(net);
  ok(crema_net_forward(net, &loss));
  ok(cr_net_memory_read(net, &found));
  assert_int_equal(found.params.data_device, 2 * WEIGHTS);
  assert_int_equal(found.params.diff_device, 0);
  ok(crema_net_backward(net));
  ok(cr_net_memory_read(net, &found));
  assert_int_equal(found.params.diff_device, 2 * WEIGHTS);
  const crema_device_memory now = used();
  assert_true(now.current > before.current && now.peak >= now.current);
  assert_true(found.tops.data_device > 0 &&
              found.tops.data_device + found.tops.diff_device + 4 * WEIGHTS <= now.current);
  expect_driver_bytes(now.current + now.pooled + own);
  crema_net_destroy(net);
  assert_int_equal(used().current, before.current);
  assert_int_equal(used().peak, now.peak);
}

/* ---- a training ---- */

static crema_status feed_step(void *user, crema_net *net, int64_t pass) {
  (void)user;
  (void)pass;
  feed(net);
  return CREMA_OK;
}

/* A training gives everything back: device memory to the pool, which keeps it for the next one, and
 * page-locked memory to the driver. */
TEST(s1_26_a_training_gives_everything_back) {
  char text[2048];
  snprintf(text, sizeof text,
           "base_lr: 0.01 lr_policy: 'fixed' momentum: 0.9 max_iter: 20 "
           "snapshot_after_train: false net_param { %s }",
           net_text);
  write_text("solver.prototxt", text);
  const crema_device_memory before = used();
  const size_t host = atomic_load(&loader->host_buffers);
  const size_t own = driver_bytes() - before.current - before.pooled;
  cr_tracking_enable(true);
  for (int run = 0; run < 3; ++run) {
    crema_solver *solver = NULL;
    crema_solver_options options;
    crema_solver_options_init(&options);
    options.device = device;
    options.feed = feed_step;
    ok(crema_solver_load(path_of("solver.prototxt"), &options, &solver));
    ok(crema_solver_step(solver, 10));
    const size_t current = totals_of(device).current;
    assert_int_equal(current, used().current - before.current);
    assert_true(current > 0);
    crema_solver_destroy(solver);
    assert_int_equal(used().current, before.current);
    assert_int_equal(totals_of(device).current, 0);
    assert_true(used().pooled > before.pooled && totals_of(device).highest >= current);
    assert_true(becomes(&loader->host_buffers, host));
    expect_driver_bytes(used().current + used().pooled + own);
  }
  cr_tracking_enable(false);
  assert_int_equal(unlink(path_of("solver.prototxt")), 0);
}

int main(void) {
  if (crema_device_get(CREMA_DEVICE_OPENCL, 0, &device) != CREMA_OK ||
      crema_context_create(device, 1, &context) != CREMA_OK) {
    printf("skipped: %s\n", crema_error_text());
    return SKIPPED;
  }
  loader = find_faulty_state(CREMA_FAULTY_OPENCL);
  if (loader == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const int failed = run_all_tests(make_folder, remove_folder);
  crema_context_destroy(context);
  return failed;
}
