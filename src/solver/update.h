/* Update rules: from gradients to weights. */
#ifndef CR_SOLVER_UPDATE_H
#define CR_SOLVER_UPDATE_H

#include "solver/blocks.h"
#include "solver/rate.h"

/* A rule with its history for the learnable parameters of one net. */
typedef struct cr_updater cr_updater;

/* Type, delta and so on are read from `param` once; momentum and weight decay follow `schedule`,
 * which must outlive the updater, and so must `blocks`. The diffs hold the sum of the gradients of
 * so many `replicas`. Errors: CREMA_E_UNKNOWN_NAME for a type,
 * regularization_type or larc_policy, CREMA_E_RANGE for values that the rule cannot work with,
 * CREMA_E_ARGUMENT for a momentum_policy, regularization_type or larc_turbo that it has no use for
 * and for two kinds of local rates,
 * CREMA_E_UNSUPPORTED for a solver_data_type that is no floating type. */
crema_status cr_updater_create(const Caffe__SolverParameter *param, const cr_schedule *schedule,
                               const cr_param_blocks *blocks, int replicas,
                               cr_updater **out) CREMA_MUST_USE;
void cr_updater_destroy(cr_updater *updater);

/* From now on the diffs hold the sum of so many replicas. */
void cr_updater_set_replicas(cr_updater *updater, int replicas);

/* One update of all learnable parameters from their diffs, which hold the sum of `iter_size`
 * gradients of each replica times the net's grad_scale: division by that and by the number of
 * replicas, clipping (clip_gradients), division by iter_size, weight decay, the rule.
 * `iteration` counts the updates done before. */
crema_status cr_updater_run(cr_updater *updater, double rate, int64_t iteration) CREMA_MUST_USE;

/* The same in steps, for gradients that are complete one after another: begin, then each bucket
 * once, and the parameters that have no bucket because they do not learn. A bucket is prepared and
 * finished by the thread that uses the net, on its context; another thread and another context of
 * the device may run it in between, when that context waits for the first and the net's context
 * for it. */
crema_status cr_updater_begin(cr_updater *updater, double rate, int64_t iteration) CREMA_MUST_USE;
crema_status cr_updater_prepare(cr_updater *updater, const cr_bucket *bucket,
                                crema_context *context) CREMA_MUST_USE;
crema_status cr_updater_run_bucket(cr_updater *updater, const cr_bucket *bucket,
                                   crema_context *context) CREMA_MUST_USE;
crema_status cr_updater_finish(cr_updater *updater, const cr_bucket *bucket,
                               crema_context *context) CREMA_MUST_USE;
crema_status cr_updater_run_still(cr_updater *updater) CREMA_MUST_USE;

/* Whether begin or a bucket looks at all gradients, so that none may be missing: clipping, LARC,
 * LARS, LAMB, gradients or history in another type than the weights. */
bool cr_updater_needs_all(const cr_updater *updater);

/* History blobs in the order of Caffe's files: one per learnable parameter, then for AdaDelta,
 * Adam, AdamW and LAMB a second one for each. Owned by the updater. */
int cr_updater_history_count(const cr_updater *updater);
crema_blob *cr_updater_history(cr_updater *updater, int index);
const char *cr_updater_type(const cr_updater *updater);
/* See cr_local_correlation. */
double *cr_updater_correlation(cr_updater *updater);

#endif
