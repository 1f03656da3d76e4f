/* Solver files: any text is refused with a message or gives a solver that takes a step, or says why
 * it does not. */
#include <string.h>

#include "solver/solver.h"
#include "support/support.h"

/* Test nets ask before each batch: a few are enough. */
static crema_solver_action poll(void *user) {
  int *asked = user;
  return ++*asked > 8 ? CREMA_SOLVER_STOP : CREMA_SOLVER_CONTINUE;
}

static bool is_small(const crema_solver *solver) {
  if (solver->param->iter_size > 4 || !fuzz_net_is_small(solver->net)) return false;
  for (int i = 0; i < solver->test_nets; ++i) {
    if (!fuzz_net_is_small(solver->test_net[i])) return false;
  }
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (fuzz_names_files(data, size)) return 0;
  int asked = 0;
  crema_solver *solver = NULL;
  crema_solver_options options;
  crema_solver_options_init(&options);
  options.poll = poll;
  options.user = &asked;
  crema_status status =
      crema_solver_load(fuzz_file("solver.prototxt", data, size), &options, &solver);
  fuzz_require_text(status);
  if (status == CREMA_OK && is_small(solver)) fuzz_require_text(crema_solver_step(solver, 2));
  crema_solver_destroy(solver);
  return 0;
}
