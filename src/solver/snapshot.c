/* Snapshots: the model first, then the state that names it, so that a state on the disk always
 * has its model. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/hdf5_api.h"
#include "core/log.h"
#include "solver/solver.h"

static bool wants_hdf5(const crema_solver *solver) {
  return solver->param->snapshot_format == CAFFE__SOLVER_PARAMETER__SNAPSHOT_FORMAT__HDF5;
}

/* Drafts of snapshots that a kill interrupted. */
static crema_status sweep(const crema_solver *solver) {
  cr_buffer prefix = {0};
  crema_status status = cr_buffer_print(&prefix, "%s_iter_", solver->snapshot_prefix);
  if (status == CREMA_OK) cr_file_sweep(prefix.data);
  cr_buffer_free(&prefix);
  return status;
}

static crema_status check_hdf5(const crema_solver *solver) {
  CR_TRY(cr_hdf5_load());
  return cr_net_check_hdf5(solver->net, solver->param->snapshot_diff);
}

crema_status cr_snapshot_check(const crema_solver *solver) {
  cr_buffer probe = {0};
  if (wants_hdf5(solver)) {
    CR_TRY(cr_fail_in(check_hdf5(solver), "%s: snapshot_format: HDF5", solver->path));
  }
  CR_TRY(
      cr_buffer_print(&probe, "%s_iter_0.check.tmp.%ld", solver->snapshot_prefix, (long)getpid()));
  crema_status status = CREMA_OK;
  int fd = open(probe.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) {
    status = cr_fail_errno(errno,
                           "snapshot_prefix \"%s\": cannot write there (give a prefix in a folder "
                           "that exists and is writable, or set snapshot_after_train: false)",
                           solver->snapshot_prefix);
  } else {
    close(fd);
    unlink(probe.data);
    status = sweep(solver);
  }
  cr_buffer_free(&probe);
  return status;
}

static crema_status write_snapshot(crema_solver *solver, bool hdf5) {
  const char *ending = hdf5 ? ".h5" : "";
  const char *format = hdf5 ? "HDF5" : "binary proto";
  cr_buffer model = {0}, path = {0};
  Caffe__SolverState *state = NULL;
  crema_status status = CREMA_OK;
  long long iteration = (long long)solver->iteration;
  CR_TRY_GOTO(cr_buffer_print(&model, "%s_iter_%lld.caffemodel%s", solver->snapshot_prefix,
                              iteration, ending),
              out);
  CR_TRY_GOTO(cr_buffer_print(&path, "%s_iter_%lld.solverstate%s", solver->snapshot_prefix,
                              iteration, ending),
              out);
  CR_TRY_GOTO(sweep(solver), out);
  cr_log_info("Snapshotting to %s file %s", format, model.data);
  CR_TRY_GOTO(cr_net_save(solver->net, model.data, solver->param->snapshot_diff), out);
  CR_TRY_GOTO(cr_state_to_proto(solver, model.data, &state), out);
  cr_log_info("Snapshotting solver state to %s file %s", format, path.data);
  if (hdf5) {
    status = cr_state_write_hdf5(state, path.data);
  } else {
    status = cr_message_write_binary(&state->base, path.data);
  }
out:
  cr_message_free((ProtobufCMessage *)state);
  cr_buffer_free(&path);
  cr_buffer_free(&model);
  return status;
}

crema_status crema_solver_snapshot(crema_solver *solver) {
  CR_REQUIRE(solver);
  /* Nobody can train on from such weights, and they would look like the latest good ones. */
  crema_status status = cr_net_check_weights(solver->net);
  if (status == CREMA_OK) status = write_snapshot(solver, wants_hdf5(solver));
  return cr_fail_in(status, "snapshot after %lld iterations (earlier snapshots are kept)",
                    (long long)solver->iteration);
}
