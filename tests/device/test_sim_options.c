/* What CREMA_SIM and crema_device_simulate understand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "comma_locale.h"
#include "device/sim/sim.h"

static void check(void) {
  cr_sim_options options = cr_sim_defaults();
  assert_int_equal(cr_sim_parse("devices=3,memory=1.5M,bandwidth=2.5G,latency=0.25", &options),
                   CREMA_OK);
  assert_int_equal(options.devices, 3);
  assert_int_equal(options.memory, 3 << 19);
  assert_true(options.bandwidth == 2.5e9);
  assert_true(options.latency == 0.25);
  assert_int_equal(cr_sim_parse("devices=2,memory=1,5M", &options), CREMA_E_PARSE);
}

static void test_numbers(void **state) {
  (void)state;
  check();
}

static void test_locale(void **state) {
  (void)state;
  if (!comma_locale_begin()) skip();
  check();
  setlocale(LC_ALL, "C");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_locale)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
