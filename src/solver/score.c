/* Running the test nets. */
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "net/epoch.h"
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

static void keep_score(crema_solver *solver, const cr_net_means *means) {
  crema_net *net = solver->test_net[0];
  int64_t chosen = 0;
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    if (net->output_weight[i] == 0 && means->first[i] < means->first[i + 1]) {
      chosen = means->first[i];
      break;
    }
  }
  solver->has_score = chosen < means->count;
  if (solver->has_score) solver->score = cr_net_means_value(means, chosen);
}

/* The results of one replica. */
typedef struct test_share {
  cr_net_means means;
  cr_detections found; /* with eval_type "detection", besides the loss */
} test_share;

typedef struct joint_test {
  crema_solver *solver;
  int index;
  int64_t batch;      /* the batches before this one */
  cr_net_epoch epoch; /* with test_iter 0: each sample is scored once */
  test_share share[CR_MAX_DEVICES];
} joint_test;

/* The number of batches that each replica runs in a test. All run each divided batch; other batches
 * are dealt out. All replicas run the same number, as they take turns in the data. */
static int count_batches(const crema_solver *solver, const joint_test *test) {
  const int batches = solver->param->test_iter[test->index];
  if (batches == 0) return (int)test->epoch.batches;
  if (!cr_solver_shares_test(solver, test->index) || solver->options.total_batch) return batches;
  return batches / solver->ranks + (batches % solver->ranks != 0);
}

static crema_status run_batch(void *user, cr_replica *replica) {
  joint_test *test = user;
  const crema_solver *solver = test->solver;
  const ptrdiff_t number = replica - solver->replica;
  const bool is_first = number == 0 && cr_solver_leads(solver);
  if (solver->tests_shared && !is_first && !cr_solver_shares_test(solver, test->index)) {
    return CREMA_OK;
  }
  crema_net *net = solver->test_net[number * solver->test_nets + test->index];
  test_share *share = &test->share[number];
  const int64_t samples =
      test->epoch.samples > 0 ? cr_net_epoch_take(&test->epoch, test->batch) : 0;
  double loss;
  if (share->means.sum == NULL) CR_TRY(cr_net_means_begin(net, &share->means));
  cr_net_take_samples(net, samples < test->epoch.batch ? samples : 0);
  CR_TRY(crema_net_forward(net, &loss));
  CR_TRY(cr_net_means_add(net, loss, samples, &share->means));
  return cr_detections_wanted(solver->param) ? cr_detections_add(&share->found, net) : CREMA_OK;
}

/* Adds the shares of all replicas of all processes to the first. A process that has run no batch
 * adds zeros. */
static crema_status gather_shares(crema_solver *solver, joint_test *test) {
  test_share *all = &test->share[0];
  const int shares = cr_solver_shares_test(solver, test->index) ? solver->replicas : 1;
  if (all->means.sum == NULL) {
    CR_TRY(cr_net_means_begin(solver->test_net[test->index], &all->means));
  }
  for (int i = 1; i < shares; ++i) {
    const test_share *share = &test->share[i];
    for (int k = 0; k < cr_net_means_size(&all->means); ++k) {
      all->means.sum[k] += share->means.sum[k];
    }
    CR_TRY(cr_detections_append(&all->found, &share->found));
  }
  CR_TRY(cr_detections_gather(&all->found, solver->world));
  return cr_world_agree(solver->world, all->means.sum, cr_net_means_size(&all->means), NULL, 0);
}

/* All replicas finish a batch before the next one begins, so none waits for records that come after
 * the records of a stopped replica. */
static crema_status run_batches(crema_solver *solver, joint_test *test) {
  const int batches = count_batches(solver, test);
  for (test->batch = 0; test->batch < batches; ++test->batch) {
    CR_TRY(obey(solver));
    if (solver->stop_requested) return CREMA_OK;
    if (solver->tests_shared) CR_TRY(cr_replica_threads_run(solver->team, run_batch, test));
    else CR_TRY(run_batch(test, &solver->replica[0]));
  }
  return solver->tests_shared ? gather_shares(solver, test) : CREMA_OK;
}

/* With test_iter 0, each pass begins where the first one began: its last batch is short. */
static crema_status run_test(crema_solver *solver, joint_test *test) {
  crema_net *net = solver->test_net[test->index];
  cr_buffer start = {0};
  if (solver->param->test_iter[test->index] > 0) return run_batches(solver, test);
  test->epoch = solver->test_epoch[test->index];
  crema_status status = cr_net_save_inputs(net, &start);
  if (status == CREMA_OK) status = run_batches(solver, test);
  cr_net_take_samples(net, 0);
  if (status == CREMA_OK) status = cr_net_restore_inputs(net, &start);
  cr_buffer_free(&start);
  return status;
}

static crema_status report_detections(crema_solver *solver, joint_test *test) {
  double score;
  CR_TRY(cr_detections_report(&test->share[0].found, solver->param, solver->test_net[test->index],
                              cr_solver_leads(solver), &score));
  cr_early_stop_see(solver, test->index, &score, 1);
  if (cr_solver_leads(solver)) cr_report_detected(solver, test->index, score);
  if (test->index > 0) return CREMA_OK;
  solver->has_score = true;
  solver->score = score;
  return CREMA_OK;
}

static crema_status report_test(crema_solver *solver, joint_test *test) {
  const cr_net_means *means = &test->share[0].means;
  if (cr_solver_leads(solver) && solver->param->test_compute_loss) {
    cr_log_info("Test loss: %g", cr_net_means_value(means, means->count));
  }
  if (cr_detections_wanted(solver->param)) return report_detections(solver, test);
  if (cr_solver_leads(solver)) CR_TRY(cr_report_tested(solver, test->index, means));
  if (test->index == 0) keep_score(solver, means);
  for (int64_t k = 0; k < means->count; ++k) means->sum[k] = cr_net_means_value(means, k);
  cr_early_stop_see(solver, test->index, means->sum, means->count);
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
    cr_net_means_free(&test.share[i].means);
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
