/* Starts and stops the simulation: adds its devices to the registry and removes them. */
#include "core/fail.h"
#include "core/log.h"
#include "device/backend/current.h"
#include "device/device.h"
#include "device/memory/pool.h"
#include "device/registry.h"
#include "device/sim/sim_world.h"

crema_status cr_sim_start(const cr_sim_options *options) {
  CR_TRY(cr_sim_begin(options));
  cr_registry_clear_count(CREMA_DEVICE_SIM);
  return CREMA_OK;
}

crema_status crema_device_simulate(const char *text) {
  CR_REQUIRE(text);
  CR_TRY(cr_sim_begin_from(text));
  cr_registry_clear_count(CREMA_DEVICE_SIM);
  return CREMA_OK;
}

static cr_sim_leaks count_leaks(void) {
  const sim_world *w = &cr_sim_world;
  cr_sim_leaks leaks = {.host_blocks = w->pinned_count, .streams = w->open_streams};
  for (int i = 0; i < w->options.devices; ++i) {
    const sim_device *d = &w->device[i];
    if (d->device == NULL || d->device->pool == NULL) continue;
    cr_pool_info info = cr_pool_describe(d->device->pool);
    leaks.device_blocks += info.live_blocks;
    leaks.device_bytes += info.live_bytes;
  }
  return leaks;
}

void cr_sim_stop(cr_sim_leaks *leaks) {
  if (!cr_sim_running()) return;
  if (cr_device_current()->backend->type == CREMA_DEVICE_SIM &&
      cr_device_set_current(cr_cpu_device()) != CREMA_OK) {
    cr_log_warning("%s", crema_error_text());
  }
  cr_sim_clear_faults();
  cr_sim_set_unloading(false);
  cr_thread_contexts_release();
  cr_sim_leaks found = count_leaks();
  cr_registry_close(CREMA_DEVICE_SIM);
  found.events = cr_sim_world.events;
  cr_sim_end();
  cr_registry_clear_count(CREMA_DEVICE_SIM);
  if (leaks != NULL) *leaks = found;
}
