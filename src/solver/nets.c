/* Building the nets that a solver file names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "net/epoch.h"
#include "solver/detections.h"
#include "solver/fields.h"
#include "solver/solver.h"

/* The source of one net: a file or a message inside the solver file. */
typedef struct net_source {
  const char *file;
  const Caffe__NetParameter *message;
  const char *field; /* of the solver file */
} net_source;

/* The state that a net is built for, merged from its own text, the solver file and the caller. */
typedef struct net_state {
  int level;
  const char **stage;
  size_t stages;
} net_state;

static crema_status add_stages(net_state *state, const char *const *stage, size_t count) {
  if (count == 0) return CREMA_OK;
  const char **grown = realloc(state->stage, (state->stages + count) * sizeof *grown);
  if (grown == NULL) return cr_fail_memory((state->stages + count) * sizeof *grown, "net stages");
  state->stage = grown;
  for (size_t i = 0; i < count; ++i) grown[state->stages++] = stage[i];
  return CREMA_OK;
}

static crema_status merge_state(net_state *state, const Caffe__NetState *from) {
  if (from == NULL) return CREMA_OK;
  if (from->has_level) state->level = from->level;
  return add_stages(state, (const char *const *)from->stage, from->n_stage);
}

/* In Caffe the states in the files decide a net's phase; here the net's use does. Warns if a state
 * names another phase. `field` of the file at `path` is the state, or holds it. */
static void warn_of_phase(const Caffe__NetState *state, crema_phase phase, const char *path,
                          const char *field) {
  if (state == NULL || !state->has_phase) return;
  const bool tests = state->phase == CAFFE__PHASE__TEST;
  if (tests == (phase == CREMA_TEST)) return;
  const size_t line = cr_field_line(path, field);
  char at[32] = "";
  if (line > 0) snprintf(at, sizeof at, ":%zu", line);
  cr_log_warning("%s%s: %s: the phase %s has no effect: the net is built to %s", path, at, field,
                 tests ? "TEST" : "TRAIN", tests ? "be trained" : "test");
}

/* Reads or copies the message of one net, upgraded to the present format. *path is the file that
 * relative paths inside start from; to be freed. */
static crema_status read_source(const crema_solver *solver, const net_source *source,
                                Caffe__NetParameter **out, char **path) {
  if (source->file != NULL) {
    CR_TRY(cr_file_resolve_input(solver->path, source->file, path));
    crema_status status = cr_net_param_load(*path, solver->options.warn_unknown_fields, out);
    return cr_fail_in(status, "%s of %s", source->field, solver->path);
  }
  ProtobufCMessage *copy;
  *path = strdup(solver->path);
  if (*path == NULL) return cr_fail_memory(strlen(solver->path) + 1, "a path");
  CR_TRY(cr_message_copy(&source->message->base, &copy));
  *out = (Caffe__NetParameter *)copy;
  return cr_net_param_upgrade(*out, solver->path, NULL);
}

/* The net to build, and its replica. */
typedef struct net_place {
  crema_phase phase;
  int replica; /* of this process */
  int group;   /* of solver->group: 0, or 1 + the number of the test net */
} net_place;

static crema_status build(crema_solver *solver, const net_source *source, net_place place,
                          const Caffe__NetState *solver_state, crema_net **out) {
  const cr_replica *replica = &solver->replica[place.replica];
  const crema_phase phase = place.phase;
  const bool tests = phase == CREMA_TEST && cr_solver_shares_test(solver, place.group - 1);
  cr_solver_rank rank = {.rank = solver->rank + place.replica,
                         .solvers = solver->ranks,
                         .group = solver->group != NULL ? solver->group[place.group] : NULL,
                         .tests = tests};
  if (place.replica > 0) {
    rank.root = phase == CREMA_TRAIN ? solver->net : solver->test_net[place.group - 1];
  }
  Caffe__NetParameter *param = NULL;
  char *path = NULL;
  net_state state = {0};
  crema_net_options options;
  crema_net_options_init(&options);
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(read_source(solver, source, &param, &path), out);
  CR_TRY_GOTO(merge_state(&state, param->state), out);
  CR_TRY_GOTO(merge_state(&state, solver_state), out);
  if (place.replica == 0 && cr_solver_leads(solver)) {
    warn_of_phase(param->state, phase, path, source->file != NULL ? "state" : source->field);
    warn_of_phase(solver_state, phase, solver->path,
                  phase == CREMA_TRAIN ? "train_state" : "test_state");
  }
  if (phase == CREMA_TRAIN) {
    if (solver->options.level != 0) state.level = solver->options.level;
    CR_TRY_GOTO(add_stages(&state, solver->options.stages, solver->options.stage_count), out);
  }
  options.phase = phase;
  options.level = state.level;
  options.stages = state.stage;
  options.stage_count = state.stages;
  options.device = replica->context->device;
  options.seed = (int64_t)solver->seed;
  options.skip_corrupt = solver->options.skip_corrupt;
  options.graphs = solver->options.graphs;
  options.plan_memory = !solver->options.no_memory_plan;
  options.recompute = solver->options.recompute;
  if (solver->options.total_batch && (phase == CREMA_TRAIN || tests)) {
    const bool told = cr_solver_leads(solver) && place.replica == 0 && phase == CREMA_TRAIN;
    cr_net_divide_batch(param, solver->ranks, told);
  }
  Caffe__NetParameter *given = param;
  param = NULL; /* taken over, also on failure */
  status = cr_net_create(
      given, &options,
      &(cr_net_build_options){.context = replica->context, .path = path, .solver = &rank}, out);
out:
  cr_message_free((ProtobufCMessage *)param);
  free((void *)state.stage);
  free(path);
  return status;
}

crema_status cr_solver_build_train_net(crema_solver *solver, int index) {
  const Caffe__SolverParameter *param = solver->param;
  const net_source sources[] = {
      {NULL, param->train_net_param, "train_net_param"},
      {param->train_net, NULL, "train_net"},
      {NULL, param->net_param, "net_param"},
      {param->net, NULL, "net"},
  };
  const net_source *chosen = NULL;
  for (size_t i = 0; i < sizeof sources / sizeof *sources; ++i) {
    if (sources[i].file == NULL && sources[i].message == NULL) continue;
    if (chosen != NULL) {
      return cr_fail(CREMA_E_PARSE, "%s: both %s and %s name a net to train; give one",
                     solver->path, chosen->field, sources[i].field);
    }
    chosen = &sources[i];
  }
  if (chosen == NULL) {
    return cr_fail(CREMA_E_PARSE,
                   "%s: no net to train; set one of net, net_param, train_net, train_net_param",
                   solver->path);
  }
  const net_place place = {.phase = CREMA_TRAIN, .replica = index};
  if (index > 0) {
    cr_log_debug("Creating the training net of replica %d", index);
  } else if (chosen->file != NULL) {
    cr_log_info("Creating training net from %s file: %s", chosen->field, chosen->file);
  } else {
    cr_log_info("Creating training net specified in %s.", chosen->field);
  }
  return build(solver, chosen, place, param->train_state, &solver->replica[index].net);
}

/* The source of test net `i`: test_net_param entries, then test_net entries, then net or net_param
 * for each remaining test_iter entry. */
static net_source test_source(const Caffe__SolverParameter *param, size_t i) {
  if (i < param->n_test_net_param) {
    return (net_source){NULL, param->test_net_param[i], "test_net_param"};
  }
  i -= param->n_test_net_param;
  if (i < param->n_test_net) return (net_source){param->test_net[i], NULL, "test_net"};
  if (param->net != NULL) return (net_source){param->net, NULL, "net"};
  return (net_source){NULL, param->net_param, "net_param"};
}

static crema_status check_test_counts(const Caffe__SolverParameter *param, size_t nets) {
  size_t named = param->n_test_net_param + param->n_test_net;
  bool generic = param->net != NULL || param->net_param != NULL;
  if (generic ? param->n_test_iter < named : param->n_test_iter != named) {
    return cr_field_fail(CREMA_E_PARSE, "test_iter",
                         "%zu test nets but %zu test_iter entries; give one for each", named,
                         param->n_test_iter);
  }
  if (param->n_test_state > 0 && param->n_test_state != nets) {
    return cr_field_fail(CREMA_E_PARSE, "test_state",
                         "%zu test nets but %zu test_state entries; give one for each", nets,
                         param->n_test_state);
  }
  if (nets > 0 && param->test_interval <= 0) {
    return cr_field_fail(CREMA_E_PARSE, "test_interval",
                         "there are test nets but test_interval is %d, not above 0",
                         param->test_interval);
  }
  CR_TRY(cr_detections_check(param));
  for (size_t i = 0; i < nets; ++i) {
    if (param->test_iter[i] >= 0) continue;
    return cr_field_fail(CREMA_E_RANGE, "test_iter",
                         "test_iter must not be negative, found %d; 0 scores each sample once",
                         param->test_iter[i]);
  }
  return CREMA_OK;
}

static crema_status build_test_net(crema_solver *solver, size_t index, int replica) {
  const Caffe__SolverParameter *param = solver->param;
  const net_source source = test_source(param, index);
  const Caffe__NetState *state = param->n_test_state > 0 ? param->test_state[index] : NULL;
  const net_place place = {.phase = CREMA_TEST, .replica = replica, .group = (int)index + 1};
  crema_net **out = &solver->test_net[(size_t)replica * param->n_test_iter + index];
  if (replica == 0) {
    cr_log_info("Creating test net (#%zu) specified by %s%s%s", index, source.field,
                source.file != NULL ? " file: " : "", source.file != NULL ? source.file : "");
  }
  CR_TRY(build(solver, &source, place, state, out));
  CR_TRY(cr_net_share_params(*out, solver->replica[replica].net));
  const cr_average *average = solver->replica[replica].average;
  return average != NULL ? cr_average_share(average, *out) : CREMA_OK;
}

/* With test_iter 0 the data must have an end. Otherwise logs a test that scores samples repeatedly
 * or not at all. */
static crema_status check_epoch(crema_solver *solver, size_t index) {
  const int batches = solver->param->test_iter[index];
  cr_net_epoch *epoch = &solver->test_epoch[index];
  char text[256];
  CR_TRY(cr_net_find_epoch(solver->test_net[index], batches == 0, epoch));
  if (batches > 0) {
    if (!solver->tests_shared && cr_solver_leads(solver) &&
        cr_net_describe_test(epoch, batches, text, sizeof text)) {
      cr_log_info("Test net #%zu: %s (test_iter: 0 scores each sample once)", index, text);
    }
    return CREMA_OK;
  }
  if (epoch->samples > 0) return CREMA_OK;
  return cr_field_fail(CREMA_E_ARGUMENT, "test_iter", "test_iter: 0 is not possible: %s",
                       epoch->reason);
}

crema_status cr_solver_build_test_nets(crema_solver *solver) {
  const size_t nets = solver->param->n_test_iter;
  /* With divided batches all replicas run each batch together. */
  const bool dealt =
      solver->tests_shared && !solver->options.total_batch && cr_solver_leads(solver);
  const int replicas = solver->tests_shared ? solver->replicas : 1;
  CR_TRY(cr_field_locate(check_test_counts(solver->param, nets), solver->path));
  CR_TRY(CR_NEW(solver->test_net, nets * (size_t)replicas + 1, "test nets"));
  CR_TRY(CR_NEW(solver->test_epoch, nets + 1, "test nets"));
  for (int replica = 0; replica < replicas; ++replica) {
    for (size_t i = 0; i < nets; ++i) {
      if (replica > 0 && !cr_solver_shares_test(solver, (int)i)) continue;
      crema_status status = build_test_net(solver, i, replica);
      if (status != CREMA_OK) return cr_fail_in(status, "test net #%zu", i);
      if (replica > 0) continue;
      solver->test_nets = (int)i + 1;
      CR_TRY(cr_field_locate(check_epoch(solver, i), solver->path));
      const int batches = solver->param->test_iter[i], ranks = solver->ranks;
      if (!dealt || batches % ranks == 0) continue;
      cr_log_warning(
          "test net #%zu: test_iter %d cannot be divided among %d replicas; each runs %d", i,
          batches, ranks, batches / ranks + 1);
    }
  }
  return CREMA_OK;
}
