/* Writes snapshots: a model, and a state that records the model's name, size and checksum. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/hdf5_api.h"
#include "core/log.h"
#include "solver/fields.h"
#include "solver/solver.h"

bool cr_snapshot_is_hdf5(const crema_solver *solver) {
  return solver->param->snapshot_format == CAFFE__SOLVER_PARAMETER__SNAPSHOT_FORMAT__HDF5;
}

bool cr_snapshot_is_wanted(const crema_solver *solver) {
  const Caffe__SolverParameter *param = solver->param;
  return param->snapshot > 0 || param->snapshot_after_train ||
         param->test_and_snapshot_last_epochs > 0;
}

/* Removes drafts of snapshots that a kill interrupted. */
static crema_status sweep(const crema_solver *solver) {
  cr_buffer prefix = {0};
  crema_status status = cr_buffer_print(&prefix, "%s_iter_", solver->snapshot_prefix);
  if (status == CREMA_OK) cr_file_sweep(prefix.data);
  cr_buffer_free(&prefix);
  return status;
}

/* "<prefix>_iter_<iteration>[_<score>].<kind>[.h5]" */
static crema_status print_name(const crema_solver *solver, int64_t iteration, const double *score,
                               const char *kind, cr_buffer *out) {
  CR_TRY(cr_buffer_print(out, "%s_iter_%lld", solver->snapshot_prefix, (long long)iteration));
  if (score != NULL) CR_TRY(cr_buffer_print(out, "_%g", *score));
  return cr_buffer_print(out, ".%s%s", kind, cr_snapshot_is_hdf5(solver) ? ".h5" : "");
}

/* Tries to write under the longest name that snapshots will have. */
static crema_status probe(const crema_solver *solver) {
  int64_t last = solver->param->max_iter;
  cr_buffer name = {0};
  if (last < solver->iteration) last = solver->iteration;
  const bool scored = solver->param->test_and_snapshot_last_epochs > 0;
  crema_status status =
      print_name(solver, last, scored ? &(double){-1.23456e-300} : NULL, "solverstate", &name);
  if (status == CREMA_OK) status = cr_file_draft_check(name.data);
  cr_buffer_free(&name);
  return status;
}

crema_status cr_snapshot_check(const crema_solver *solver) {
  if (!cr_solver_leads(solver)) return CREMA_OK;
  CR_TRY(cr_fields_check_prefix(solver->snapshot_prefix, solver->path));
  if (cr_snapshot_is_hdf5(solver)) {
    crema_status possible = cr_hdf5_load();
    if (possible == CREMA_OK) {
      possible = cr_net_check_hdf5(solver->net, solver->param->snapshot_diff);
    }
    CR_TRY(cr_fail_in(possible, "%s: snapshot_format: HDF5", solver->path));
  }
  crema_status status = probe(solver);
  if (status == CREMA_OK) return sweep(solver);
  return cr_fail_in(status,
                    "snapshot_prefix \"%s\": cannot write there (give a prefix in a folder that "
                    "exists and is writable, or set snapshot_after_train: false)",
                    solver->snapshot_prefix);
}

static unsigned save_flags(const crema_solver *solver) {
  return (solver->param->snapshot_diff ? CR_SAVE_DIFFS : 0U) |
         (solver->param->store_blobs_in_old_format ? CR_SAVE_OLD_FORMAT : 0U);
}

static crema_status write_state(crema_solver *solver, const char *model, const cr_model_sum *sum,
                                cr_file_draft *draft) {
  Caffe__SolverState *state = NULL;
  CR_TRY(cr_state_to_proto(solver, model, sum, &state));
  crema_status status = cr_snapshot_is_hdf5(solver) ? cr_state_write_hdf5(state, draft)
                                                    : cr_message_write(&state->base, draft);
  cr_state_proto_free(state);
  return status == CREMA_OK ? cr_file_draft_flush(draft) : status;
}

/* Both files are complete and on the disk when the first is renamed: a full disk does not change an
 * older pair of these names. A kill between the two renames leaves files of two snapshots, which
 * the checksum reveals. */
static crema_status write_pair(crema_solver *solver, const char *model, const char *path) {
  const char *format = cr_snapshot_is_hdf5(solver) ? "HDF5" : "binary proto";
  cr_file_draft model_draft, state_draft;
  cr_model_sum sum = {0};
  CR_TRY(cr_file_draft_begin(model, &model_draft));
  crema_status status = cr_file_draft_begin(path, &state_draft);
  if (status != CREMA_OK) return cr_file_draft_end(&model_draft, status);
  cr_log_info("Snapshotting to %s file %s", format, model);
  CR_TRY_GOTO(cr_net_write(solver->net, &model_draft, save_flags(solver)), end);
  CR_TRY_GOTO(cr_file_draft_flush(&model_draft), end);
  /* The checksum of the draft, as another process may write a model of that name. */
  const char *written = model_draft.temporary != NULL ? model_draft.temporary : model_draft.path;
  CR_TRY_GOTO(cr_model_sum_read(written, &sum), end);
  cr_log_info("Snapshotting solver state to %s file %s", format, path);
  status = write_state(solver, model, &sum, &state_draft);
end:
  status = cr_file_draft_end(&model_draft, status);
  return cr_file_draft_end(&state_draft, status);
}

/* Writes the model of the averaged weights, for use; a resume reads them from the state. */
static crema_status write_average(crema_solver *solver, const double *score) {
  const cr_average *average = solver->replica[0].average;
  cr_buffer path = {0};
  cr_file_draft draft;
  crema_status status = CREMA_OK;
  if (average == NULL) return CREMA_OK;
  CR_TRY_GOTO(print_name(solver, solver->iteration, score, "ema.caffemodel", &path), out);
  CR_TRY_GOTO(cr_file_draft_begin(path.data, &draft), out);
  cr_log_info("Snapshotting averaged weights to %s", path.data);
  status = cr_file_draft_end(&draft, cr_average_write(average, &draft, save_flags(solver)));
out:
  cr_buffer_free(&path);
  return status;
}

static crema_status write_files(crema_solver *solver, const double *score) {
  cr_buffer model = {0}, path = {0};
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(print_name(solver, solver->iteration, score, "caffemodel", &model), out);
  CR_TRY_GOTO(print_name(solver, solver->iteration, score, "solverstate", &path), out);
  CR_TRY_GOTO(sweep(solver), out);
  CR_TRY_GOTO(write_average(solver, score), out);
  status = write_pair(solver, model.data, path.data);
  if (status == CREMA_OK) cr_report_saved(solver, model.data, path.data);
out:
  cr_buffer_free(&path);
  cr_buffer_free(&model);
  return status;
}

/* `score` may be NULL. */
static crema_status write_snapshot(crema_solver *solver, const double *score) {
  if (!cr_solver_leads(solver)) {
    solver->snapshot_iteration = solver->iteration;
    return CREMA_OK;
  }
  /* Training cannot continue from weights that are not finite; the file would look like a good one.
   */
  crema_status status = cr_net_check_weights(solver->net);
  if (status == CREMA_OK) status = write_files(solver, score);
  if (status == CREMA_OK) {
    solver->snapshot_iteration = solver->iteration;
    solver->unsaved = CREMA_OK;
  }
  return cr_fail_in(status, "snapshot after %lld iterations (earlier snapshots are kept)",
                    (long long)solver->iteration);
}

crema_status crema_solver_snapshot(crema_solver *solver) {
  CR_REQUIRE(solver);
  return write_snapshot(solver, NULL);
}

void cr_snapshot_note_failure(crema_solver *solver, crema_status status) {
  free(solver->unsaved_error);
  solver->unsaved_error = cr_error_keep();
  solver->unsaved = status;
  solver->unsaved_reported = false;
}

static crema_status try_snapshot(crema_solver *solver, const double *score) {
  crema_status status = write_snapshot(solver, score);
  if (status == CREMA_OK) return CREMA_OK;
  if (status == CREMA_E_NUMERIC && solver->options.on_nan == CREMA_SOLVER_NAN_STOP) return status;
  cr_snapshot_note_failure(solver, status);
  cr_log_warning("%s; training continues, and the next snapshot is written when it is due",
                 crema_error_text());
  return CREMA_OK;
}

crema_status cr_snapshot_try(crema_solver *solver) {
  return try_snapshot(solver, NULL);
}

crema_status cr_snapshot_try_scored(crema_solver *solver) {
  return try_snapshot(solver, solver->has_score ? &solver->score : NULL);
}

crema_status cr_snapshot_failure(crema_solver *solver) {
  if (solver->unsaved == CREMA_OK || solver->unsaved_reported) return CREMA_OK;
  solver->unsaved_reported = true;
  if (solver->unsaved_error != NULL) return cr_error_again(solver->unsaved, solver->unsaved_error);
  return cr_fail(solver->unsaved, "the last snapshot could not be written");
}
