/* The training loop. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/signals.h"
#include "solver/solver.h"

crema_status cr_loss_window_init(cr_loss_window *window, int size) {
  if (size < 1) return cr_fail(CREMA_E_RANGE, "average_loss must be at least 1, found %d", size);
  CR_TRY(CR_NEW(window->loss, size, "the losses to average"));
  window->size = size;
  return CREMA_OK;
}

double cr_loss_window_add(cr_loss_window *window, double loss) {
  window->loss[window->next] = loss;
  window->next = (window->next + 1) % window->size;
  if (window->count < window->size) ++window->count;
  double sum = 0;
  for (int i = 0; i < window->count; ++i) sum += window->loss[i];
  return sum / window->count;
}

static crema_status fail_loss(crema_solver *solver, double loss) {
  const char *layer = NULL, *blob = NULL;
  long long iteration = (long long)solver->iteration;
  bool found = false;
  CR_TRY(cr_net_find_nonfinite(solver->net, &found, &layer, &blob));
  if (found) {
    const cr_where where = {.layer = layer, .blob = blob, .told = true};
    return cr_fail_at(CREMA_E_NUMERIC, &where,
                      "iteration %lld: the loss is %g; the first values that are not finite are in "
                      "blob '%s' of layer '%s' (a lower base_lr or clip_gradients may help)",
                      iteration, loss, blob, layer);
  }
  return cr_fail(CREMA_E_NUMERIC, "iteration %lld: the loss is %g", iteration, loss);
}

/* Sums on the device tell cheaply whether there is anything to look for on the host. They are in
 * double precision, which no sum of finite floats exceeds. */
static crema_status fail_weights(crema_solver *solver) {
  const char *layer = NULL, *blob = NULL;
  double sum = 0;
  bool found = false;
  for (int i = 0; i < solver->net->learnables; ++i) {
    double part;
    CR_TRY(cr_blob_asum_data(solver->net->learnable[i], &part));
    sum += part;
  }
  if (isfinite(sum)) return CREMA_OK;
  CR_TRY(cr_net_find_nonfinite(solver->net, &found, &layer, &blob));
  const cr_where where = {.layer = layer, .blob = blob, .told = true};
  return cr_fail_at(
      CREMA_E_NUMERIC, &where,
      "iteration %lld: the loss is finite, but values of layer '%s' are not: %s (a lower "
      "base_lr or clip_gradients may help)",
      (long long)solver->iteration, layer, blob);
}

/* Passes on the failure that values are not finite, or only warns of it: the first time and at each
 * display. */
static crema_status end_or_warn(crema_solver *solver, crema_status status, bool display) {
  if (status != CREMA_E_NUMERIC || solver->options.on_nan == CREMA_SOLVER_NAN_STOP) return status;
  if (display || !solver->told_not_finite) cr_log_warning("%s", crema_error_text());
  solver->told_not_finite = true;
  return CREMA_OK;
}

/* iter_size forward and backward passes; *loss is their mean loss. */
static crema_status accumulate_gradients(crema_solver *solver, bool display, double *loss) {
  const int passes = solver->param->iter_size;
  crema_net_clear_param_diffs(solver->net);
  *loss = 0;
  for (int i = 0; i < passes; ++i) {
    double one;
    if (solver->options.feed != NULL) {
      int64_t pass = solver->iteration * passes + i;
      CR_TRY(solver->options.feed(solver->options.user, solver->net, pass));
    }
    crema_status status = cr_net_forward_submit(solver->net);
    if (status == CREMA_OK) status = crema_net_backward(solver->net);
    if (status == CREMA_OK) status = cr_net_loss_read(solver->net, &one);
    if (status != CREMA_OK) {
      return cr_fail_in(status, "iteration %lld", (long long)solver->iteration);
    }
    if (!isfinite(one)) CR_TRY(end_or_warn(solver, fail_loss(solver, one), display));
    *loss += one;
    solver->samples += solver->batch_samples;
  }
  *loss /= passes;
  return CREMA_OK;
}

/* Whether something that happens every `interval` iterations (0: never) happens now. */
static bool is_due(int64_t iteration, int interval) {
  return interval > 0 && iteration % interval == 0;
}

static void tell_progress(crema_solver *solver, double loss, double rate) {
  if (solver->options.progress == NULL) return;
  crema_solver_progress progress = {.iteration = solver->iteration,
                                    .max_iterations = solver->param->max_iter,
                                    .loss = loss,
                                    .rate = rate,
                                    .samples = solver->samples,
                                    .seconds = solver->seconds};
  solver->options.progress(solver->options.user, &progress);
}

/* Changes the weights, unless the gradients are worthless. */
static crema_status update(crema_solver *solver, double rate) {
  double scale;
  bool skip;
  CR_TRY(cr_grad_scale_next(solver, &scale, &skip));
  if (skip) {
    crema_net_clear_param_diffs(solver->net); /* the steps are zero */
  } else {
    solver->updating = true;
    cr_signals_hold(); /* once for all parameters */
    crema_status status = cr_updater_run(solver->updater, rate, solver->iteration);
    cr_signals_release();
    if (status != CREMA_OK) {
      return cr_fail_in(status, "iteration %lld", (long long)solver->iteration);
    }
    solver->updating = false;
  }
  cr_net_set_grad_scale(solver->net, scale);
  return CREMA_OK;
}

/* One update of the weights. */
static crema_status iterate(crema_solver *solver) {
  const Caffe__SolverParameter *param = solver->param;
  const bool display = is_due(solver->iteration, param->display);
  double start = cr_clock_seconds(), loss;
  solver->net->debug_info = display && param->debug_info;
  CR_TRY(accumulate_gradients(solver, display, &loss));
  double shown = cr_loss_window_add(&solver->window, loss);
  if (display) {
    if (isfinite(loss)) CR_TRY(end_or_warn(solver, fail_weights(solver), display));
    cr_report_iteration(solver, shown);
    CR_TRY(cr_report_train_outputs(solver));
  }
  double rate = cr_rate_at(&solver->schedule, solver->iteration, shown, &solver->rate);
  if (!isfinite((float)rate)) {
    return cr_fail(CREMA_E_NUMERIC, "iteration %lld: the learning rate is %g (lr_policy '%s')",
                   (long long)solver->iteration, rate, param->lr_policy);
  }
  if (display) cr_log_info("Iteration %lld, lr = %g", (long long)solver->iteration, rate);
  CR_TRY(update(solver, rate));
  CR_TRY(cr_net_debug_update(solver->net));
  ++solver->iteration;
  solver->seconds += cr_clock_seconds() - start;
  tell_progress(solver, shown, rate);
  return CREMA_OK;
}

static bool test_is_due(const crema_solver *solver) {
  if (!is_due(solver->iteration, solver->param->test_interval)) return false;
  return solver->iteration > 0 || solver->param->test_initialization;
}

static crema_status step_until(crema_solver *solver, int64_t end) {
  solver->display_time = cr_clock_seconds();
  solver->display_iteration = solver->iteration;
  CR_TRY(cr_state_rewind(solver));
  while (solver->iteration < end) {
    if (cr_epoch_has_ended(solver)) CR_TRY(cr_epoch_end(solver));
    else if (test_is_due(solver)) CR_TRY(cr_solver_test_all(solver));
    if (solver->stop_requested) break;
    CR_TRY(iterate(solver));
    crema_solver_action action = CREMA_SOLVER_CONTINUE;
    if (solver->options.poll != NULL) action = solver->options.poll(solver->options.user);
    if (is_due(solver->iteration, solver->param->snapshot) || action == CREMA_SOLVER_SNAPSHOT) {
      CR_TRY(cr_snapshot_try(solver));
    }
    if (action == CREMA_SOLVER_STOP) {
      solver->stop_requested = true;
      break;
    }
  }
  return CREMA_OK;
}

crema_status crema_solver_step(crema_solver *solver, int64_t iterations) {
  CR_REQUIRE(solver);
  if (iterations < 0) {
    return cr_fail(CREMA_E_RANGE, "cannot train for %lld iterations", (long long)iterations);
  }
  if (iterations > INT32_MAX - solver->iteration) {
    return cr_fail(CREMA_E_RANGE,
                   "cannot train for %lld iterations after %lld: solver states count up to %d",
                   (long long)iterations, (long long)solver->iteration, INT32_MAX);
  }
  solver->stop_requested = false;
  CR_TRY(step_until(solver, solver->iteration + iterations));
  return cr_snapshot_failure(solver);
}

/* The loss after the last update, and the last test unless it is done. Snapshots are as of the last
 * update. */
static crema_status report_end(crema_solver *solver, bool tested) {
  const Caffe__SolverParameter *param = solver->param;
  CR_TRY(cr_state_hold(solver));
  if (is_due(solver->iteration, param->display)) {
    double loss;
    if (solver->options.feed != NULL) {
      int64_t pass = solver->iteration * param->iter_size;
      CR_TRY(solver->options.feed(solver->options.user, solver->net, pass));
    }
    CR_TRY(crema_net_forward(solver->net, &loss));
    if (!isfinite(loss)) CR_TRY(end_or_warn(solver, fail_loss(solver, loss), true));
    cr_log_info("Iteration %lld, loss = %g", (long long)solver->iteration,
                cr_loss_window_add(&solver->window, loss));
  }
  if (!tested && is_due(solver->iteration, param->test_interval))
    CR_TRY(cr_solver_test_all(solver));
  if (!solver->stop_requested) cr_state_release(solver);
  return CREMA_OK;
}

static bool takes_snapshots(const crema_solver *solver) {
  const Caffe__SolverParameter *param = solver->param;
  return param->snapshot > 0 || param->snapshot_after_train ||
         param->test_and_snapshot_last_epochs > 0;
}

/* The snapshot after training, which also replaces one that could not be written. */
static crema_status snapshot_at_end(crema_solver *solver) {
  const Caffe__SolverParameter *param = solver->param;
  bool wanted = param->snapshot_after_train && !is_due(solver->iteration, param->snapshot) &&
                solver->snapshot_iteration != solver->iteration;
  if (!wanted && solver->unsaved == CREMA_OK) return CREMA_OK;
  crema_status status = crema_solver_snapshot(solver);
  if (status == CREMA_E_NUMERIC) return status;
  if (status != CREMA_OK) cr_snapshot_note_failure(solver, status);
  return CREMA_OK;
}

/* Training failed, perhaps for lack of data. Keeps what was learned since `start`, unless the
 * failure is that it is worthless. Passes the failure on. */
static crema_status keep_what_is_learned(crema_solver *solver, int64_t start,
                                         crema_status failure) {
  bool whole = failure != CREMA_E_NUMERIC && !solver->updating;
  if (!whole || !takes_snapshots(solver) || solver->iteration == start ||
      solver->iteration == solver->snapshot_iteration) {
    return failure;
  }
  cr_error *error = cr_error_keep();
  if (crema_solver_snapshot(solver) == CREMA_OK) {
    cr_log_warning("Training fails after %lld iterations, which the snapshot keeps",
                   (long long)solver->iteration);
  } else {
    cr_log_warning("%s", crema_error_text());
  }
  cr_error_again(failure, error);
  free(error);
  return failure;
}

crema_status crema_solver_solve(crema_solver *solver) {
  CR_REQUIRE(solver);
  const int64_t start = solver->iteration;
  if (takes_snapshots(solver)) CR_TRY(cr_snapshot_check(solver));
  cr_log_info("Solving %s", crema_net_name(solver->net));
  cr_log_info("Learning Rate Policy: %s", solver->param->lr_policy);
  solver->stop_requested = false;
  crema_status status = step_until(solver, solver->param->max_iter);
  const bool ended = status == CREMA_OK && !solver->stop_requested && cr_epoch_has_ended(solver);
  if (ended) status = cr_epoch_end(solver);
  if (status != CREMA_OK) return keep_what_is_learned(solver, start, status);
  CR_TRY(snapshot_at_end(solver));
  if (solver->stop_requested) {
    cr_log_info("Optimization stopped early.");
  } else {
    CR_TRY(report_end(solver, ended));
    cr_log_info("Optimization Done.");
  }
  return cr_snapshot_failure(solver);
}
