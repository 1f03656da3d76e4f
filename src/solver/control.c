/* Public functions that read or change a solver besides training. */
#include <math.h>

#include "core/fail.h"
#include "solver/solver.h"

double crema_solver_base_lr(const crema_solver *solver) {
  return solver == NULL ? 0 : solver->schedule.base_lr;
}

crema_status crema_solver_set_base_lr(crema_solver *solver, double rate) {
  CR_REQUIRE(solver);
  if (!isfinite((float)rate)) return cr_fail(CREMA_E_RANGE, "base_lr cannot be %g", rate);
  solver->schedule.base_lr = rate;
  solver->param->base_lr = (float)rate;
  return CREMA_OK;
}

int64_t crema_solver_max_iterations(const crema_solver *solver) {
  return solver == NULL ? 0 : solver->param->max_iter;
}

crema_status crema_solver_set_max_iterations(crema_solver *solver, int64_t iterations) {
  CR_REQUIRE(solver);
  if (iterations < 0 || iterations > INT32_MAX) {
    return cr_fail(CREMA_E_RANGE, "max_iter cannot be %lld", (long long)iterations);
  }
  solver->schedule.max_iter = (int)iterations;
  solver->param->max_iter = (int)iterations;
  return CREMA_OK;
}

double crema_solver_rate(const crema_solver *solver) {
  if (solver == NULL) return 0;
  cr_rate_state state = solver->rate; /* asking does not advance the schedule */
  const double loss = cr_loss_window_mean(&solver->window);
  return cr_rate_at(&solver->schedule, solver->iteration, loss, &state);
}

crema_status crema_solver_text(const crema_solver *solver, char **out) {
  CR_REQUIRE(solver);
  CR_REQUIRE(out);
  cr_buffer text = {0};
  crema_status status = cr_text_print(&solver->param->base, &text);
  if (status == CREMA_OK) status = cr_buffer_append(&text, "", 0);
  if (status == CREMA_OK) *out = cr_buffer_take(&text);
  cr_buffer_free(&text);
  return status;
}

crema_status crema_solver_apply_update(crema_solver *solver) {
  CR_REQUIRE(solver);
  if (cr_solver_partners(solver) > 1) {
    return cr_fail(CREMA_E_UNSUPPORTED, "an update by itself is for training on one device");
  }
  if (solver->iteration == INT32_MAX) {
    return cr_fail(CREMA_E_RANGE, "solver states count up to %d updates", INT32_MAX);
  }
  CR_TRY(cr_net_take_views(solver->net));
  CR_TRY(cr_solver_update(solver));
  return cr_net_show_views(solver->net);
}

crema_status crema_solver_set_calls(crema_solver *solver, crema_solver_call_fn *iteration_start,
                                    crema_solver_call_fn *gradients_ready) {
  CR_REQUIRE(solver);
  solver->options.iteration_start = iteration_start;
  solver->options.gradients_ready = gradients_ready;
  return CREMA_OK;
}

crema_status cr_solver_call(crema_solver *solver, crema_solver_call_fn *call) {
  if (call == NULL) return CREMA_OK;
  CR_TRY(cr_net_show_views(solver->net));
  CR_TRY(call(solver->options.user));
  return cr_net_take_views(solver->net);
}
