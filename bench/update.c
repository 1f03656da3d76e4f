/* The update of AlexNet's parameters by a solver against copying on as many threads, in turn in one
 * process: SGD, SGD with momentum, and Adam. Bytes are those that must be read and written: of
 * weights and history both, of gradients those read. Usage: update [-t THREADS] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain/measure.h"
#include "crema/crema.h"
#include "device/memory/host_memory.h"
#include "solver/solver.h"

static const struct {
  const char *name, *lines;
  int arrays; /* read and written, as many as this together */
} rules[] = {{"SGD", "momentum: 0", 5},
             {"SGD, momentum 0.9", "momentum: 0.9", 5},
             {"Adam", "type: \"Adam\" momentum: 0.9 momentum2: 0.999", 7}};

static void check(crema_status status, const char *what) {
  if (status == CREMA_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, crema_status_message(status), crema_error_text());
  exit(1);
}

/* ---- copying ---- */

typedef struct copying {
  char *dst, *src;
  size_t bytes;
} copying;

static void run_copy(void *state) {
  const copying *c = state;
#pragma omp parallel for schedule(static)
  for (int part = 0; part < 64; ++part) {
    const size_t begin = c->bytes / 64 * (size_t)part;
    memcpy(c->dst + begin, c->src + begin, c->bytes / 64);
  }
}

/* ---- updating ---- */

static crema_solver *make_solver(const char *lines) {
  char path[] = "/tmp/crema-update-XXXXXX";
  crema_solver *solver = NULL;
  const int fd = mkstemp(path);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
  if (file == NULL) {
    perror(path);
    exit(1);
  }
  fprintf(file,
          "net: \"" CREMA_SOURCE_DIR
          "/bench/nets/alexnet.prototxt\"\nbase_lr: 0.00001 lr_policy: \"fixed\" "
          "weight_decay: 0.0005 max_iter: 1 random_seed: 1 snapshot_prefix: \"x\" %s\n",
          lines);
  fclose(file);
  check(crema_solver_load(path, NULL, &solver), path);
  remove(path);
  return solver;
}

/* Gradients as a backward pass leaves them: the update marks them zero. */
static void set_gradients(crema_solver *solver, bool fill) {
  for (int i = 0; i < solver->net->learnables; ++i) {
    crema_blob *blob = solver->net->learnable[i];
    float *diff = NULL;
    check(crema_blob_mutable_cpu_diff(blob, &diff), "gradient");
    for (int64_t k = 0; fill && k < crema_blob_count(blob); ++k) diff[k] = 0.001f;
  }
}

static void run_update(void *state) {
  crema_solver *solver = state;
  set_gradients(solver, false);
  check(cr_updater_run(solver->updater, 0.00001, 0), "update");
}

static void compare(size_t rule, int threads) {
  crema_solver *solver = make_solver(rules[rule].lines);
  size_t values = 0;
  for (int i = 0; i < solver->net->learnables; ++i) {
    values += (size_t)crema_blob_count(solver->net->learnable[i]);
  }
  const size_t bytes = values * sizeof(float);
  copying c = {.bytes = bytes};
  check(cr_host_alloc(bytes, (void **)&c.dst), "memory");
  check(cr_host_alloc(bytes, (void **)&c.src), "memory");
  memset(c.dst, 1, bytes);
  memset(c.src, 1, bytes);
  set_gradients(solver, true);
  contestant two[2] = {{"update", run_update, solver, 0.0}, {"copy", run_copy, &c, 0.0}};
  double ratio = 0.0;
  measure(two, 2, 3, 7, 60, 4.0, &ratio);
  const double moved = (double)bytes * rules[rule].arrays;
  printf("%-18s %7d %9.1f %12.1f %10.1f %7.2f\n", rules[rule].name, threads, two[0].seconds * 1e3,
         moved / two[0].seconds * 1e-9, 2.0 * (double)bytes / two[1].seconds * 1e-9,
         rules[rule].arrays / 2.0 / ratio);
  fflush(stdout);
  cr_host_free(c.src);
  cr_host_free(c.dst);
  crema_solver_destroy(solver);
}

int main(int argc, char **argv) {
  int threads[2], counts = wanted_threads(argc, argv, threads);
  printf("%-18s %7s %9s %12s %10s %7s (at least 0.85)\n", "rule", "threads", "ms", "update GB/s",
         "copy GB/s", "ratio");
  for (size_t rule = 0; rule < sizeof rules / sizeof rules[0]; ++rule) {
    for (int t = 0; t < counts; ++t) compare(rule, use_threads(threads[t]));
  }
  return 0;
}
