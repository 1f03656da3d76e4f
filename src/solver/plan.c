/* Measures links and computing, and predicts the time of a training step. */
#include "solver/plan.h"

#include <math.h>
#include <stdlib.h>

#include "core/clock.h"

enum { ITERATIONS = 3 };

static crema_device *device_of(const cr_training_plan *plan, int replica) {
  return plan->solver->replica[replica].context->device;
}

static crema_status measure_tree(cr_training_plan *plan) {
  const int count = plan->solver->replicas;
  crema_device *device[CR_MAX_DEVICES];
  cr_probe_way way[CR_MAX_DEVICES];
  int last = 0;
  for (int i = 0; i < count; ++i) device[i] = device_of(plan, i);
  CR_TRY(cr_tree_pair_devices(device, count, plan->pair, plan->way));
  for (int i = 1; i < count; ++i) {
    const cr_tree_pair pair = plan->pair[i];
    const cr_probe_way down = {device[pair.parent], device[pair.child]};
    CR_TRY(plan->probe(&down, 1, &plan->link[i]));
    bool is_leaf = true;
    for (int k = 0; k < count; ++k) is_leaf = is_leaf && plan->pair[k].parent != pair.child;
    if (is_leaf) way[last++] = down;
  }
  return plan->probe(way, last, &plan->level);
}

static crema_status measure_ring(cr_training_plan *plan) {
  const int count = plan->solver->replicas;
  cr_probe_way way[CR_MAX_DEVICES];
  for (int i = 0; i < count; ++i) {
    way[i] = (cr_probe_way){device_of(plan, i), device_of(plan, (i + 1) % count)};
  }
  return plan->probe(way, count, &plan->ring);
}

static crema_status measure_links(cr_training_plan *plan) {
  crema_solver *solver = plan->solver;
  if (solver->ranks < 2) return CREMA_OK;
  if (solver->world != NULL) {
    return cr_probe_processes(solver->world, solver->replica[0].context, &plan->processes);
  }
  CR_TRY(measure_tree(plan));
  return measure_ring(plan);
}

/* The present backward pass. */
typedef struct backward {
  const cr_training_plan *plan;
  crema_context *context;
  double start;
  int next; /* bucket */
  double *ready;
} backward;

/* Waits for the device when a bucket is complete: submitted work may be unfinished. */
static crema_status layer_done(void *user, int layer) {
  backward *b = user;
  const cr_training_plan *plan = b->plan;
  if (b->next == plan->buckets || plan->bucket[b->next].layer < layer) return CREMA_OK;
  CR_TRY(crema_context_finish(b->context));
  const double now = cr_clock_seconds() - b->start;
  while (b->next < plan->buckets && plan->bucket[b->next].layer >= layer) {
    b->ready[b->next++] = now;
  }
  return CREMA_OK;
}

static crema_status time_iteration(const cr_training_plan *plan, cr_replica *replica, int number,
                                   cr_plan_times *times) {
  const crema_solver *solver = plan->solver;
  const cr_iteration iteration = {.number = solver->iteration + number,
                                  .passes = solver->param->iter_size,
                                  .feed = solver->options.feed,
                                  .user = solver->options.user};
  backward b = {.plan = plan, .context = replica->context, .ready = times->ready};
  const cr_net_watcher watcher = {.layer_done = layer_done, .user = &b};
  double loss;
  crema_net_clear_param_diffs(replica->net);
  const double start = cr_clock_seconds();
  CR_TRY(cr_replica_forward(replica, &iteration, 0, &loss));
  CR_TRY(crema_context_finish(replica->context));
  b.start = cr_clock_seconds();
  times->forward = b.start - start;
  const double before = replica->net->replay_time;
  CR_TRY(cr_net_backward_watched(replica->net, &watcher));
  CR_TRY(crema_context_finish(replica->context));
  const double end = cr_clock_seconds();
  times->backward = end - b.start;
  times->again = replica->net->replay_time - before;
  times->update = 0;
  if (replica->updater == NULL) return CREMA_OK;
  CR_TRY(cr_updater_run(replica->updater, 0, 0));
  CR_TRY(crema_context_finish(replica->context));
  times->update = cr_clock_seconds() - end;
  return CREMA_OK;
}

static double whole(const cr_plan_times *times) {
  return times->forward + times->backward + times->update;
}

/* Measures the fastest iteration. The first iteration, which also plans, does not count. All
 * replicas compute at the same time, as in training: simulated devices share the processors. */
static crema_status measure_replica(void *user, cr_replica *replica) {
  cr_training_plan *plan = user;
  cr_plan_times *best = &plan->each[replica - plan->solver->replica];
  cr_plan_times one = {0};
  CR_TRY(CR_NEW(best->ready, plan->buckets + 1, "a plan"));
  CR_TRY(CR_NEW(one.ready, plan->buckets + 1, "a plan"));
  crema_status status = CREMA_OK;
  for (int i = -1; i < ITERATIONS && status == CREMA_OK; ++i) {
    status = time_iteration(plan, replica, i + 1, &one);
    if (i > 0 && whole(&one) >= whole(best)) continue;
    const cr_plan_times before = *best;
    *best = one;
    one = before;
  }
  free(one.ready);
  return status;
}

/* Replaces each value by the largest of all processes, which agree on integers: on nanoseconds. */
static crema_status slowest_process(const cr_training_plan *plan, double *seconds, int count) {
  int64_t *most = NULL;
  CR_TRY(CR_NEW(most, count + 1, "a plan"));
  for (int i = 0; i < count; ++i) most[i] = llround(seconds[i] * 1e9);
  crema_status status = cr_world_agree(plan->solver->world, NULL, 0, most, count);
  for (int i = 0; i < count && status == CREMA_OK; ++i) seconds[i] = (double)most[i] * 1e-9;
  free(most);
  return status;
}

static crema_status measure_computing(cr_training_plan *plan) {
  crema_solver *solver = plan->solver;
  cr_plan_times *all = &plan->times;
  CR_TRY(CR_NEW(plan->each, solver->replicas, "a plan"));
  CR_TRY(CR_NEW(all->ready, plan->buckets + 1, "a plan"));
  CR_TRY(cr_replica_threads_run(solver->team, measure_replica, plan));
  for (int r = 0; r < solver->replicas; ++r) {
    const cr_plan_times *one = &plan->each[r];
    all->forward = fmax(all->forward, one->forward);
    all->backward = fmax(all->backward, one->backward);
    all->update = fmax(all->update, one->update);
    all->again = fmax(all->again, one->again);
    cr_net_memory memory;
    CR_TRY(cr_net_memory_read(solver->replica[r].net, &memory));
    if (memory.planned > plan->memory.planned) plan->memory = memory;
    for (int i = 0; i < plan->buckets; ++i) all->ready[i] = fmax(all->ready[i], one->ready[i]);
  }
  double sum[] = {all->forward, all->backward, all->update, all->again};
  CR_TRY(slowest_process(plan, sum, 4));
  all->forward = sum[0], all->backward = sum[1], all->update = sum[2], all->again = sum[3];
  return slowest_process(plan, all->ready, plan->buckets);
}

double cr_plan_bucket_bytes(const cr_training_plan *plan, int bucket) {
  const cr_param_blocks *blocks = plan->solver->replica[0].blocks;
  const cr_bucket *b = &plan->bucket[bucket];
  int64_t begin, end;
  cr_bucket_range(blocks, b, &begin, &end);
  return (double)(end - begin) * (double)crema_dtype_size(blocks->block[b->block].diff_type);
}

static double gradient_bytes(const cr_training_plan *plan) {
  double sum = 0;
  for (int i = 0; i < plan->buckets; ++i) sum += cr_plan_bucket_bytes(plan, i);
  return sum;
}

static double weight_bytes(const cr_training_plan *plan) {
  const cr_param_blocks *blocks = plan->solver->replica[0].blocks;
  double sum = 0;
  for (int i = 0; i < blocks->count; ++i) {
    const cr_param_block *block = &blocks->block[i];
    sum += (double)block->count * (double)crema_dtype_size(block->type);
  }
  return sum;
}

static cr_cost_ranks ranks_of(const cr_training_plan *plan, crema_exchange way) {
  cr_cost_ranks ranks = {.hosts = 1, .each = plan->solver->ranks, .within = plan->ring};
  if (way == CREMA_EXCHANGE_MPI) ranks.within = plan->processes;
  return ranks;
}

static double tree_seconds(const cr_training_plan *plan) {
  const double mean = (gradient_bytes(plan) + weight_bytes(plan)) / 2;
  return cr_cost_tree(plan->solver->ranks, plan->level, mean);
}

/* Whether the update starts after the exchange of all gradients. */
static bool updates_late(const crema_solver *solver) {
  return cr_rate_follows_loss(&solver->schedule) || cr_updater_needs_all(solver->updater) ||
         solver->net->param->global_grad_scale_adaptive;
}

/* The time at which the last bucket of a step is summed and used. The last backward pass begins
 * after `before` seconds. */
static double last_bucket(const cr_training_plan *plan, crema_exchange way, double before) {
  const cr_cost_ranks ranks = ranks_of(plan, way);
  const double update = updates_late(plan->solver) ? 0 : plan->times.update;
  const double all = gradient_bytes(plan);
  for (int i = 0; i < plan->buckets; ++i) {
    const double bytes = cr_plan_bucket_bytes(plan, i);
    plan->cost[i] = (cr_cost_bucket){
        .ready = before + plan->times.ready[i], .bytes = bytes, .update = update * bytes / all};
  }
  return cr_cost_overlapped(plan->cost, plan->buckets, &ranks);
}

double cr_plan_exchange(const cr_training_plan *plan, crema_exchange way) {
  if (way == CREMA_EXCHANGE_TREE) return tree_seconds(plan);
  const cr_cost_ranks ranks = ranks_of(plan, way);
  double sum = 0;
  for (int i = 0; i < plan->buckets && way != CREMA_EXCHANGE_AUTO; ++i) {
    sum += cr_cost_ring(&ranks, cr_plan_bucket_bytes(plan, i));
  }
  return sum;
}

double cr_plan_step(const cr_training_plan *plan, crema_exchange way) {
  const cr_plan_times *t = &plan->times;
  const double passes = plan->solver->param->iter_size;
  const double computing = passes * (t->forward + t->backward);
  if (way == CREMA_EXCHANGE_AUTO) return computing + t->update;
  if (way == CREMA_EXCHANGE_TREE) return computing + tree_seconds(plan) + t->update;
  const double last = last_bucket(plan, way, computing - t->backward);
  return fmax(computing, last) + (updates_late(plan->solver) ? t->update : 0);
}

void cr_plan_free(cr_training_plan *plan) {
  for (int i = 0; plan->each != NULL && i < plan->solver->replicas; ++i) free(plan->each[i].ready);
  free(plan->each);
  free(plan->times.ready);
  free(plan->cost);
  free(plan->bucket);
}

crema_status cr_plan_make(cr_training_plan *plan) {
  crema_solver *solver = plan->solver;
  CR_TRY(cr_param_blocks_cut(solver->replica[0].blocks, cr_solver_buckets(solver), &plan->bucket,
                             &plan->buckets));
  CR_TRY(CR_NEW(plan->cost, plan->buckets + 1, "a plan"));
  CR_TRY(measure_links(plan));
  return measure_computing(plan);
}

crema_status crema_solver_plan(crema_solver *solver, crema_line_fn *line, void *user) {
  CR_REQUIRE(solver);
  CR_REQUIRE(line);
  if (solver->options.process_count > 1) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "a plan is made for devices of one process or for processes of mpirun");
  }
  cr_training_plan plan = {.solver = solver, .probe = cr_probe_links};
  crema_status status = cr_plan_make(&plan);
  if (status == CREMA_OK && cr_solver_leads(solver)) cr_plan_tell(&plan, line, user);
  cr_plan_free(&plan);
  return cr_solver_tell(solver, status);
}
