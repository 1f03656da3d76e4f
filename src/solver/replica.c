#include "solver/replica.h"

#include <stdlib.h>

#include "core/fail.h"
#include "core/processors.h"
#include "core/queue.h"
#include "core/signals.h"
#include "core/thread.h"
#include "crema/event.h"
#include "device/backend/current.h"
#include "device/backend/order.h"

/* The thread that exchanges gradients during the backward pass. */
struct cr_reducer {
  cr_thread *thread;
  crema_context *context; /* on the replica's device */
  cr_queue *ready, *done; /* of buckets */
  crema_event **event;    /* one per bucket: its gradients are computed */
  bool updates;           /* in this iteration; set before the first bucket is handed over */
  int next;               /* the next bucket to hand over */
};

/* Span i is the weights of block i; the gradients of each bucket follow. */
static int bucket_span(const cr_replica *replica, int bucket) {
  return replica->blocks->count + bucket;
}

/* The elements from `begin` to `end` of a block's array. */
static crema_status span_of(const cr_replica *replica, cr_tensor *whole, int64_t begin, int64_t end,
                            cr_exchange_span *out) {
  const crema_dtype type = cr_tensor_type(whole);
  crema_devptr memory = {0};
  CR_TRY(cr_tensor_read(whole, replica->context, (cr_format){type, NULL}, &memory));
  memory.address += (size_t)begin * crema_dtype_size(type);
  *out = (cr_exchange_span){.memory = memory, .count = end - begin, .type = type};
  return CREMA_OK;
}

static crema_status prepare_exchange(cr_replica *replica) {
  const cr_param_blocks *blocks = replica->blocks;
  cr_exchange_span *span = NULL;
  crema_status status = CREMA_OK;
  CR_TRY(CR_NEW(span, blocks->count + replica->buckets, "an exchange"));
  for (int i = 0; i < blocks->count; ++i) {
    const cr_param_block *block = &blocks->block[i];
    CR_TRY_GOTO(span_of(replica, block->weight, 0, block->count, &span[i]), out);
  }
  for (int i = 0; i < replica->buckets; ++i) {
    const cr_bucket *bucket = &replica->bucket[i];
    int64_t begin, end;
    cr_bucket_range(blocks, bucket, &begin, &end);
    CR_TRY_GOTO(span_of(replica, blocks->block[bucket->block].sent, begin, end,
                        &span[bucket_span(replica, i)]),
                out);
  }
  status = cr_exchange_prepare(replica->exchange, span, blocks->count + replica->buckets);
out:
  free(span);
  return status;
}

static cr_param_block_tensors gradients(const cr_replica *replica) {
  return (cr_param_block_tensors){replica->net->learnable, true};
}

static crema_status collect_bucket(const cr_replica *replica, const cr_bucket *bucket) {
  const cr_param_block *block = &replica->blocks->block[bucket->block];
  return cr_param_block_collect(block, block->sent, gradients(replica), bucket->first, bucket->last,
                                replica->context);
}

static crema_status bucket_changed(const cr_replica *replica, const cr_bucket *bucket) {
  const cr_param_block *block = &replica->blocks->block[bucket->block];
  return cr_param_block_changed(block, block->sent, gradients(replica), bucket->first, bucket->last,
                                replica->context);
}

static crema_status reduce_bucket(cr_replica *replica, int index) {
  cr_reducer *reducer = replica->reducer;
  const cr_bucket *bucket = &replica->bucket[index];
  CR_TRY(crema_event_wait(reducer->event[index], reducer->context));
  CR_TRY(cr_exchange_sum(replica->exchange, reducer->context, bucket_span(replica, index)));
  if (!reducer->updates) return CREMA_OK;
  atomic_store(&replica->updating, true);
  return cr_updater_run_bucket(replica->updater, bucket, reducer->context);
}

static crema_status reduce(void *arg) {
  cr_replica *replica = arg;
  cr_reducer *reducer = replica->reducer;
  crema_status status = cr_device_set_current(replica->context->device);
  cr_processors_limit(1); /* the remaining processors compute gradients */
  for (;;) {
    void *item = NULL;
    if (status == CREMA_OK) status = cr_queue_pop(reducer->ready, NULL, &item);
    if (status != CREMA_OK) break;
    status = reduce_bucket(replica, (int)((cr_bucket *)item - replica->bucket));
    if (status == CREMA_OK) status = cr_queue_push(reducer->done, item);
  }
  if (status != CREMA_E_INTERRUPTED && status != CREMA_E_CLOSED) {
    cr_exchange_fail(replica->exchange, status);
  }
  cr_queue_fail(reducer->done, status, NULL);
  return status;
}

static void reducer_destroy(cr_replica *replica) {
  cr_reducer *reducer = replica->reducer;
  if (reducer == NULL) return;
  (void)cr_thread_stop(&reducer->thread);
  for (int i = 0; reducer->event != NULL && i < replica->buckets; ++i) {
    crema_event_destroy(reducer->event[i]);
  }
  free(reducer->event);
  cr_queue_destroy(reducer->done);
  cr_queue_destroy(reducer->ready);
  crema_context_destroy(reducer->context);
  free(reducer);
  replica->reducer = NULL;
}

static crema_status reducer_create(cr_replica *replica) {
  crema_device *device = replica->context->device;
  CR_TRY(CR_NEW(replica->reducer, 1, "an exchange"));
  cr_reducer *reducer = replica->reducer;
  CR_TRY(crema_context_create(device, 0, &reducer->context));
  CR_TRY(cr_queue_create((size_t)replica->buckets + 1, &reducer->ready));
  CR_TRY(cr_queue_create((size_t)replica->buckets + 1, &reducer->done));
  CR_TRY(CR_NEW(reducer->event, replica->buckets, "an exchange"));
  for (int i = 0; i < replica->buckets; ++i) {
    CR_TRY(crema_event_create(device, &reducer->event[i]));
  }
  return cr_thread_start(&reducer->thread, "crema reduce", reduce, replica);
}

static crema_status hand_over(cr_replica *replica, int index) {
  cr_reducer *reducer = replica->reducer;
  cr_bucket *bucket = &replica->bucket[index];
  CR_TRY(collect_bucket(replica, bucket));
  if (reducer->updates) CR_TRY(cr_updater_prepare(replica->updater, bucket, replica->context));
  crema_event_reset(reducer->event[index]);
  CR_TRY(crema_event_record(reducer->event[index], replica->context, NULL));
  if (replica->context->device->backend->host_memory) {
    CR_TRY(crema_event_set_finished(reducer->event[index], NULL));
  }
  return cr_queue_push(reducer->ready, bucket);
}

static crema_status layer_done(void *user, int layer) {
  cr_replica *replica = user;
  cr_reducer *reducer = replica->reducer;
  while (reducer->next < replica->buckets && replica->bucket[reducer->next].layer >= layer) {
    CR_TRY(hand_over(replica, reducer->next++));
  }
  return CREMA_OK;
}

static bool acts_at(const void *user, int layer) {
  const cr_replica *replica = user;
  int i = 0;
  while (i < replica->buckets && replica->bucket[i].layer != layer) ++i;
  return i < replica->buckets;
}

static crema_status await_buckets(cr_replica *replica) {
  cr_reducer *reducer = replica->reducer;
  for (int i = 0; i < replica->buckets; ++i) {
    void *item = NULL;
    CR_TRY(cr_queue_pop(reducer->done, NULL, &item));
  }
  CR_TRY(cr_context_follow(replica->context, reducer->context->id));
  for (int i = 0; i < replica->buckets; ++i) {
    CR_TRY(bucket_changed(replica, &replica->bucket[i]));
    if (!reducer->updates) continue;
    CR_TRY(cr_updater_finish(replica->updater, &replica->bucket[i], replica->context));
  }
  return CREMA_OK;
}

static bool is_root(const cr_replica *replica) {
  return replica->rank == 0;
}

/* Whether the root updates for all and broadcasts its weights before each pass. */
static bool is_root_only(const cr_replica *replica) {
  return replica->exchange != NULL && replica->exchange->class->root_only;
}

static crema_status broadcast_block(const cr_replica *replica, int index) {
  const cr_param_block *block = &replica->blocks->block[index];
  const cr_param_block_tensors weights = {replica->net->learnable, false};
  crema_context *context = replica->context;
  CR_TRY(cr_param_block_collect(block, block->weight, weights, 0, block->parts, context));
  CR_TRY(cr_exchange_broadcast(replica->exchange, context, index));
  if (is_root(replica)) return CREMA_OK;
  return cr_param_block_changed(block, block->weight, weights, 0, block->parts, context);
}

crema_status cr_replica_broadcast(cr_replica *replica, bool all) {
  if (replica->exchange == NULL) return CREMA_OK;
  for (int i = 0; i < replica->blocks->count; ++i) {
    if (all || !replica->blocks->block[i].learns) CR_TRY(broadcast_block(replica, i));
  }
  return CREMA_OK;
}

crema_status cr_replica_broadcast_gradients(cr_replica *replica) {
  if (replica->exchange == NULL || is_root_only(replica)) return CREMA_OK;
  for (int i = 0; i < replica->buckets; ++i) {
    CR_TRY(collect_bucket(replica, &replica->bucket[i]));
    CR_TRY(cr_exchange_broadcast(replica->exchange, replica->context, bucket_span(replica, i)));
    CR_TRY(bucket_changed(replica, &replica->bucket[i]));
  }
  return CREMA_OK;
}

/* Sums gradients at the root, after backward. */
static crema_status sum_buckets(cr_replica *replica) {
  for (int i = 0; i < replica->buckets; ++i) {
    const cr_bucket *bucket = &replica->bucket[i];
    CR_TRY(collect_bucket(replica, bucket));
    CR_TRY(cr_exchange_sum(replica->exchange, replica->context, bucket_span(replica, i)));
    if (is_root(replica)) CR_TRY(bucket_changed(replica, bucket));
  }
  return CREMA_OK;
}

/* Starts the update that the reducer makes along with the exchange, if that is possible. */
static crema_status begin_update(cr_replica *replica, const cr_iteration *iteration) {
  cr_reducer *reducer = replica->reducer;
  reducer->next = 0;
  reducer->updates = iteration->has_rate && !cr_updater_needs_all(replica->updater) &&
                     !replica->net->param->global_grad_scale_adaptive;
  if (!reducer->updates) return CREMA_OK;
  return cr_updater_begin(replica->updater, iteration->rate, iteration->number);
}

static crema_status fill_inputs(cr_replica *replica, const cr_iteration *iteration, int pass) {
  if (iteration->feed == NULL) return CREMA_OK;
  int64_t number = (iteration->number * iteration->passes + pass) * replica->replicas;
  return iteration->feed(iteration->user, replica->net, number + replica->rank);
}

crema_status cr_replica_forward(cr_replica *replica, const cr_iteration *iteration, int pass,
                                double *loss) {
  if (is_root_only(replica)) CR_TRY(cr_replica_broadcast(replica, true));
  CR_TRY(fill_inputs(replica, iteration, pass));
  return crema_net_forward(replica->net, loss);
}

static crema_status one_pass(cr_replica *replica, const cr_iteration *iteration, int pass,
                             double *loss) {
  crema_net *net = replica->net;
  const bool exchanges = replica->reducer != NULL && pass + 1 == iteration->passes;
  const cr_net_watcher watcher = {.layer_done = layer_done, .acts_at = acts_at, .user = replica};
  CR_TRY(fill_inputs(replica, iteration, pass));
  crema_status status = cr_net_forward_submit(net);
  if (status == CREMA_OK && exchanges) status = begin_update(replica, iteration);
  if (status == CREMA_OK) {
    status = exchanges ? cr_net_backward_watched(net, &watcher) : crema_net_backward(net);
  }
  if (status == CREMA_OK) status = cr_net_loss_read(net, loss);
  if (status != CREMA_OK) return cr_fail_in(status, "iteration %lld", (long long)iteration->number);
  return iteration->check_loss(iteration->checker, replica, *loss);
}

crema_status cr_replica_compute(cr_replica *replica, const cr_iteration *iteration, double *loss) {
  const bool root_only = is_root_only(replica);
  replica->updated = false;
  if (root_only) CR_TRY(cr_replica_broadcast(replica, true));
  crema_net_clear_param_diffs(replica->net);
  double sum = 0;
  for (int pass = 0; pass < iteration->passes; ++pass) {
    double one = 0;
    CR_TRY(one_pass(replica, iteration, pass, &one));
    sum += one;
  }
  *loss = sum / iteration->passes;
  if (root_only) return sum_buckets(replica);
  if (replica->reducer == NULL) return CREMA_OK;
  CR_TRY(await_buckets(replica));
  atomic_store(&replica->updating, false);
  if (!replica->reducer->updates) return CREMA_OK;
  replica->updated = true;
  return cr_updater_run_still(replica->updater);
}

crema_status cr_replica_update(cr_replica *replica, double rate, int64_t iteration) {
  crema_status status = CREMA_OK;
  if (replica->updater == NULL) return CREMA_OK;
  cr_signals_hold(); /* once for all parameters */
  if (!replica->updated) status = cr_updater_run(replica->updater, rate, iteration);
  if (status == CREMA_OK && replica->average != NULL) {
    status = cr_average_advance(replica->average);
  }
  cr_signals_release();
  return cr_fail_in(status, "iteration %lld", (long long)iteration);
}

static crema_status begin_exchange(cr_replica *replica, int buckets) {
  const bool root_only = replica->exchange->class->root_only;
  CR_TRY(cr_param_blocks_cut(replica->blocks, root_only ? 1 : buckets, &replica->bucket,
                             &replica->buckets));
  CR_TRY(prepare_exchange(replica));
  return root_only ? CREMA_OK : reducer_create(replica);
}

crema_status cr_replica_begin(cr_replica *replica, const Caffe__SolverParameter *param,
                              const cr_schedule *schedule, cr_exchange *exchange, int buckets,
                              bool joins) {
  replica->exchange = exchange;
  replica->rank = exchange != NULL ? exchange->rank : 0;
  replica->replicas = exchange != NULL ? exchange->ranks : 1;
  CR_TRY(cr_param_blocks_create(replica->net, exchange != NULL || joins, &replica->blocks));
  if (is_root(replica) || !exchange->class->root_only) {
    CR_TRY(
        cr_updater_create(param, schedule, replica->blocks, replica->replicas, &replica->updater));
    cr_updater_set_replicas(replica->updater, replica->replicas, replica->rank);
    if (param->ema_decay > 0) {
      CR_TRY(cr_average_create(replica->blocks, (double)param->ema_decay, &replica->average));
    }
  }
  return exchange != NULL ? begin_exchange(replica, buckets) : CREMA_OK;
}

crema_status cr_replica_join(cr_replica *replica, cr_exchange *exchange, int buckets) {
  replica->exchange = exchange;
  replica->rank = exchange->rank;
  replica->replicas = exchange->ranks;
  cr_updater_set_replicas(replica->updater, exchange->ranks, exchange->rank);
  return begin_exchange(replica, buckets);
}

/* Ignores failures, which were reported elsewhere. */
static void finish_quietly(crema_context *context) {
  if (context != NULL) (void)!crema_context_finish(context);
}

void cr_replica_rest(cr_replica *replica) {
  if (replica->reducer != NULL) {
    (void)cr_thread_stop(&replica->reducer->thread);
    finish_quietly(replica->reducer->context);
  }
  finish_quietly(replica->context);
  if (replica->exchange != NULL) (void)!cr_exchange_finish(replica->exchange);
}

void cr_replica_end(cr_replica *replica) {
  reducer_destroy(replica);
  cr_exchange_destroy(replica->exchange);
  free(replica->bucket);
  cr_average_destroy(replica->average);
  cr_updater_destroy(replica->updater);
  cr_param_blocks_destroy(replica->blocks);
  crema_net_destroy(replica->net);
  crema_context_destroy(replica->context);
  *replica = (cr_replica){0};
}
