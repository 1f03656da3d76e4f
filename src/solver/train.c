/* The training loop. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/signals.h"
#include "core/system.h"
#include "core/timeline.h"
#include "memory/math.h"
#include "solver/fields.h"
#include "solver/solver.h"

crema_status cr_loss_window_init(cr_loss_window *window, int size) {
  if (size < 1)
    return cr_field_fail(CREMA_E_RANGE, "average_loss", "average_loss must be at least 1, found %d",
                         size);
  CR_TRY(CR_NEW(window->loss, size, "the losses to average"));
  window->size = size;
  return CREMA_OK;
}

double cr_loss_window_add(cr_loss_window *window, double loss) {
  window->loss[window->next] = loss;
  window->next = (window->next + 1) % window->size;
  if (window->count < window->size) ++window->count;
  return cr_loss_window_mean(window);
}

double cr_loss_window_mean(const cr_loss_window *window) {
  double sum = 0;
  for (int i = 0; i < window->count; ++i) sum += window->loss[i];
  return window->count > 0 ? sum / window->count : 0;
}

static const char *advice(const crema_solver *solver) {
  return solver->schedule.base_lr < 0 ? "base_lr is negative, so training increases the loss"
                                      : "a lower base_lr or clip_gradients may help";
}

static crema_status fail_loss(crema_solver *solver, crema_net *net, double loss) {
  const char *layer = NULL, *blob = NULL;
  long long iteration = (long long)solver->iteration;
  bool found;
  CR_TRY(cr_net_find_nonfinite(net, &found, &layer, &blob));
  if (found) {
    const cr_where where = {.layer = layer, .blob = blob, .told = true};
    return cr_fail_at(
        CREMA_E_NUMERIC, &where,
        "iteration %lld: the loss is %g; the first values that are NaN or infinite are "
        "in blob '%s' of layer '%s' (%s)",
        iteration, loss, blob, layer, advice(solver));
  }
  return cr_fail(CREMA_E_NUMERIC, "iteration %lld: the loss is %g", iteration, loss);
}

/* Fails if a weight is not finite. Sums on the device are a cheap first test; they are in double
 * precision, which no sum of finite floats exceeds. */
static crema_status fail_weights(crema_solver *solver) {
  const char *layer = NULL, *blob = NULL;
  double sum = 0;
  bool found;
  for (int i = 0; i < solver->net->learnables; ++i) {
    double part;
    CR_TRY(cr_tensor_asum(solver->net->learnable[i]->data, &part));
    sum += part;
  }
  if (isfinite(sum)) return CREMA_OK;
  CR_TRY(cr_net_find_nonfinite(solver->net, &found, &layer, &blob));
  const cr_where where = {.layer = layer, .blob = blob, .told = true};
  return cr_fail_at(CREMA_E_NUMERIC, &where,
                    "iteration %lld: the loss is finite, but values of layer '%s' are not: %s (%s)",
                    (long long)solver->iteration, layer, blob, advice(solver));
}

/* Returns the failure that values are not finite, or only warns: the first time and at each
 * display.
 */
static crema_status end_or_warn(crema_solver *solver, crema_status status, bool display) {
  if (status != CREMA_E_NUMERIC || solver->options.on_nan == CREMA_SOLVER_NAN_STOP) return status;
  if (display || !solver->warned_not_finite) cr_log_warning("%s", crema_error_text());
  solver->warned_not_finite = true;
  return CREMA_OK;
}

/* An iteration of all replicas of this process. */
typedef struct joint_iteration {
  crema_solver *solver;
  cr_iteration iteration;
  bool display;
  double loss[CR_MAX_DEVICES]; /* of each replica of this process */
  double rate;                 /* for the update */
  double scale;                /* for the gradients of the next iteration */
  bool skip;                   /* no update, as gradients are not finite */
} joint_iteration;

/* Only the first replica warns about a loss that is not finite. */
static crema_status check_loss(void *user, cr_replica *replica, double loss) {
  const joint_iteration *joint = user;
  crema_solver *solver = joint->solver;
  const bool first = replica == &solver->replica[0];
  if (isfinite(loss)) return CREMA_OK;
  if (!first && solver->options.on_nan == CREMA_SOLVER_NAN_WARN) return CREMA_OK;
  crema_status status = fail_loss(solver, replica->net, loss);
  return first ? end_or_warn(solver, status, joint->display) : status;
}

static crema_status compute(void *user, cr_replica *replica) {
  joint_iteration *joint = user;
  const ptrdiff_t index = replica - joint->solver->replica;
  return cr_replica_compute(replica, &joint->iteration, &joint->loss[index]);
}

static crema_status update_replica(void *user, cr_replica *replica) {
  const joint_iteration *joint = user;
  if (joint->skip) {
    crema_net_clear_param_diffs(replica->net); /* the steps are zero */
  } else if (!joint->solver->param->disabled_update) {
    CR_TRY(cr_replica_update(replica, joint->rate, joint->iteration.number));
  }
  cr_net_set_grad_scale(replica->net, joint->scale);
  return CREMA_OK;
}

/* Does `work`, which sets joint->loss, for all replicas; *loss is the mean loss of all. After a
 * failure the caller may end the process, so all devices finish their work first. */
static crema_status run_jointly(crema_solver *solver, cr_replica_work *work, joint_iteration *joint,
                                double *loss) {
  double sum = 0;
  crema_status status = cr_replica_threads_run(solver->team, work, joint);
  if (status != CREMA_OK) {
    cr_error *error = cr_error_keep();
    for (int i = 0; i < solver->replicas; ++i) {
      (void)!crema_context_finish(solver->replica[i].context);
    }
    cr_error_again(status, error);
    free(error);
    return status;
  }
  for (int i = 0; i < solver->replicas; ++i) sum += joint->loss[i];
  CR_TRY(cr_world_agree(solver->world, &sum, 1, NULL, 0));
  *loss = sum / cr_solver_partners(solver);
  return CREMA_OK;
}

/* Whether something that happens every `interval` iterations (0: never) happens now. */
static bool is_due(int64_t iteration, int interval) {
  return interval > 0 && iteration % interval == 0;
}

/* Changes the weights, unless the gradients are worthless. */
static crema_status update(crema_solver *solver, joint_iteration *joint) {
  CR_TRY(cr_grad_scale_next(solver, &joint->scale, &joint->skip));
  solver->updating = !joint->skip;
  CR_TRY(cr_replica_threads_run(solver->team, update_replica, joint));
  solver->updating = false;
  return CREMA_OK;
}

/* Advances the schedule. */
static crema_status find_rate(crema_solver *solver, double loss, double *rate) {
  *rate = cr_rate_at(&solver->schedule, solver->iteration, loss, &solver->rate);
  if (isfinite((float)*rate)) return CREMA_OK;
  return cr_fail(CREMA_E_NUMERIC, "iteration %lld: the learning rate is %g (lr_policy '%s')",
                 (long long)solver->iteration, *rate, solver->param->lr_policy);
}

crema_status cr_solver_update(crema_solver *solver) {
  joint_iteration joint = {.solver = solver, .iteration.number = solver->iteration};
  CR_TRY(find_rate(solver, cr_loss_window_mean(&solver->window), &joint.rate));
  for (int i = 0; i < solver->replicas; ++i) solver->replica[i].updated = false;
  CR_TRY(update(solver, &joint));
  ++solver->iteration;
  return CREMA_OK;
}

static crema_status level(void *user, cr_replica *replica) {
  const bool *gradients = user;
  if (*gradients) CR_TRY(cr_replica_broadcast_gradients(replica));
  return cr_replica_broadcast(replica, true);
}

/* The program accesses the first replica. Its changes there go to all replicas of this process,
 * unless other processes train along and call their own functions. */
static crema_status call_and_level(crema_solver *solver, crema_solver_call_fn *call,
                                   bool gradients) {
  if (call == NULL) return CREMA_OK;
  CR_TRY(cr_solver_call(solver, call));
  if (solver->replicas == 1 || cr_solver_partners(solver) != solver->replicas) return CREMA_OK;
  return cr_replica_threads_run(solver->team, level, &gradients);
}

static void trace_iteration(const crema_solver *solver, double begin) {
  crema_device_memory memory = {0};
  cr_timeline_span(0, "iteration", "iteration", begin, "\"iteration\":%lld",
                   (long long)solver->iteration);
  cr_timeline_count("host memory", cr_system_resident());
  if (crema_device_memory_read(solver->device, &memory) == CREMA_OK && memory.current > 0) {
    cr_timeline_count("device memory", (int64_t)memory.current);
  }
}

/* One update of the weights. */
static crema_status iterate(crema_solver *solver) {
  const Caffe__SolverParameter *param = solver->param;
  const bool display = is_due(solver->iteration, param->display);
  const bool updates_early = solver->replica[0].reducer != NULL && !param->disabled_update &&
                             solver->options.gradients_ready == NULL &&
                             !(display && solver->options.event != NULL) &&
                             !cr_rate_follows_loss(&solver->schedule);
  double start = cr_clock_seconds(), loss;
  const double traced = cr_timeline_now();
  joint_iteration joint = {.solver = solver, .display = display};
  joint.iteration = (cr_iteration){.number = solver->iteration,
                                   .passes = param->iter_size,
                                   .feed = solver->options.feed,
                                   .user = solver->options.user,
                                   .check_loss = check_loss,
                                   .checker = &joint,
                                   .has_rate = updates_early};
  if (joint.iteration.has_rate) CR_TRY(find_rate(solver, 0, &joint.iteration.rate));
  solver->net->debug_info = display && param->debug_info;
  CR_TRY(call_and_level(solver, solver->options.iteration_start, false));
  CR_TRY(run_jointly(solver, compute, &joint, &loss));
  solver->samples += solver->batch_samples * param->iter_size;
  double shown = cr_loss_window_add(&solver->window, loss);
  if (display && isfinite(loss)) CR_TRY(end_or_warn(solver, fail_weights(solver), true));
  if (display && cr_solver_leads(solver)) {
    cr_report_iteration(solver, shown);
    CR_TRY(cr_report_train_outputs(solver));
  }
  joint.rate = joint.iteration.rate;
  if (!joint.iteration.has_rate) CR_TRY(find_rate(solver, shown, &joint.rate));
  if (display && cr_solver_leads(solver)) {
    cr_log_info("Iteration %lld, lr = %g", (long long)solver->iteration, joint.rate);
    CR_TRY(cr_report_trained(solver, shown, joint.rate));
  }
  CR_TRY(call_and_level(solver, solver->options.gradients_ready, true));
  const double updating = cr_timeline_now();
  CR_TRY(update(solver, &joint));
  if (updating > 0) cr_timeline_span(0, "update", "update", updating, "%s", "");
  CR_TRY(cr_net_show_views(solver->net));
  CR_TRY(cr_net_debug_update(solver->net));
  if (traced > 0) trace_iteration(solver, traced);
  ++solver->iteration;
  solver->seconds += cr_clock_seconds() - start;
  if (solver->options.progress == NULL) return CREMA_OK;
  crema_solver_progress progress = {.iteration = solver->iteration,
                                    .max_iterations = param->max_iter,
                                    .loss = shown,
                                    .rate = joint.rate,
                                    .samples = solver->samples,
                                    .seconds = solver->seconds};
  solver->options.progress(solver->options.user, &progress);
  return CREMA_OK;
}

crema_status cr_solver_ask(crema_solver *solver, crema_solver_action *action) {
  *action = CREMA_SOLVER_CONTINUE;
  if (solver->options.poll != NULL) *action = solver->options.poll(solver->options.user);
  int64_t wanted[] = {*action == CREMA_SOLVER_STOP, *action == CREMA_SOLVER_SNAPSHOT};
  CR_TRY(cr_world_agree(solver->world, NULL, 0, wanted, 2));
  if (wanted[0] != 0) *action = CREMA_SOLVER_STOP;
  else if (wanted[1] != 0) *action = CREMA_SOLVER_SNAPSHOT;
  return CREMA_OK;
}

static bool is_test_iteration(const crema_solver *solver) {
  return is_due(solver->iteration - solver->param->test_offset, solver->param->test_interval);
}

/* `early`: tests may end training. */
static crema_status step_until(crema_solver *solver, int64_t end, bool early) {
  solver->display_time = cr_clock_seconds();
  solver->display_iteration = solver->iteration;
  CR_TRY(cr_solver_check_others(solver, end));
  CR_TRY(cr_state_rewind(solver));
  CR_TRY(cr_solver_level(solver));
  while (solver->iteration < end) {
    if (cr_epoch_has_ended(solver)) CR_TRY(cr_epoch_end(solver));
    else if (is_test_iteration(solver) &&
             (solver->iteration > 0 || solver->param->test_initialization))
      CR_TRY(cr_solver_test_all(solver));
    if (early && !solver->stop_requested) solver->stop_requested = cr_early_stop_is_due(solver);
    if (solver->stop_requested) break;
    CR_TRY(iterate(solver));
    crema_solver_action action;
    CR_TRY(cr_solver_ask(solver, &action));
    if (is_due(solver->iteration, solver->param->snapshot) || action == CREMA_SOLVER_SNAPSHOT) {
      CR_TRY(cr_snapshot_try(solver));
    }
    if (action == CREMA_SOLVER_STOP) {
      solver->stop_requested = true;
      break;
    }
  }
  return cr_solver_finish(solver);
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
  crema_status status = step_until(solver, solver->iteration + iterations, false);
  if (status != CREMA_OK) return cr_solver_tell(solver, status);
  return cr_snapshot_failure(solver);
}

static crema_status forward(void *user, cr_replica *replica) {
  joint_iteration *joint = user;
  double *loss = &joint->loss[replica - joint->solver->replica];
  return cr_replica_forward(replica, &joint->iteration, 0, loss);
}

/* Reports the mean loss after the last update, and tests unless `tested`. Snapshots are as of the
 * last update. */
static crema_status report_end(crema_solver *solver, bool tested) {
  const Caffe__SolverParameter *param = solver->param;
  CR_TRY(cr_state_hold(solver));
  if (is_due(solver->iteration, param->display)) {
    joint_iteration joint = {.solver = solver,
                             .iteration = {.number = solver->iteration,
                                           .passes = param->iter_size,
                                           .feed = solver->options.feed,
                                           .user = solver->options.user}};
    double loss;
    CR_TRY(run_jointly(solver, forward, &joint, &loss));
    if (!isfinite(loss)) CR_TRY(end_or_warn(solver, fail_loss(solver, solver->net, loss), true));
    double shown = cr_loss_window_add(&solver->window, loss);
    if (cr_solver_leads(solver)) {
      cr_log_info("Iteration %lld, loss = %g", (long long)solver->iteration, shown);
    }
  }
  if (!tested && is_test_iteration(solver)) CR_TRY(cr_solver_test_all(solver));
  if (!solver->stop_requested) cr_state_release(solver);
  return CREMA_OK;
}

/* Writes the snapshot after training, or once more a snapshot that could not be written. */
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

/* Training failed, perhaps for lack of data. Writes a snapshot of the iterations since `start`,
 * unless values are not finite or an update is incomplete. Returns the failure. */
static crema_status save_after_failure(crema_solver *solver, int64_t start, crema_status failure) {
  (void)cr_solver_tell(solver, failure);
  if (failure == CREMA_E_NUMERIC || !cr_snapshot_is_wanted(solver) || solver->iteration == start ||
      solver->iteration == solver->snapshot_iteration) {
    return failure;
  }
  cr_error *error = cr_error_keep();
  cr_replica_rest(&solver->replica[0]);
  if (solver->updating || atomic_load(&solver->replica[0].updating)) {
    cr_log_warning("Training fails in the middle of update %lld: no snapshot is written",
                   (long long)solver->iteration + 1);
  } else if (crema_solver_snapshot(solver) == CREMA_OK) {
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
  if (cr_snapshot_is_wanted(solver)) CR_TRY(cr_snapshot_check(solver));
  cr_log_info("Solving %s", crema_net_name(solver->net));
  cr_log_info("Learning Rate Policy: %s", solver->param->lr_policy);
  solver->stop_requested = false;
  crema_status status = step_until(solver, solver->param->max_iter, true);
  const bool ended = status == CREMA_OK && !solver->stop_requested && cr_epoch_has_ended(solver);
  if (ended) status = cr_epoch_end(solver);
  if (status != CREMA_OK) return save_after_failure(solver, start, status);
  CR_TRY(snapshot_at_end(solver));
  if (solver->stop_requested) {
    cr_log_info("Optimization stopped early.");
  } else {
    CR_TRY(report_end(solver, ended));
    cr_log_info("Optimization Done.");
  }
  return cr_snapshot_failure(solver);
}
