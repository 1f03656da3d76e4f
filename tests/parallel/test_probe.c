/* Measuring links: no link is found faster than it is, nothing is left behind, failures come out. A
 * busy machine may make any link look slower. */
#include "memory/sim_fixture.h"
#include "parallel/probe.h"

static void start(int devices, double bandwidth, double latency) {
  cr_sim_options options = sim_test_options(devices);
  options.memory = (size_t)64 << 20;
  options.peer_bandwidth = bandwidth;
  options.peer_latency = latency;
  sim_begin(&options);
}

TEST(test_link) {
  start(2, 1e9, 2e-3);
  const cr_probe_way way = {sim_test_device(0), sim_test_device(1)};
  cr_speed found = {0};
  ok(cr_probe_links(&way, 1, &found));
  assert_true(found.latency > 1e-3);
  assert_true(found.bandwidth > 0 && found.bandwidth < 2e9);
  sim_end();
}

/* Two ways into one device share its link: each seems half as fast. */
TEST(test_shared_link) {
  start(3, 1e9, 0);
  const cr_probe_way way[] = {{sim_test_device(0), sim_test_device(2)},
                              {sim_test_device(1), sim_test_device(2)}};
  cr_speed found = {0};
  ok(cr_probe_links(way, 2, &found));
  assert_true(found.bandwidth > 0 && found.bandwidth < 0.8e9);
  sim_end();
}

/* Without reach bytes go by way of the host, whose link has another speed. */
TEST(test_by_host) {
  cr_sim_options options = sim_test_options(2);
  options.memory = (size_t)64 << 20;
  options.peer[0][1] = options.peer[1][0] = false;
  options.bandwidth = 0.5e9;
  sim_begin(&options);
  const cr_probe_way way = {sim_test_device(0), sim_test_device(1)};
  cr_speed found = {0};
  ok(cr_probe_links(&way, 1, &found));
  assert_true(found.bandwidth > 0 && found.bandwidth < 1e9);
  sim_end();
}

TEST(test_link_failure) {
  static const cr_sim_op kind[] = {CR_SIM_ALLOC, CR_SIM_PEER, CR_SIM_STREAM_OPEN};
  for (size_t i = 0; i < sizeof kind / sizeof kind[0]; ++i) {
    start(2, 0, 0);
    const cr_probe_way way = {sim_test_device(0), sim_test_device(1)};
    cr_speed found = {0};
    cr_sim_fail(kind[i], 2, CREMA_E_DEVICE, false);
    assert_int_not_equal(cr_probe_links(&way, 1, &found), CREMA_OK);
    cr_sim_clear_faults();
    sim_end();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_link),
      cmocka_unit_test(test_shared_link),
      cmocka_unit_test(test_by_host),
      cmocka_unit_test(test_link_failure),
  };
  return run_each_of(tests, NULL, NULL);
}
