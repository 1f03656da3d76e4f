/* Starting from weights, and going on from a snapshot. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "solver/solver.h"

static bool ends_in_h5(const char *path) {
  size_t size = strlen(path);
  return size >= 3 && strcmp(path + size - 3, ".h5") == 0;
}

/* Test nets share the train net's parameters, but may have layers of their own. That a model has
 * nothing for them, or is not there, is no failure of theirs. */
static crema_status load_model(crema_solver *solver, const char *path) {
  for (int i = 0; i < solver->test_nets; ++i) {
    crema_status status = crema_net_load_weights(solver->test_net[i], path);
    if (status != CREMA_OK && status != CREMA_E_NOT_FOUND) return status;
  }
  return crema_net_load_weights(solver->net, path);
}

static crema_status load_one(crema_solver *solver, const char *path) {
  cr_log_info("Finetuning from %s", path);
  return load_model(solver, path);
}

crema_status crema_solver_load_weights(crema_solver *solver, const char *paths) {
  crema_status status = CREMA_OK;
  for (const char *at = paths; status == CREMA_OK && *at != '\0';) {
    size_t size = strcspn(at, ",");
    char *name = strndup(at, size), *path = NULL;
    if (name == NULL) return cr_fail_memory(size + 1, "a path");
    if (size > 0) {
      status = cr_file_resolve(solver->path, name, &path);
      if (status == CREMA_OK) status = load_one(solver, path);
    }
    free(path);
    free(name);
    at += size + (at[size] == ',');
  }
  return status;
}

/* A model file is looked for by the name in the state, then beside the state. */
static crema_status find_model(const char *state_path, const char *name, char **out) {
  const char *slash = strrchr(name, '/');
  CR_TRY(cr_file_resolve(state_path, name, out));
  if (slash == NULL || cr_file_exists(*out)) return CREMA_OK;
  char *first = *out;
  crema_status status = cr_file_resolve(state_path, slash + 1, out);
  if (status != CREMA_OK || !cr_file_exists(*out)) {
    if (status == CREMA_OK) free(*out);
    *out = first;
    return CREMA_OK;
  }
  free(first);
  return CREMA_OK;
}

static crema_status read_state(const char *path, Caffe__SolverState **out) {
  if (ends_in_h5(path)) return cr_state_read_hdf5(path, out);
  ProtobufCMessage *message = NULL;
  CR_TRY(cr_message_read_binary(&caffe__solver_state__descriptor, path, &message));
  *out = (Caffe__SolverState *)message;
  return CREMA_OK;
}

crema_status crema_solver_restore(crema_solver *solver, const char *path) {
  Caffe__SolverState *state = NULL;
  char *model = NULL;
  crema_status status = CREMA_OK;
  cr_log_info("Restoring previous solver status from %s", path);
  CR_TRY_GOTO(read_state(path, &state), out);
  CR_TRY_GOTO(cr_state_check(solver, state), out);
  if (state->learned_net != NULL && state->learned_net[0] != '\0') {
    CR_TRY_GOTO(find_model(path, state->learned_net, &model), out);
    CR_TRY_GOTO(load_model(solver, model), out);
  }
  status = cr_state_from_proto(solver, state);
out:
  free(model);
  cr_message_free((ProtobufCMessage *)state);
  return cr_fail_in(status, "cannot resume from %s", path);
}
