/* What is known of a training before it begins: links, buckets, times. */
#ifndef CR_SOLVER_PLAN_H
#define CR_SOLVER_PLAN_H

#include "parallel/cost.h"
#include "parallel/probe.h"
#include "parallel/tree.h"
#include "solver/solver.h"

/* What an iteration takes without an exchange, in seconds: of one pass, and of the update. */
typedef struct cr_plan_times {
  double forward, backward, update;
  double again;  /* of backward: what is computed again, with crema_solver_options.recompute */
  double *ready; /* of each bucket, since its backward pass began */
} cr_plan_times;

typedef struct cr_training_plan {
  crema_solver *solver;
  cr_probe_fn *probe; /* measures links: cr_probe_links */
  /* How the parameters' gradients are cut when they are exchanged along with backward. */
  cr_bucket *bucket;
  int buckets;
  cr_net_memory memory; /* that the planned values of a replica take, the largest's */
  cr_plan_times times;  /* of the slowest replica in each respect */
  cr_plan_times *each;  /* of the replicas of this process */
  cr_cost_bucket *cost; /* one per bucket, set anew for each prediction */
  /* Between the devices of this process, if there are several. */
  cr_tree_pair pair[CR_MAX_DEVICES];
  cr_tree_way way[CR_MAX_DEVICES];
  cr_speed link[CR_MAX_DEVICES]; /* of each pair but the first, the root's, alone */
  cr_speed level;                /* of the pairs whose child has no children, at once */
  cr_speed ring;                 /* of all links of a ring at once */
  cr_speed processes;            /* between processes, if there are several */
} cr_training_plan;

/* Measures all of the above. After success or failure free the plan with cr_plan_free. */
crema_status cr_plan_make(cr_training_plan *plan) CREMA_MUST_USE;
void cr_plan_free(cr_training_plan *plan);

double cr_plan_bucket_bytes(const cr_training_plan *plan, int bucket);

/* Seconds of an iteration; CREMA_EXCHANGE_AUTO: without an exchange. */
double cr_plan_step(const cr_training_plan *plan, crema_exchange way);
/* Seconds of the exchange alone. */
double cr_plan_exchange(const cr_training_plan *plan, crema_exchange way);

/* Tells the plan line by line. */
void cr_plan_tell(const cr_training_plan *plan, void (*line)(void *user, const char *text),
                  void *user);

#endif
