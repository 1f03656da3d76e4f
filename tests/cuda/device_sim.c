/* The CUDA rows inside a simulated device: their device functions run as C on the streams' threads,
 * on memory that the host cannot reach, and every use of memory that nothing orders is a race. */
#include <stddef.h>

#include "core/fail.h"
#include "device/gpu/rows.h"
#include "device_under_test.h"
#include "simulation.h"

#define ENTRY(name) &cr_##name.kernel,
static const cr_kernel *const rows[] = {CR_GPU_ROWS(ENTRY) NULL};

crema_context *test_device_context(void) {
  static crema_context *context;
  crema_device *device = NULL;
  int index = 0;
  if (context != NULL) return context;
  cr_sim_options options = cr_sim_defaults();
  options.devices = 1;
  options.check_races = options.poison = true;
  options.kernels = rows;
  if (start_simulation(&options) != CREMA_OK ||
      crema_device_open(CREMA_DEVICE_SIM, &index, 1) != CREMA_OK ||
      crema_device_get(CREMA_DEVICE_SIM, 0, &device) != CREMA_OK ||
      crema_context_create(device, 1, &context) != CREMA_OK) {
    return NULL;
  }
  return context;
}

crema_status test_device_finish(crema_context *context) {
  char text[256];
  CR_TRY(crema_context_finish(context));
  CR_TRY(cr_gpu_fault_take(cr_gpu_fault_of(context)));
  if (cr_sim_races(text, sizeof text) == 0) return CREMA_OK;
  return cr_fail(CREMA_E_INTERNAL, "race: %s", text);
}
