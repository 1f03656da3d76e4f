/* Update rules: from gradients to weights. */
#ifndef CR_SOLVER_UPDATE_H
#define CR_SOLVER_UPDATE_H

#include "solver/blocks.h"
#include "solver/rate.h"

/* A rule with its history for the learnable parameters of one net. */
typedef struct cr_updater cr_updater;

/* Reads type, delta and so on from `param`; momentum and weight decay follow `schedule`. `schedule`
 * and `blocks` must outlive the updater. The diffs hold the sum of the gradients of `replicas`.
 * Errors:
 *
 * - CREMA_E_UNKNOWN_NAME: type, regularization_type or larc_policy.
 * - CREMA_E_RANGE: values that the rule cannot work with.
 * - CREMA_E_ARGUMENT: a momentum_policy, regularization_type or larc_turbo that the rule does not
 *   use, or two kinds of local rates.
 * - CREMA_E_UNSUPPORTED: a solver_data_type that is not a floating type. */
crema_status cr_updater_create(const Caffe__SolverParameter *param, const cr_schedule *schedule,
                               const cr_param_blocks *blocks, int replicas,
                               cr_updater **out) CREMA_MUST_USE;
void cr_updater_destroy(cr_updater *updater);

/* The diffs of the next updates hold the sum of `replicas`. Of updaters that work in parallel, the
 * one of rank 0 logs. */
void cr_updater_set_replicas(cr_updater *updater, int replicas, int rank);

/* One update of all learnable parameters from their diffs, which hold the sum of `iter_size`
 * gradients of each replica times the net's grad_scale. Its steps: division by grad_scale and by
 * the number of replicas, clipping (clip_gradients), division by iter_size, weight decay, the rule.
 * `iteration` counts the updates done before. */
crema_status cr_updater_run(cr_updater *updater, double rate, int64_t iteration) CREMA_MUST_USE;

/* The same in steps, for gradients that complete one after another: begin, each bucket once, then
 * the parameters that do not learn and have no bucket. The thread that uses the net collects the
 * gradients of a bucket in `sent`, prepares the bucket and finishes it, on the net's context.
 * Another thread may run the bucket, on another context of the device that waits for the net's
 * context and that the net's context then waits for. */
crema_status cr_updater_begin(cr_updater *updater, double rate, int64_t iteration) CREMA_MUST_USE;
crema_status cr_updater_prepare(cr_updater *updater, const cr_bucket *bucket,
                                crema_context *context) CREMA_MUST_USE;
crema_status cr_updater_run_bucket(cr_updater *updater, const cr_bucket *bucket,
                                   crema_context *context) CREMA_MUST_USE;
crema_status cr_updater_finish(cr_updater *updater, const cr_bucket *bucket,
                               crema_context *context) CREMA_MUST_USE;
crema_status cr_updater_run_still(cr_updater *updater) CREMA_MUST_USE;

/* Whether begin or a bucket reads all gradients: clipping, LARC, LARS, LAMB, history in another
 * type than the weights. */
bool cr_updater_needs_all(const cr_updater *updater);

/* History blobs in the order of Caffe's files: one per learnable parameter, then a second one for
 * each with AdaDelta, Adam, AdamW and LAMB. Owned by the updater. */
int cr_updater_history_count(const cr_updater *updater);
crema_blob *cr_updater_history(cr_updater *updater, int index);
const char *cr_updater_type(const cr_updater *updater);
/* See cr_local_correlation. */
double *cr_updater_correlation(cr_updater *updater);

#endif
