/* Starts from weights, and resumes from a snapshot. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/list.h"
#include "core/log.h"
#include "solver/solver.h"

/* Test nets share the train net's parameters. A model may lack their own layers. */
static crema_status load_models(crema_solver *solver, const char *const *path, size_t count,
                                cr_net_missing missing) {
  for (int i = 0; i < solver->test_nets; ++i) {
    crema_status status =
        cr_net_load_files(solver->test_net[i], path, count, CR_MISSING_IGNORED, solver->net);
    if (status != CREMA_OK && status != CREMA_E_NOT_FOUND) return status;
  }
  return cr_net_load_files(solver->net, path, count, missing, NULL);
}

/* The files of a comma-separated list, or of the solver file's `weights`, resolved from the solver
 * file. To be freed, also on failure. */
static crema_status find_models(const crema_solver *solver, const char *paths, cr_list *out) {
  const Caffe__SolverParameter *param = solver->param;
  if (paths != NULL) CR_TRY(cr_list_split(paths, out));
  for (size_t i = 0; paths == NULL && i < param->n_weights; ++i) {
    CR_TRY(cr_list_split(param->weights[i], out));
  }
  for (size_t i = 0; i < out->count; ++i) {
    char *found = NULL;
    CR_TRY(cr_file_resolve(solver->path, out->item[i], &found));
    free(out->item[i]);
    out->item[i] = found;
  }
  return CREMA_OK;
}

crema_status crema_solver_load_weights(crema_solver *solver, const char *paths) {
  CR_REQUIRE(solver);
  solver->snapshot_iteration = -1;
  cr_list list = {0};
  crema_status status = find_models(solver, paths, &list);
  for (size_t i = 0; status == CREMA_OK && i < list.count; ++i) {
    cr_log_info("Finetuning from %s", list.item[i]);
  }
  if (status == CREMA_OK && list.count > 0) {
    status = load_models(solver, (const char *const *)list.item, list.count, CR_MISSING_WARNED);
  }
  cr_list_free(&list);
  if (status == CREMA_OK) status = cr_solver_restart_averages(solver);
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
  /* Most messages begin with the path. */
  const bool named = strncmp(crema_error_text(), path, strlen(path)) == 0;
  if (named) status = cr_fail_in(status, "cannot resume");
  else status = cr_fail_in(status, "cannot resume from %s", path);
  return cr_solver_tell(solver, status);
}
