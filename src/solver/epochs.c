/* test_and_snapshot_last_epochs: the ends of the last epochs of training. */
#include "core/fail.h"
#include "core/log.h"
#include "layers/common/input_class.h"
#include "solver/fields.h"
#include "solver/solver.h"

/* The samples in an epoch of the train net's input; 0: not yet known. Sets *possible if the input
 * has epochs. */
static uint64_t epoch_samples(const crema_net *net, bool *possible) {
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    const cr_input_class *input = layer->kind->input;
    if (input == NULL || input->epoch == NULL) continue;
    *possible = true;
    return input->epoch(layer);
  }
  return 0;
}

static uint64_t iteration_samples(const crema_solver *solver) {
  return (uint64_t)solver->batch_samples * (uint64_t)solver->param->iter_size;
}

/* The number of epochs that `iterations` complete. */
static uint64_t count_epochs(const crema_solver *solver, int64_t iterations, uint64_t epoch) {
  uint64_t samples;
  if (__builtin_mul_overflow((uint64_t)iterations, iteration_samples(solver), &samples)) return 0;
  return samples / epoch;
}

crema_status cr_epochs_check(const crema_solver *solver) {
  const int last = solver->param->test_and_snapshot_last_epochs;
  bool possible = false;
  if (last < 0) {
    return cr_field_fail(CREMA_E_RANGE, "test_and_snapshot_last_epochs",
                         "test_and_snapshot_last_epochs must not be negative, found %d", last);
  }
  if (last == 0) return CREMA_OK;
  const uint64_t samples = epoch_samples(solver->net, &possible);
  if (!possible) {
    return cr_field_fail(
        CREMA_E_ARGUMENT, "test_and_snapshot_last_epochs",
        "test_and_snapshot_last_epochs: the input of net '%s' has no epochs; use Data, "
        "AnnotatedData, ImageData, HDF5Data or MemoryData",
        crema_net_name(solver->net));
  }
  if (samples > 0) {
    cr_log_info("An epoch has %llu samples, which are %g iterations", (unsigned long long)samples,
                (double)samples / (double)iteration_samples(solver));
  }
  return CREMA_OK;
}

bool cr_epoch_has_ended(const crema_solver *solver) {
  const int last = solver->param->test_and_snapshot_last_epochs;
  bool ignored;
  if (last <= 0 || solver->iteration == 0) return false;
  const uint64_t epoch = epoch_samples(solver->net, &ignored);
  if (epoch == 0) return false;
  const uint64_t done = count_epochs(solver, solver->iteration, epoch);
  const uint64_t all = count_epochs(solver, solver->param->max_iter, epoch);
  if (done == count_epochs(solver, solver->iteration - 1, epoch)) return false;
  return done <= all && all - done < (uint64_t)last;
}

/* The state is as of the start of the test, so a run that resumes from it repeats the test. */
crema_status cr_epoch_end(crema_solver *solver) {
  const bool held = solver->held != NULL;
  CR_TRY(cr_state_hold(solver));
  CR_TRY(cr_solver_test_all(solver));
  if (solver->stop_requested) return CREMA_OK;
  CR_TRY(cr_snapshot_try_scored(solver));
  if (!held) cr_state_release(solver);
  return CREMA_OK;
}
