/* A training step by crema (forward, backward, update) against the time of its convolutions and
 * inner products alone in oneDNN, run in turn in one process: LeNet at batch 64, CIFAR-10 quick at
 * 100, AlexNet at 32, with one thread and with all. Usage: training [-t THREADS] [NETWORK...] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain/measure.h"
#include "chain/products.h"
#include "crema/crema.h"

static const struct {
  const char *name, *solver;
  int batch;
} models[] = {{"lenet", CREMA_SOURCE_DIR "/bench/nets/lenet_solver.prototxt", 64},
              {"cifar10_quick", CREMA_SOURCE_DIR "/bench/nets/cifar10_quick_solver.prototxt", 100},
              {"alexnet", CREMA_SOURCE_DIR "/bench/nets/alexnet_solver.prototxt", 32}};

static void check(crema_status status, const char *what) {
  if (status == CREMA_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, crema_status_message(status), crema_error_text());
  exit(1);
}

static void run_step(void *state) {
  check(crema_solver_step(state, 1), "step");
}

static void run_products(void *state) {
  products_run(state);
}

static void compare(const char *name, const char *path, int batch, int threads) {
  int count = 0;
  const product_shape *shapes = products_network(name, batch, &count);
  products *p = products_create(shapes, count);
  crema_solver *solver = NULL;
  check(crema_solver_load(path, NULL, &solver), path);
  contestant two[2] = {{"crema", run_step, solver, 0.0}, {"products", run_products, p, 0.0}};
  double ratio = 0.0;
  measure(two, 2, 3, 7, 400, 3.0, &ratio);
  printf("%-14s %5d %7d %12.3f %12.3f %7.2f\n", name, batch, threads, two[0].seconds * 1e3,
         two[1].seconds * 1e3, ratio);
  fflush(stdout);
  crema_solver_destroy(solver);
  products_destroy(p);
}

int main(int argc, char **argv) {
  int threads[2], counts = wanted_threads(argc, argv, threads);
  printf("%-14s %5s %7s %12s %12s %7s\n", "network", "batch", "threads", "crema ms", "products ms",
         "ratio");
  for (size_t i = 0; i < sizeof models / sizeof models[0]; ++i) {
    if (!is_wanted(models[i].name, argc, argv)) continue;
    for (int t = 0; t < counts; ++t) {
      compare(models[i].name, models[i].solver, models[i].batch, use_threads(threads[t]));
    }
  }
  return 0;
}
