/* One of several processes that mpirun starts (tests/parallel/mpi.sh) and that train one net. The
 * first argument says how they end, the second names a file in a folder that all have, to which
 * each rank appends a line when all went well. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "core/fail.h"
#include "device/backend/collective.h"
#include "device/device.h"
#include "layers/common/layer.h"
#include "solver/detections.h"
#include "solver_case.h"

enum { FAILED_AS_PLANNED = 7, SEED = 100, TESTED = 4, BATCH = 4 };

/* Whether NCCL is there is asked once, and not where mpi is wanted. */
static int times_asked;
static bool library_is_broken;

static crema_status find(void) {
  ++times_asked;
  if (library_is_broken) return cr_fail(CREMA_E_DEVICE, "the library is broken");
  return cr_fail(CREMA_E_UNSUPPORTED, "there is no NCCL");
}

static void use_library(crema_device *device) {
  static const cr_collectives library = {.find = find};
  static cr_backend backend;
  backend = *device->backend;
  backend.collectives = &library;
  device->backend = &backend;
}

static solver_case c;
static const char *notes;
static log_lines lines;
static crema_solver_action wanted;
static int polls;
static double told_loss;
static int fails_at = -1, without_net = -1; /* an iteration of rank 1; a rank */

static int rank(void) {
  return cr_world_rank(c.solver->world);
}

static int size(void) {
  return cr_world_size(c.solver->world);
}

static bool is_last(void) {
  return rank() == size() - 1;
}

static bool note(void) {
  FILE *file = fopen(notes, "a");
  if (file == NULL) return false;
  const bool noted = fprintf(file, "passed %ld\n", (long)getpid()) > 0;
  return fclose(file) == 0 && noted;
}

/* Fails when the ranks' numbers differ; waits for all of them. */
static void expect_same(int64_t number) {
  int64_t most[] = {number, -number};
  ok(cr_world_agree(c.solver->world, NULL, 0, most, 2));
  assert_int_equal(most[0], -most[1]);
}

/* ---- the solver ---- */

/* An inner product that learns, a dropout that changes nothing, and a test that shows what it gets.
 */
static const char net_text[] =
    "name: 'ranks'\n"
    "layer { name: 'in' type: 'Input' top: 'data' top: 'label' include { phase: TRAIN }\n"
    "  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' include { phase: TRAIN }\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss'\n"
    "  include { phase: TRAIN } }\n"
    "layer { name: 'drop' type: 'Dropout' bottom: 'data' top: 'dropped' include { phase: TRAIN } "
    "}\n"
    "layer { name: 'unused' type: 'Silence' bottom: 'dropped' include { phase: TRAIN } }\n"
    "layer { name: 'given' type: 'Input' top: 'v' include { phase: TEST }\n"
    "  input_param { shape { dim: 1 } } }\n"
    "layer { name: 'shown' type: 'Power' bottom: 'v' top: 'score' include { phase: TEST } }\n"
    "layer { name: 'lost' type: 'Power' bottom: 'v' top: 'loss' loss_weight: 2\n"
    "  include { phase: TEST } }\n";

static const char fields[] =
    "net: 'net.prototxt' base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 average_loss: 2 display: 1\n"
    "ema_decay: 0.5 solver_mode: CPU max_iter: 9\n";

static crema_status feed(void *user, crema_net *net, int64_t pass) {
  if (rank() == 1 && c.solver->iteration == fails_at) return cr_fail(CREMA_E_CLOSED, "no more");
  return case_feed(user, net, pass);
}

static crema_solver_action poll(void *user) {
  (void)user;
  ++polls;
  return wanted;
}

static void progress(void *user, const crema_solver_progress *now) {
  (void)user;
  told_loss = now->loss;
}

/* Two processes divide batches among them and want mpi, more deal them out and take what there is.
 * Only the first one's seed counts. */
static crema_status load(crema_exchange way) {
  char folder[128], text[1024], path[256];
  const int ranks = atoi(getenv("OMPI_COMM_WORLD_SIZE"));
  const int number = atoi(getenv("OMPI_COMM_WORLD_RANK"));
  snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(notes, '/') - notes), notes);
  snprintf(
      text, sizeof text,
      "%s test_iter: %d test_interval: 100 test_initialization: false test_compute_loss: true\n"
      "snapshot_prefix: '%s/s'\n",
      fields, TESTED, folder);
  crema_device *device = NULL;
  ok(crema_device_get(CREMA_DEVICE_CPU, 0, &device));
  use_library(device);
  /* Who started the processes removes the folder. */
  crema_solver_options_init(&c.options);
  snprintf(c.folder, sizeof c.folder, "%.48s/rank%d", folder, number % 1000);
  assert_int_equal(mkdir(c.folder, 0700), 0);
  if (number != without_net) case_write(&c, "net.prototxt", net_text);
  case_write(&c, "solver.prototxt", text);
  c.options.with_processes = true;
  c.options.total_batch = ranks == 2;
  c.options.exchange = way;
  c.options.has_seed = true;
  c.options.seed = (uint64_t)(SEED + number);
  c.options.feed = feed;
  c.options.poll = poll;
  c.options.progress = progress;
  listen(&lines);
  return crema_solver_load(case_path(&c, "solver.prototxt", path), &c.options, &c.solver);
}

static void read_weights(const solver_case *of, float out[6], float average[6]) {
  const float *value;
  case_weights(of, out);
  ok(crema_blob_cpu_data(cr_average_of(of->solver->replica[0].average, 0), &value));
  memcpy(average, value, 6 * sizeof *average);
}

static const cr_layer *dropout(void) {
  for (int i = 0; i < c.solver->net->layers; ++i) {
    const cr_layer *layer = c.solver->net->layer[i].layer;
    if (strcmp(layer->name, "drop") == 0) return layer;
  }
  fail_msg("no dropout");
  return NULL;
}

/* How often it was said: by the first rank, which speaks for all. */
static void expect_said(const char *words, int times) {
  const int found = count_lines(&lines, words);
  if (found != (rank() == 0 ? times : 0)) fail_msg("rank %d: %d \"%s\"", rank(), found, words);
}

/* ---- what they do together ---- */

static void they_are_numbered(void **state) {
  (void)state;
  char words[64];
  assert_int_equal(size(), atoi(getenv("OMPI_COMM_WORLD_SIZE")));
  assert_int_equal(c.solver->rank, rank());
  assert_int_equal(c.solver->ranks, size());
  assert_int_equal(c.solver->replicas, 1);
  assert_int_equal(cr_solver_partners(c.solver), size());
  assert_int_equal(cr_solver_leads(c.solver), rank() == 0);
  assert_true(c.solver->tests_shared);
  assert_int_equal(c.solver->seed, SEED);
  assert_int_equal(c.solver->batch_samples, BATCH * size());
  snprintf(words, sizeof words, "%d processes train together", size());
  expect_said(words, 1);
  snprintf(words, sizeof words, "Exchange: mpi, between %d processes", size());
  expect_said(words, 1);
  assert_int_equal(times_asked, size() == 2 ? 0 : 1);
#ifdef _OPENMP
  /* Processes share the processors of their host, unless they were bound to some. */
  const int own = omp_get_num_procs();
  const bool all = own == (int)sysconf(_SC_NPROCESSORS_ONLN);
  assert_int_equal(omp_get_max_threads(), !all ? own : own < size() ? 1 : own / size());
#endif
  snprintf(words, sizeof words, "cannot be divided among %d replicas; each runs 2", size());
  expect_said(words, size() == 2 ? 0 : 1);
}

static void there_is_no_snapshot_yet(void **state) {
  (void)state;
  bool found = true;
  ok(crema_solver_restore_latest(c.solver, &found));
  assert_false(found);
}

/* Each gets samples of its own, and all learn what one process learns from all of them. */
static void they_learn_as_one_would(void **state) {
  (void)state;
  static solver_case alone;
  char text[512], path[256];
  float one[6], all[6], one_average[6], all_average[6];
  listen(&lines);
  ok(crema_solver_step(c.solver, 3));
  expect_said("Iteration 2, lr = 0.1", 1);
  expect_said("    Train net output #0: loss = ", 3);
  const double loss = told_loss;
  expect_same((int64_t)(loss * 1e15));
  assert_int_equal(c.solver->samples, (int64_t)3 * BATCH * size());
  read_weights(&c, all, all_average);
  snprintf(text, sizeof text, "%s iter_size: %d snapshot_prefix: 's'", fields, size());
  case_begin(&alone);
  case_write(&alone, "net.prototxt", net_text);
  case_write(&alone, "solver.prototxt", text);
  alone.options = c.options;
  alone.options.feed = case_feed;
  alone.options.seed = SEED;
  alone.options.with_processes = false;
  ok(crema_solver_load(case_path(&alone, "solver.prototxt", path), &alone.options, &alone.solver));
  ok(crema_solver_step(alone.solver, 3));
  read_weights(&alone, one, one_average);
  for (int i = 0; i < 6; ++i) {
    assert_float_equal(all[i], one[i], 1e-5);
    assert_float_equal(all_average[i], one_average[i], 1e-5);
  }
  assert_float_equal(loss, told_loss, 1e-5);
  case_end(&alone);
}

static void they_share_tests(void **state) {
  (void)state;
  char words[64];
  float *value;
  crema_net *net = crema_solver_test_net(c.solver, 0);
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &value));
  value[0] = (float)(rank() + 1);
  polls = 0;
  listen(&lines);
  ok(cr_solver_test_all(c.solver));
  assert_int_equal(polls, size() == 2 ? TESTED : 2);
  snprintf(words, sizeof words, "    Test net output #1: score = %g\n", (size() + 1) / 2.0);
  expect_said(words, 1);
  snprintf(words, sizeof words, "Test loss: %d\n", size() + 1);
  expect_said(words, 1);
  expect_said("Iteration 3, Testing net (#0)", 1);
  assert_true(c.solver->has_score);
  assert_float_equal(c.solver->score, (size() + 1) / 2.0, 1e-6);
}

static bool has_state(int iteration) {
  char path[256];
  snprintf(path, sizeof path, "%s_iter_%d.solverstate", c.solver->snapshot_prefix, iteration);
  return access(path, R_OK) == 0;
}

/* What one process is asked for all do. To stop comes before a snapshot. */
static void they_obey_each_other(void **state) {
  (void)state;
  wanted = is_last() ? CREMA_SOLVER_SNAPSHOT : CREMA_SOLVER_CONTINUE;
  ok(crema_solver_step(c.solver, 1));
  expect_same(4);
  assert_int_equal(c.solver->snapshot_iteration, 4);
  assert_true(has_state(4));
  wanted = is_last() ? CREMA_SOLVER_STOP : CREMA_SOLVER_SNAPSHOT;
  ok(crema_solver_step(c.solver, 3));
  expect_same(5);
  assert_int_equal(crema_solver_iteration(c.solver), 5);
  assert_int_equal(c.solver->snapshot_iteration, 4);
  assert_false(has_state(5));
  wanted = CREMA_SOLVER_CONTINUE;
}

/* The first one looks for the snapshot. Streams of random numbers go on, each rank's own. */
static void they_go_on_from_one_snapshot(void **state) {
  (void)state;
  char nowhere[] = "/nowhere/s", *prefix = c.solver->snapshot_prefix;
  bool found = false;
  float before[6], after[6], average[2][6];
  const uint64_t key = dropout()->key, pass = (uint64_t)dropout()->pass;
  read_weights(&c, before, average[0]);
  if (rank() > 0) c.solver->snapshot_prefix = nowhere;
  ok(crema_solver_restore_latest(c.solver, &found));
  c.solver->snapshot_prefix = prefix;
  assert_true(found);
  assert_int_equal(crema_solver_iteration(c.solver), 4);
  ok(crema_solver_step(c.solver, 1));
  read_weights(&c, after, average[1]);
  assert_memory_equal(before, after, sizeof before);
  assert_memory_equal(average[0], average[1], sizeof before);
  assert_int_equal(dropout()->key, key);
  assert_int_equal(dropout()->pass, pass);
}

/* Rank 1 has a detection that is right, each higher one so many better ones that are wrong as its
 * number says, rank 0 three objects. */
static void they_gather_detections(void **state) {
  (void)state;
  static const char eval_net[] =
      "layer { name: 'in' type: 'Input' top: 'mAP' input_param { shape { dim: 1 dim: 5 } } }";
  char area[] = "Integral";
  Caffe__SolverParameter param = CAFFE__SOLVER_PARAMETER__INIT;
  const float objects[] = {-1, 1, 3, -1, -1};
  const float found[] = {0, 1, (float)(10 + rank()), rank() == 1, rank() > 1};
  cr_detections some = {0}, none = {0};
  crema_net *net = NULL;
  float *value;
  double score;
  ok(crema_net_parse(eval_net, strlen(eval_net), NULL, NULL, &net));
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &value));
  memcpy(value, rank() == 0 ? objects : found, sizeof found);
  for (int i = 0; i < (rank() == 0 ? 1 : rank()); ++i) ok(cr_detections_add(&some, net));
  ok(cr_detections_gather(&some, c.solver->world));
  param.ap_version = area;
  ok(cr_detections_report(&some, &param, NULL, false, &score));
  assert_float_equal(score, size() == 2 ? 1. / 3 : 1. / 3 / 3, 1e-9);
  ok(cr_detections_gather(&none, c.solver->world));
  assert_int_equal(none.row.size, 0);
  cr_detections_free(&some);
  cr_detections_free(&none);
  crema_net_destroy(net);
}

static void hear(void *user, const char *text) {
  (void)user;
  keep_line(&lines, CREMA_LOG_INFO, NULL, 0, text);
}

/* The links between processes are measured, and the first one tells. */
static void they_plan(void **state) {
  (void)state;
  char words[80];
  listen(&lines);
  ok(crema_solver_plan(c.solver, hear, NULL));
  snprintf(words, sizeof words, "with %d processes, %d samples", size(), BATCH * size());
  expect_said(words, 1);
  expect_said("Links between processes", 1);
  expect_said("after 0 us", 0);
  expect_said("forward 0.000 ms", 0);
  expect_said("\n  mpi  ", 1);
  expect_said(size() == 2 ? "Taken (-exchange): mpi" : "Taken (auto): mpi", 1);
  assert_int_equal(count_lines(&lines, "tree"), 0);
}

static void updates_are_made_together(void **state) {
  (void)state;
  assert_fails(crema_solver_apply_update(c.solver), CREMA_E_UNSUPPORTED, "on one device");
}

/* ---- how they end ---- */

static void not_all_do_the_same(void **state) {
  (void)state;
  assert_fails(crema_solver_step(c.solver, rank() == 0 ? 2 : 3), CREMA_E_STATE,
               rank() == 0 ? "this one runs iterations 0 to 2" : "this one runs iterations 0 to 3");
}

/* What was learned before is kept, and all hear of the reason. */
static void one_has_no_more_data(void **state) {
  (void)state;
  fails_at = 2;
  const bool own = rank() == 1;
  assert_fails(crema_solver_solve(c.solver), CREMA_E_CLOSED, own ? "no more" : "rank 1 (");
  if (rank() == 0) assert_true(has_state(2));
}

/* Of ways between devices processes have none. */
static void some_ways_are_not_theirs(void **state) {
  (void)state;
  const bool two = strcmp(getenv("OMPI_COMM_WORLD_SIZE"), "2") == 0;
  assert_fails(load(two ? CREMA_EXCHANGE_TREE : CREMA_EXCHANGE_REDUCE), CREMA_E_ARGUMENT,
               "processes exchange gradients by mpi or nccl");
  assert_null(c.solver);
}

/* Who wants nccl gets nothing else. */
static void nccl_is_not_here(void **state) {
  (void)state;
  assert_fails(load(CREMA_EXCHANGE_NCCL), CREMA_E_UNSUPPORTED, "");
  assert_int_equal(times_asked, 1);
}

/* That nccl fails is not the same as that it is not there, where mpi takes its place. */
static void nccl_fails(void **state) {
  (void)state;
  library_is_broken = true;
  assert_fails(load(CREMA_EXCHANGE_AUTO), CREMA_E_DEVICE, "the library is broken");
}

/* Nobody waits for one that cannot begin. */
static void one_has_no_net(void **state) {
  (void)state;
  without_net = 1;
  const bool own = strcmp(getenv("OMPI_COMM_WORLD_RANK"), "1") == 0;
  assert_fails(load(CREMA_EXCHANGE_MPI), CREMA_E_NOT_FOUND, own ? "net.prototxt" : "rank 1 (");
}

int main(int argc, char **argv) {
  const struct CMUnitTest all[] = {
      cmocka_unit_test(they_are_numbered),         cmocka_unit_test(there_is_no_snapshot_yet),
      cmocka_unit_test(they_learn_as_one_would),   cmocka_unit_test(they_share_tests),
      cmocka_unit_test(they_obey_each_other),      cmocka_unit_test(they_go_on_from_one_snapshot),
      cmocka_unit_test(they_gather_detections),    cmocka_unit_test(they_plan),
      cmocka_unit_test(updates_are_made_together),
  };
  const struct CMUnitTest apart[] = {cmocka_unit_test(not_all_do_the_same)};
  const struct CMUnitTest refused[] = {cmocka_unit_test(some_ways_are_not_theirs)};
  const struct CMUnitTest nccl[] = {cmocka_unit_test(nccl_is_not_here)};
  const struct CMUnitTest lost[] = {cmocka_unit_test(one_has_no_net)};
  const struct CMUnitTest broken[] = {cmocka_unit_test(nccl_fails)};
  const struct CMUnitTest starved[] = {cmocka_unit_test(one_has_no_more_data)};
  int failed = 1;
  if (argc < 3) return 1;
  arguments_read = 2;
  notes = argv[2];
  unsetenv("OMP_NUM_THREADS"); /* given by ctest; with it processes share nothing */
#ifdef _OPENMP
  omp_set_num_threads(omp_get_num_procs());
#endif
  const bool together = strcmp(argv[1], "all") == 0;
  /* mpirun ends processes with SIGTERM as soon as one of them has failed. */
  if (!together) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
  }
  const char *ranks = getenv("OMPI_COMM_WORLD_SIZE");
  const bool two = ranks != NULL && strcmp(ranks, "2") == 0;
  const bool loads_itself = strcmp(argv[1], "refused") == 0 || strcmp(argv[1], "lost") == 0 ||
                            strcmp(argv[1], "nccl") == 0 || strcmp(argv[1], "broken") == 0;
  if (!loads_itself) ok(load(two ? CREMA_EXCHANGE_MPI : CREMA_EXCHANGE_AUTO));
  if (together) failed = run_each_of(all, NULL, NULL);
  else if (strcmp(argv[1], "apart") == 0) failed = run_each_of(apart, NULL, NULL);
  else if (strcmp(argv[1], "refused") == 0) failed = run_each_of(refused, NULL, NULL);
  else if (strcmp(argv[1], "nccl") == 0) failed = run_each_of(nccl, NULL, NULL);
  else if (strcmp(argv[1], "lost") == 0) failed = run_each_of(lost, NULL, NULL);
  else if (strcmp(argv[1], "broken") == 0) failed = run_each_of(broken, NULL, NULL);
  else failed = run_each_of(starved, NULL, NULL);
  stop_listening();
  crema_solver_destroy(c.solver);
  if (failed != 0) return failed;
  if (!note()) return 1;
  return together ? 0 : FAILED_AS_PLANNED;
}
