/* Solvers: training a net. */
#ifndef CREMA_SOLVER_H
#define CREMA_SOLVER_H

#include "crema/net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What trains a net: the nets, what its update rule remembers, the position in the data. */
typedef struct crema_solver crema_solver;

/* What the caller wants done between two iterations. */
typedef enum crema_solver_action {
  CREMA_SOLVER_CONTINUE = 0,
  CREMA_SOLVER_STOP = 1,
  CREMA_SOLVER_SNAPSHOT = 2
} crema_solver_action;

/* What is done about a loss or a weight that is not a finite number. */
typedef enum crema_solver_on_nan {
  CREMA_SOLVER_NAN_STOP = 0, /* training ends with CREMA_E_NUMERIC, which names the layer */
  CREMA_SOLVER_NAN_WARN = 1  /* training goes on with a warning that names the layer */
} crema_solver_on_nan;

/* How several devices or processes that train one net share weights and gradients. */
typedef enum crema_exchange {
  CREMA_EXCHANGE_AUTO = 0,   /* the best of those that are possible; the log says which and why */
  CREMA_EXCHANGE_TREE = 1,   /* devices: the first one updates and hands its weights down a tree */
  CREMA_EXCHANGE_REDUCE = 2, /* devices: all get the sum while gradients are computed, and update */
  CREMA_EXCHANGE_NCCL = 3,   /* likewise, by NVIDIA's library; processes with a GPU each, too */
  CREMA_EXCHANGE_MPI = 4     /* processes that mpirun started, one device each */
} crema_exchange;

/* Progress, after each iteration. */
typedef struct crema_solver_progress {
  int64_t iteration;      /* updates done */
  int64_t max_iterations; /* the solver's max_iter */
  double loss;            /* smoothed over average_loss iterations */
  double rate;            /* learning rate used */
  int64_t samples;        /* samples trained on since the solver was made */
  double seconds;         /* time spent training since then */
} crema_solver_progress;

/* Gets the caller's pointer. A failure ends the training. */
typedef crema_status crema_solver_call_fn(void *user);

/* How a solver is built and what it asks its caller. Start from crema_solver_options_init. */
typedef struct crema_solver_options {
  crema_device *device; /* NULL: what solver_mode and device_id say, or the CPU without a GPU */
  /* Several devices of one type train together when there are more than one; the first of them is
   * the root, which writes snapshots. Along a tree it tests alone; else the batches of a test are
   * dealt out, as many to each device: test_iter is rounded up with a warning. Not kept. */
  crema_device *const *devices;
  size_t device_count; /* of `devices` */
  /* Trains together with the other processes that mpirun started, if it did. Each process then
   * trains on one device: of `devices`, if given, the one whose index is the process's number on
   * its host, modulo their count. The first process reports and writes snapshots; the others
   * log warnings only. */
  bool with_processes;
  /* Trains together with processes that the caller has started, one device each: this is rank
   * `process_rank` (from 0 on) of `process_count`, and joins the others by crema_solver_join before
   * it trains. Each process then reads its own share of the data, of which all must have the same
   * view: without a seed, the seed is 0. 0 or 1: no such processes. Excludes with_processes and
   * several devices. The first process reports and writes snapshots, all test their share. */
  int process_rank;
  int process_count;       /* see process_rank */
  crema_exchange exchange; /* how they do it */
  /* Gradients are added in the order in which they arrive (tree only): faster, and another rounding
   * in every run. Otherwise a run gives the same bits each time. */
  bool any_order;
  /* batch_size is for all devices together and is divided among them, rounded up with a warning;
   * otherwise each device takes such a batch. */
  bool total_batch;
  const char *type; /* of the update rule, such as "Adam"; NULL: the file's. Not kept */
  bool has_seed;    /* `seed` is what random numbers come from, where the file has no random_seed */
  uint64_t seed;    /* see has_seed */
  int level;        /* added to the train net's state */
  const char *const *stages; /* likewise; names, not kept */
  size_t stage_count;        /* how many */
  bool warn_unknown_fields;  /* see crema_net_options */
  bool skip_corrupt;         /* see crema_net_options */
  /* The solver file's `weights` are not loaded: the caller restores a snapshot, or calls
   * crema_solver_load_weights. */
  bool no_weights;
  /* All blobs of the nets keep their values and gradients until the next pass. Otherwise the nets
   * plan their memory as crema_net_options.plan_memory says. All results are the same. */
  bool no_memory_plan;
  bool
      recompute; /* the train net; see crema_net_options. no_memory_plan has no effect on it then */
  /* The loss is looked at after each pass, the weights where the loss is displayed and before each
   * snapshot. Weights that are not finite do not become so again: stopping loses nothing that a
   * snapshot from before does not have. They are never written in a snapshot. */
  crema_solver_on_nan on_nan;
  /* Asked before each forward pass of the train net to fill its inputs (Input layers). `pass` is
   * iteration * iter_size plus the number of the pass within the iteration, so that a resumed run
   * goes on in the same place; with R devices or processes, device r is asked for pass R * that +
   * r, by several threads at once. May be NULL. A failure ends the training. */
  crema_status (*feed)(void *user, crema_net *net, int64_t pass);
  /* Asked after each iteration and before each test batch; may be NULL. */
  crema_solver_action (*poll)(void *user);
  /* Told after each iteration; may be NULL. */
  void (*progress)(void *user, const crema_solver_progress *progress);
  /* Called before the first forward pass of each iteration, and when its gradients are computed and
   * summed over all devices and the weights are about to be updated; both may change gradients and
   * weights of the solver's net. With several devices of this process the others then get its
   * weights, and after the second one its gradients, too; no device updates before the second one
   * has returned. With several processes each calls its own, which must change the same. May be
   * NULL. A failure ends the training. */
  crema_solver_call_fn *iteration_start;
  crema_solver_call_fn *gradients_ready; /* see iteration_start */
  void *user;                            /* the caller's, handed to the functions above */
} crema_solver_options;

/* All zero. */
CREMA_API void crema_solver_options_init(crema_solver_options *options);

/* Other functions in place of the options' iteration_start and gradients_ready, from the next call
 * on; NULL: none, as both cost time where there are several devices. Errors: none but for a solver
 * that is NULL. */
CREMA_API crema_status crema_solver_set_calls(crema_solver *solver,
                                              crema_solver_call_fn *iteration_start,
                                              crema_solver_call_fn *gradients_ready) CREMA_MUST_USE;

/* Builds train and test nets from the solver file `path`. Relative paths are tried from the working
 * directory, then from the file's folder. Free with crema_solver_destroy. Errors as
 * crema_net_load. */
CREMA_API crema_status crema_solver_load(const char *path, const crema_solver_options *options,
                                         crema_solver **out) CREMA_MUST_USE;
/* Accepts NULL. */
CREMA_API void crema_solver_destroy(crema_solver *solver);

/* Starts from the weights in `paths` (file names separated by commas, with or without blanks; NULL:
 * those that the solver file names, if any), or resumes from a snapshot's .solverstate: weights,
 * history, iteration, learning rate, reader position and random state. The model is looked for
 * beside the state, then at the path in it; it must be of the size and checksum that the state
 * records. States of Caffe and of earlier versions record neither: whatever is found is taken, with
 * a warning. Errors: CREMA_E_NOT_FOUND, CREMA_E_CORRUPT, CREMA_E_SHAPE. */
CREMA_API crema_status crema_solver_load_weights(crema_solver *solver,
                                                 const char *paths) CREMA_MUST_USE;
CREMA_API crema_status crema_solver_restore(crema_solver *solver, const char *path) CREMA_MUST_USE;

/* The same from the newest snapshot under the solver's snapshot_prefix that is whole: its state
 * fits the net and its model is there. Snapshots that are not are warned of. *found (may be NULL)
 * says whether there is one; else nothing changes. Processes that train together all take the
 * snapshot that the first one finds. Errors as crema_solver_restore. */
CREMA_API crema_status crema_solver_restore_latest(crema_solver *solver,
                                                   bool *found) CREMA_MUST_USE;

/* Trains until max_iter, with tests and snapshots as the solver says, and a last snapshot. A
 * snapshot that cannot be written is warned of and does not end training; the next one that is due,
 * or one at the end, makes up for it. What is learned before training fails (for want of data, say)
 * is kept in a snapshot. Ends before max_iter when tests get no better and the solver says
 * early_stop_patience. Stopped by poll within a test, training goes on from the start of that
 * test, in this process or another. Errors: CREMA_E_NUMERIC (see on_nan); at the end, the failure
 * of the last snapshot. */
CREMA_API crema_status crema_solver_solve(crema_solver *solver) CREMA_MUST_USE;

/* `iterations` more updates, with the tests and snapshots that are due; ends early when poll says
 * stop, but not for tests that get no better. Errors as crema_solver_solve; that a snapshot could
 * not be written is returned once, after the iterations. */
CREMA_API crema_status crema_solver_step(crema_solver *solver, int64_t iterations) CREMA_MUST_USE;

/* Gets a line of text, without a line break. */
typedef void crema_line_fn(void *user, const char *text);

/* What processes that train together know each other by. Whoever starts them makes one and gives it
 * to all. */
typedef struct crema_group_id {
  char bytes[128]; /* any values */
} crema_group_id;

/* Whether processes of this machine can train together as crema_solver_join says: the CUDA plug-in
 * and NCCL are there. No device is touched, so that a program may fork afterwards. Errors:
 * CREMA_E_NO_DEVICE, CREMA_E_UNSUPPORTED; the text says what is missing. */
CREMA_API crema_status crema_group_find(void) CREMA_MUST_USE;

/* Fills *out with a new id. The calling process must live until all have joined. Touches no device
 * either. Errors: as crema_group_find; CREMA_E_DEVICE from NCCL. */
CREMA_API crema_status crema_group_make_id(crema_group_id *out) CREMA_MUST_USE;

/* Joins the other processes that the solver's options speak of (process_count) by NCCL, device to
 * device; all must call it with the same id, once, between two iterations. From then on all make
 * the same calls of crema_solver_step and crema_solver_solve, sum their gradients and get the same
 * weights, those of rank 0. What poll wants is done in all. A process that fails makes the calls of
 * all fail, with the text "rank N (host): text", and so does one that is killed or whose solver is
 * destroyed while the others train: on the same host at once, between hosts when NCCL notices, or
 * when the others have been waited for `patience` seconds (0: 600). After a failure a solver can
 * only be destroyed. The solver's end waits for that of the others, as long at most. With a
 * process_count of 0 or 1 nothing is joined. Errors: CREMA_E_UNSUPPORTED for a device that is not
 * CUDA's or without NCCL; CREMA_E_EXISTS when another process of the host has the rank;
 * CREMA_E_STATE for a second call; CREMA_E_SHAPE when the others train another net; CREMA_E_RANGE
 * for the patience; CREMA_E_DEVICE, CREMA_E_IO. */
CREMA_API crema_status crema_solver_join(crema_solver *solver, const crema_group_id *id,
                                         double patience) CREMA_MUST_USE;

/* The weights of rank 0, or of the first device, become those of all; all processes must call it.
 * Training does this by itself when it begins. Errors: what another process failed with. */
CREMA_API crema_status crema_solver_broadcast(crema_solver *solver) CREMA_MUST_USE;

/* Tells, line by line, how training will go, before it does: between several devices the tree along
 * which weights may be copied, with the measured speeds of links; the buckets in which gradients
 * are exchanged, and after which layer's backward pass each is ready; the time of computing, from
 * some iterations without an exchange, the memory of activations and gradients, and what computing
 * them again costs; and from these the predicted time of an iteration for each
 * way to exchange, and which one CREMA_EXCHANGE_AUTO takes and why. `line` gets each line, and
 * `user`. All processes that train together must call it; only the first tells. These iterations
 * take samples from the data and change what the solver remembers of updates: afterwards it should
 * be destroyed. Errors: those of an iteration; CREMA_E_UNSUPPORTED for a solver with a
 * process_count. */
CREMA_API crema_status crema_solver_plan(crema_solver *solver, crema_line_fn *line,
                                         void *user) CREMA_MUST_USE;

/* Writes <prefix>_iter_N.caffemodel[.h5] and .solverstate[.h5]. Older files of these names stay
 * whole until both new ones are complete and on the disk. Errors: CREMA_E_IO, CREMA_E_NUMERIC for
 * weights that are not finite. */
CREMA_API crema_status crema_solver_snapshot(crema_solver *solver) CREMA_MUST_USE;

/* Updates done so far. */
CREMA_API int64_t crema_solver_iteration(const crema_solver *solver);

/* base_lr and max_iter of the solver file, and changing them to `rate` and `iterations` from the
 * next iteration on. Errors: CREMA_E_RANGE. */
CREMA_API double crema_solver_base_lr(const crema_solver *solver);
CREMA_API crema_status crema_solver_set_base_lr(crema_solver *solver, double rate) CREMA_MUST_USE;
CREMA_API int64_t crema_solver_max_iterations(const crema_solver *solver);
CREMA_API crema_status crema_solver_set_max_iterations(crema_solver *solver,
                                                       int64_t iterations) CREMA_MUST_USE;

/* The learning rate that the next update takes. */
CREMA_API double crema_solver_rate(const crema_solver *solver);

/* The solver's description in text format. Free with crema_free. Errors: CREMA_E_NO_MEMORY.
 */
CREMA_API crema_status crema_solver_text(const crema_solver *solver, char **out) CREMA_MUST_USE;

/* One update of the weights from the gradients that are there, as an iteration makes it: with
 * crema_solver_rate, which advances, and counted by crema_solver_iteration. For programs that run
 * forward and backward themselves, whose losses the solver does not see: lr_policy plateau counts
 * iterations alone, and nothing is tested, shown or saved. Errors: CREMA_E_UNSUPPORTED where
 * several devices train; CREMA_E_RANGE after 2^31 - 1 iterations; CREMA_E_NUMERIC for a rate that
 * is not finite, or gradients that stay so (global_grad_scale_adaptive); CREMA_E_NO_MEMORY,
 * CREMA_E_DEVICE. */
CREMA_API crema_status crema_solver_apply_update(crema_solver *solver) CREMA_MUST_USE;

/* The net being trained and the nets that test it (their weights are shared); owned by the
 * solver. `index` is below crema_solver_test_net_count. While nothing changes the weights, each
 * test net may run forward in a thread of its own, all at once (see crema.h). */
CREMA_API crema_net *crema_solver_net(crema_solver *solver);
CREMA_API int crema_solver_test_net_count(const crema_solver *solver);
CREMA_API crema_net *crema_solver_test_net(crema_solver *solver, int index);

#ifdef __cplusplus
}
#endif
#endif
