/* The lines that log parsers look for. Numbers have six significant digits. */
#include <stdio.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "solver/solver.h"

void cr_report_iteration(crema_solver *solver, double loss) {
  double now = cr_clock_seconds();
  double lapse = now - solver->display_time;
  double speed = (double)(solver->iteration - solver->display_iteration) / (lapse > 0 ? lapse : 1);
  cr_log_info("Iteration %lld (%g iter/s, %gs/%d iters), loss = %g", (long long)solver->iteration,
              speed, lapse, solver->param->display, loss);
  solver->display_time = now;
  solver->display_iteration = solver->iteration;
}

void cr_report_output(const char *kind, int number, const char *name, double value,
                      double loss_weight) {
  char weighted[96] = "";
  if (loss_weight != 0) {
    snprintf(weighted, sizeof weighted, " (* %g = %g loss)", loss_weight, loss_weight * value);
  }
  cr_log_info("    %s net output #%d: %s = %g%s", kind, number, name, value, weighted);
}

crema_status cr_report_train_outputs(crema_solver *solver) {
  if (!cr_log_enabled(CREMA_LOG_INFO)) return CREMA_OK;
  int number = 0;
  for (int i = 0; i < crema_net_output_count(solver->net); ++i) {
    crema_blob *blob = crema_net_output(solver->net, i);
    double weight = (double)solver->net->output_weight[i];
    const float *value;
    CR_TRY(crema_blob_cpu_data(blob, &value));
    for (int64_t k = 0; k < crema_blob_count(blob); ++k) {
      cr_report_output("Train", number++, crema_net_output_name(solver->net, i), (double)value[k],
                       weight);
    }
  }
  return CREMA_OK;
}
