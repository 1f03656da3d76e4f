#include "solver/replica_threads.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/queue.h"
#include "core/thread.h"
#include "device/backend/current.h"

/* Work for a replica, and its result. */
typedef struct team_order {
  cr_replica_work *work;
  void *user;
  crema_status status;
  cr_error *error; /* the thread's error text after a failure */
  int place;       /* 1 for the first failure, 2 for the second, ... */
} team_order;

typedef struct member {
  cr_replica_threads *team;
  cr_replica *replica;
  cr_thread *thread;
  cr_queue_pair orders; /* `free`: done, `full`: to be done */
  team_order order;
} member;

struct cr_replica_threads {
  int replicas;
  cr_replica_failed *failed;
  void *user;          /* of `failed` */
  atomic_int failures; /* of the present orders */
  member member[];     /* the first has no thread */
};

static void carry_out(member *self) {
  team_order *order = &self->order;
  order->status = order->work(order->user, self->replica);
  if (order->status == CREMA_OK) return;
  order->place = atomic_fetch_add(&self->team->failures, 1) + 1;
  order->error = cr_error_keep();
  if (self->replica->exchange != NULL) cr_exchange_fail(self->replica->exchange, order->status);
  self->team->failed(self->team->user, order->status);
}

static crema_status serve(void *arg) {
  member *self = arg;
  CR_TRY(cr_device_set_current(self->replica->context->device));
  for (;;) {
    void *item = NULL;
    CR_TRY(cr_queue_pop(self->orders.full, NULL, &item));
    carry_out(self);
    CR_TRY(cr_queue_push(self->orders.free, item));
  }
}

crema_status cr_replica_threads_start(cr_replica *replica, int replicas, cr_replica_failed *failed,
                                      void *user, cr_replica_threads **out) {
  const size_t bytes = sizeof(cr_replica_threads) + (size_t)replicas * sizeof(member);
  cr_replica_threads *team = calloc(1, bytes);
  if (team == NULL) return cr_fail_memory(bytes, "the threads of replicas");
  team->replicas = replicas;
  team->failed = failed;
  team->user = user;
  for (int i = 0; i < replicas; ++i) {
    member *self = &team->member[i];
    self->team = team;
    self->replica = &replica[i];
    if (i == 0) continue;
    crema_status status = cr_queue_pair_init(&self->orders, (void *[]){&self->order}, 1);
    if (status == CREMA_OK) {
      status = cr_thread_start(&self->thread, "crema replica", serve, self);
    }
    if (status == CREMA_OK) continue;
    cr_replica_threads_stop(team);
    return status;
  }
  *out = team;
  return CREMA_OK;
}

void cr_replica_threads_stop(cr_replica_threads *team) {
  if (team == NULL) return;
  for (int i = 1; i < team->replicas; ++i) {
    (void)cr_thread_stop(&team->member[i].thread);
    cr_queue_pair_free(&team->member[i].orders, NULL);
  }
  free(team);
}

/* The first failure, as a failure of the calling thread. */
static crema_status collect_failure(cr_replica_threads *team) {
  crema_status status = CREMA_OK;
  for (int i = 0; i < team->replicas; ++i) {
    team_order *order = &team->member[i].order;
    if (order->place == 1) {
      status = order->status;
      cr_error_again(status, order->error);
    }
    free(order->error); /* each run begins with new orders */
  }
  return status;
}

crema_status cr_replica_threads_run(cr_replica_threads *team, cr_replica_work *work, void *user) {
  const team_order order = {.work = work, .user = user};
  void *item = NULL;
  atomic_store(&team->failures, 0);
  for (int i = 1; i < team->replicas; ++i) {
    CR_TRY(cr_queue_pop(team->member[i].orders.free, NULL, &item));
    team->member[i].order = order;
    CR_TRY(cr_queue_push(team->member[i].orders.full, item));
  }
  team->member[0].order = order;
  carry_out(&team->member[0]);
  for (int i = 1; i < team->replicas; ++i) { /* waits until the order is carried out */
    CR_TRY(cr_queue_pop(team->member[i].orders.free, NULL, &item));
    CR_TRY(cr_queue_push(team->member[i].orders.free, item));
  }
  return collect_failure(team);
}
