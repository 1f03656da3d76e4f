/* Starting from weights, and going on from a snapshot. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "solver/solver.h"

/* Test nets share the train net's parameters, but may have layers of their own. It is no failure
 * when a model has nothing for these. */
static crema_status load_models(crema_solver *solver, const char *const *path, size_t count,
                                cr_net_missing missing) {
  for (int i = 0; i < solver->test_nets; ++i) {
    crema_status status =
        cr_net_load_files(solver->test_net[i], path, count, CR_MISSING_IGNORED, solver->net);
    if (status != CREMA_OK && status != CREMA_E_NOT_FOUND) return status;
  }
  return cr_net_load_files(solver->net, path, count, missing, NULL);
}

/* The files of a list with commas, as they are found from the solver file. Names and list are to be
 * freed, also on failure. */
static crema_status resolve_list(const crema_solver *solver, const char *list, char ***out,
                                 size_t *count) {
  size_t commas = 0;
  for (const char *at = list; *at != '\0'; ++at) commas += *at == ',';
  *out = calloc(commas + 1, sizeof(char *));
  if (*out == NULL) return cr_fail_memory((commas + 1) * sizeof(char *), "paths");
  for (const char *at = list; *at != '\0';) {
    size_t size = strcspn(at, ",");
    if (size > 0) {
      char *name = strndup(at, size);
      if (name == NULL) return cr_fail_memory(size + 1, "a path");
      crema_status status = cr_file_resolve(solver->path, name, &(*out)[*count]);
      free(name);
      if (status != CREMA_OK) return status;
      *count += 1;
    }
    at += size + (at[size] == ',');
  }
  return CREMA_OK;
}

crema_status crema_solver_load_weights(crema_solver *solver, const char *paths) {
  CR_REQUIRE(solver);
  CR_REQUIRE(paths);
  solver->snapshot_iteration = -1;
  char **path = NULL;
  size_t count = 0;
  crema_status status = resolve_list(solver, paths, &path, &count);
  for (size_t i = 0; status == CREMA_OK && i < count; ++i) {
    cr_log_info("Finetuning from %s", path[i]);
  }
  if (status == CREMA_OK && count > 0) {
    status = load_models(solver, (const char *const *)path, count, CR_MISSING_WARNED);
  }
  for (size_t i = 0; i < count; ++i) free(path[i]);
  free((void *)path);
  return cr_solver_tell(solver, status);
}

crema_status cr_state_read(const char *path, Caffe__SolverState **out) {
  if (cr_net_is_named_hdf5(path)) return cr_state_read_hdf5(path, out);
  ProtobufCMessage *message = NULL;
  CR_TRY(cr_message_read_binary(&caffe__solver_state__descriptor, path, &message));
  *out = (Caffe__SolverState *)message;
  return CREMA_OK;
}

crema_status crema_solver_restore(crema_solver *solver, const char *path) {
  CR_REQUIRE(solver);
  CR_REQUIRE(path);
  Caffe__SolverState *state = NULL;
  char *model = NULL;
  crema_status status = CREMA_OK;
  cr_log_info("Restoring previous solver status from %s", path);
  CR_TRY_GOTO(cr_state_read(path, &state), out);
  CR_TRY_GOTO(cr_state_check(solver, state), out);
  CR_TRY_GOTO(cr_model_find(path, state, &model), out);
  if (model != NULL) {
    CR_TRY_GOTO(load_models(solver, (const char *const[]){model}, 1, CR_MISSING_REFUSED), out);
  }
  status = cr_state_from_proto(solver, state);
out:
  free(model);
  cr_message_free((ProtobufCMessage *)state);
  return cr_solver_tell(solver, cr_fail_in(status, "cannot resume from %s", path));
}
