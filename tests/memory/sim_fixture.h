/* A simulation for one test: started before it, stopped after it, with everything given back. */
#ifndef CR_TESTS_MEMORY_SIM_FIXTURE_H
#define CR_TESTS_MEMORY_SIM_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device/device.h"
#include "lock_check.h"
#include "simulation.h"

enum { SIM_TEST_MEMORY = 1 << 22 };

static inline cr_sim_options sim_test_options(int devices) {
  cr_sim_options options = cr_sim_defaults();
  options.devices = devices;
  options.memory = SIM_TEST_MEMORY;
  options.check_races = true;
  options.keep_log = true;
  options.poison = true;
  return options;
}

static long sim_locks_before;

/* So that crema starts no thread that keeps OpenMP's threads from spinning: it lives on, with its
 * lock. Before any test, as the first op in the process decides. */
__attribute__((constructor)) static void sim_choose_waiting(void) {
  setenv("OMP_WAIT_POLICY", "passive", 0);
}

static inline void sim_begin(const cr_sim_options *options) {
  sim_locks_before = locks_alive();
  ok(start_simulation(options));
}

/* Begins with devices that have the usual options. */
static inline void sim_begin_devices(int devices) {
  cr_sim_options options = sim_test_options(devices);
  sim_begin(&options);
}

/* One device whose streams run step by step. */
static inline cr_sim_options sim_stepped_options(void) {
  cr_sim_options options = sim_test_options(1);
  options.stepped = true;
  return options;
}

/* Ends the simulation; no race and no leak may have happened. */
static inline void sim_end_with_races(size_t races) {
  char text[256];
  size_t found = cr_sim_races(text, sizeof text);
  if (found != races) print_error("race: %s\n", text);
  assert_int_equal(found, races);
  cr_sim_leaks leaks = {0};
  cr_sim_stop(&leaks);
  assert_int_equal(leaks.device_blocks, 0);
  assert_int_equal(leaks.host_blocks, 0);
  assert_int_equal(leaks.streams, 0);
  assert_int_equal(leaks.events, 0);
  assert_int_equal(locks_alive(), sim_locks_before);
}

static inline void sim_end(void) {
  sim_end_with_races(0);
}

static inline crema_device *sim_test_device(int index) {
  crema_device *device = NULL;
  ok(crema_device_open(CREMA_DEVICE_SIM, &index, 1));
  ok(crema_device_get(CREMA_DEVICE_SIM, index, &device));
  return device;
}

static inline crema_context *sim_test_context(crema_device *device) {
  crema_context *context = NULL;
  ok(crema_context_create(device, 1, &context));
  return context;
}

#endif
