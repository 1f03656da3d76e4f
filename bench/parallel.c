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
 * does meanwhile adds to all of it.
 *
 * Then whole steps of a net that would compute for 100 ms and has AlexNet's 244 MB of gradients in
 * 16 equal buckets, all slowed down alike. Computing is imitated by waiting, so that replicas do
 * not share the processors: first forward, a third of the time, then backward, which completes the
 * buckets at even intervals. `reduce` sums them meanwhile.
 *
 * At last what the exchange costs in processor time where links have no limit: steps of CIFAR-10
 * quick on N simulated devices that exchange, over steps of as many solvers that do not know of
 * each other. Both compute forward, backward and their update; with `tree` the root alone updates.
 * All share this machine's processors, and what else these do changes the time of computing by more
 * than the exchange takes. So the two take turns, medians of the pairs count, and the difference is
 * told of the threads apart that do not compute the nets: the hosts of the replicas, the exchange's
 * threads and the streams on which it copies, adds, and, with `reduce`, updates.
 *
 * Usage: parallel [exchange] [steps] [code] [-slow N]; without words all of it. With -slow all is
 * slowed down N times as much: on a machine that does other things, too, these then count less. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chain/measure.h"
#include "core/clock.h"
#include "core/thread.h"
#include "crema/crema.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "device/sim/sim.h"
#include "parallel/cost.h"
#include "parallel/exchange.h"

enum { ROUNDS = 5, MOST = 16, VALUES = 2 << 20 };

static const double TRANSFER = 0.010;

static double slow = 1; /* -slow */

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
  cr_exchange_span span[2]; /* weights, gradients */
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
      r->span[s] = (cr_exchange_span){.count = values, .type = CREMA_F32};
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

static double measure_exchange(int count, bool tree, double bandwidth) {
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
    const double slowed = slow * TRANSFER * count * speed[s] / bytes;
    const double model = transfers(count, tree) * bytes / speed[s];
    const double time = measure_exchange(count, tree, speed[s] / slowed) / slowed;
    printf("%-7s %7d %11.0f %7.0f %12.3f %9.3f %6.3f %21.1f\n", tree ? "tree" : "reduce", count,
           speed[s] * 1e-9, slowed, time * 1e3, model * 1e3, time / model, code * 1e6);
  }
}

static void report_exchanges(void) {
  static const int counts[] = {2, 4, 8, 16};
  printf(
      "%.1f MB of parameters. Links are slowed down until these are moved in %.0f ms per device, "
      "and times divided by as much: this machine could not copy so fast.\n",
      VALUES * sizeof(float) * 1e-6, slow * TRANSFER * 1e3);
  printf(
      "way     devices  links GB/s  slowed  measured ms  model ms  ratio (at most 1.1)  code us\n");
  for (int tree = 1; tree >= 0; --tree) {
    for (size_t n = 0; n < sizeof counts / sizeof counts[0]; ++n) report(counts[n], tree == 1);
  }
}

/* ---- steps ---- */

enum { BUCKETS = 16, FORWARD = 8, WHOLE = BUCKETS, STEP_ROUNDS = 4 };

/* What is imitated. */
static const double GRADIENTS = 244e6, COMPUTING = 0.100;

/* How long a step computes here: so long that this machine can copy and add for all devices. */
static double slowed(int count) {
  return slow * 0.100 * count;
}

typedef struct stepper {
  crema_context *computing, *exchanging;
  cr_exchange *end;
  crema_devptr memory, small;
  cr_native_event *ready[BUCKETS];
  bool computes, exchanges;
  int steps;
  cr_thread *thread;
} stepper;

/* Waits as long as one copy takes that moves next to nothing. */
static void compute(const stepper *s) {
  static const char something[64];
  check(cr_copy_from_cpu(s->computing, s->small, something, sizeof something), "computing");
}

static void step_tree(const stepper *s) {
  if (s->exchanges) check(cr_exchange_broadcast(s->end, s->computing, WHOLE), "broadcast");
  for (int i = 0; s->computes && i < FORWARD + BUCKETS; ++i) compute(s);
  if (s->exchanges) check(cr_exchange_sum(s->end, s->computing, WHOLE), "sum");
}

static void step_reduce(const stepper *s) {
  const cr_backend *backend = crema_context_device(s->computing)->backend;
  for (int i = 0; s->computes && i < FORWARD; ++i) compute(s);
  for (int b = 0; b < BUCKETS; ++b) {
    if (s->computes) compute(s);
    check(backend->event_record(s->computing, s->ready[b]), "event");
  }
  for (int b = 0; s->exchanges && b < BUCKETS; ++b) {
    check(backend->event_wait(s->exchanging, s->ready[b]), "event");
    check(cr_exchange_sum(s->end, s->exchanging, b), "sum");
  }
}

static crema_status run_steps(void *arg) {
  const stepper *s = arg;
  for (int i = 0; i < s->steps; ++i) {
    if (s->end->class->root_only) step_tree(s);
    else step_reduce(s);
    check(crema_context_finish(s->computing), "finish");
    check(crema_context_finish(s->exchanging), "finish");
  }
  return CREMA_OK;
}

static void open_stepper(stepper *s, crema_device *device, cr_exchange *end) {
  cr_exchange_span span[BUCKETS + 1];
  *s = (stepper){.end = end, .steps = 1};
  check(crema_context_create(device, 1, &s->computing), "context");
  check(crema_context_create(device, 1, &s->exchanging), "context");
  check(cr_device_alloc(device, VALUES * sizeof(float), &s->memory), "memory");
  check(cr_device_alloc(device, 64, &s->small), "memory");
  check(device->backend->zero(s->computing, s->memory, VALUES * sizeof(float)), "zero");
  check(crema_context_finish(s->computing), "finish");
  span[WHOLE] = (cr_exchange_span){s->memory, VALUES, CREMA_F32};
  for (int b = 0; b < BUCKETS; ++b) {
    const crema_devptr at = {s->memory.address + (size_t)b * (VALUES / BUCKETS) * sizeof(float)};
    span[b] = (cr_exchange_span){at, VALUES / BUCKETS, CREMA_F32};
    check(device->backend->event_create(device, &s->ready[b]), "event");
  }
  check(cr_exchange_prepare(end, span, BUCKETS + 1), "prepare");
}

static void close_stepper(stepper *s) {
  crema_device *device = crema_context_device(s->computing);
  cr_exchange_destroy(s->end);
  for (int b = 0; b < BUCKETS; ++b) device->backend->event_destroy(s->ready[b]);
  cr_device_free(device, s->small);
  cr_device_free(device, s->memory);
  crema_context_destroy(s->exchanging);
  crema_context_destroy(s->computing);
}

static double time_step(stepper *s, int count, bool computes, bool exchanges) {
  const double start = cr_clock_seconds();
  for (int i = 0; i < count; ++i) {
    s[i].computes = computes;
    s[i].exchanges = exchanges;
    check(cr_thread_start(&s[i].thread, "rank", run_steps, &s[i]), "thread");
  }
  for (int i = 0; i < count; ++i) check(cr_thread_join(&s[i].thread), "join");
  return cr_clock_seconds() - start;
}

/* Computing alone, exchange alone, and both, in turn; the fastest of some rounds of each. */
static void time_steps(stepper *s, int count, double best[3]) {
  for (int r = 0; r < STEP_ROUNDS; ++r) {
    for (int k = 0; k < 3; ++k) {
      const double time = time_step(s, count, k != 1, k != 0);
      if (r == 0 || time < best[k]) best[k] = time;
    }
  }
}

/* What the model says of a step here; *exchange: of the exchange alone. */
static double model_step(int count, bool tree, cr_speed link, double *exchange) {
  const double bytes = VALUES * sizeof(float), here = slowed(count);
  const cr_cost_ranks ranks = {.hosts = 1, .each = count, .within = link};
  cr_cost_bucket bucket[BUCKETS];
  *exchange = cr_cost_tree(count, link, bytes);
  if (tree) return here + *exchange;
  *exchange = BUCKETS * cr_cost_ring(&ranks, bytes / BUCKETS);
  for (int b = 0; b < BUCKETS; ++b) {
    const double ready = here * (FORWARD + b + 1) / (FORWARD + BUCKETS);
    bucket[b] = (cr_cost_bucket){.ready = ready, .bytes = bytes / BUCKETS};
  }
  return cr_cost_overlapped(bucket, BUCKETS, &ranks);
}

static void report_step(int count, bool tree, double speed) {
  const double here = slowed(count);
  /* Bytes take the same part of the time of computing as they would there. */
  const cr_speed link = {0, speed * (COMPUTING / here) * (VALUES * sizeof(float) / GRADIENTS)};
  cr_sim_options options = cr_sim_defaults();
  crema_device *device[MOST];
  cr_exchange *end[MOST];
  stepper s[MOST];
  double model_exchange = 0;
  int index[MOST];
  options.devices = count;
  options.memory = (size_t)128 << 20;
  options.peer_bandwidth = link.bandwidth;
  options.latency = here / (FORWARD + BUCKETS);
  check(cr_sim_start(&options), "simulation");
  for (int i = 0; i < count; ++i) index[i] = i;
  check(crema_device_open(CREMA_DEVICE_SIM, index, count), "devices");
  for (int i = 0; i < count; ++i) check(crema_device_get(CREMA_DEVICE_SIM, i, &device[i]), "sim");
  check(tree ? cr_exchange_create_tree(device, count, CR_EXCHANGE_FIXED, end)
             : cr_exchange_create_reduce(device, count, end),
        "exchange");
  for (int i = 0; i < count; ++i) open_stepper(&s[i], device[i], end[i]);
  double best[3];
  time_steps(s, count, best);
  const double computing = best[0], exchange = best[1], step = best[2];
  const double model = model_step(count, tree, link, &model_exchange);
  const double larger = computing > exchange ? computing : exchange;
  const double ms = 1e3 * COMPUTING / here;
  printf("%-7s %7d %11.0f %12.2f %12.2f %9.2f %9.2f %11.3f %10.3f\n", tree ? "tree" : "reduce",
         count, speed * 1e-9, computing * ms, exchange * ms, step * ms, model * ms, step / larger,
         step / model);
  fflush(stdout);
  for (int i = 0; i < count; ++i) close_stepper(&s[i]);
  cr_sim_stop(NULL);
}

static void report_steps(void) {
  static const double speed[] = {12e9, 50e9, 300e9};
  printf(
      "\nA step of %.0f ms with %.0f MB of gradients, all slowed down %g times as much as there "
      "are "
      "devices\n",
      COMPUTING * 1e3, GRADIENTS * 1e-6, slow);
  printf(
      "way     devices  links GB/s  computing ms  exchange ms   step ms  model ms  over larger  "
      "over model\n");
  for (int tree = 0; tree <= 1; ++tree) {
    for (size_t s = 0; s < sizeof speed / sizeof speed[0]; ++s) {
      for (int count = 2; count <= MOST; count *= 2) report_step(count, tree == 1, speed[s]);
    }
  }
}

/* ---- the code ---- */

/* STEPS of a call, which begins with the root's weights for all. */
enum { STEPS = 4, PAIRS = 25 };

typedef struct trainers {
  int solvers;
  crema_solver *solver[MOST];
  cr_thread *thread[MOST];
} trainers;

static crema_status train(void *solver) {
  return crema_solver_step(solver, STEPS);
}

static void train_all(void *state) {
  trainers *t = state;
  for (int i = 1; i < t->solvers; ++i) {
    check(cr_thread_start(&t->thread[i], "solver", train, t->solver[i]), "thread");
  }
  check(train(t->solver[0]), "step");
  for (int i = 1; i < t->solvers; ++i) check(cr_thread_join(&t->thread[i]), "step");
}

static void load(crema_device *const *device, int count, crema_exchange way, crema_solver **out) {
  crema_solver_options options;
  crema_solver_options_init(&options);
  options.devices = device;
  options.device_count = (size_t)count;
  options.exchange = way;
  check(crema_solver_load(CREMA_SOURCE_DIR "/bench/nets/cifar10_quick_solver.prototxt", &options,
                          out),
        "solver");
}

static double process_seconds(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0) return 0;
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The value below which `part` of them are; sorts them. */
static double quantile(double *value, double part) {
  qsort(value, PAIRS, sizeof *value, by_size);
  return value[(int)(part * (PAIRS - 1))];
}

enum { MOST_THREADS = 512 };

/* Processor time of the threads of this process. */
typedef struct thread_times {
  int threads;
  int id[MOST_THREADS];
  double seconds[MOST_THREADS];
} thread_times;

static double seconds_of_thread(const char *id) {
  char path[64];
  long long nanoseconds = 0;
  snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", id);
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%lld", &nanoseconds) != 1) nanoseconds = 0;
  fclose(file);
  return (double)nanoseconds * 1e-9;
}

static void read_threads(thread_times *out) {
  DIR *folder = opendir("/proc/self/task");
  out->threads = 0;
  if (folder == NULL) return;
  for (struct dirent *e; (e = readdir(folder)) != NULL && out->threads < MOST_THREADS;) {
    if (e->d_name[0] == '.') continue;
    out->id[out->threads] = atoi(e->d_name);
    out->seconds[out->threads++] = seconds_of_thread(e->d_name);
  }
  closedir(folder);
}

/* Of the threads that compute the nets: these have at least a quarter of the time of the busiest
 * one, all others next to nothing. */
static double time_of_computing(const thread_times *before, const thread_times *after) {
  double spent[MOST_THREADS], most = 0, sum = 0;
  for (int i = 0; i < after->threads; ++i) {
    spent[i] = after->seconds[i];
    for (int k = 0; k < before->threads; ++k) {
      if (before->id[k] == after->id[i]) spent[i] -= before->seconds[k];
    }
    if (spent[i] > most) most = spent[i];
  }
  for (int i = 0; i < after->threads; ++i) {
    if (spent[i] > most / 4) sum += spent[i];
  }
  return sum;
}

/* Of a step: seconds, processor time of all threads, and of those that do not compute the nets. */
typedef struct usage {
  double wall, all, others;
} usage;

static usage use_of_call(trainers *side) {
  static thread_times before, after;
  read_threads(&before);
  const double start = seconds_now(), all = process_seconds();
  train_all(side);
  usage u = {.wall = (seconds_now() - start) / STEPS, .all = (process_seconds() - all) / STEPS};
  read_threads(&after);
  u.others = u.all - time_of_computing(&before, &after) / STEPS;
  return u;
}

/* The sides take turns at being the first of a pair. */
static void compare_code(trainers *together, trainers *apart, const char *name) {
  trainers *const side[] = {together, apart};
  double wall[PAIRS], all[PAIRS], alone[PAIRS], ratio[PAIRS], more[PAIRS];
  for (int k = 0; k < 2; ++k) (void)use_of_call(side[k]);
  for (int i = 0; i < PAIRS; ++i) {
    usage u[2];
    for (int k = 0; k < 2; ++k) u[(i + k) % 2] = use_of_call(side[(i + k) % 2]);
    wall[i] = u[0].wall / u[1].wall;
    all[i] = u[0].all;
    alone[i] = u[1].all;
    ratio[i] = u[0].all / u[1].all;
    more[i] = u[0].others - u[1].others;
  }
  const double part = 1 / quantile(alone, 0.5);
  printf("%-7s %7d %7.3f %10.2f %9.2f  %.3f (%.3f to %.3f)  %8.2f  %.4f (%.4f to %.4f)\n", name,
         apart->solvers, quantile(wall, 0.5), quantile(all, 0.5) * 1e3, quantile(alone, 0.5) * 1e3,
         quantile(ratio, 0.5), quantile(ratio, 0.25), quantile(ratio, 0.75),
         quantile(more, 0.5) * 1e3, quantile(more, 0.5) * part, quantile(more, 0.25) * part,
         quantile(more, 0.75) * part);
  fflush(stdout);
}

static void report_overhead(int count, crema_exchange way) {
  cr_sim_options options = cr_sim_defaults();
  crema_device *device[MOST];
  trainers together = {.solvers = 1}, apart = {.solvers = count};
  int index[MOST];
  options.devices = count;
  options.memory = (size_t)512 << 20;
  check(cr_sim_start(&options), "simulation");
  for (int i = 0; i < count; ++i) index[i] = i;
  check(crema_device_open(CREMA_DEVICE_SIM, index, count), "devices");
  for (int i = 0; i < count; ++i) check(crema_device_get(CREMA_DEVICE_SIM, i, &device[i]), "sim");
  load(device, count, way, &together.solver[0]);
  for (int i = 0; i < count; ++i) load(&device[i], 1, CREMA_EXCHANGE_AUTO, &apart.solver[i]);
  compare_code(&together, &apart, way == CREMA_EXCHANGE_TREE ? "tree" : "reduce");
  for (int i = 0; i < count; ++i) crema_solver_destroy(apart.solver[i]);
  crema_solver_destroy(together.solver[0]);
  cr_sim_stop(NULL);
}

static void report_code(void) {
  printf(
      "\nA step of CIFAR-10 quick, links without limits: medians of %d pairs of %d steps and, in "
      "brackets, their middle half\n",
      PAIRS, STEPS);
  printf(
      "way     devices as long processors   without  ratio                    others ms  over all "
      "(at most 0.02)\n");
  for (int count = 2; count <= 4; count *= 2) {
    report_overhead(count, CREMA_EXCHANGE_REDUCE);
    report_overhead(count, CREMA_EXCHANGE_TREE);
  }
}

/* Takes -slow N out of the words. */
static int take_slow(int argc, char **argv) {
  int left = 0;
  for (int i = 0; i < argc; ++i) {
    if (strcmp(argv[i], "-slow") == 0 && i + 1 < argc) slow = atof(argv[++i]);
    else argv[left++] = argv[i];
  }
  return left;
}

int main(int argc, char **argv) {
  argc = take_slow(argc, argv);
  if (is_wanted("exchange", argc, argv)) report_exchanges();
  if (is_wanted("steps", argc, argv)) report_steps();
  if (is_wanted("code", argc, argv)) report_code();
  return 0;
}
