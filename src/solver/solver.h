/* Inside a solver. Files of this room:
 *   solver.c     making and freeing, public getters
 *   nets.c       building the train net and the test nets
 *   replicas.c   on which devices, and how they exchange
 *   join.c       joining processes that a program has started
 *   replica.c    one net on one device: its gradients, its update; replica_threads.c all of them at work
 *   blocks.c     parameters side by side in memory
 *   plan.c       measuring links and computing, and what a step will take; plan_report.c telling it
 *   fields.c     checking numbers of the solver file; on which line a field is
 *   rate.c       learning-rate policies
 *   rule.c       which update rule; update.c making updates
 *   local_rate.c rates of single parameters
 *   grad_scale.c the factor for all gradients, when it follows their size
 *   train.c      the training loop
 *   score.c      running the test nets
 *   detections.c the scores of detectors
 *   average.c    averaged weights
 *   early_stop.c ending when tests get no better
 *   epochs.c     tests and snapshots at the end of the last epochs
 *   control.c    what programs ask and change between iterations
 *   report.c     the lines of the log
 *   snapshot.c   writing snapshots; restore.c reading them; latest.c finding the newest;
 *   model_file.c which model is a state's
 *   state.c      solver state as a message; hdf5_state.c as an HDF5 file */
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

/* The mean of the last losses. */
typedef struct cr_loss_window {
  int size; /* average_loss */
  int count, next;
  double *loss;
} cr_loss_window;

/* How the factor for all gradients has followed their size (global_grad_scale_adaptive). */
typedef struct cr_scaling {
  double limit;       /* of the factor */
  int64_t updates;    /* since the last one that was skipped */
  int64_t skipped;    /* of all */
  int skipped_in_row; /* the last so many */
} cr_scaling;

/* How an output of a test net has developed (early_stop_patience). */
typedef struct cr_early_stop {
  int net, output; /* which test net, and which of its outputs */
  bool lowest;     /* low values are good */
  bool has_best;
  double best;
  int64_t best_iteration, tested_iteration; /* of the best value; of the last test; -1: none */
  int tests;                                /* since the best one */
} cr_early_stop;

struct crema_solver {
  Caffe__SolverParameter *param;
  cr_schedule schedule;         /* read from `param` */
  char *path;                   /* the solver file */
  char *snapshot_prefix;        /* NULL: none could be derived */
  crema_solver_options options; /* stages are not kept */
  cr_world *world;              /* NULL: this process trains alone, or has yet to join others */
  int rank;                     /* of the first replica of this process */
  int ranks;                    /* replicas of all processes together, which share the data */
  int replicas;                 /* of this process */
  bool warned_alone;            /* that it has not joined the others */
  cr_replica *replica;
  cr_replica_threads *team;
  /* What replicas of this process share of their input: of the train net, then of each test net;
   * NULL for one replica. */
  cr_input_group **group;
  /* Of the first replica, the root in its process. */
  crema_device *device;
  crema_context *context;
  crema_net *net;
  cr_updater *updater;
  uint64_t seed;
  int test_nets;
  bool tests_shared; /* each replica tests its share of the samples; else the root tests alone */
  /* test_net[i] for i < test_nets is the root's; with tests_shared those of the other replicas of
   * this process follow. */
  crema_net **test_net;
  int64_t iteration; /* updates done */
  cr_rate_state rate;
  cr_loss_window window;
  bool has_score;
  double score; /* of the last test: the first output of the first test net that is no loss, or its
                   first output */
  cr_early_stop early_stop;
  int64_t batch_samples; /* samples a forward pass takes */
  int64_t samples;
  double seconds;
  bool stop_requested;
  Caffe__CremaState *held;    /* by cr_state_hold; NULL: nothing is held */
  int64_t snapshot_iteration; /* of the last snapshot that this solver wrote; -1: none */
  /* The failure of the last snapshot; CREMA_OK when it was written. `unsaved_told`: the caller of
   * the library has it. */
  crema_status unsaved;
  cr_error *unsaved_error;
  bool unsaved_told;
  cr_scaling scaling;
  bool updating; /* the weights are being changed */
  bool warned_not_finite;
  /* For the speed in the display line. */
  double display_time;
  int64_t display_iteration;
};

/* ---- nets.c ---- */

/* Builds the net of replica `index` of this process, whose context is set; *out is the replica's.
 */
crema_status cr_solver_build_train_net(crema_solver *solver, int index) CREMA_MUST_USE;
crema_status cr_solver_build_test_nets(crema_solver *solver) CREMA_MUST_USE;

/* ---- replicas.c ---- */

/* Chooses devices, joins the other processes, and makes the replicas of this process, ready to
 * train but for their weights. Errors: CREMA_E_NO_DEVICE, CREMA_E_ARGUMENT for devices that cannot
 * train together, those of cr_world_join, of building nets and of cr_replica_begin. */
crema_status cr_solver_make_replicas(crema_solver *solver) CREMA_MUST_USE;
void cr_solver_free_replicas(crema_solver *solver);
/* Tells the other processes of a failure, so that they do not wait for this one, and passes it on;
 * also CREMA_OK. */
crema_status cr_solver_tell(crema_solver *solver, crema_status status);
/* What this process does for having joined others: it says so, and leaves reports and processors to
 * them. */
void cr_solver_greet(const crema_solver *solver);
/* The replicas that exchange: all of them, but for a process that has yet to join the others. */
int cr_solver_partners(const crema_solver *solver);
/* Whether this process reports and writes snapshots. */
bool cr_solver_leads(const crema_solver *solver);
/* The way to exchange that `auto` takes, and why. It does not depend on measurements, which vary: a
 * run must give the same bits each time. */
crema_exchange cr_solver_auto_exchange(const crema_solver *solver, const char **why);
/* In about so many buckets gradients are exchanged while others are computed. */
int cr_solver_buckets(const crema_solver *solver);
/* Gives all replicas the root's parameters and its factor for gradients, before training goes on.
 */
crema_status cr_solver_level(crema_solver *solver) CREMA_MUST_USE;
/* Waits for what the replicas exchange, and returns its failures. */
crema_status cr_solver_finish(crema_solver *solver) CREMA_MUST_USE;
/* The averaged weights, if there are any, become the weights, which have been replaced. */
crema_status cr_solver_restart_averages(crema_solver *solver) CREMA_MUST_USE;
/* Gives all replicas the root's statistics, before all of them test. */
crema_status cr_solver_level_statistics(crema_solver *solver) CREMA_MUST_USE;

/* ---- join.c ---- */

/* Before training: warns when the others were not joined, and sees to it that all processes are to
 * make the same iterations, up to `end`. Errors: CREMA_E_STATE when they are not. */
crema_status cr_solver_check_others(crema_solver *solver, int64_t end) CREMA_MUST_USE;

/* ---- score.c ---- */

/* Runs all test nets and logs their mean outputs. solver->stop_requested is set when
 * the caller's poll asked for it. */
crema_status cr_solver_test_all(crema_solver *solver) CREMA_MUST_USE;

/* ---- epochs.c ---- */

/* Whether test_and_snapshot_last_epochs is possible with the net's input. Errors: CREMA_E_RANGE,
 * CREMA_E_ARGUMENT. */
crema_status cr_epochs_check(const crema_solver *solver) CREMA_MUST_USE;
/* Whether the last update was the last one of an epoch that test_and_snapshot_last_epochs means. */
bool cr_epoch_has_ended(const crema_solver *solver);
/* Tests, and writes a snapshot with the score in the names of its files. */
crema_status cr_epoch_end(crema_solver *solver) CREMA_MUST_USE;

/* ---- early_stop.c ---- */

/* Finds the output that early_stop_output means. Errors: CREMA_E_ARGUMENT without a test net,
 * CREMA_E_UNKNOWN_NAME. */
crema_status cr_early_stop_prepare(crema_solver *solver) CREMA_MUST_USE;
/* No value has been seen yet. */
void cr_early_stop_forget(crema_solver *solver);
/* Takes note of a test's means, `count` values of all outputs of test net `net`. */
void cr_early_stop_see(crema_solver *solver, int net, const double *mean, int64_t count);
/* Whether training is to end now, which is said in the log. */
bool cr_early_stop_is_due(const crema_solver *solver);

/* ---- control.c ---- */

/* Calls one of the functions in the options, if it is given. */
crema_status cr_solver_call(crema_solver *solver, crema_solver_call_fn *call) CREMA_MUST_USE;

/* ---- report.c ---- */
void cr_report_iteration(crema_solver *solver, double loss);
/* "    Train net output #0: loss = 0.5 (* 1 = 0.5 loss)" for all values of all outputs. */
crema_status cr_report_train_outputs(crema_solver *solver) CREMA_MUST_USE;
/* One such line; `kind` is "Train" or "Test". */
void cr_report_output(const char *kind, int number, const char *name, double value,
                      double loss_weight);

/* ---- grad_scale.c ---- */

/* Sets net->grad_scale and solver->scaling as they are when training begins. */
void cr_grad_scale_start(crema_solver *solver);
/* To be called between backward and update. *next is the factor for the gradients of the next
 * iteration; *skip: gradients are not finite, which a smaller factor may cure, and the update is
 * not to be made. Without global_grad_scale_adaptive the factor stays as it is. Errors:
 * CREMA_E_NUMERIC when too many updates in a row would be skipped, unless training is to go on with
 * values that are not finite. */
crema_status cr_grad_scale_next(crema_solver *solver, double *next, bool *skip) CREMA_MUST_USE;

/* ---- train.c ---- */

/* What the caller of each process wants done now; all processes get the same answer. */
crema_status cr_solver_ask(crema_solver *solver, crema_solver_action *action) CREMA_MUST_USE;
crema_status cr_loss_window_init(cr_loss_window *window, int size) CREMA_MUST_USE;
double cr_loss_window_add(cr_loss_window *window, double loss);
/* 0 without any loss. */
double cr_loss_window_mean(const cr_loss_window *window);
/* An iteration's update, from the gradients that are there, which advances the schedule and is
 * counted. Errors: those of cr_grad_scale_next and of the update. */
crema_status cr_solver_update(crema_solver *solver) CREMA_MUST_USE;

/* ---- snapshot.c ---- */

/* Fails unless files can be made where the snapshots go and, in HDF5, the net can be saved.
 * Errors: CREMA_E_IO, CREMA_E_UNSUPPORTED without HDF5, those of cr_net_check_hdf5. */
crema_status cr_snapshot_check(const crema_solver *solver) CREMA_MUST_USE;
/* Writes a snapshot that training can do without: a failure to write it is a warning, and noted.
 * Errors: CREMA_E_NUMERIC for weights that are not finite, unless training is to go on with
 * such. */
crema_status cr_snapshot_try(crema_solver *solver) CREMA_MUST_USE;
/* The same, with the score of the last test, if there is one, in the names of the files. */
crema_status cr_snapshot_try_scored(crema_solver *solver) CREMA_MUST_USE;
/* Notes that a snapshot failed, with the thread's error text. */
void cr_snapshot_note_failure(crema_solver *solver, crema_status status);
/* The noted failure, once; CREMA_OK when there is none or it was told. */
crema_status cr_snapshot_failure(crema_solver *solver) CREMA_MUST_USE;

/* ---- restore.c ---- */

/* Reads a state's file, to be freed with cr_message_free. Errors: CREMA_E_IO, CREMA_E_CORRUPT. */
crema_status cr_state_read(const char *path, Caffe__SolverState **out) CREMA_MUST_USE;

/* ---- model_file.c ---- */

/* What tells a model file from others of its name. */
typedef struct cr_model_sum {
  uint64_t size; /* bytes */
  uint32_t crc32;
} cr_model_sum;

/* Computes it from the whole file. Errors: CREMA_E_IO, CREMA_E_NO_MEMORY. */
crema_status cr_model_sum_read(const char *path, cr_model_sum *out) CREMA_MUST_USE;
/* The path of the state's model, to be freed; NULL when it names none. When the state records which
 * model it was written with, no other model is ever taken; when it does not, there is a warning.
 * Errors: CREMA_E_NOT_FOUND, CREMA_E_CORRUPT (with what was expected and what was found). */
crema_status cr_model_find(const char *state_path, const Caffe__SolverState *state,
                           char **out) CREMA_MUST_USE;

/* ---- state.c ---- */

/* Iteration, history and what exact resume needs, as a message. `sum` is of the model file
 * `learned_net`. The history's values are not copied: the message is valid until the next update,
 * and is freed with cr_state_proto_free, which accepts NULL. */
crema_status cr_state_to_proto(crema_solver *solver, const char *learned_net,
                               const cr_model_sum *sum, Caffe__SolverState **out) CREMA_MUST_USE;
void cr_state_proto_free(Caffe__SolverState *message);
/* Keeps the positions in the data and in the random streams. Until they are released, states are
 * written with these: a snapshot in the middle of a test phase resumes at its start. A no-op when
 * they are kept already. */
crema_status cr_state_hold(crema_solver *solver) CREMA_MUST_USE;
/* Forgets what cr_state_hold kept. */
void cr_state_release(crema_solver *solver);
/* Goes back to what cr_state_hold kept, if anything, and forgets it. Errors: those of the layers'
 * restore. */
crema_status cr_state_rewind(crema_solver *solver) CREMA_MUST_USE;
/* Whether a state fits the solver. Errors: CREMA_E_SHAPE when the history does not fit the net or
 * the order of its layers, CREMA_E_CORRUPT. */
crema_status cr_state_check(crema_solver *solver, const Caffe__SolverState *state) CREMA_MUST_USE;
/* Takes over a state that was checked. Errors: CREMA_E_CORRUPT, those of the layers' restore. */
crema_status cr_state_from_proto(crema_solver *solver,
                                 const Caffe__SolverState *state) CREMA_MUST_USE;

/* ---- hdf5_state.c ---- */
crema_status cr_state_write_hdf5(const Caffe__SolverState *state,
                                 cr_file_draft *draft) CREMA_MUST_USE;
crema_status cr_state_read_hdf5(const char *path, Caffe__SolverState **out) CREMA_MUST_USE;

#endif
