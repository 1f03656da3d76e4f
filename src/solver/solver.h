/* The internals of a solver, shared by the files of this folder. README.md lists them. */
#ifndef CR_SOLVER_SOLVER_H
#define CR_SOLVER_SOLVER_H

#include "core/fail.h"
#include "crema/solver.h"
#include "net/net.h"
#include "net/weights/weights.h"
#include "parallel/world.h"
#include "solver/rate.h"
#include "solver/replica.h"
#include "solver/replica_threads.h"

struct cr_net_means;

/* The mean of the last losses. */
typedef struct cr_loss_window {
  int size; /* average_loss */
  int count, next;
  double *loss;
} cr_loss_window;

/* The state of the factor for all gradients (global_grad_scale_adaptive). */
typedef struct cr_scaling {
  double limit;       /* of the factor */
  int64_t updates;    /* made after the last skipped update */
  int64_t skipped;    /* updates in all */
  int skipped_in_row; /* the most recent updates */
} cr_scaling;

/* The best value of an output of a test net (early_stop_patience). */
typedef struct cr_early_stop {
  int net, output; /* which test net, and which of its outputs */
  bool lowest;     /* low values are good */
  bool has_best;
  double best;
  int64_t best_iteration;
  int64_t tested_iteration; /* of the last test; -1: none */
  int tests;                /* after the best one */
} cr_early_stop;

struct crema_solver {
  Caffe__SolverParameter *param;
  cr_schedule schedule;         /* read from `param` */
  char *path;                   /* the solver file */
  char *snapshot_prefix;        /* NULL: none could be derived */
  crema_solver_options options; /* stages are not kept */
  cr_world *world;              /* NULL: one process, or one that has not joined its group */
  int rank;                     /* of the first replica of this process */
  int ranks;                    /* replicas of all processes, which share the data */
  int replicas;                 /* of this process */
  bool warned_alone;            /* that it has not joined the other processes */
  cr_replica *replica;
  cr_replica_threads *team;
  /* The shared input of this process's replicas: of the train net, then of each test net; NULL for
   * one replica. */
  cr_input_group **group;
  /* Of the first replica, the root in its process. */
  crema_device *device;
  crema_context *context;
  crema_net *net;
  cr_updater *updater;
  uint64_t seed;
  int test_nets;
  bool tests_shared; /* each replica tests its share of the samples; else only the root tests */
  /* First the root's; with tests_shared the test nets of this process's other replicas follow, NULL
   * for a net that they do not share. */
  crema_net **test_net;
  struct cr_net_epoch *test_epoch; /* of the data of each test net */
  int64_t iteration;               /* updates done */
  cr_rate_state rate;
  cr_loss_window window;
  bool has_score;
  double score; /* of the last test: the first test net's first output that is no loss, else its
                   first output */
  cr_early_stop early_stop;
  int64_t batch_samples; /* samples a forward pass takes */
  int64_t samples;
  double seconds;
  bool stop_requested;
  Caffe__CremaState *held;    /* by cr_state_hold; NULL: none */
  int64_t snapshot_iteration; /* of the last snapshot that this solver wrote; -1: none */
  /* The failure of the last snapshot; `unsaved_reported`: the library's caller has received it. */
  crema_status unsaved;
  cr_error *unsaved_error;
  bool unsaved_reported;
  cr_scaling scaling;
  bool updating; /* the weights are being changed */
  bool warned_not_finite;
  /* For the speed in the display line. */
  double display_time;
  int64_t display_iteration;
};

/* Defined in nets.c: */

/* Builds the net of replica `index` of this process, whose context is set. */
crema_status cr_solver_build_train_net(crema_solver *solver, int index) CREMA_MUST_USE;
crema_status cr_solver_build_test_nets(crema_solver *solver) CREMA_MUST_USE;

/* Defined in replicas.c: */

/* Chooses devices, joins the other processes, and makes the replicas of this process, which then
 * lack only their weights. Errors: CREMA_E_NO_DEVICE, CREMA_E_ARGUMENT for devices that cannot
 * train together, and errors of cr_world_join, cr_net_create and cr_replica_begin. */
crema_status cr_solver_make_replicas(crema_solver *solver) CREMA_MUST_USE;
void cr_solver_free_replicas(crema_solver *solver);
/* Reports a failure to the other processes, so that they do not wait for this one. Returns
 * `status`. */
crema_status cr_solver_tell(crema_solver *solver, crema_status status);
/* To be called after joining other processes: logs it, and leaves them reports and processors. */
void cr_solver_greet(const crema_solver *solver);
/* The number of replicas that exchange: all, or only the replicas of this process until it joins
 * its group. */
int cr_solver_partners(const crema_solver *solver);
/* Whether this process reports and writes snapshots. */
bool cr_solver_leads(const crema_solver *solver);
/* The exchange that `auto` takes, and why. It ignores measurements, which vary, because a repeated
 * run must give the same bits. */
crema_exchange cr_solver_auto_exchange(const crema_solver *solver, const char **why);
/* The approximate number of buckets for an exchange during backward. */
int cr_solver_buckets(const crema_solver *solver);
/* Gives all replicas the root's parameters and its factor for gradients, before training. */
crema_status cr_solver_level(crema_solver *solver) CREMA_MUST_USE;
/* Waits for the replicas' exchange and returns its failures. */
crema_status cr_solver_finish(crema_solver *solver) CREMA_MUST_USE;
/* Sets averaged weights, if any, to the weights, which have been replaced. */
crema_status cr_solver_restart_averages(crema_solver *solver) CREMA_MUST_USE;
/* Gives all replicas the root's statistics, before a test. */
crema_status cr_solver_level_statistics(crema_solver *solver) CREMA_MUST_USE;

/* Defined in join.c: */

/* Before training: warns if this process has not joined its group. Errors: CREMA_E_STATE unless all
 * processes will make the same iterations, up to `end`. */
crema_status cr_solver_check_others(crema_solver *solver, int64_t end) CREMA_MUST_USE;

/* Defined in score.c: */

/* Runs all test nets and logs their mean outputs. Sets solver->stop_requested if the caller's poll
 * requests a stop. */
crema_status cr_solver_test_all(crema_solver *solver) CREMA_MUST_USE;

/* Defined in epochs.c: */

/* Errors: CREMA_E_RANGE, CREMA_E_ARGUMENT if test_and_snapshot_last_epochs is not possible with the
 * net's input. */
crema_status cr_epochs_check(const crema_solver *solver) CREMA_MUST_USE;
/* Whether the last update ended one of the last epochs (test_and_snapshot_last_epochs). */
bool cr_epoch_has_ended(const crema_solver *solver);
/* Tests, and writes a snapshot with the score in the names of its files. */
crema_status cr_epoch_end(crema_solver *solver) CREMA_MUST_USE;

/* Defined in early_stop.c: */

/* Finds the output that early_stop_output names. Errors: CREMA_E_ARGUMENT without a test net,
 * CREMA_E_UNKNOWN_NAME. */
crema_status cr_early_stop_prepare(crema_solver *solver) CREMA_MUST_USE;
/* Forgets all values. */
void cr_early_stop_forget(crema_solver *solver);
/* Records a test's means, the `count` values of all outputs of test net `net`. */
void cr_early_stop_see(crema_solver *solver, int net, const double *mean, int64_t count);
/* Whether training should end; logs the reason. */
bool cr_early_stop_is_due(const crema_solver *solver);

/* Defined in control.c: */

/* Calls a function of the options; NULL: a no-op. */
crema_status cr_solver_call(crema_solver *solver, crema_solver_call_fn *call) CREMA_MUST_USE;

/* Defined in report.c: */
void cr_report_iteration(crema_solver *solver, double loss);
/* "    Train net output #0: loss = 0.5 (* 1 = 0.5 loss)"; `kind` is "Train" or "Test". */
void cr_report_output(const char *kind, int number, const char *name, double value,
                      double loss_weight);
/* Such a line for all values of all outputs. */
crema_status cr_report_train_outputs(crema_solver *solver) CREMA_MUST_USE;
/* Events for the caller, if it wants them. `loss` and `rate` of the iteration whose gradients were
 * computed last. The second logs the means, too. */
crema_status cr_report_trained(crema_solver *solver, double loss, double rate) CREMA_MUST_USE;
crema_status cr_report_tested(crema_solver *solver, int test_net,
                              const struct cr_net_means *means) CREMA_MUST_USE;
void cr_report_detected(crema_solver *solver, int test_net, double score);
void cr_report_saved(const crema_solver *solver, const char *model, const char *state);

/* Defined in grad_scale.c: */

/* Sets net->grad_scale and solver->scaling as they are when training begins. */
void cr_grad_scale_start(crema_solver *solver);
/* To be called between backward and update. Sets *next, the factor for the gradients of the next
 * iteration, constant without global_grad_scale_adaptive. *skip: omit the update, as gradients are
 * not finite, which a smaller factor may cure. Errors: CREMA_E_NUMERIC after too many skipped
 * updates in a row, unless training continues with values that are not finite. */
crema_status cr_grad_scale_next(crema_solver *solver, double *next, bool *skip) CREMA_MUST_USE;

/* Defined in train.c: */

/* The action that the caller of any process requests; the same for all processes. */
crema_status cr_solver_ask(crema_solver *solver, crema_solver_action *action) CREMA_MUST_USE;
crema_status cr_loss_window_init(cr_loss_window *window, int size) CREMA_MUST_USE;
double cr_loss_window_add(cr_loss_window *window, double loss);
/* 0 without any loss. */
double cr_loss_window_mean(const cr_loss_window *window);
/* Makes and counts an update from the present gradients and advances the schedule. Errors: see
 * cr_grad_scale_next, cr_updater_run. */
crema_status cr_solver_update(crema_solver *solver) CREMA_MUST_USE;

/* Defined in snapshot.c: */

bool cr_snapshot_is_hdf5(const crema_solver *solver);
/* Whether all replicas run test net `index`. A net with test_iter 0 is run by the first replica of
 * the first process: its last batch is short. */
static inline bool cr_solver_shares_test(const crema_solver *solver, int index) {
  return solver->tests_shared && solver->param->test_iter[index] > 0;
}
/* Whether training is to write snapshots. */
bool cr_snapshot_is_wanted(const crema_solver *solver);
/* Fails unless files can be made in the snapshots' folder and HDF5 snapshots can hold the net.
 * Errors: CREMA_E_IO, CREMA_E_UNSUPPORTED without HDF5, errors of cr_net_check_hdf5. */
crema_status cr_snapshot_check(const crema_solver *solver) CREMA_MUST_USE;
/* Writes a snapshot during training: a failure to write it is noted and only warned about. Errors:
 * CREMA_E_NUMERIC for weights that are not finite, unless training continues with them. */
crema_status cr_snapshot_try(crema_solver *solver) CREMA_MUST_USE;
/* The same, with the score of the last test, if any, in the names of the files. */
crema_status cr_snapshot_try_scored(crema_solver *solver) CREMA_MUST_USE;
/* Notes that a snapshot failed, with the thread's error text. */
void cr_snapshot_note_failure(crema_solver *solver, crema_status status);
/* The noted failure, once; else CREMA_OK. */
crema_status cr_snapshot_failure(crema_solver *solver) CREMA_MUST_USE;

/* Defined in restore.c: */

/* Reads a state's file, to be freed with cr_message_free. Errors: CREMA_E_IO, CREMA_E_CORRUPT. */
crema_status cr_state_read(const char *path, Caffe__SolverState **out) CREMA_MUST_USE;

/* Defined in model_file.c: */

/* Identifies a model file. */
typedef struct cr_model_sum {
  uint64_t size; /* bytes */
  uint32_t crc32;
} cr_model_sum;

/* Computes it from the whole file. Errors: CREMA_E_IO, CREMA_E_NO_MEMORY. */
crema_status cr_model_sum_read(const char *path, cr_model_sum *out) CREMA_MUST_USE;
/* The path of the state's model, to be freed; NULL: the state names none. Takes only the model
 * whose sum the state records; warns if it records none. Errors: CREMA_E_NOT_FOUND, CREMA_E_CORRUPT
 * (with expected and found sums). */
crema_status cr_model_find(const char *state_path, const Caffe__SolverState *state,
                           char **out) CREMA_MUST_USE;

/* Defined in state.c: */

/* Points `to` at uninitialised room for `count` elements, which cr_message_free releases; a status.
 */
#define CR_STATE_ALLOCATE(to, count)                               \
  (((to) = cr_proto_alloc((size_t)(count) * sizeof *(to))) != NULL \
       ? CREMA_OK                                                  \
       : cr_fail_memory((size_t)(count) * sizeof *(to), "a solver state"))

/* Iteration, history and all that an exact resume needs, as a message. `sum` is of the model file
 * `learned_net`. The history's values are not copied: the message is valid until the next update.
 * Free it with cr_state_proto_free, which accepts NULL. */
crema_status cr_state_to_proto(crema_solver *solver, const char *learned_net,
                               const cr_model_sum *sum, Caffe__SolverState **out) CREMA_MUST_USE;
void cr_state_proto_free(Caffe__SolverState *message);
/* Holds the positions in the data and in the random streams. States are written with them until
 * their release: a snapshot in the middle of a test phase resumes at its start. A no-op if they are
 * held. */
crema_status cr_state_hold(crema_solver *solver) CREMA_MUST_USE;
void cr_state_release(crema_solver *solver);
/* Restores the held positions, if any, and releases them. Errors: from the layers' restore. */
crema_status cr_state_rewind(crema_solver *solver) CREMA_MUST_USE;
/* Errors: CREMA_E_SHAPE if the history does not fit the net or the order of its layers,
 * CREMA_E_CORRUPT. */
crema_status cr_state_check(crema_solver *solver, const Caffe__SolverState *state) CREMA_MUST_USE;
/* Restores a checked state. Errors: CREMA_E_CORRUPT, from the layers' restore. */
crema_status cr_state_from_proto(crema_solver *solver,
                                 const Caffe__SolverState *state) CREMA_MUST_USE;

/* Defined in hdf5_state.c: */
crema_status cr_state_write_hdf5(const Caffe__SolverState *state,
                                 cr_file_draft *draft) CREMA_MUST_USE;
crema_status cr_state_read_hdf5(const char *path, Caffe__SolverState **out) CREMA_MUST_USE;

#endif
