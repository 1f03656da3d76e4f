/* The text of a plan. */
#include <stdarg.h>
#include <stdio.h>

#include "solver/plan.h"

typedef struct teller {
  const cr_training_plan *plan;
  void (*line)(void *user, const char *text);
  void *user;
} teller;

__attribute__((format(printf, 2, 3))) static void say(const teller *t, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  t->line(t->user, text);
}

static const char *device_name(const teller *t, int replica, char *text, size_t size) {
  const crema_device *device = t->plan->solver->replica[replica].context->device;
  snprintf(text, size, "%s:%d", device->backend->name, device->index);
  return text;
}

/* "11.5 GB/s after 12.0 us" */
static const char *speed_text(cr_speed link, char *text, size_t size) {
  if (link.bandwidth > 0) {
    snprintf(text, size, "%.3g GB/s after %.3g us", link.bandwidth * 1e-9, link.latency * 1e6);
  } else {
    snprintf(text, size, "too fast to be measured, after %.3g us", link.latency * 1e6);
  }
  return text;
}

static void tell_links(const teller *t) {
  static const char *const way[] = {[CR_TREE_BOARD] = "on one board",
                                    [CR_TREE_DIRECT] = "direct",
                                    [CR_TREE_BY_HOST] = "via the host"};
  const cr_training_plan *plan = t->plan;
  char from[32], to[32], speed[64];
  if (plan->solver->world != NULL && plan->solver->ranks > 1) {
    say(t, "Links between processes, all used at once, of sums by MPI: %s",
        speed_text(plan->processes, speed, sizeof speed));
  }
  if (plan->solver->replicas < 2) return;
  say(t, "Tree of devices: who copies weights to whom, and gets gradients back");
  for (int i = 1; i < plan->solver->replicas; ++i) {
    const cr_tree_pair pair = plan->pair[i];
    say(t, "  %-8s -> %-8s  %-18s  %s", device_name(t, pair.parent, from, sizeof from),
        device_name(t, pair.child, to, sizeof to), way[plan->way[i]],
        speed_text(plan->link[i], speed, sizeof speed));
  }
  say(t, "Links of the tree's last level, all used at once: %s",
      speed_text(plan->level, speed, sizeof speed));
  say(t, "Links from each device to the next one, all used at once: %s",
      speed_text(plan->ring, speed, sizeof speed));
}

static void tell_buckets(const teller *t) {
  const cr_training_plan *plan = t->plan;
  const cr_param_blocks *blocks = plan->solver->replica[0].blocks;
  say(t, "Buckets of gradients, in the order in which the backward pass completes them");
  say(t, "  %6s %10s %14s %10s  %s", "number", "parameters", "bytes", "ready ms", "after layer");
  for (int i = 0; i < plan->buckets; ++i) {
    const cr_bucket *bucket = &plan->bucket[i];
    say(t, "  %6d %10d %14.0f %10.3f  %s", i, bucket->last - bucket->first,
        cr_plan_bucket_bytes(plan, i), plan->times.ready[i] * 1e3,
        crema_net_layer_name(blocks->net, bucket->layer));
  }
}

static void tell_computing(const teller *t) {
  const cr_plan_times *times = &t->plan->times;
  const crema_solver *solver = t->plan->solver;
  say(t,
      "Computing, measured without an exchange: forward %.3f ms, backward %.3f ms, update %.3f ms",
      times->forward * 1e3, times->backward * 1e3, times->update * 1e3);
  if (solver->param->iter_size > 1) {
    say(t, "  %d forward and backward passes an iteration", solver->param->iter_size);
  }
  /* Host memory; a device's pool plans the device's memory. */
  const cr_net_memory *memory = &t->plan->memory;
  if (memory->planned == 0) return;
  say(t, "Activations and gradients: %.2f MB at most at once, in %.2f MB of memory",
      (double)memory->planned / 1e6, (double)memory->planned_held / 1e6);
  if (solver->options.recompute) {
    say(t, "  computing values again instead of keeping them: %.3f ms of backward",
        times->again * 1e3);
  }
}

static const char *const way_names[] = {[CREMA_EXCHANGE_AUTO] = "none",
                                        [CREMA_EXCHANGE_TREE] = "tree",
                                        [CREMA_EXCHANGE_REDUCE] = "reduce",
                                        [CREMA_EXCHANGE_NCCL] = "nccl",
                                        [CREMA_EXCHANGE_MPI] = "mpi"};

static void tell_step(const teller *t, crema_exchange way) {
  const double alone = cr_plan_step(t->plan, CREMA_EXCHANGE_AUTO);
  const double step = cr_plan_step(t->plan, way);
  say(t, "  %-8s %12.3f %10.3f %14.2f", way_names[way], cr_plan_exchange(t->plan, way) * 1e3,
      step * 1e3, alone > 0 ? step / alone : 1);
}

static void tell_choice(const teller *t) {
  const crema_solver *solver = t->plan->solver;
  const crema_exchange wanted = solver->options.exchange;
  const char *why = "";
  const crema_exchange taken = cr_solver_auto_exchange(solver, &why);
  say(t, "%s: %s, because %s", wanted == CREMA_EXCHANGE_AUTO ? "Taken (auto)" : "auto would take",
      way_names[taken], why);
  if (wanted != CREMA_EXCHANGE_AUTO) say(t, "Taken (-exchange): %s", way_names[wanted]);
  if (solver->replicas > 1 &&
      cr_plan_step(t->plan, CREMA_EXCHANGE_TREE) < cr_plan_step(t->plan, CREMA_EXCHANGE_REDUCE)) {
    say(t, "Here the tree may be faster, as so few bytes are exchanged: try -exchange tree");
  }
}

static void tell_steps(const teller *t) {
  const crema_solver *solver = t->plan->solver;
  say(t, "Predicted time of an iteration");
  say(t, "  %-8s %12s %10s %14s", "way", "exchange ms", "step ms", "times as long");
  tell_step(t, CREMA_EXCHANGE_AUTO);
  if (solver->replicas > 1) {
    tell_step(t, CREMA_EXCHANGE_TREE);
    tell_step(t, CREMA_EXCHANGE_REDUCE);
    if (solver->device->backend->type == CREMA_DEVICE_CUDA) tell_step(t, CREMA_EXCHANGE_NCCL);
  }
  if (solver->world != NULL && solver->ranks > 1) tell_step(t, CREMA_EXCHANGE_MPI);
  if (solver->ranks > 1) tell_choice(t);
  else say(t, "There is one device: nothing is exchanged");
}

void cr_plan_tell(const cr_training_plan *plan, void (*line)(void *user, const char *text),
                  void *user) {
  const teller t = {.plan = plan, .line = line, .user = user};
  const crema_solver *solver = plan->solver;
  char name[32];
  say(&t, "Plan of training %s with %d %s%s, %lld samples a forward pass of all",
      crema_net_name(solver->net), solver->ranks, solver->world != NULL ? "process" : "device",
      solver->ranks == 1      ? ""
      : solver->world != NULL ? "es"
                              : "s",
      (long long)solver->batch_samples);
  for (int i = 0; i < solver->replicas; ++i) {
    say(&t, "  rank %d: %s", i, device_name(&t, i, name, sizeof name));
  }
  tell_links(&t);
  tell_buckets(&t);
  tell_computing(&t);
  tell_steps(&t);
}
