/* Starts simulated devices for a test. */
#ifndef CR_TESTS_SIMULATION_H
#define CR_TESTS_SIMULATION_H

#include <stdio.h>

#include "device/sim/sim.h"

/* Tells the table of conformance (scripts/conformance.py) that the running test used them. */
static inline crema_status start_simulation(const cr_sim_options *options) {
  const crema_status status = cr_sim_start(options);
  if (status == CREMA_OK) printf("[  DEVICE  ] simulated\n");
  return status;
}

#endif
