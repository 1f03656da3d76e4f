/* The cost of watching a training, in turn with the same training unwatched in one process.
 *
 * A record (crema train -record): 100 iterations of LeNet, of which one is displayed, as in LeNet's
 * own solver file. The limit is 1 % more time. A timeline (crema train -trace): 20 iterations of
 * CIFAR-10 quick. The limit is 5 %. Usage: record [-t THREADS] */
#include <stdio.h>
#include <stdlib.h>

#include "chain/measure.h"
#include "core/timeline.h"
#include "crema/crema.h"
#include "record/record.h"

static void check(crema_status status, const char *what) {
  if (status == CREMA_OK) return;
  fprintf(stderr, "%s: %s\n", what, crema_error_text());
  exit(1);
}

static void record(void *user, const crema_solver_event *event) {
  cr_run_record **to = user;
  cr_run_record_event(*to, event);
}

/* A solver for a net of bench/nets, with a display every 100 iterations. */
static void write_solver(const char *net, const char *path) {
  FILE *file = fopen(path, "w");
  if (file == NULL) {
    perror(path);
    exit(1);
  }
  fprintf(file,
          "net: \"" CREMA_SOURCE_DIR
          "/bench/nets/%s.prototxt\" base_lr: 0.00001 momentum: 0.9 weight_decay: 0.0005 "
          "lr_policy: \"fixed\" max_iter: 1000000 random_seed: 1 display: 100 "
          "snapshot_prefix: \"x\"\n",
          net);
  fclose(file);
}

static crema_solver *make_solver(const char *path, cr_run_record **to) {
  crema_solver_options options;
  crema_solver *solver = NULL;
  crema_solver_options_init(&options);
  if (to != NULL) options.event = record;
  options.user = to;
  check(crema_solver_load(path, &options, &solver), path);
  return solver;
}

/* A training for some iterations; with `trace`, a timeline of them is written to that file. */
typedef struct training {
  crema_solver *solver;
  int64_t iterations;
  const char *trace;
} training;

static void run(void *state) {
  const training *t = state;
  if (t->trace != NULL) check(cr_timeline_begin(t->trace, 0), t->trace);
  check(crema_solver_step(t->solver, t->iterations), "training");
  if (t->trace != NULL) check(cr_timeline_end(), t->trace);
}

static void compare(const char *name, int threads, training *with, training *without,
                    const char *limit) {
  contestant two[2] = {{"with", run, with, 0.0}, {"without", run, without, 0.0}};
  double ratio = 0.0;
  measure(two, 2, 2, 9, 60, 8.0, &ratio);
  printf("%-9s %7d %12.1f %12.1f %7.3f (at most %s)\n", name, threads, two[0].seconds * 1e3,
         two[1].seconds * 1e3, ratio, limit);
  fflush(stdout);
}

static void measure_record(const char *folder, int threads) {
  char path[64];
  cr_run_record *to = NULL;
  const cr_run_start start = {.solver_path = "solver.prototxt"};
  snprintf(path, sizeof path, "%s/solver.prototxt", folder);
  write_solver("lenet", path);
  training with = {make_solver(path, &to), 100, NULL},
           without = {make_solver(path, NULL), 100, NULL};
  snprintf(path, sizeof path, "%s/record", folder);
  check(cr_run_record_open(path, with.solver, &start, &to), path);
  compare("record", threads, &with, &without, "1.01");
  cr_run_record_close(to, "finished", NULL);
  crema_solver_destroy(with.solver);
  crema_solver_destroy(without.solver);
}

static void measure_timeline(const char *folder, int threads) {
  char path[64], trace[64];
  snprintf(path, sizeof path, "%s/solver.prototxt", folder);
  snprintf(trace, sizeof trace, "%s/trace.json", folder);
  write_solver("cifar10_quick", path);
  training with = {make_solver(path, NULL), 20, trace},
           without = {make_solver(path, NULL), 20, NULL};
  compare("timeline", threads, &with, &without, "1.05");
  crema_solver_destroy(with.solver);
  crema_solver_destroy(without.solver);
}

int main(int argc, char **argv) {
  char folder[] = "/tmp/crema-record-XXXXXX", command[64];
  int threads[2], counts = wanted_threads(argc, argv, threads);
  if (mkdtemp(folder) == NULL) {
    perror(folder);
    return 1;
  }
  printf("%-9s %7s %12s %12s %7s\n", "", "threads", "with, ms", "without, ms", "ratio");
  for (int t = 0; t < counts; ++t) {
    const int used = use_threads(threads[t]);
    measure_record(folder, used);
    measure_timeline(folder, used);
  }
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}
