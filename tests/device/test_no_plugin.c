/* Asking for a CUDA device where the plug-in cannot be opened: no devices, one clear sentence, and
 * the same answer every time. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/fail.h"
#include "crema/device.h"
#include "device/copy.h"

TEST(the_reason_is_told_every_time) {
  crema_device *device = NULL;
  assert_int_equal(setenv("CREMA_CUDA_PLUGIN", "no-such-folder/libcrema-cuda.so", 1), 0);
  for (int i = 0; i < 2; ++i) {
    cr_fail_text(CREMA_E_INTERNAL, "");
    assert_int_equal(crema_device_count(CREMA_DEVICE_CUDA), 0);
    assert_error_has("no CUDA devices");
    assert_fails(crema_device_get(CREMA_DEVICE_CUDA, 0, &device), CREMA_E_NO_DEVICE,
                 "no-such-folder/libcrema-cuda.so");
    assert_null(device);
  }
}

/* Looking for the owner of an address asks the back ends that are there, and opens none. */
TEST(host_memory_has_no_cuda_owner) {
  crema_device *device = NULL;
  int here = 0;
  ok(cr_device_of_address((uintptr_t)&here, &device));
  assert_int_equal(crema_device_get_type(device), CREMA_DEVICE_CPU);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
