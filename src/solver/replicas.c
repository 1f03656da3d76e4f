/* The replicas of a training: their devices and their exchange. */
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/processors.h"
#include "core/rng.h"
#include "device/device.h"
#include "device/registry.h"
#include "solver/fields.h"
#include "solver/solver.h"

/* The device that solver_mode and device_id name. */
static crema_status default_device(const crema_solver *solver, crema_device **out) {
  const Caffe__SolverParameter *param = solver->param;
  if (param->solver_mode == CAFFE__SOLVER_PARAMETER__SOLVER_MODE__GPU) {
    const crema_device_type type = cr_registry_gpu_type();
    if (crema_device_count(type) > param->device_id) {
      CR_TRY(crema_device_open(type, &(int){param->device_id}, 1));
      return crema_device_get(type, param->device_id, out);
    }
    if (param->has_solver_mode) {
      cr_log_warning("solver_mode is GPU, but there is no GPU %d here; training on the CPU",
                     param->device_id);
    }
  }
  return crema_device_get(CREMA_DEVICE_CPU, 0, out);
}

/* The device of replica `index` of this process. */
static crema_status choose_device(const crema_solver *solver, int index, crema_device **out) {
  const crema_solver_options *options = &solver->options;
  size_t number =
      solver->world == NULL ? (size_t)index : (size_t)cr_world_local_rank(solver->world);
  if (options->device_count > 0) *out = options->devices[number % options->device_count];
  else *out = options->device;
  return *out != NULL ? CREMA_OK : default_device(solver, out);
}

static crema_status check_devices(const crema_solver *solver) {
  crema_device *const *device = solver->options.devices;
  const size_t count = solver->options.device_count;
  if (count > 0 && device == NULL) {
    return cr_fail(CREMA_E_ARGUMENT, "%zu devices without their list", count);
  }
  for (size_t i = 0; i < count; ++i) {
    if (device[i] == NULL) return cr_fail(CREMA_E_ARGUMENT, "device %zu of %zu is NULL", i, count);
  }
  if (count > CR_MAX_DEVICES) {
    return cr_fail(CREMA_E_RANGE, "%zu devices, but at most %d can train together", count,
                   CR_MAX_DEVICES);
  }
  return CREMA_OK;
}

bool cr_solver_leads(const crema_solver *solver) {
  return solver->rank == 0;
}

int cr_solver_partners(const crema_solver *solver) {
  return solver->world != NULL ? solver->ranks : solver->replicas;
}

void cr_solver_greet(const crema_solver *solver) {
  if (!cr_solver_leads(solver)) cr_log_limit(CREMA_LOG_WARNING);
  cr_log_info("%d processes train together", cr_world_size(solver->world));
  cr_processors_share(cr_world_local_size(solver->world));
}

/* Processes that will be joined later (crema_solver_join). */
static bool will_join(const crema_solver *solver) {
  return solver->options.process_count > 1;
}

static crema_status check_processes(const crema_solver *solver) {
  const crema_solver_options *options = &solver->options;
  if (options->process_count < 0 || options->process_rank < 0 ||
      options->process_rank >= (options->process_count > 0 ? options->process_count : 1)) {
    return cr_fail(CREMA_E_RANGE, "rank %d of %d processes", options->process_rank,
                   options->process_count);
  }
  if (!will_join(solver)) return CREMA_OK;
  if (options->device_count > 1 || options->with_processes) {
    return cr_fail(
        CREMA_E_ARGUMENT, "one of %d processes that a program has started trains on one device; %s",
        options->process_count,
        options->with_processes ? "it is not for processes that mpirun starts" : "it has several");
  }
  if (options->exchange == CREMA_EXCHANGE_AUTO || options->exchange == CREMA_EXCHANGE_NCCL) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_ARGUMENT, "processes that a program has started exchange by nccl");
}

crema_status cr_solver_tell(crema_solver *solver, crema_status status) {
  if (status != CREMA_OK && solver->world != NULL) cr_world_fail(solver->world, status);
  return status;
}

static const char why_nccl[] = "NCCL is there and knows the links between GPUs";
static const char why_reduce[] =
    "a link of its ring carries fewer bytes than one of a tree, and sums overlap with the "
    "backward pass";

crema_exchange cr_solver_auto_exchange(const crema_solver *solver, const char **why) {
  const cr_exchange *made = solver->replica[0].exchange;
  const crema_exchange way = made == NULL ? CREMA_EXCHANGE_AUTO : made->class->way;
  if (solver->world != NULL && (made == NULL || way == CREMA_EXCHANGE_MPI)) {
    *why = "it is the way between processes";
    return CREMA_EXCHANGE_MPI;
  }
  if (way == CREMA_EXCHANGE_NCCL) {
    *why = why_nccl;
    return CREMA_EXCHANGE_NCCL;
  }
  *why = why_reduce;
  return CREMA_EXCHANGE_REDUCE;
}

/* Resolves `auto` for processes; all processes choose alike. */
static crema_status choose_between_processes(const crema_solver *solver, crema_device *device,
                                             bool *nccl) {
  const crema_exchange wanted = solver->options.exchange;
  *nccl = false;
  if (wanted == CREMA_EXCHANGE_MPI) return CREMA_OK;
  const crema_status status = cr_world_find_nccl(solver->world, device);
  *nccl = status == CREMA_OK;
  if (status != CREMA_E_UNSUPPORTED || wanted == CREMA_EXCHANGE_NCCL) return status;
  if (device->backend->collectives != NULL) cr_log_info("Not nccl: %s", crema_error_text());
  return CREMA_OK;
}

static crema_status between_processes(const crema_solver *solver, cr_exchange **end) {
  const crema_exchange wanted = solver->options.exchange;
  crema_device *device = solver->replica[0].context->device;
  bool nccl;
  if (wanted == CREMA_EXCHANGE_TREE || wanted == CREMA_EXCHANGE_REDUCE) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "processes exchange gradients by mpi or nccl; the other ways are for "
                   "several devices of one process");
  }
  CR_TRY(choose_between_processes(solver, device, &nccl));
  cr_log_info("Exchange: %s, between %d processes", nccl ? "nccl" : "mpi", solver->ranks);
  return nccl ? cr_exchange_create_nccl_processes(solver->world, device, end)
              : cr_exchange_create_mpi(solver->world, device, end);
}

/* Resolves `auto` for devices. */
static crema_status choose_exchange(crema_device *const *device, int count, cr_exchange **end) {
  const bool asked = device[0]->backend->collectives != NULL;
  if (asked && cr_exchange_create_nccl(device, count, end) == CREMA_OK) {
    cr_log_info("Exchange: nccl, between %d devices: %s", count, why_nccl);
    return CREMA_OK;
  }
  cr_log_info("Exchange: reduce, between %d devices: %s%s%s", count, why_reduce,
              asked ? "; not nccl: " : "", asked ? crema_error_text() : "");
  return cr_exchange_create_reduce(device, count, end);
}

static crema_status between_devices(const crema_solver *solver, cr_exchange **end) {
  crema_device *device[CR_MAX_DEVICES];
  const crema_exchange wanted = solver->options.exchange;
  const int count = solver->replicas;
  for (int i = 0; i < count; ++i) device[i] = solver->replica[i].context->device;
  if (wanted == CREMA_EXCHANGE_MPI) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "mpi exchanges between processes, and this one was not started by mpirun");
  }
  if (wanted == CREMA_EXCHANGE_TREE) {
    cr_log_info("Exchange: tree of %d devices; the first device updates", count);
    return cr_exchange_create_tree(
        device, count, solver->options.any_order ? CR_EXCHANGE_ARRIVAL : CR_EXCHANGE_FIXED, end);
  }
  if (wanted == CREMA_EXCHANGE_AUTO) return choose_exchange(device, count, end);
  if (wanted == CREMA_EXCHANGE_NCCL) {
    cr_log_info("Exchange: nccl, between %d devices", count);
    return cr_exchange_create_nccl(device, count, end);
  }
  cr_log_info("Exchange: reduce, between %d devices", count);
  return cr_exchange_create_reduce(device, count, end);
}

int cr_solver_buckets(const crema_solver *solver) {
  if (!solver->param->layer_wise_reduce) return 1;
  return solver->net->param->reduce_buckets;
}

static crema_math choose_math(const crema_solver *solver) {
  if (solver->options.math != CREMA_MATH_DEFAULT) return solver->options.math;
  const bool fast = solver->param->math == CAFFE__SOLVER_PARAMETER__MATH__FAST;
  return fast ? CREMA_MATH_FAST : CREMA_MATH_EXACT;
}

/* The context of the first replica draws the weights for all replicas. */
static crema_status make_net(crema_solver *solver, int index) {
  cr_replica *replica = &solver->replica[index];
  crema_device *device = NULL;
  CR_TRY(choose_device(solver, index, &device));
  CR_TRY(crema_context_create(device, solver->seed, &replica->context));
  cr_context_set_math(replica->context, choose_math(solver));
  CR_TRY(cr_solver_build_train_net(solver, index));
  if (replica->net->layers == 0) {
    return cr_fail(CREMA_E_ARGUMENT, "%s: the net to train has no layers", solver->path);
  }
  if (index > 0) return CREMA_OK;
  solver->device = device;
  solver->context = replica->context;
  solver->net = replica->net;
  return CREMA_OK;
}

static crema_status begin_replicas(crema_solver *solver, cr_exchange **end) {
  crema_status status = CREMA_OK;
  if (solver->world != NULL) status = between_processes(solver, end);
  else if (solver->replicas > 1) status = between_devices(solver, end);
  for (int i = 0; i < solver->replicas && status == CREMA_OK; ++i) {
    cr_exchange *mine = end[i];
    end[i] = NULL;
    status = cr_replica_begin(&solver->replica[i], solver->param, &solver->schedule, mine,
                              cr_solver_buckets(solver), will_join(solver));
  }
  for (int i = 0; i < solver->replicas; ++i) cr_exchange_destroy(end[i]);
  return status;
}

static crema_status agree_on_seed(crema_solver *solver) {
  const Caffe__SolverParameter *param = solver->param;
  if (param->random_seed >= 0) solver->seed = (uint64_t)param->random_seed;
  else if (solver->options.has_seed) solver->seed = solver->options.seed;
  /* All processes need the same seed. Processes that join later cannot request it. */
  else if (!will_join(solver)) solver->seed = cr_random_seed();
  return cr_world_broadcast(solver->world, &solver->seed, sizeof solver->seed);
}

/* Wakes replicas that wait for records of a failed replica. */
static void fail_inputs(void *user, crema_status status) {
  const crema_solver *solver = user;
  for (size_t i = 0; solver->group != NULL && i <= solver->param->n_test_iter; ++i) {
    cr_input_group_fail(solver->group[i], status);
  }
}

crema_status cr_solver_make_replicas(crema_solver *solver) {
  cr_exchange *end[CR_MAX_DEVICES] = {0};
  CR_TRY(check_devices(solver));
  CR_TRY(check_processes(solver));
  if (solver->options.with_processes && cr_world_is_there()) {
    CR_TRY(cr_world_join(&solver->world));
    solver->rank = cr_world_rank(solver->world);
    cr_solver_greet(solver);
  }
  CR_TRY(agree_on_seed(solver));
  solver->replicas = 1;
  if (solver->world == NULL && solver->options.device_count > 0) {
    solver->replicas = (int)solver->options.device_count;
  }
  solver->ranks = solver->world != NULL ? cr_world_size(solver->world) : solver->replicas;
  if (will_join(solver)) {
    solver->rank = solver->options.process_rank;
    solver->ranks = solver->options.process_count;
  }
  /* As Caffe does, before a net is built. */
  if (cr_solver_leads(solver) && solver->param->snapshot > 0) {
    CR_TRY(cr_fields_check_prefix(solver->snapshot_prefix, solver->path));
  }
  solver->tests_shared = solver->ranks > 1 && solver->options.exchange != CREMA_EXCHANGE_TREE;
  CR_TRY(CR_NEW(solver->replica, solver->replicas, "replicas"));
  if (solver->replicas > 1) {
    const size_t groups = solver->param->n_test_iter + 1;
    CR_TRY(CR_NEW(solver->group, groups, "the input of several replicas"));
    for (size_t i = 0; i < groups; ++i) CR_TRY(cr_input_group_create(&solver->group[i]));
  }
  for (int i = 0; i < solver->replicas; ++i) CR_TRY(make_net(solver, i));
  if (solver->group != NULL) {
    cr_log_info("%d replicas share %d readers", solver->replicas,
                cr_input_group_readers(solver->group[0]));
  }
  crema_status status = begin_replicas(solver, end);
  if (status != CREMA_OK) return cr_field_locate(status, solver->path);
  solver->updater = solver->replica[0].updater;
  return cr_replica_threads_start(solver->replica, solver->replicas, fail_inputs, solver,
                                  &solver->team);
}

void cr_solver_free_replicas(crema_solver *solver) {
  cr_replica_threads_stop(solver->team);
  const int tested = solver->tests_shared ? solver->replicas : 1;
  const size_t tests = solver->param != NULL ? solver->param->n_test_iter : 0;
  for (size_t i = 0; solver->test_net != NULL && i < tests * (size_t)tested; ++i) {
    crema_net_destroy(solver->test_net[i]);
  }
  free(solver->test_epoch);
  free(solver->test_net);
  const int replicas = solver->replica != NULL ? solver->replicas : 0;
  for (int i = 0; i < replicas; ++i) cr_replica_rest(&solver->replica[i]);
  cr_world_announce_leave(solver->world);
  for (int i = replicas - 1; i >= 0; --i) cr_replica_end(&solver->replica[i]);
  free(solver->replica);
  for (size_t i = 0; solver->group != NULL && i <= tests; ++i) {
    cr_input_group_release(solver->group[i]);
  }
  free(solver->group);
  cr_world_leave(solver->world);
}

static crema_status level(void *user, cr_replica *replica) {
  const crema_solver *solver = user;
  cr_net_set_grad_scale(replica->net, solver->net->grad_scale);
  CR_TRY(cr_replica_broadcast(replica, true));
  /* The program may have changed the weights. */
  if (replica->average == NULL || cr_average_has_begun(replica->average)) return CREMA_OK;
  return cr_average_start(replica->average);
}

crema_status cr_solver_restart_averages(crema_solver *solver) {
  for (int i = 0; i < solver->replicas; ++i) {
    cr_average *average = solver->replica[i].average;
    if (average != NULL) CR_TRY(cr_average_start(average));
  }
  return CREMA_OK;
}

/* Values that a program has in view are taken from there first, and refreshed afterwards: otherwise
 * the next pass would take stale values. */
crema_status cr_solver_level(crema_solver *solver) {
  CR_TRY(cr_net_take_views(solver->net));
  CR_TRY(cr_replica_threads_run(solver->team, level, solver));
  return cr_net_show_views(solver->net);
}

static crema_status broadcast_statistics(void *user, cr_replica *replica) {
  (void)user;
  return cr_replica_broadcast(replica, false);
}

crema_status cr_solver_level_statistics(crema_solver *solver) {
  CR_TRY(cr_replica_threads_run(solver->team, broadcast_statistics, NULL));
  return cr_net_show_views(solver->net);
}

static crema_status finish(void *user, cr_replica *replica) {
  (void)user;
  return replica->exchange != NULL ? cr_exchange_finish(replica->exchange) : CREMA_OK;
}

crema_status cr_solver_finish(crema_solver *solver) {
  return cr_replica_threads_run(solver->team, finish, NULL);
}
