/* The exchange of parameters between simulated devices against its model: how many transfers of all
 * parameters at the speed of a link it takes. The fastest of some rounds.
 *
 *   tree    down and up: 2 ceil(log2 N) transfers
 *   reduce  2 (N - 1) / N transfers
 *
 * What the devices copy and add is really copied and added, by this machine's few cores, which
 * cannot follow links of many GB/s on several devices at once: two cores move some 10 GB/s. The
 * links are therefore slowed down until a transfer takes TRANSFER seconds per device, and what was
 * measured is divided by as much. So the rows say how well transfers and additions overlap, not
 * what the code costs, which does not scale: that is the processor time of the busiest rank's
 * thread per exchange of one value, without limits on the links. What else the machine
 * does meanwhile adds to all of it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/clock.h"
#include "core/thread.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "device/sim/sim.h"
#include "parallel/exchange.h"

enum { ROUNDS = 5, MOST = 16, VALUES = 2 << 20 };

static const double TRANSFER = 0.010;

static void check(crema_status status, const char *what) {
  if (status == CREMA_OK) return;
  fprintf(stderr, "%s: %s\n", what, crema_error_text());
  exit(1);
}

static double fastest(const double *time) {
  double least = time[0];
  for (int r = 1; r < ROUNDS; ++r) least = time[r] < least ? time[r] : least;
  return least;
}

/* ---- ranks ---- */

typedef struct rank {
  crema_context *context;
  cr_exchange *end;
  cr_span span[2]; /* weights, gradients */
  cr_thread *thread;
  int rounds;
  double busy; /* processor time of its thread */
} rank;

static double thread_seconds(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return 0;
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Weights down, gradients up. Of `reduce` only the sum belongs to an iteration. */
static crema_status exchange(void *arg) {
  rank *r = arg;
  const double start = thread_seconds();
  for (int i = 0; i < r->rounds; ++i) {
    if (r->end->class->root_only) check(cr_exchange_broadcast(r->end, r->context, 0), "broadcast");
    check(cr_exchange_sum(r->end, r->context, 1), "sum");
  }
  r->busy = (thread_seconds() - start) / r->rounds;
  check(crema_context_finish(r->context), "finish");
  return CREMA_OK;
}

static double time_exchanges(rank *ranks, int count, int rounds) {
  const double start = cr_clock_seconds();
  for (int i = 0; i < count; ++i) {
    ranks[i].rounds = rounds;
    check(cr_thread_start(&ranks[i].thread, "rank", exchange, &ranks[i]), "thread");
  }
  for (int i = 0; i < count; ++i) check(cr_thread_join(&ranks[i].thread), "join");
  return (cr_clock_seconds() - start) / rounds;
}

static void open_ranks(rank *ranks, int count, int64_t values, bool tree, double bandwidth) {
  cr_sim_options options = cr_sim_defaults();
  crema_device *device[MOST];
  cr_exchange *end[MOST];
  int index[MOST];
  options.devices = count;
  options.memory = (size_t)128 << 20;
  options.peer_bandwidth = bandwidth;
  check(cr_sim_start(&options), "simulation");
  for (int i = 0; i < count; ++i) index[i] = i;
  check(crema_device_open(CREMA_DEVICE_SIM, index, count), "devices");
  for (int i = 0; i < count; ++i) {
    check(crema_device_get(CREMA_DEVICE_SIM, i, &device[i]), "device");
    ranks[i] = (rank){0};
    check(crema_context_create(device[i], 1, &ranks[i].context), "context");
  }
  check(tree ? cr_exchange_create_tree(device, count, CR_EXCHANGE_FIXED, end)
             : cr_exchange_create_reduce(device, count, end),
        "exchange");
  for (int i = 0; i < count; ++i) {
    rank *r = &ranks[i];
    r->end = end[i];
    for (int s = 0; s < 2; ++s) {
      const size_t bytes = (size_t)values * sizeof(float);
      r->span[s] = (cr_span){.count = values, .type = CREMA_F32};
      check(cr_device_alloc(device[i], bytes, &r->span[s].memory), "memory");
      check(device[i]->backend->zero(r->context, r->span[s].memory, bytes), "zero");
    }
    check(crema_context_finish(r->context), "finish");
    check(cr_exchange_prepare(r->end, r->span, 2), "prepare");
  }
}

static void close_ranks(rank *ranks, int count) {
  for (int i = 0; i < count; ++i) {
    rank *r = &ranks[i];
    cr_exchange_destroy(r->end);
    for (int s = 0; s < 2; ++s) {
      cr_device_free(crema_context_device(r->context), r->span[s].memory);
    }
    crema_context_destroy(r->context);
  }
  cr_sim_stop(NULL);
}

static double measure(int count, bool tree, double bandwidth) {
  rank ranks[MOST];
  double time[ROUNDS];
  open_ranks(ranks, count, VALUES, tree, bandwidth);
  (void)time_exchanges(ranks, count, 1);
  for (int r = 0; r < ROUNDS; ++r) time[r] = time_exchanges(ranks, count, 1);
  close_ranks(ranks, count);
  return fastest(time);
}

static double measure_code(int count, bool tree) {
  rank ranks[MOST];
  double time[ROUNDS];
  open_ranks(ranks, count, 1, tree, 0);
  (void)time_exchanges(ranks, count, 1);
  for (int r = 0; r < ROUNDS; ++r) {
    (void)time_exchanges(ranks, count, 100);
    time[r] = 0;
    for (int i = 0; i < count; ++i) {
      if (ranks[i].busy > time[r]) time[r] = ranks[i].busy;
    }
  }
  close_ranks(ranks, count);
  return fastest(time);
}

/* ---- the models ---- */

static double transfers(int count, bool tree) {
  int depth = 0;
  while (1 << depth < count) ++depth;
  return tree ? 2.0 * depth : 2.0 * (count - 1) / count;
}

static void report(int count, bool tree) {
  static const double speed[] = {12e9, 50e9, 300e9};
  const double bytes = VALUES * sizeof(float), code = measure_code(count, tree);
  for (size_t s = 0; s < sizeof speed / sizeof speed[0]; ++s) {
    const double slowed = TRANSFER * count * speed[s] / bytes;
    const double model = transfers(count, tree) * bytes / speed[s];
    const double time = measure(count, tree, speed[s] / slowed) / slowed;
    printf("%-7s %7d %11.0f %7.0f %12.3f %9.3f %6.3f %21.1f\n", tree ? "tree" : "reduce", count,
           speed[s] * 1e-9, slowed, time * 1e3, model * 1e3, time / model, code * 1e6);
  }
}

int main(void) {
  static const int counts[] = {2, 4, 8, 16};
  printf(
      "%.1f MB of parameters. Links are slowed down until these are moved in %.0f ms per device, "
      "and times divided by as much: this machine could not copy so fast.\n",
      VALUES * sizeof(float) * 1e-6, TRANSFER * 1e3);
  printf(
      "way     devices  links GB/s  slowed  measured ms  model ms  ratio (at most 1.1)  code us\n");
  for (int tree = 1; tree >= 0; --tree) {
    for (size_t n = 0; n < sizeof counts / sizeof counts[0]; ++n) report(counts[n], tree == 1);
  }
  return 0;
}
