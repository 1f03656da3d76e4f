/* A replica: one copy of the net that is trained, with its gradients and its update, on one device.
 *
 * Several replicas compute gradients from different samples and exchange them (src/parallel). If
 * every replica updates, the exchange runs in a thread of the replica during backward. A bucket of
 * gradients is handed over when its last gradient is submitted, and summed over all replicas. The
 * update uses it at once, unless it needs all gradients first. If only the root updates, gradients
 * are summed after backward, and the root's weights are broadcast before forward. */
#ifndef CR_SOLVER_REPLICA_H
#define CR_SOLVER_REPLICA_H

#include <stdatomic.h>

#include "parallel/exchange.h"
#include "solver/average.h"
#include "solver/update.h"

typedef struct cr_reducer cr_reducer;

typedef struct cr_replica cr_replica;
struct cr_replica {
  crema_context *context; /* of the net */
  crema_net *net;
  cr_param_blocks *blocks;
  cr_updater *updater;   /* NULL: the root updates for all */
  cr_average *average;   /* NULL: none, or the root has it for all */
  cr_exchange *exchange; /* NULL: there is no other replica */
  int rank, replicas;
  cr_bucket *bucket; /* in the order of their exchange; NULL without an exchange */
  int buckets;
  cr_reducer *reducer;  /* NULL: no separate thread exchanges */
  bool updated;         /* the iteration's update was made during the exchange */
  atomic_bool updating; /* that update has begun and is not known to be complete */
};

/* Prepares `replica`, whose context and net are set, for training. Takes over `exchange` (may be
 * NULL), also on failure; cr_replica_end frees all. Gradients are exchanged in about `buckets`
 * buckets. `joins`: an exchange may come later. Errors: see cr_updater_create,
 * cr_exchange_prepare. */
crema_status cr_replica_begin(cr_replica *replica, const Caffe__SolverParameter *param,
                              const cr_schedule *schedule, cr_exchange *exchange, int buckets,
                              bool joins) CREMA_MUST_USE;
/* Adopts an exchange in which all ranks update. Errors: see cr_exchange_prepare. */
crema_status cr_replica_join(cr_replica *replica, cr_exchange *exchange,
                             int buckets) CREMA_MUST_USE;
/* Ends the replica's thread and waits for its queued work, which may use memory of other replicas:
 * call it for all replicas, then end the first. Accepts a replica that is zeroed or half made. */
void cr_replica_rest(cr_replica *replica);
/* Accepts a replica that is zeroed or half made. */
void cr_replica_end(cr_replica *replica);

/* An iteration of all replicas. */
typedef struct cr_iteration {
  int64_t number; /* of earlier updates */
  int passes;     /* iter_size */
  /* Fills the inputs before each forward pass; may be NULL. Replicas call it at the same time. */
  crema_status (*feed)(void *user, crema_net *net, int64_t pass);
  /* Gets each loss; a failure ends the iteration. */
  crema_status (*check_loss)(void *user, cr_replica *replica, double loss);
  void *user;    /* of `feed` */
  void *checker; /* of `check_loss` */
  bool has_rate; /* the learning rate is known before the loss is */
  double rate;
} cr_iteration;

/* Forward and backward passes and the exchange. Then the gradients are the sum over all replicas,
 * or the update is already made (replica->updated). *loss is the mean over this replica's passes.
 * Errors: from the layers and the exchange. */
crema_status cr_replica_compute(cr_replica *replica, const cr_iteration *iteration,
                                double *loss) CREMA_MUST_USE;

/* One forward pass, with the inputs of pass `pass` of the iteration. */
crema_status cr_replica_forward(cr_replica *replica, const cr_iteration *iteration, int pass,
                                double *loss) CREMA_MUST_USE;

/* Makes the update, unless it is made already or other ranks make it, and advances the averages. */
crema_status cr_replica_update(cr_replica *replica, double rate, int64_t iteration) CREMA_MUST_USE;

/* Gives all replicas the root's parameters: all, or only those that do not learn, such as
 * statistics, which differ between replicas. Each replica calls it in its own thread. A no-op
 * without an exchange. */
crema_status cr_replica_broadcast(cr_replica *replica, bool all) CREMA_MUST_USE;
/* Gives all replicas the root's gradients, unless only the root has the sum. */
crema_status cr_replica_broadcast_gradients(cr_replica *replica) CREMA_MUST_USE;

#endif
