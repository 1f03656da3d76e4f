/* Running the test nets. */
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "solver/solver.h"

/* Carries out what the caller asks for in the middle of a test. */
static crema_status obey(crema_solver *solver) {
  if (solver->options.poll == NULL) return CREMA_OK;
  for (;;) {
    switch (solver->options.poll(solver->options.user)) {
      case CREMA_SOLVER_CONTINUE: return CREMA_OK;
      case CREMA_SOLVER_STOP: solver->stop_requested = true; return CREMA_OK;
      case CREMA_SOLVER_SNAPSHOT:
        /* The snapshot on the disk is the same or better: since it was written, the last forward
         * pass of the training run has changed the statistics of normalizing layers. */
        if (solver->snapshot_iteration == solver->iteration) {
          cr_log_info("The snapshot of iteration %lld is written", (long long)solver->iteration);
        } else {
          CR_TRY(cr_snapshot_try(solver));
        }
        break;
    }
  }
}

static int64_t count_outputs(crema_net *net) {
  int64_t count = 0;
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    count += crema_blob_count(crema_net_output(net, i));
  }
  return count;
}

/* Adds the outputs' values to sum[0..count-1]. */
static crema_status add_outputs(crema_net *net, double *sum, int64_t count) {
  int64_t at = 0;
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    crema_blob *blob = crema_net_output(net, i);
    const float *value;
    CR_TRY(crema_blob_cpu_data(blob, &value));
    for (int64_t k = 0; k < crema_blob_count(blob) && at < count; ++k)
      sum[at++] += (double)value[k];
  }
  return CREMA_OK;
}

static void report(crema_net *net, const double *sum, int64_t count, int batches) {
  int64_t at = 0;
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    double weight = (double)net->output_weight[i];
    int64_t values = crema_blob_count(crema_net_output(net, i));
    for (int64_t k = 0; k < values && at < count; ++k, ++at) {
      cr_report_output("Test", (int)at, crema_net_output_name(net, i), sum[at] / batches, weight);
    }
  }
}

static void keep_score(crema_solver *solver, const double *sum, int64_t count, int batches) {
  crema_net *net = solver->test_net[0];
  int64_t at = 0, chosen = 0;
  for (int i = 0; i < crema_net_output_count(net) && at < count; ++i) {
    if (net->output_weight[i] == 0 && crema_blob_count(crema_net_output(net, i)) > 0) {
      chosen = at;
      break;
    }
    at += crema_blob_count(crema_net_output(net, i));
  }
  solver->has_score = chosen < count;
  if (solver->has_score) solver->score = sum[chosen] / batches;
}

static crema_status test_one(crema_solver *solver, int index) {
  crema_net *net = solver->test_net[index];
  const int batches = solver->param->test_iter[index];
  double *sum = NULL, loss = 0;
  int64_t count = 0;
  crema_status status = CREMA_OK;
  cr_log_info("Iteration %lld, Testing net (#%d)", (long long)solver->iteration, index);
  for (int i = 0; i < batches; ++i) {
    CR_TRY_GOTO(obey(solver), out);
    if (solver->stop_requested) {
      cr_log_info("Test interrupted.");
      goto out;
    }
    double batch_loss;
    CR_TRY_GOTO(crema_net_forward(net, &batch_loss), out);
    loss += batch_loss;
    if (sum == NULL) {
      count = count_outputs(net);
      sum = calloc((size_t)count + 1, sizeof *sum);
      if (sum == NULL) {
        status = cr_fail_memory((size_t)count * sizeof *sum, "test scores");
        goto out;
      }
    }
    CR_TRY_GOTO(add_outputs(net, sum, count), out);
  }
  if (solver->param->test_compute_loss) cr_log_info("Test loss: %g", loss / batches);
  report(net, sum, count, batches);
  if (index == 0) keep_score(solver, sum, count, batches);
out:
  free(sum);
  if (status == CREMA_OK) return CREMA_OK;
  return cr_fail_in(status, "iteration %lld, test net #%d", (long long)solver->iteration, index);
}

/* Snapshots during the test phase of an iteration are written as of its start, so a run that was
 * stopped in the middle of it repeats the whole phase. */
crema_status cr_solver_test_all(crema_solver *solver) {
  const bool held = solver->held != NULL;
  solver->has_score = false;
  CR_TRY(cr_state_hold(solver));
  for (int i = 0; i < solver->test_nets && !solver->stop_requested; ++i) {
    CR_TRY(test_one(solver, i));
  }
  if (!held && !solver->stop_requested) cr_state_release(solver);
  return CREMA_OK;
}
