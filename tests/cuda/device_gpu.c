/* The GPU rows where they belong: the first GPU. */
#include "device/registry.h"
#include "device_under_test.h"

crema_context *test_device_context(void) {
  static crema_context *context;
  crema_device *device = NULL;
  if (context == NULL && crema_device_get(cr_registry_gpu_type(), 0, &device) == CREMA_OK &&
      crema_context_create(device, 1, &context) != CREMA_OK) {
    context = NULL;
  }
  return context;
}

crema_status test_device_finish(crema_context *context) {
  return crema_context_finish(context);
}
