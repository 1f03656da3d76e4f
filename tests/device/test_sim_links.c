/* The links of simulated devices: how long copies between devices take at least, who may make them,
 * and which devices are on one board. */
#include "core/clock.h"
#include "device/copy.h"
#include "device/memory/device_memory.h"
#include "memory/sim_fixture.h"

enum { DEVICES = 4, BYTES = 1 << 20 };

/* 1 MiB takes some 10 ms. */
static const double BANDWIDTH = 1e8, LATENCY = 1e-3;

static crema_device *device[DEVICES];
static crema_context *context[DEVICES];
static crema_devptr memory[DEVICES];

static void begin(const cr_sim_options *options) {
  sim_begin(options);
  for (int i = 0; i < DEVICES; ++i) {
    device[i] = sim_test_device(i);
    context[i] = sim_test_context(device[i]);
    ok(cr_device_alloc(device[i], BYTES, &memory[i]));
    ok(device[i]->backend->zero(context[i], memory[i], BYTES));
    ok(crema_context_finish(context[i]));
  }
}

static void end(void) {
  for (int i = 0; i < DEVICES; ++i) {
    crema_context_destroy(context[i]);
    cr_device_free(device[i], memory[i]);
  }
  sim_end();
}

/* A quarter of the memory, so that copies to one device do not meet. */
static crema_status copy(int by, int to, int from) {
  const size_t part = BYTES / DEVICES, at = (size_t)from * part;
  return device[by]->backend->copy(context[by], CR_COPY_PEER, memory[to].address + at,
                                   memory[from].address + at, part);
}

/* Both directions: a device writes to its peer's memory as it reads it. */
TEST(test_directions) {
  cr_sim_options options = sim_test_options(DEVICES);
  begin(&options);
  ok(copy(0, 0, 1));
  ok(copy(0, 1, 0));
  ok(crema_context_finish(context[0]));
  assert_int_equal(cr_sim_count(CR_SIM_PEER, 0), 2);
  end();
}

TEST(test_out_of_reach) {
  cr_sim_options options = sim_test_options(DEVICES);
  ok(cr_sim_parse("peers=islands:2", &options));
  begin(&options);
  assert_true(crema_device_reaches(device[2], device[3]));
  assert_false(crema_device_reaches(device[1], device[2]));
  ok(copy(2, 3, 2));
  assert_fails(copy(1, 2, 1), CREMA_E_DEVICE, "sim:1 has no access to sim:2");
  assert_fails(copy(1, 1, 2), CREMA_E_DEVICE, "sim:1 has no access to sim:2");
  ok(crema_context_finish(context[2]));
  end();
}

/* The time that copies take, whoever makes them: `by` is the device whose stream it is. */
static double seconds_of(const int (*list)[3], int copies) {
  const double start = cr_clock_seconds();
  for (int i = 0; i < copies; ++i) ok(copy(list[i][0], list[i][1], list[i][2]));
  for (int i = 0; i < DEVICES; ++i) ok(crema_context_finish(context[i]));
  return cr_clock_seconds() - start;
}

TEST(test_time) {
  cr_sim_options options = sim_test_options(DEVICES);
  options.peer_bandwidth = BANDWIDTH;
  options.peer_latency = LATENCY;
  const double one = LATENCY + BYTES / DEVICES / BANDWIDTH;
  begin(&options);
  assert_true(seconds_of((const int[][3]){{0, 1, 0}}, 1) >= one);
  /* Two that arrive at one device, and two that leave one, wait for each other. */
  assert_true(seconds_of((const int[][3]){{1, 0, 1}, {2, 0, 2}}, 2) >= 2 * one);
  assert_true(seconds_of((const int[][3]){{1, 1, 0}, {2, 2, 0}}, 2) >= 2 * one);
  /* Copies to the host use another link. */
  static char host[BYTES];
  ok(cr_copy_to_cpu(context[0], host, memory[0], BYTES));
  ok(crema_context_finish(context[0]));
  end();
}

TEST(test_boards) {
  cr_sim_options options = sim_test_options(DEVICES);
  ok(cr_sim_parse("boards=3", &options));
  begin(&options);
  assert_true(device[0]->backend->same_board(device[0], device[2]));
  assert_false(device[0]->backend->same_board(device[2], device[3]));
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_directions),
                                     cmocka_unit_test(test_out_of_reach),
                                     cmocka_unit_test(test_time), cmocka_unit_test(test_boards)};
  return run_each_of(tests, NULL, NULL);
}
