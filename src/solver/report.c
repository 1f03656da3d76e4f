/* The lines that log parsers look for, with numbers of six significant digits; and events. */
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "net/epoch.h"
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

/* Values of outputs for the log or an event. */
typedef struct value_list {
  crema_solver_value *value;
  int count;
} value_list;

static void add_value(value_list *list, crema_net *net, int output, double value) {
  list->value[list->count++] =
      (crema_solver_value){.name = crema_net_output_name(net, output),
                           .value = value,
                           .loss_weight = (double)net->output_weight[output]};
}

static void log_values(const char *kind, const value_list *list) {
  for (int i = 0; i < list->count; ++i) {
    const crema_solver_value *v = &list->value[i];
    cr_report_output(kind, i, v->name, v->value, v->loss_weight);
  }
}

static void send(const crema_solver *solver, const crema_solver_event *event) {
  if (solver->options.event != NULL) solver->options.event(solver->options.user, event);
}

static crema_status collect_outputs(crema_net *net, value_list *list) {
  int64_t count = 0;
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    count += crema_blob_count(crema_net_output(net, i));
  }
  CR_TRY(CR_NEW(list->value, count + 1, "values of outputs"));
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    crema_blob *blob = crema_net_output(net, i);
    const float *value;
    CR_TRY(crema_blob_cpu_data(blob, &value));
    for (int64_t k = 0; k < crema_blob_count(blob); ++k) add_value(list, net, i, (double)value[k]);
  }
  return CREMA_OK;
}

crema_status cr_report_train_outputs(crema_solver *solver) {
  value_list list = {0};
  if (!cr_log_enabled(CREMA_LOG_INFO)) return CREMA_OK;
  crema_status status = collect_outputs(solver->net, &list);
  if (status == CREMA_OK) log_values("Train", &list);
  free(list.value);
  return status;
}

crema_status cr_report_trained(crema_solver *solver, double loss, double rate) {
  value_list list = {0};
  if (solver->options.event == NULL) return CREMA_OK;
  crema_status status = collect_outputs(solver->net, &list);
  if (status == CREMA_OK) {
    const crema_solver_event event = {.kind = CREMA_SOLVER_TRAINED,
                                      .iteration = solver->iteration,
                                      .loss = loss,
                                      .rate = rate,
                                      .samples = solver->samples,
                                      .seconds = solver->seconds,
                                      .value = list.value,
                                      .values = list.count};
    send(solver, &event);
  }
  free(list.value);
  return status;
}

static void send_test(const crema_solver *solver, int test_net, const value_list *list) {
  const crema_solver_event event = {.kind = CREMA_SOLVER_TESTED,
                                    .iteration = solver->iteration,
                                    .test_net = test_net,
                                    .value = list->value,
                                    .values = list->count};
  send(solver, &event);
}

crema_status cr_report_tested(crema_solver *solver, int test_net, const cr_net_means *means) {
  crema_net *net = solver->test_net[test_net];
  value_list list = {0};
  CR_TRY(CR_NEW(list.value, means->count + 1, "values of outputs"));
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    for (int64_t k = means->first[i]; k < means->first[i + 1]; ++k) {
      add_value(&list, net, i, cr_net_means_value(means, k));
    }
  }
  log_values("Test", &list);
  send_test(solver, test_net, &list);
  free(list.value);
  return CREMA_OK;
}

void cr_report_detected(crema_solver *solver, int test_net, double score) {
  crema_solver_value value = {.name = crema_net_output_name(solver->test_net[test_net], 0),
                              .value = score};
  send_test(solver, test_net, &(value_list){&value, 1});
}

void cr_report_saved(const crema_solver *solver, const char *model, const char *state) {
  const crema_solver_event event = {
      .kind = CREMA_SOLVER_SAVED, .iteration = solver->iteration, .model = model, .state = state};
  send(solver, &event);
}
