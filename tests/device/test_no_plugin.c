/* Asking for a CUDA device where the plug-in cannot be opened: no devices, one clear sentence, and
 * the same answer every time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/fail.h"
#include "crema/device.h"
#include "device/copy.h"

static void the_reason_is_told_every_time(void **state) {
  (void)state;
  crema_device *device = NULL;
  assert_int_equal(setenv("CREMA_CUDA_PLUGIN", "no-such-folder/libcrema-cuda.so", 1), 0);
  for (int i = 0; i < 2; ++i) {
    cr_fail_text(CREMA_E_INTERNAL, "");
    assert_int_equal(crema_device_count(CREMA_DEVICE_CUDA), 0);
    assert_non_null(strstr(crema_error_text(), "no CUDA devices"));
    assert_int_equal(crema_device_get(CREMA_DEVICE_CUDA, 0, &device), CREMA_E_NO_DEVICE);
    assert_non_null(strstr(crema_error_text(), "no-such-folder/libcrema-cuda.so"));
    assert_null(device);
  }
}

/* Looking for the owner of an address asks the back ends that are there, and opens none. */
static void host_memory_has_no_cuda_owner(void **state) {
  (void)state;
  crema_device *device = NULL;
  int here = 0;
  assert_int_equal(cr_device_of_address((uintptr_t)&here, &device), CREMA_OK);
  assert_int_equal(crema_device_get_type(device), CREMA_DEVICE_CPU);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_reason_is_told_every_time),
      cmocka_unit_test(host_memory_has_no_cuda_owner),
  };
  return cmocka_run_group_tests_name("no CUDA plug-in", tests, NULL, NULL);
}
