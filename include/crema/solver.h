/* Solvers: training nets. */
#ifndef CREMA_SOLVER_H
#define CREMA_SOLVER_H

#include "crema/net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A training run: the nets, the history of the update rule, the position in the data. */
typedef struct crema_solver crema_solver;

/* The caller's request between two iterations. */
typedef enum crema_solver_action {
  CREMA_SOLVER_CONTINUE = 0, /* train */
  CREMA_SOLVER_STOP = 1,     /* end the training */
  CREMA_SOLVER_SNAPSHOT = 2  /* write a snapshot, then train */
} crema_solver_action;

/* The reaction to a loss or a weight that is NaN or infinite. */
typedef enum crema_solver_on_nan {
  CREMA_SOLVER_NAN_STOP = 0, /* end with CREMA_E_NUMERIC; the text names the layer */
  CREMA_SOLVER_NAN_WARN = 1  /* continue; a warning names the layer */
} crema_solver_on_nan;

/* How several devices or processes that train one net exchange gradients and weights. */
typedef enum crema_exchange {
  CREMA_EXCHANGE_AUTO = 0,   /* the best method available; the log names it and the reason */
  CREMA_EXCHANGE_TREE = 1,   /* devices: the root sums and updates, weights go down a tree */
  CREMA_EXCHANGE_REDUCE = 2, /* devices: all-reduce during the backward pass, each updates */
  CREMA_EXCHANGE_NCCL = 3,   /* all-reduce by NCCL: devices, or processes with one GPU each */
  CREMA_EXCHANGE_MPI = 4     /* processes started by mpirun, one device each */
} crema_exchange;

/* The progress after an iteration. */
typedef struct crema_solver_progress {
  int64_t iteration;      /* number of updates so far */
  int64_t max_iterations; /* the solver's max_iter */
  double loss;            /* average over the last average_loss iterations */
  double rate;            /* learning rate of the iteration */
  int64_t samples;        /* samples trained on by this solver object */
  double seconds;         /* training time of this solver object */
} crema_solver_progress;

/* The kinds of crema_solver_event. */
typedef enum crema_solver_event_kind {
  CREMA_SOLVER_TRAINED =
      0,                   /* an iteration whose loss is displayed; the weights before its update */
  CREMA_SOLVER_TESTED = 1, /* a test net was run */
  CREMA_SOLVER_SAVED = 2   /* a snapshot was written */
} crema_solver_event_kind;

/* A value of an output of a net. */
typedef struct crema_solver_value {
  const char *name;   /* the output; several values of one output have the same name */
  double value;       /* in a test the mean over all batches */
  double loss_weight; /* 0: it is not part of the loss */
} crema_solver_value;

/* The numbers that a training displays. Names and lists are valid during the call. */
typedef struct crema_solver_event {
  crema_solver_event_kind kind;
  int64_t iteration;               /* number of updates so far */
  double loss, rate;               /* TRAINED: as in crema_solver_progress */
  int64_t samples;                 /* TRAINED: samples trained on by this solver object */
  double seconds;                  /* TRAINED: training time of earlier iterations */
  int test_net;                    /* TESTED: its index */
  const crema_solver_value *value; /* TRAINED and TESTED: the values of the outputs */
  int values;                      /* number of entries in `value` */
  const char *model, *state;       /* SAVED: the paths of the two files */
} crema_solver_event;

/* A callback; `user` is the options' pointer. A failure ends the training. */
typedef crema_status crema_solver_call_fn(void *user);

/* How to build and run a solver. Initialise with crema_solver_options_init. Strings and lists need
 * not outlive the call of crema_solver_load. */
typedef struct crema_solver_options {
  /* NULL: as solver_mode and device_id of the solver file say, or the CPU if there is no GPU. */
  crema_device *device;
  /* With more than one entry, several devices of one type train together. The first one is the
   * root, which writes snapshots. With CREMA_EXCHANGE_TREE only the root tests. Otherwise each
   * device tests the same number of batches, and test_iter is rounded up with a warning. */
  crema_device *const *devices;
  size_t device_count; /* number of entries in `devices` */
  /* Train together with the other processes that mpirun started, if any. Each process trains on one
   * device. If `devices` is given, the process's number on its host, modulo device_count, selects
   * the device. The first process reports and writes snapshots. Other processes log warnings only.
   */
  bool with_processes;
  /* Train together with processes that the caller started, one device each. This is process number
   * process_rank (starting at 0) of process_count. Call crema_solver_join to connect them.
   * A process_count of 0 or 1 means that there are no such processes.
   *
   * Each process reads its own share of the data. All processes must shuffle alike: without a seed,
   * the seed is 0. The first process reports and writes snapshots. Each process tests its share.
   * Cannot be combined with with_processes or several devices. */
  int process_rank;
  int process_count;       /* see process_rank */
  crema_exchange exchange; /* how devices or processes exchange gradients and weights */
  /* CREMA_EXCHANGE_TREE only: add gradients in the order of arrival. This is faster, but rounding
   * differs from run to run. Otherwise repeated runs are bit-identical. */
  bool any_order;
  /* True: batch_size is the total of all devices and is divided among them, rounded up with a
   * warning. False: each device has a batch of batch_size. */
  bool total_batch;
  crema_math math;  /* exactness on GPUs; CREMA_MATH_DEFAULT: the field math of the solver file */
  const char *type; /* update rule, such as "Adam"; NULL: the type in the solver file */
  bool has_seed;    /* `seed` seeds the random numbers if the solver file has no random_seed */
  uint64_t seed;    /* see has_seed */
  int level;        /* level of the train net's state; 0: the solver file's */
  const char *const *stages; /* stages of the train net's state, added to the solver file's */
  size_t stage_count;        /* number of stages */
  bool warn_unknown_fields;  /* see crema_net_options */
  bool skip_corrupt;         /* see crema_net_options */
  /* Do not load the solver file's `weights`: the caller restores a snapshot or calls
   * crema_solver_load_weights. */
  bool no_weights;
  /* True: all blobs of the nets keep their values and gradients until the next pass. False: the
   * nets plan their memory (see plan_memory of crema_net_options). Results are the same. */
  bool no_memory_plan;
  /* For the train net, see crema_net_options. no_memory_plan then has no effect on it. */
  bool recompute;
  /* For all nets, see crema_net_options. With several devices, parts of the backward pass are
   * captured, and gradients are exchanged between them. */
  bool graphs;
  /* The loss is checked after each pass. The weights are checked whenever the loss is displayed and
   * at each snapshot. A snapshot never contains NaN or infinite weights. */
  crema_solver_on_nan on_nan;
  /* Called before each forward pass of the train net to fill its inputs (Input layers). May be
   * NULL. A failure ends the training.
   *
   * On one device, `pass` is iteration * iter_size + the pass's index within the iteration. A
   * resumed run therefore continues with the same numbers. With R devices or processes, device r
   * gets R * that number + r, and several threads call the function at once. */
  crema_status (*feed)(void *user, crema_net *net, int64_t pass);
  /* Called after each iteration and before each test batch. May be NULL. */
  crema_solver_action (*poll)(void *user);
  /* Called after each iteration. May be NULL. */
  void (*progress)(void *user, const crema_solver_progress *progress);
  /* Called for each event of the process that reports. May be NULL. It may read the solver's nets;
   * at CREMA_SOLVER_TRAINED the gradients of the train net are complete. */
  void (*event)(void *user, const crema_solver_event *event);
  /* iteration_start is called before the first forward pass of each iteration. gradients_ready is
   * called before the update, after the gradients are summed over all devices. Both may change the
   * gradients and the weights of the solver's net. Both may be NULL. A failure ends the training.
   *
   * With several devices in this process, the solver then copies the net's weights to all devices,
   * and after gradients_ready also its gradients. No device updates before that. With several
   * processes, each process calls its own function, which must make the same changes. */
  crema_solver_call_fn *iteration_start;
  crema_solver_call_fn *gradients_ready; /* see iteration_start */
  void *user;                            /* the caller's, passed to the functions above */
} crema_solver_options;

/* Sets all options to zero. */
CREMA_API void crema_solver_options_init(crema_solver_options *options);

/* Replaces the options' `iteration_start` and `gradients_ready` callbacks, starting with the next
 * iteration. NULL: no callback, which saves time with several devices. Errors: CREMA_E_ARGUMENT if
 * `solver` is NULL. */
CREMA_API crema_status crema_solver_set_calls(crema_solver *solver,
                                              crema_solver_call_fn *iteration_start,
                                              crema_solver_call_fn *gradients_ready) CREMA_MUST_USE;

/* Creates a solver with its train and test nets from the solver file `path`. Relative paths in the
 * file are tried from the working directory, then from the file's folder. `options` may be NULL.
 * Free with crema_solver_destroy. Errors: as crema_net_load. */
CREMA_API crema_status crema_solver_load(const char *path, const crema_solver_options *options,
                                         crema_solver **out) CREMA_MUST_USE;

/* Frees a solver. Accepts NULL. */
CREMA_API void crema_solver_destroy(crema_solver *solver);

/* Loads weights into the solver's net. `paths` lists .caffemodel files, separated by commas with
 * optional blanks. NULL: the files in the solver file's field weights, if any. Errors:
 * CREMA_E_NOT_FOUND, CREMA_E_CORRUPT, CREMA_E_SHAPE. */
CREMA_API crema_status crema_solver_load_weights(crema_solver *solver,
                                                 const char *paths) CREMA_MUST_USE;

/* Resumes from the snapshot whose .solverstate is `path`: weights, history, iteration, learning
 * rate, position in the data and random state.
 *
 * The snapshot's model is searched for in the state's folder, then at the path in the state. Its
 * size and checksum must match the state. States of Caffe and of earlier versions of crema contain
 * neither: for them any model found is accepted, with a warning. Errors: CREMA_E_NOT_FOUND,
 * CREMA_E_CORRUPT, CREMA_E_SHAPE. */
CREMA_API crema_status crema_solver_restore(crema_solver *solver, const char *path) CREMA_MUST_USE;

/* Resumes from the newest complete snapshot under the solver's snapshot_prefix. A snapshot is
 * complete if its state fits the net and its model exists. A warning names incomplete snapshots.
 * *found (may be NULL) gets whether there is a complete one. If there is none, the solver is
 * unchanged. Processes that train together all resume from the snapshot that the first process
 * finds. Errors: as crema_solver_restore. */
CREMA_API crema_status crema_solver_restore_latest(crema_solver *solver,
                                                   bool *found) CREMA_MUST_USE;

/* Trains until max_iter, with the solver file's tests and snapshots, and writes a last snapshot.
 * Ends earlier if the tests do not improve for early_stop_patience tests, or if poll requests it.
 * If poll stops the training during a test, a resumed training starts with that test.
 *
 * A snapshot that cannot be written logs a warning, and training continues to the next snapshot.
 * If training fails, for example because data is missing, the progress so far is saved in a
 * snapshot.
 *
 * Errors: CREMA_E_NUMERIC (see on_nan), a failure to write the last snapshot, and any failure of
 * the passes. */
CREMA_API crema_status crema_solver_solve(crema_solver *solver) CREMA_MUST_USE;

/* Trains for `iterations` more updates, with the tests and snapshots that are due. Ends earlier if
 * poll requests it; early_stop_patience has no effect. Errors: as crema_solver_solve. A failure to
 * write a snapshot is returned once, after the iterations. */
CREMA_API crema_status crema_solver_step(crema_solver *solver, int64_t iterations) CREMA_MUST_USE;

/* Receives one line of text without a line break. `user` is the caller's. */
typedef void crema_line_fn(void *user, const char *text);

/* Identifies a group of processes that train together. Create one with crema_group_make_id and pass
 * it to every process. */
typedef struct crema_group_id {
  char bytes[128]; /* opaque */
} crema_group_id;

/* Checks that crema_solver_join can work on this machine: the CUDA plug-in and NCCL are installed.
 * It does not initialise any device, so the program may still fork. Errors: CREMA_E_NO_DEVICE or
 * CREMA_E_UNSUPPORTED, with the missing part in the error text. */
CREMA_API crema_status crema_group_find(void) CREMA_MUST_USE;

/* Creates a group id in *out. The calling process must live until all processes have joined. It
 * does not initialise any device. Errors: as crema_group_find, and CREMA_E_DEVICE from NCCL. */
CREMA_API crema_status crema_group_make_id(crema_group_id *out) CREMA_MUST_USE;

/* Connects this solver with the solvers of the other processes of its group (process_count in the
 * options) via NCCL. Every process must call it once, with the same `id`, between two iterations.
 * It does nothing for a process_count of 0 or 1.
 *
 * Afterwards every process must make the same calls of crema_solver_step and crema_solver_solve.
 * The processes sum their gradients and have the weights of rank 0. A request of one process's poll
 * applies to all processes.
 *
 * If one process fails, the calls in all processes fail with the text "rank N (host): text". The
 * same happens if a process is killed or destroys its solver during training. Processes on the same
 * host notice it immediately. Processes on other hosts notice it when NCCL does, or after waiting
 * for `patience` seconds (0: 600 s). After a failure a solver can only be destroyed.
 *
 * crema_solver_destroy waits for all other processes, for at most `patience` seconds.
 *
 * Errors:
 *
 * - CREMA_E_UNSUPPORTED: the device is not a CUDA device, or there is no NCCL.
 * - CREMA_E_EXISTS: another process on the host has the same rank.
 * - CREMA_E_STATE: the solver has joined already.
 * - CREMA_E_SHAPE: another process trains a different net.
 * - CREMA_E_RANGE: `patience` is negative or NaN.
 * - CREMA_E_DEVICE, CREMA_E_IO. */
CREMA_API crema_status crema_solver_join(crema_solver *solver, const crema_group_id *id,
                                         double patience) CREMA_MUST_USE;

/* Copies the weights of rank 0, or of the first device, to all processes or devices. All processes
 * must call it. Training does this itself at its start. Errors: the failure of any process. */
CREMA_API crema_status crema_solver_broadcast(crema_solver *solver) CREMA_MUST_USE;

/* Predicts the time of an iteration with several devices or processes. It runs some iterations and
 * passes each line of its report to `line`, with `user`. The report has:
 *
 * - the tree along which weights can be copied, with the measured speed of each link
 * - the buckets in which gradients are exchanged, and the layer whose backward pass completes each
 * - the time of an iteration without an exchange
 * - the memory of activations and gradients, and the cost of recomputing activations
 * - the predicted time of an iteration for each exchange, and the choice of CREMA_EXCHANGE_AUTO
 *   with its reason
 *
 * All processes that train together must call it, but only the first one reports. The iterations
 * consume samples and change the update history: destroy the solver afterwards. Errors: as
 * crema_solver_step, and CREMA_E_UNSUPPORTED for a solver with a process_count. */
CREMA_API crema_status crema_solver_plan(crema_solver *solver, crema_line_fn *line,
                                         void *user) CREMA_MUST_USE;

/* Writes the snapshot <prefix>_iter_N.caffemodel[.h5] and <prefix>_iter_N.solverstate[.h5].
 * Existing files of these names stay intact until both new files are complete on the disk. Errors:
 * CREMA_E_IO, CREMA_E_NUMERIC for NaN or infinite weights. */
CREMA_API crema_status crema_solver_snapshot(crema_solver *solver) CREMA_MUST_USE;

/* The number of updates so far. */
CREMA_API int64_t crema_solver_iteration(const crema_solver *solver);

/* base_lr and max_iter of the solver file. The setters change them to `rate` and `iterations`,
 * starting with the next iteration. Errors: CREMA_E_RANGE. */
CREMA_API double crema_solver_base_lr(const crema_solver *solver);
CREMA_API crema_status crema_solver_set_base_lr(crema_solver *solver, double rate) CREMA_MUST_USE;
CREMA_API int64_t crema_solver_max_iterations(const crema_solver *solver);
CREMA_API crema_status crema_solver_set_max_iterations(crema_solver *solver,
                                                       int64_t iterations) CREMA_MUST_USE;

/* The learning rate of the next update. */
CREMA_API double crema_solver_rate(const crema_solver *solver);

/* The solver's description in text format. Free with crema_free. Errors: CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_solver_text(const crema_solver *solver, char **out) CREMA_MUST_USE;

/* Updates the weights once from the current gradients, with the learning rate crema_solver_rate.
 * Advances the rate and crema_solver_iteration as an iteration of crema_solver_step does.
 *
 * Use it in programs that run forward and backward themselves. The solver does not see the loss in
 * this case: lr_policy "plateau" counts iterations only, and the solver does not test, display or
 * save.
 *
 * Errors:
 *
 * - CREMA_E_UNSUPPORTED: several devices train.
 * - CREMA_E_RANGE: more than 2^31 - 1 iterations.
 * - CREMA_E_NUMERIC: the rate is NaN or infinite, or gradients stay so
 *   (global_grad_scale_adaptive).
 * - CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
CREMA_API crema_status crema_solver_apply_update(crema_solver *solver) CREMA_MUST_USE;

/* The train net and the test nets, which share its weights. All are owned by the solver. `index` is
 * below crema_solver_test_net_count. While the weights do not change, each test net may run forward
 * in its own thread, all at the same time (see crema.h). */
CREMA_API crema_net *crema_solver_net(crema_solver *solver);
CREMA_API int crema_solver_test_net_count(const crema_solver *solver);
CREMA_API crema_net *crema_solver_test_net(crema_solver *solver, int index);

#ifdef __cplusplus
}
#endif
#endif
