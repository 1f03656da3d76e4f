/* Solver states of any bytes, binary and HDF5, beside a model that fits. Seeds: run the target with
 * FUZZ_KEEP set and take the states from its folder. */
#include <stdio.h>
#include <string.h>

#include "crema/solver.h"
#include "support/support.h"

/* Nothing is learned, so that the model, whose check sum is in the states, is the same anywhere. */
static const char text[] =
    "base_lr: 0 lr_policy: 'plateau' plateau_winsize: 2 gamma: 0.1 momentum: 0.9 max_iter: 100"
    " average_loss: 3 random_seed: 1 snapshot_after_train: false display: 0"
    " net_param {"
    " layer { name: 'data' type: 'DummyData' top: 'data' top: 'label'"
    " dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 1 }"
    " data_filler { type: 'gaussian' } } }"
    " layer { name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'fc'"
    " inner_product_param { num_output: 2 weight_filler { value: 0.5 } } }"
    " layer { name: 'drop' type: 'Dropout' bottom: 'fc' top: 'drop' }"
    " layer { name: 'fc2' type: 'InnerProduct' bottom: 'drop' top: 'fc2'"
    " inner_product_param { num_output: 1 weight_filler { value: 0.5 } } }"
    " layer { name: 'loss' type: 'EuclideanLoss' bottom: 'fc2' bottom: 'label' } }";

static crema_solver *make_solver(const char *type, const char *format, const char *name) {
  char solver_text[2048];
  crema_solver *solver = NULL;
  snprintf(solver_text, sizeof solver_text, "%s type: '%s' snapshot_format: %s", text, type,
           format);
  const char *path = fuzz_file(name, (const uint8_t *)solver_text, strlen(solver_text));
  fuzz_require(crema_solver_load(path, NULL, &solver) == CREMA_OK);
  fuzz_require(crema_solver_step(solver, 3) == CREMA_OK);
  fuzz_require(crema_solver_snapshot(solver) == CREMA_OK);
  return solver;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static crema_solver *adam, *nesterov;
  if (adam == NULL) {
    adam = make_solver("Adam", "BINARYPROTO", "adam.prototxt");
    nesterov = make_solver("Nesterov", "HDF5", "nesterov.prototxt");
  }
  static const char signature[] = "\211HDF";
  bool hdf5 = size >= 4 && memcmp(data, signature, 4) == 0;
  const char *path = fuzz_file(hdf5 ? "in.solverstate.h5" : "in.solverstate", data, size);
  crema_solver *solver = hdf5 ? nesterov : adam;
  crema_status status = crema_solver_restore(solver, path);
  fuzz_require_text(status);
  if (status == CREMA_OK) fuzz_require(crema_solver_iteration(solver) >= 0);
  /* What was taken over can be gone on with. */
  if (status == CREMA_OK && crema_solver_iteration(solver) < 1 << 30) {
    fuzz_require_text(crema_solver_step(solver, 1));
  }
  return 0;
}
