/* Linked into every test program: tells the table of conformance which tests ran on simulated
 * devices. Calls of cr_sim_start lead here (the linker's --wrap). */
#include <stdio.h>

#include "device/sim/sim.h"

crema_status __real_cr_sim_start(const cr_sim_options *options);
crema_status __wrap_cr_sim_start(const cr_sim_options *options);

crema_status __wrap_cr_sim_start(const cr_sim_options *options) {
  crema_status status = __real_cr_sim_start(options);
  if (status == CREMA_OK) printf("[  DEVICE  ] simulated\n");
  return status;
}
