/* What CREMA_SIM and crema_device_simulate understand. */
#include <stdio.h>

#include "check.h"
#include "comma_locale.h"
#include "device/sim/sim.h"

/* The thread's locale is as before. */
static void check(void) {
  locale_t before = uselocale((locale_t)0);
  cr_sim_options options = cr_sim_defaults();
  ok(cr_sim_parse("devices=3,memory=1.5M,bandwidth=2.5G,latency=0.25", &options));
  assert_int_equal(options.devices, 3);
  assert_int_equal(options.memory, 3 << 19);
  assert_true(options.bandwidth == 2.5e9);
  assert_true(options.latency == 0.25);
  assert_int_equal(cr_sim_parse("devices=2,memory=1,5M", &options), CREMA_E_PARSE);
  assert_true(uselocale((locale_t)0) == before);
}

TEST(test_numbers) {
  check();
}

/* Half a device, and times that would never pass. */
TEST(test_absurd) {
  static const char *const absurd[] = {
      "devices=2.5",       "devices=nan",       "memory=1e300G",
      "latency=1e300",     "latency=1e308G",    "latency=4000",
      "bandwidth=1e-300",  "bandwidth=1e308G",  "peer_bandwidth=999",
      "peer_latency=3601", "boards=0",          "boards=1.5",
      "boards=33",         "peers=some",        "peers=islands:",
      "peers=islands:0",   "peers=islands:1.5", "peers="};
  for (size_t i = 0; i < sizeof absurd / sizeof absurd[0]; ++i) {
    cr_sim_options options = cr_sim_defaults();
    assert_int_equal(cr_sim_parse(absurd[i], &options), CREMA_E_PARSE);
    assert_int_equal(options.devices, 1);
    assert_true(options.latency == 0 && options.bandwidth == 0);
    assert_true(options.peer_latency == 0 && options.peer_bandwidth == 0);
    assert_true(options.board[1] == 1 && options.peer[0][CR_SIM_MAX_DEVICES - 1]);
  }
  cr_sim_options options = cr_sim_defaults();
  ok(cr_sim_parse("bandwidth=0,latency=0", &options));
}

/* Links between devices, boards, and who reaches whom. */
TEST(test_peers) {
  cr_sim_options options = cr_sim_defaults();
  ok(cr_sim_parse("devices=8,peer_bandwidth=50G,peer_latency=2e-6,boards=2,peers=islands:4",
                  &options));
  assert_true(options.peer_bandwidth == 50e9 && options.peer_latency == 2e-6);
  assert_true(options.bandwidth == 0 && options.latency == 0);
  for (int a = 0; a < 8; ++a) {
    assert_int_equal(options.board[a], a / 2);
    for (int b = 0; b < 8; ++b) {
      assert_int_equal(options.peer[a][b], a != b && a / 4 == b / 4);
    }
  }
  ok(cr_sim_parse("peers=none", &options));
  assert_false(options.peer[0][1]);
  ok(cr_sim_parse("peers=all", &options));
  assert_true(options.peer[0][CR_SIM_MAX_DEVICES - 1] && !options.peer[3][3]);
}

TEST(test_units) {
  static const struct {
    const char *text;
    double bandwidth, memory;
  } rows[] = {
      {"bandwidth=5000,memory=7", 5e3, 7},
      {"bandwidth=5K,memory=7K", 5e3, 7168},
      {"bandwidth=5M,memory=7M", 5e6, 7340032},
      {"bandwidth=5G,memory=7G", 5e9, 7516192768},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    cr_sim_options options = cr_sim_defaults();
    ok(cr_sim_parse(rows[i].text, &options));
    assert_true(options.bandwidth == rows[i].bandwidth);
    assert_true((double)options.memory == rows[i].memory);
  }
  static const char *const wrong[] = {"memory=7T", "memory=7k", "memory=7MM", "memory=7KB",
                                      "memory=M",  "memory=",   "memory=-1",  "memory"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    cr_sim_options options = cr_sim_defaults();
    assert_int_equal(cr_sim_parse(wrong[i], &options), CREMA_E_PARSE);
    assert_int_equal(options.memory, cr_sim_defaults().memory);
  }
}

/* A bare number is that of the devices. */
TEST(test_counts) {
  static const char *const wrong[] = {"0", "-1", "-4294967295", "17", "4294967297", "devices=0"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    assert_int_equal(cr_sim_begin_from(wrong[i]), CREMA_E_RANGE);
    assert_false(cr_sim_running());
  }
  for (int devices = 1; devices <= CR_MAX_DEVICES; devices += CR_MAX_DEVICES - 1) {
    char text[16];
    snprintf(text, sizeof text, "%d", devices);
    ok(crema_device_simulate(text));
    assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), devices);
    assert_int_equal(crema_device_simulate(text), CREMA_E_STATE);
    cr_sim_stop(NULL);
  }
}

TEST(test_locale) {
  if (!comma_locale_begin()) skip();
  check();
  setlocale(LC_ALL, "C");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_absurd),
                                     cmocka_unit_test(test_peers),   cmocka_unit_test(test_units),
                                     cmocka_unit_test(test_counts),  cmocka_unit_test(test_locale)};
  return run_each_of(tests, NULL, NULL);
}
