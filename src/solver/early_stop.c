/* Early stopping: training ends when an output of a test net has not improved in
 * early_stop_patience tests. A test that a resumed run repeats counts once. */
#include <math.h>
#include <string.h>

#include "core/did_you_mean.h"
#include "core/fail.h"
#include "core/log.h"
#include "solver/detections.h"
#include "solver/fields.h"
#include "solver/solver.h"

/* The output called `name` of one of the test nets. */
static bool find_output(const crema_solver *solver, const char *name, cr_early_stop *out) {
  for (int net = 0; net < solver->test_nets; ++net) {
    for (int i = 0; i < crema_net_output_count(solver->test_net[net]); ++i) {
      if (strcmp(crema_net_output_name(solver->test_net[net], i), name) != 0) continue;
      out->net = net;
      out->output = i;
      return true;
    }
  }
  return false;
}

static crema_status fail_output(const crema_solver *solver, const char *name) {
  const crema_net *net = solver->test_net[0];
  const char *names[64];
  size_t count = 0;
  while (count < 64 && (int)count < crema_net_output_count(net)) {
    names[count] = crema_net_output_name(net, (int)count);
    ++count;
  }
  const char *nearest = cr_did_you_mean(name, names, count);
  return cr_field_fail(CREMA_E_UNKNOWN_NAME, "early_stop_output",
                       "early_stop_output: no test net has an output '%s'%s%s%s", name,
                       nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                       nearest != NULL ? "'?" : "");
}

crema_status cr_early_stop_prepare(crema_solver *solver) {
  const Caffe__SolverParameter *param = solver->param;
  cr_early_stop *stop = &solver->early_stop;
  cr_early_stop_forget(solver);
  if (param->early_stop_patience == 0) return CREMA_OK;
  if (solver->test_nets == 0 || crema_net_output_count(solver->test_net[0]) == 0) {
    return cr_field_fail(CREMA_E_ARGUMENT, "early_stop_patience",
                         "early_stop_patience needs a test net with an output");
  }
  const char *name = param->early_stop_output;
  if (name != NULL && !find_output(solver, name, stop)) return fail_output(solver, name);
  if (name == NULL && !cr_detections_wanted(param)) {
    /* The first output that is no loss, or else the first output. */
    const crema_net *net = solver->test_net[0];
    const int outputs = crema_net_output_count(net);
    int output = 0;
    while (output < outputs && net->output_weight[output] != 0) ++output;
    stop->output = output < outputs ? output : 0;
  }
  if (stop->output > 0 && cr_detections_wanted(param)) {
    return cr_field_fail(CREMA_E_UNSUPPORTED, "early_stop_output",
                         "early_stop_output: for detections, only the first output has a score");
  }
  const bool is_loss = solver->test_net[stop->net]->output_weight[stop->output] != 0;
  stop->lowest =
      param->early_stop_goal == CAFFE__SOLVER_PARAMETER__EARLY_STOP_GOAL__LOWEST ||
      (param->early_stop_goal == CAFFE__SOLVER_PARAMETER__EARLY_STOP_GOAL__AUTO && is_loss);
  return CREMA_OK;
}

void cr_early_stop_forget(crema_solver *solver) {
  cr_early_stop *stop = &solver->early_stop;
  stop->has_best = false;
  stop->tested_iteration = -1;
  stop->tests = 0;
}

void cr_early_stop_see(crema_solver *solver, int net, const double *mean, int64_t count) {
  cr_early_stop *stop = &solver->early_stop;
  const double least = (double)solver->param->early_stop_min_change;
  int64_t at = 0;
  if (solver->param->early_stop_patience == 0 || net != stop->net) return;
  if (solver->iteration == stop->tested_iteration) return;
  for (int i = 0; i < stop->output; ++i) {
    at += crema_blob_count(crema_net_output(solver->test_net[net], i));
  }
  if (at >= count) return;
  const double value = mean[at];
  const double gain = stop->lowest ? stop->best - value : value - stop->best;
  stop->tested_iteration = solver->iteration;
  ++stop->tests;
  if (isnan(value) || (stop->has_best && !(gain > least))) return;
  stop->has_best = true;
  stop->best = value;
  stop->best_iteration = solver->iteration;
  stop->tests = 0;
}

bool cr_early_stop_is_due(const crema_solver *solver) {
  const cr_early_stop *stop = &solver->early_stop;
  const int patience = solver->param->early_stop_patience;
  if (patience == 0 || stop->tests < patience) return false;
  const char *name = crema_net_output_name(solver->test_net[stop->net], stop->output);
  if (!cr_solver_leads(solver)) return true;
  if (!stop->has_best) {
    cr_log_info("Early stopping: %s of test net #%d has not been a number in %d tests", name,
                stop->net, stop->tests);
    return true;
  }
  cr_log_info(
      "Early stopping: %s of test net #%d has not become %s than %g of iteration %lld in %d "
      "tests",
      name, stop->net, stop->lowest ? "lower" : "higher", stop->best,
      (long long)stop->best_iteration, stop->tests);
  return true;
}
