/* Measurements and predictions for a training: links, buckets, times. */
#ifndef CR_SOLVER_PLAN_H
#define CR_SOLVER_PLAN_H

#include "parallel/cost.h"
#include "parallel/probe.h"
#include "parallel/tree.h"
#include "solver/solver.h"

/* Seconds of an iteration without an exchange: of one pass, and of the update. */
typedef struct cr_plan_times {
  double forward, backward, update;
  double again;  /* the part of backward that recomputes (crema_solver_options.recompute) */
  double *ready; /* of each bucket, since its backward pass began */
} cr_plan_times;

typedef struct cr_training_plan {
  crema_solver *solver;
  cr_probe_fn *probe; /* measures links: cr_probe_links */
  cr_bucket *bucket;  /* for an exchange during backward */
  int buckets;
  cr_net_memory memory; /* of the replica with the most planned memory */
  cr_plan_times times;  /* each of the slowest replica */
  cr_plan_times *each;  /* of the replicas of this process */
  cr_cost_bucket *cost; /* one per bucket, set anew for each prediction */
  /* Between the devices of this process, if there are several. */
  cr_tree_pair pair[CR_MAX_DEVICES];
  cr_tree_way way[CR_MAX_DEVICES];
  cr_speed link[CR_MAX_DEVICES]; /* of each pair but the root's, one at a time */
  cr_speed level;                /* of the pairs with a leaf, at once */
  cr_speed ring;                 /* of all links of a ring at once */
  cr_speed processes;            /* between processes, if there are several */
} cr_training_plan;

/* Measures all of the above. Free the plan with cr_plan_free, also after a failure. */
crema_status cr_plan_make(cr_training_plan *plan) CREMA_MUST_USE;
void cr_plan_free(cr_training_plan *plan);

double cr_plan_bucket_bytes(const cr_training_plan *plan, int bucket);

/* Seconds of an iteration; CREMA_EXCHANGE_AUTO: without an exchange. */
double cr_plan_step(const cr_training_plan *plan, crema_exchange way);
/* Seconds of the exchange. */
double cr_plan_exchange(const cr_training_plan *plan, crema_exchange way);

/* Prints the plan line by line. */
void cr_plan_tell(const cr_training_plan *plan, void (*line)(void *user, const char *text),
                  void *user);

#endif
