/* The memory system against the machine's own limits, in one run: medians of interleaved rounds.
 *
 *   cpu_data() on a valid side; hand-overs through a free/full queue pair; the pool against malloc
 *   with first touch, on one thread and on four; a copy to a simulated device against memcpy;
 *   copying overlapped with computing; a small net on a simulated device against the CPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/queue.h"
#include "core/thread.h"
#include "crema/net.h"
#include "device/memory/device_memory.h"
#include "device/memory/host_memory.h"
#include "device/memory/pool.h"
#include "device/sim/sim.h"
#include "memory/syncedmem.h"

enum { ROUNDS = 11 };

static void check(crema_status status, const char *what) {
  if (status == CREMA_OK) return;
  fprintf(stderr, "%s: %s\n", what, crema_error_text());
  exit(1);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *value, int count) {
  qsort(value, (size_t)count, sizeof *value, compare);
  return value[count / 2];
}

static void report(const char *what, double value, const char *unit, const char *target) {
  printf("%-58s %10.3f %-14s %s\n", what, value, unit, target);
}

/* ---- cpu_data ---- */

static void bench_cpu_data(void) {
  enum { CALLS = 2000000 };
  crema_syncedmem *memory = NULL;
  const void *data = NULL;
  double time[ROUNDS];
  uintptr_t sum = 0;
  check(crema_syncedmem_create(cr_cpu_device(), 64, &memory), "syncedmem");
  check(crema_syncedmem_cpu_data(memory, &data), "cpu_data");
  for (int r = 0; r < ROUNDS; ++r) {
    double start = cr_clock_seconds();
    for (int i = 0; i < CALLS; ++i) {
      check(crema_syncedmem_cpu_data(memory, &data), "cpu_data");
      sum += (uintptr_t)data;
    }
    time[r] = cr_clock_seconds() - start;
  }
  report("cpu_data() on a valid side", median(time, ROUNDS) / CALLS * 1e9, "ns",
         sum != 0 ? "at most 5" : "");
  crema_syncedmem_destroy(memory);
}

/* ---- queue pair ---- */

enum { HAND_OVERS = 300000 };

static crema_status produce(void *arg) {
  cr_queue_pair *pair = arg;
  for (int i = 0; i < HAND_OVERS; ++i) {
    void *element = NULL;
    check(cr_queue_pop(pair->free, NULL, &element), "pop");
    check(cr_queue_push(pair->full, element), "push");
  }
  return CREMA_OK;
}

static void bench_queue(void) {
  int value[4];
  void *element[4] = {&value[0], &value[1], &value[2], &value[3]};
  double time[ROUNDS];
  for (int r = 0; r < ROUNDS; ++r) {
    cr_queue_pair pair;
    cr_thread *thread = NULL;
    check(cr_queue_pair_init(&pair, element, 4), "pair");
    double start = cr_clock_seconds();
    check(cr_thread_start(&thread, "produce", produce, &pair), "thread");
    for (int i = 0; i < HAND_OVERS; ++i) {
      void *got = NULL;
      check(cr_queue_pop(pair.full, NULL, &got), "pop");
      check(cr_queue_push(pair.free, got), "push");
    }
    check(cr_thread_join(&thread), "join");
    time[r] = cr_clock_seconds() - start;
    cr_queue_pair_free(&pair, NULL);
  }
  report("hand-overs through a pair of 4 elements", HAND_OVERS / median(time, ROUNDS) * 1e-6,
         "million/s", "at least 1");
}

/* ---- pool ---- */

enum { POOL_CALLS = 100000, POOL_BYTES = 256 << 10, MALLOC_CALLS = 500, POOL_THREADS = 4 };

static crema_status use_pool(void *arg) {
  cr_pool *pool = arg;
  for (int i = 0; i < POOL_CALLS; ++i) {
    crema_devptr memory = {0};
    check(cr_pool_alloc(pool, POOL_BYTES, 0, &memory), "alloc");
    check(cr_pool_free(pool, memory, 0), "free");
  }
  return CREMA_OK;
}

static double time_malloc(void) {
  double start = cr_clock_seconds();
  for (int i = 0; i < MALLOC_CALLS; ++i) {
    volatile char *memory = malloc(POOL_BYTES);
    if (memory == NULL) exit(1);
    for (size_t at = 0; at < POOL_BYTES; at += 64) memory[at] = 1;
    free((void *)memory);
  }
  return (cr_clock_seconds() - start) / MALLOC_CALLS;
}

static void bench_pool(crema_device *device) {
  double one[ROUNDS], many[ROUNDS], plain[ROUNDS];
  cr_pool_options options = cr_pool_options_for(CR_POOL_BINS);
  cr_pool *pool = NULL;
  check(cr_pool_create(device, &options, &pool), "pool");
  for (int r = 0; r < ROUNDS; ++r) {
    cr_thread *thread[POOL_THREADS] = {0};
    double start = cr_clock_seconds();
    check(use_pool(pool), "pool");
    one[r] = (cr_clock_seconds() - start) / POOL_CALLS;
    plain[r] = time_malloc();
    start = cr_clock_seconds();
    for (int t = 0; t < POOL_THREADS; ++t) {
      check(cr_thread_start(&thread[t], "pool", use_pool, pool), "thread");
    }
    for (int t = 0; t < POOL_THREADS; ++t) check(cr_thread_join(&thread[t]), "join");
    many[r] = (cr_clock_seconds() - start) / (POOL_CALLS * POOL_THREADS);
  }
  double a = median(one, ROUNDS), b = median(plain, ROUNDS), c = median(many, ROUNDS);
  report("pool: allocate + free of a cached block", a * 1e9, "ns", "at most 150");
  report("  as a share of malloc + touch + free of 256 KiB", a / b, "", "at most 0.1");
  report("  throughput of 4 threads over 1", a / c, "x", "at least 2");
  cr_pool_destroy(pool);
}

/* ---- copies ---- */

enum { COPY_BYTES = 64 << 20, COPY_ROUNDS = 31 };

static double time_memcpy(void *to, const void *from) {
  double start = cr_clock_seconds();
  memcpy(to, from, COPY_BYTES);
  return cr_clock_seconds() - start;
}

static double time_copy(crema_context *context, crema_devptr to, const void *from) {
  double start = cr_clock_seconds();
  check(crema_context_device(context)->backend->copy(context, CR_COPY_HOST_TO_DEVICE, to.address,
                                                     (uintptr_t)from, COPY_BYTES),
        "copy");
  check(crema_context_finish(context), "finish");
  return cr_clock_seconds() - start;
}

/* In pairs of alternating order, because the second of two copies finds a part of the source in the
 * cache. */
static void bench_copy(crema_device *device) {
  crema_context *context = NULL;
  crema_devptr memory = {0};
  void *host = NULL, *other = NULL;
  double ratio[COPY_ROUNDS], plain[COPY_ROUNDS];
  check(crema_context_create(device, 0, &context), "context");
  check(cr_device_alloc(device, COPY_BYTES, &memory), "alloc");
  check(cr_host_alloc(COPY_BYTES, &host), "host");
  check(cr_host_alloc(COPY_BYTES, &other), "host");
  memset(host, 1, COPY_BYTES);
  memset(other, 2, COPY_BYTES);
  check(device->backend->zero(context, memory, COPY_BYTES), "zero");
  check(crema_context_finish(context), "finish");
  for (int r = 0; r < COPY_ROUNDS; ++r) {
    double copy = r % 2 == 0 ? 0 : time_copy(context, memory, host);
    plain[r] = time_memcpy(other, host);
    if (r % 2 == 0) copy = time_copy(context, memory, host);
    ratio[r] = plain[r] / copy;
  }
  report("64 MiB to a simulated device, over memcpy", median(ratio, COPY_ROUNDS), "x",
         "at least 0.9");
  report("  memcpy", COPY_BYTES / median(plain, COPY_ROUNDS) * 1e-9, "GB/s", "");
  cr_host_free(other);
  cr_host_free(host);
  cr_device_free(device, memory);
  crema_context_destroy(context);
}

/* A step computes for 10 ms while the next batch is copied over a link of 12 GB/s. */
static void bench_overlap(crema_device *device) {
  enum { BYTES = 64 << 20, STEPS = 10 };
  crema_syncedmem *batch[2] = {NULL};
  crema_context *copier = NULL;
  void *host = NULL;
  double with[ROUNDS], without[ROUNDS];
  check(crema_context_create(device, 0, &copier), "context");
  for (int i = 0; i < 2; ++i) {
    check(crema_syncedmem_create(device, BYTES, &batch[i]), "syncedmem");
    check(crema_syncedmem_mutable_cpu_data(batch[i], false, &host), "cpu");
    memset(host, i, BYTES);
    check(crema_syncedmem_async_push(batch[i], copier), "push");
    check(crema_context_finish(copier), "finish");
  }
  for (int r = 0; r < ROUNDS; ++r) {
    for (int copying = 0; copying < 2; ++copying) {
      double start = cr_clock_seconds();
      for (int s = 0; s < STEPS; ++s) {
        double end = cr_clock_seconds() + 0.010;
        if (copying == 1) {
          check(crema_syncedmem_mutable_cpu_data(batch[s % 2], true, &host), "cpu");
          check(crema_syncedmem_async_push(batch[s % 2], copier), "push");
        }
        cr_clock_sleep(end - cr_clock_seconds());
        if (copying == 1) check(crema_context_finish(copier), "finish");
      }
      (copying == 1 ? with : without)[r] = (cr_clock_seconds() - start) / STEPS;
    }
  }
  double a = median(without, ROUNDS), b = median(with, ROUNDS);
  report("64 MiB copy behind 10 ms of computing costs", (b / a - 1) * 100, "% of a step",
         "at most 3");
  for (int i = 0; i < 2; ++i) crema_syncedmem_destroy(batch[i]);
  crema_context_destroy(copier);
}

/* ---- a net ---- */

static const char lenet[] =
    "layer { name: 'data' type: 'DummyData' top: 'data' top: 'label' dummy_data_param {"
    " shape { dim: 64 dim: 1 dim: 28 dim: 28 } shape { dim: 64 }"
    " data_filler { type: 'constant' value: 0.5 } data_filler { type: 'constant' value: 3 } } }"
    "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param {"
    " num_output: 20 kernel_size: 5 weight_filler { type: 'xavier' } } }"
    "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1' pooling_param {"
    " pool: MAX kernel_size: 2 stride: 2 } }"
    "layer { name: 'conv2' type: 'Convolution' bottom: 'pool1' top: 'conv2' convolution_param {"
    " num_output: 50 kernel_size: 5 weight_filler { type: 'xavier' } } }"
    "layer { name: 'pool2' type: 'Pooling' bottom: 'conv2' top: 'pool2' pooling_param {"
    " pool: MAX kernel_size: 2 stride: 2 } }"
    "layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool2' top: 'ip1' inner_product_param {"
    " num_output: 500 weight_filler { type: 'xavier' } } }"
    "layer { name: 'relu1' type: 'ReLU' bottom: 'ip1' top: 'ip1' }"
    "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2' inner_product_param {"
    " num_output: 10 weight_filler { type: 'xavier' } } }"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }";

static crema_net *make_net(crema_device *device) {
  crema_net_options options;
  crema_net *net = NULL;
  crema_net_options_init(&options);
  options.phase = CREMA_TRAIN;
  options.seed = 1;
  options.device = device;
  check(crema_net_parse(lenet, strlen(lenet), "lenet", &options, &net), "net");
  return net;
}

static double time_steps(crema_net *net, int steps) {
  double start = cr_clock_seconds();
  for (int i = 0; i < steps; ++i) {
    double loss = 0;
    crema_net_clear_param_diffs(net);
    check(crema_net_forward(net, &loss), "forward");
    check(crema_net_backward(net), "backward");
    /* The loss of the next pass waits for this one's work. */
  }
  return (cr_clock_seconds() - start) / steps;
}

static void bench_net(crema_device *device) {
  enum { STEPS = 10 };
  crema_net *cpu = make_net(cr_cpu_device()), *sim = make_net(device);
  double on_cpu[ROUNDS], on_sim[ROUNDS];
  time_steps(cpu, STEPS);
  time_steps(sim, STEPS);
  for (int r = 0; r < ROUNDS; ++r) {
    on_cpu[r] = time_steps(cpu, STEPS);
    on_sim[r] = time_steps(sim, STEPS);
  }
  double a = median(on_cpu, ROUNDS), b = median(on_sim, ROUNDS);
  report("LeNet, batch 64, forward + backward on the CPU", a * 1e3, "ms", "");
  report("  on a simulated device, over the CPU", b / a, "x", "at most 1.1");
  crema_net_destroy(sim);
  crema_net_destroy(cpu);
}

static crema_device *start_sim(double bandwidth) {
  cr_sim_options options = cr_sim_defaults();
  options.memory = (size_t)1 << 30;
  options.bandwidth = bandwidth;
  crema_device *device = NULL;
  check(cr_sim_start(&options), "simulation");
  check(crema_device_get(CREMA_DEVICE_SIM, 0, &device), "device");
  return device;
}

int main(void) {
  bench_cpu_data();
  bench_queue();
  crema_device *device = start_sim(0);
  bench_pool(device);
  bench_copy(device);
  bench_net(device);
  cr_sim_stop(NULL);
  bench_overlap(start_sim(12e9));
  cr_sim_stop(NULL);
  return 0;
}
