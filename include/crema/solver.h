/* Solvers: training a net. */
#ifndef CREMA_SOLVER_H
#define CREMA_SOLVER_H

#include "crema/net.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct crema_solver crema_solver;

/* What the caller wants done between two iterations. */
typedef enum crema_solver_action {
  CREMA_SOLVER_CONTINUE = 0,
  CREMA_SOLVER_STOP = 1,
  CREMA_SOLVER_SNAPSHOT = 2
} crema_solver_action;

/* Progress, after each iteration. */
typedef struct crema_solver_progress {
  int64_t iteration; /* updates done */
  int64_t max_iterations;
  double loss;     /* smoothed over average_loss iterations */
  double rate;     /* learning rate used */
  int64_t samples; /* samples trained on since the solver was made */
  double seconds;  /* time spent training since then */
} crema_solver_progress;

typedef struct crema_solver_options {
  crema_device *device; /* NULL: what solver_mode and device_id say, or the CPU without a GPU */
  int level;            /* added to the train net's state */
  const char *const *stages;
  size_t stage_count;
  bool warn_unknown_fields;
  bool skip_corrupt; /* see crema_net_options */
  /* Asked before each forward pass of the train net to fill its inputs (Input layers). `pass` is
   * iteration * iter_size plus the number of the pass within the iteration, so that a resumed run
   * goes on in the same place. May be NULL. A failure ends the training. */
  crema_status (*feed)(void *user, crema_net *net, int64_t pass);
  /* Asked after each iteration and before each test batch; may be NULL. */
  crema_solver_action (*poll)(void *user);
  /* Told after each iteration; may be NULL. */
  void (*progress)(void *user, const crema_solver_progress *progress);
  void *user;
} crema_solver_options;

/* All zero. */
CREMA_API void crema_solver_options_init(crema_solver_options *options);

/* Builds train and test nets from a solver file. Relative paths are tried from the working
 * directory, then from the file's folder. Free with crema_solver_destroy. */
CREMA_API crema_status crema_solver_load(const char *path, const crema_solver_options *options,
                                         crema_solver **out) CREMA_MUST_USE;
/* Accepts NULL. */
CREMA_API void crema_solver_destroy(crema_solver *solver);

/* Starts from weights (file names separated by commas) or resumes from a snapshot's
 * .solverstate: weights, history, iteration, learning rate, reader position and random state. */
CREMA_API crema_status crema_solver_load_weights(crema_solver *solver,
                                                 const char *paths) CREMA_MUST_USE;
CREMA_API crema_status crema_solver_restore(crema_solver *solver, const char *path) CREMA_MUST_USE;

/* Trains until max_iter, with tests and snapshots as the solver says, and a last snapshot.
 * Errors: CREMA_E_NUMERIC when the loss is not finite (the layer is named). */
CREMA_API crema_status crema_solver_solve(crema_solver *solver) CREMA_MUST_USE;

/* `iterations` more updates, with the tests and snapshots that are due; ends early when poll says
 * stop. Errors as crema_solver_solve. */
CREMA_API crema_status crema_solver_step(crema_solver *solver, int64_t iterations) CREMA_MUST_USE;

/* Writes <prefix>_iter_N.caffemodel[.h5] and .solverstate[.h5]. An older file of the name stays
 * whole until the new one is complete and on the disk. Errors: CREMA_E_IO. */
CREMA_API crema_status crema_solver_snapshot(crema_solver *solver) CREMA_MUST_USE;

/* Updates done so far. */
CREMA_API int64_t crema_solver_iteration(const crema_solver *solver);

/* The net being trained and the nets that test it (their weights are shared); owned by the
 * solver. `index` is below crema_solver_test_net_count. */
CREMA_API crema_net *crema_solver_net(crema_solver *solver);
CREMA_API int crema_solver_test_net_count(const crema_solver *solver);
CREMA_API crema_net *crema_solver_test_net(crema_solver *solver, int index);

#ifdef __cplusplus
}
#endif
#endif
