/* The cost of a record (crema train -record): 100 iterations of LeNet with a record and without, in
 * turn in one process. One of the 100 is displayed, as in LeNet's own solver file. The limit is 1 %
 * more time. Usage: record [-t THREADS] */
#include <stdio.h>
#include <stdlib.h>

#include "chain/measure.h"
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

/* LeNet's solver of this folder, with a display every 100 iterations, in `folder`. */
static void write_solver(const char *path) {
  FILE *file = fopen(path, "w");
  if (file == NULL) {
    perror(path);
    exit(1);
  }
  fprintf(file, "net: \"" CREMA_SOURCE_DIR
                "/bench/nets/lenet.prototxt\" base_lr: 0.00001 momentum: 0.9 "
                "weight_decay: 0.0005 lr_policy: \"fixed\" max_iter: 1000000 random_seed: 1 "
                "display: 100 snapshot_prefix: \"x\"\n");
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

static void run(void *state) {
  crema_solver *solver = state;
  check(crema_solver_step(solver, 100), "training");
}

int main(int argc, char **argv) {
  char folder[] = "/tmp/crema-record-XXXXXX", path[64], command[64];
  int threads[2], counts = wanted_threads(argc, argv, threads);
  cr_run_record *to = NULL;
  if (mkdtemp(folder) == NULL) {
    perror(folder);
    return 1;
  }
  snprintf(path, sizeof path, "%s/solver.prototxt", folder);
  write_solver(path);
  crema_solver *with = make_solver(path, &to), *without = make_solver(path, NULL);
  snprintf(path, sizeof path, "%s/record", folder);
  const cr_run_start start = {.solver_path = "solver.prototxt"};
  check(cr_run_record_open(path, with, &start, &to), path);
  printf("%7s %12s %12s %7s (at most 1.01)\n", "threads", "with, ms", "without, ms", "ratio");
  for (int t = 0; t < counts; ++t) {
    const int used = use_threads(threads[t]);
    contestant two[2] = {{"with", run, with, 0.0}, {"without", run, without, 0.0}};
    double ratio = 0.0;
    measure(two, 2, 2, 9, 60, 6.0, &ratio);
    printf("%7d %12.1f %12.1f %7.3f\n", used, two[0].seconds * 1e3, two[1].seconds * 1e3, ratio);
  }
  cr_run_record_close(to, "finished", NULL);
  crema_solver_destroy(with);
  crema_solver_destroy(without);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}
