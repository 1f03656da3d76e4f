/* Running the test nets. */
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "solver/detections.h"
#include "solver/solver.h"

/* Carries out the caller's wish in the middle of a test. */
static crema_status obey(crema_solver *solver) {
  for (;;) {
    crema_solver_action action;
    CR_TRY(cr_solver_ask(solver, &action));
    switch (action) {
      case CREMA_SOLVER_CONTINUE: return CREMA_OK;
      case CREMA_SOLVER_STOP: solver->stop_requested = true; return CREMA_OK;
      case CREMA_SOLVER_SNAPSHOT:
        /* The snapshot on the disk is the same or better: the last forward pass of training changed
         * the statistics of normalizing layers after it. */
        if (solver->snapshot_iteration == solver->iteration) {
          cr_log_info("The snapshot of iteration %lld is written", (long long)solver->iteration);
        } else {
          CR_TRY(cr_snapshot_try(solver));
        }
        break;
    }
  }
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
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    if (net->output_weight[i] == 0 && crema_blob_count(crema_net_output(net, i)) > 0) {
      chosen = at;
      break;
    }
    at += crema_blob_count(crema_net_output(net, i));
  }
  solver->has_score = chosen < count;
  if (solver->has_score) solver->score = sum[chosen] / batches;
}

/* The number of batches that each replica runs in a test. All run each divided batch; other batches
 * are dealt out. All replicas run the same number, as they take turns in the data. */
static int count_batches(const crema_solver *solver, int index) {
  const int batches = solver->param->test_iter[index];
  if (!solver->tests_shared || solver->options.total_batch) return batches;
  return batches / solver->ranks + (batches % solver->ranks != 0);
}

/* The results of one replica. */
typedef struct test_share {
  double *sum; /* of the outputs' values, then of the loss */
  int64_t count;
  cr_detections found; /* with eval_type "detection", instead of the outputs' sums */
} test_share;

typedef struct joint_test {
  crema_solver *solver;
  int index;
  test_share share[CR_MAX_DEVICES];
} joint_test;

static crema_status run_batch(void *user, cr_replica *replica) {
  joint_test *test = user;
  const crema_solver *solver = test->solver;
  const ptrdiff_t number = replica - solver->replica;
  crema_net *net = solver->test_net[number * solver->test_nets + test->index];
  test_share *share = &test->share[number];
  double loss;
  CR_TRY(crema_net_forward(net, &loss));
  const bool detects = cr_detections_wanted(solver->param);
  if (share->sum == NULL) {
    for (int i = 0; !detects && i < crema_net_output_count(net); ++i) {
      share->count += crema_blob_count(crema_net_output(net, i));
    }
    CR_TRY(CR_NEW(share->sum, share->count + 1, "test scores"));
  }
  share->sum[share->count] += loss;
  if (detects) return cr_detections_add(&share->found, net);
  return add_outputs(net, share->sum, share->count);
}

/* Adds the shares of all replicas of all processes to the first. */
static crema_status gather_shares(crema_solver *solver, joint_test *test) {
  test_share *all = &test->share[0];
  for (int i = 1; i < solver->replicas; ++i) {
    const test_share *share = &test->share[i];
    for (int64_t k = 0; k <= all->count; ++k) all->sum[k] += share->sum[k];
    CR_TRY(cr_detections_append(&all->found, &share->found));
  }
  CR_TRY(cr_detections_gather(&all->found, solver->world));
  return cr_world_agree(solver->world, all->sum, (int)all->count + 1, NULL, 0);
}

/* All replicas finish a batch before the next one begins, so none waits for records that come after
 * the records of a stopped replica. */
static crema_status run_test(crema_solver *solver, joint_test *test) {
  const int batches = count_batches(solver, test->index);
  for (int i = 0; i < batches; ++i) {
    CR_TRY(obey(solver));
    if (solver->stop_requested) return CREMA_OK;
    if (solver->tests_shared) CR_TRY(cr_replica_threads_run(solver->team, run_batch, test));
    else CR_TRY(run_batch(test, &solver->replica[0]));
  }
  return solver->tests_shared ? gather_shares(solver, test) : CREMA_OK;
}

static crema_status report_detections(crema_solver *solver, joint_test *test) {
  double score;
  CR_TRY(cr_detections_report(&test->share[0].found, solver->param, solver->test_net[test->index],
                              cr_solver_leads(solver), &score));
  cr_early_stop_see(solver, test->index, &score, 1);
  if (test->index > 0) return CREMA_OK;
  solver->has_score = true;
  solver->score = score;
  return CREMA_OK;
}

static crema_status report_test(crema_solver *solver, joint_test *test) {
  const test_share *all = &test->share[0];
  const int batches =
      count_batches(solver, test->index) * (solver->tests_shared ? cr_solver_partners(solver) : 1);
  if (cr_solver_leads(solver) && solver->param->test_compute_loss) {
    cr_log_info("Test loss: %g", all->sum[all->count] / batches);
  }
  if (cr_detections_wanted(solver->param)) return report_detections(solver, test);
  if (cr_solver_leads(solver)) {
    report(solver->test_net[test->index], all->sum, all->count, batches);
  }
  if (test->index == 0) keep_score(solver, all->sum, all->count, batches);
  for (int64_t i = 0; i < all->count; ++i) all->sum[i] /= batches;
  cr_early_stop_see(solver, test->index, all->sum, all->count);
  return CREMA_OK;
}

static crema_status test_one(crema_solver *solver, int index) {
  joint_test test = {.solver = solver, .index = index};
  if (cr_solver_leads(solver)) {
    cr_log_info("Iteration %lld, Testing net (#%d)", (long long)solver->iteration, index);
  }
  crema_status status = run_test(solver, &test);
  if (status == CREMA_OK) {
    if (solver->stop_requested) cr_log_info("Test interrupted.");
    else status = report_test(solver, &test);
  }
  for (int i = 0; i < solver->replicas; ++i) {
    free(test.share[i].sum);
    cr_detections_free(&test.share[i].found);
  }
  if (status == CREMA_OK) return CREMA_OK;
  return cr_fail_in(status, "iteration %lld, test net #%d", (long long)solver->iteration, index);
}

/* Snapshots during a test phase have the state of its start, so a run that was stopped in the phase
 * repeats all of it. */
crema_status cr_solver_test_all(crema_solver *solver) {
  const bool held = solver->held != NULL;
  CR_TRY(cr_state_hold(solver));
  if (solver->tests_shared) CR_TRY(cr_solver_level_statistics(solver));
  for (int i = 0; i < solver->test_nets && !solver->stop_requested; ++i) {
    CR_TRY(test_one(solver, i));
  }
  if (!held && !solver->stop_requested) cr_state_release(solver);
  return CREMA_OK;
}
