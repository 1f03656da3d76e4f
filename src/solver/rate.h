/* Schedules of learning rate, momentum and weight decay. */
#ifndef CR_SOLVER_RATE_H
#define CR_SOLVER_RATE_H

#include "proto/proto.h"

typedef enum cr_rate_policy {
  CR_RATE_FIXED,
  CR_RATE_STEP,
  CR_RATE_EXP,
  CR_RATE_INV,
  CR_RATE_MULTISTEP,
  CR_RATE_POLY,
  CR_RATE_SIGMOID,
  CR_RATE_PLATEAU,
  CR_RATE_MULTIFIXED,
  CR_RATE_COSINE,
  CR_RATE_ONECYCLE,
  CR_RATE_POLICIES /* the number of policies */
} cr_rate_policy;

typedef enum cr_factor_policy {
  CR_FACTOR_FIXED,
  CR_FACTOR_POLY,
  CR_FACTOR_OPT, /* this and the next only for the momentum */
  CR_FACTOR_ONECYCLE,
  CR_FACTOR_POLICIES
} cr_factor_policy;

/* The three schedules of a solver file. */
typedef struct cr_schedule {
  const Caffe__SolverParameter *param; /* of the solver, for the fields that do not change */
  cr_rate_policy policy;
  cr_factor_policy momentum_policy, weight_decay_policy;
  double base_lr;
  int max_iter;
} cr_schedule;

/* The state of the learning rate's schedule. */
typedef struct cr_rate_state {
  int step;           /* of the step, multistep and plateau policies */
  float minimum_loss; /* of the plateau policy: the least mean loss so far */
  int64_t last_event; /* of the plateau policy: the iteration of that loss or of the last step */
} cr_rate_state;

/* Reads the schedule of a solver file; `param` must outlive it. Errors: CREMA_E_PARSE without
 * lr_policy, CREMA_E_ARGUMENT for two ways to warm up, CREMA_E_UNKNOWN_NAME for unknown policies,
 * CREMA_E_RANGE for values that a policy cannot work with. */
crema_status cr_schedule_read(const Caffe__SolverParameter *param, cr_schedule *out) CREMA_MUST_USE;

/* The learning rate at `iteration`, given the mean `loss` of the last iterations. Call it once per
 * iteration: policies with steps advance *state. */
double cr_rate_at(const cr_schedule *schedule, int64_t iteration, double loss,
                  cr_rate_state *state);

/* Whether the rate depends on the losses. */
static inline bool cr_rate_follows_loss(const cr_schedule *schedule) {
  return schedule->policy == CR_RATE_PLATEAU;
}

/* Momentum and weight decay at `iteration`, without the factors of single parameters. `rate`: the
 * learning rate of that iteration. */
double cr_momentum_at(const cr_schedule *schedule, int64_t iteration, double rate);
double cr_weight_decay_at(const cr_schedule *schedule, int64_t iteration);

#endif
