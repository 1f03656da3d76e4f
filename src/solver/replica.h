/* A replica: one copy of the net that is trained, with its gradients and its update, on one device.
 *
 * A training has one replica, or several that compute gradients from different samples and exchange
 * them (src/parallel). Where every replica updates, the exchange runs in a thread of the replica
 * while backward is still computing: a bucket of gradients is handed over when its last gradient is
 * submitted, summed over all replicas, and, unless the update has to see all gradients first, used
 * for the update at once. Where only the root updates, gradients are summed after backward, and the
 * root's weights are broadcast before the next forward pass. */
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
  cr_bucket *bucket; /* in the order of their exchange; NULL without one */
  int buckets;
  cr_reducer *reducer; /* NULL: no thread of its own exchanges */
  bool updated;        /* the iteration's update was made while gradients were exchanged */
  /* Part of that update was begun, and not all of it is known to be made. */
  atomic_bool updating;
};

/* Prepares `replica`, whose context and net are set, for training. `exchange` (may be NULL) is
 * taken over, also on failure; so is what is set already: all is freed with cr_replica_end.
 * Gradients are exchanged in about so many `buckets`. `joins`: without an exchange, one may come
 * later. Errors: those of cr_updater_create, cr_exchange_prepare. */
crema_status cr_replica_begin(cr_replica *replica, const Caffe__SolverParameter *param,
                              const cr_schedule *schedule, cr_exchange *exchange, int buckets,
                              bool joins) CREMA_MUST_USE;
/* Gives it the exchange, of which all ranks update, and which is taken over likewise. Errors: those
 * of cr_exchange_prepare. */
crema_status cr_replica_join(cr_replica *replica, cr_exchange *exchange,
                             int buckets) CREMA_MUST_USE;
/* Ends the replica's thread and waits for the work that it has queued, which may use memory of the
 * other replicas: to be called for all of them before the first one is ended. Accepts what
 * cr_replica_end does. */
void cr_replica_rest(cr_replica *replica);
/* Accepts a zeroed struct, and one that is half made. */
void cr_replica_end(cr_replica *replica);

/* One iteration, as all replicas make it. */
typedef struct cr_iteration {
  int64_t number; /* updates made before */
  int passes;     /* iter_size */
  /* Fills the inputs before each forward pass; may be NULL. Replicas call it at the same time. */
  crema_status (*feed)(void *user, crema_net *net, int64_t pass);
  /* Told of each loss; a failure ends the iteration. */
  crema_status (*check_loss)(void *user, cr_replica *replica, double loss);
  void *user;    /* of `feed` */
  void *checker; /* of `check_loss` */
  bool has_rate; /* the learning rate is known before the loss is */
  double rate;
} cr_iteration;

/* Forward and backward passes, and the exchange: afterwards the gradients are the sum over all
 * replicas, or the update is made already (replica->updated). *loss is the mean over the passes of
 * this replica. Errors: those of the layers and of the exchange. */
crema_status cr_replica_compute(cr_replica *replica, const cr_iteration *iteration,
                                double *loss) CREMA_MUST_USE;

/* One forward pass, the inputs of which are those of pass `pass` of the iteration. */
crema_status cr_replica_forward(cr_replica *replica, const cr_iteration *iteration, int pass,
                                double *loss) CREMA_MUST_USE;

/* Makes the update, unless it is made already or others make it, and advances the averages. */
crema_status cr_replica_update(cr_replica *replica, double rate, int64_t iteration) CREMA_MUST_USE;

/* Gives all replicas the root's parameters: all of them, or those that do not learn, as statistics,
 * which each replica gathers from its own samples. To be called for each replica, in threads of
 * their own. A no-op without an exchange. */
crema_status cr_replica_broadcast(cr_replica *replica, bool all) CREMA_MUST_USE;
/* The root's gradients become those of all, unless the root alone has the sum. */
crema_status cr_replica_broadcast_gradients(cr_replica *replica) CREMA_MUST_USE;

#endif
