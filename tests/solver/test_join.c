/* Processes that a program has started: what each is before it joins the others, and what is asked
 * of NCCL when it does. The library, which needs a GPU in each process, is
 * the test's own. */
#include <math.h>

#include "core/fail.h"
#include "device/backend/collective.h"
#include "device/registry.h"
#include "interpose.h"
#include "layers/common/layer.h"
#include "parallel_case.h"

/* ---- the library ---- */

/* What the library's members are asked; a member that never gets ready. */
static int joins;
static struct {
  unsigned char id[sizeof(cr_group_id)];
  const crema_device *device;
  int rank, ranks;
} asked;

static crema_status note_join(const cr_group_id *id, crema_device *const *device, int count,
                              int first, int ranks, cr_member **out) {
  assert_int_equal(count, 1);
  ++joins;
  memcpy(asked.id, id->bytes, sizeof asked.id);
  asked.device = device[0];
  asked.rank = first;
  asked.ranks = ranks;
  *out = (cr_member *)(void *)&asked; /* no code reads it */
  return CREMA_OK;
}

/* Time passes quickly while the others are waited for. */
static double passed;

INTERPOSED int clock_gettime(clockid_t clock, struct timespec *time) {
  const bool own = from_program();
  const int failed = REAL(clock_gettime)(clock, time);
  if (own) time->tv_sec += (time_t)passed;
  return failed;
}

static crema_status stay_busy(cr_member *member, bool *busy) {
  (void)member;
  passed += 100;
  *busy = true;
  return CREMA_OK;
}

static void forget(cr_member *member) {
  (void)member;
}

static int aborts;

static void note_abort(cr_member *member) {
  (void)member;
  ++aborts;
}

static crema_status refuse_aborted(cr_member *member) {
  (void)member;
  return cr_fail(CREMA_E_DEVICE, "the group was aborted");
}

static crema_status found, made;

static crema_status find(void) {
  return found == CREMA_OK ? CREMA_OK : cr_fail(found, "libnccl is missing");
}

static crema_status make_id(cr_group_id *out) {
  for (size_t i = 0; i < sizeof out->bytes; ++i) out->bytes[i] = (char)(i * 3 + 5);
  return made == CREMA_OK ? CREMA_OK : cr_fail(made, "no id today");
}

static void load(solver_case *c, int rank, int count, const char *text) {
  c->options.process_rank = rank;
  c->options.process_count = count;
  case_load_fed(c, small_net, text);
}

/* ---- ids ---- */

static crema_status no_devices(int *count) {
  *count = 0;
  return CREMA_OK;
}

/* The plug-in of CUDA stays registered: the tests after this one find no devices in it. */
TEST(ids_are_the_librarys) {
  static const cr_collectives library = {.find = find, .make_id = make_id};
  static cr_backend backend = {.type = CREMA_DEVICE_CUDA, .name = "cuda", .count = no_devices};
  crema_group_id id;
  ok(cr_backend_register(&backend));
  assert_fails(crema_group_find(), CREMA_E_UNSUPPORTED, "there is no NCCL for cuda devices");
  assert_fails(crema_group_make_id(&id), CREMA_E_UNSUPPORTED, "there is no NCCL for cuda devices");
  backend.collectives = &library;
  found = CREMA_E_UNSUPPORTED;
  assert_fails(crema_group_find(), CREMA_E_UNSUPPORTED, "libnccl is missing");
  assert_fails(crema_group_make_id(&id), CREMA_E_UNSUPPORTED, "libnccl is missing");
  found = CREMA_OK;
  made = CREMA_E_DEVICE;
  ok(crema_group_find());
  assert_fails(crema_group_make_id(&id), CREMA_E_DEVICE, "no id today");
  made = CREMA_OK;
  memset(&id, 0, sizeof id);
  ok(crema_group_make_id(&id));
  for (size_t i = 0; i < sizeof id.bytes; ++i) assert_int_equal(id.bytes[i], (char)(i * 3 + 5));
  assert_int_equal(crema_group_make_id(NULL), CREMA_E_ARGUMENT);
}

/* ---- before joining ---- */

CASE_TEST(processes_know_their_place) {
  solver_case *c = *state;
  load(c, 2, 3, "lr_policy: 'fixed' test_iter: 1 test_interval: 100");
  assert_int_equal(c->solver->rank, 2);
  assert_int_equal(c->solver->ranks, 3);
  assert_int_equal(c->solver->replicas, 1);
  assert_true(c->solver->tests_shared);
  assert_false(cr_solver_leads(c->solver));
  assert_int_equal(cr_solver_partners(c->solver), 1);
  assert_int_equal(c->solver->batch_samples, 12);
  for (int i = 0; i < c->solver->net->layers; ++i) {
    assert_int_equal(c->solver->net->layer[i].layer->solver.rank, 2);
  }
  load(c, 0, 1, "lr_policy: 'fixed'");
  assert_int_equal(c->solver->ranks, 1);
  assert_false(c->solver->tests_shared);
  assert_true(cr_solver_leads(c->solver));
}

static uint64_t seed_of(solver_case *c, int count, const char *seed) {
  char path[256], text[256];
  c->options.process_count = count;
  c->options.process_rank = 0;
  case_write(c, "net.prototxt", small_net);
  snprintf(text, sizeof text, "net: 'net.prototxt' base_lr: 1 lr_policy: 'fixed' %s", seed);
  case_write(c, "solver.prototxt", text);
  crema_solver_destroy(c->solver);
  c->solver = NULL;
  ok(crema_solver_load(case_path(c, "solver.prototxt", path), &c->options, &c->solver));
  return c->solver->seed;
}

/* Nobody can be asked yet: without a seed all take 0. */
CASE_TEST(seeds_are_the_same_everywhere) {
  solver_case *c = *state;
  assert_int_equal(seed_of(c, 2, ""), 0);
  assert_int_not_equal(seed_of(c, 1, ""), 0);
  c->options.has_seed = true;
  c->options.seed = 7;
  assert_int_equal(seed_of(c, 2, ""), 7);
  assert_int_equal(seed_of(c, 1, ""), 7);
  assert_int_equal(seed_of(c, 2, "random_seed: 9"), 9);
  assert_int_equal(seed_of(c, 2, "random_seed: 0"), 0);
}

/* One that trains by itself is warned of, once; what it learns is its own. */
CASE_TEST(one_that_has_not_joined_is_warned_of) {
  static log_lines lines;
  solver_case *c = *state;
  listen(&lines);
  load(c, 1, 2, "lr_policy: 'fixed' momentum: 0.9");
  ok(crema_solver_step(c->solver, 2));
  ok(crema_solver_step(c->solver, 1));
  assert_int_equal(count_lines(&lines, "Rank 1 of 2 trains by itself, on its share of the data"),
                   1);
  load(c, 0, 1, "lr_policy: 'fixed' momentum: 0.9");
  ok(crema_solver_step(c->solver, 2));
  stop_listening();
  assert_int_equal(count_lines(&lines, "trains by itself"), 1);
}

/* Only rank 0 writes, in the log and elsewhere. */
CASE_TEST(others_write_nothing) {
  solver_case *c = *state;
  for (int rank = 0; rank < 2; ++rank) {
    char path[256];
    static log_lines lines;
    load(c, 1 - rank, 2,
         "lr_policy: 'fixed' max_iter: 3 display: 1 test_iter: 2 test_interval: 1 "
         "test_compute_loss: true");
    /* Where the others could not write does not matter. */
    char nowhere[] = "/nowhere/s", *prefix = c->solver->snapshot_prefix;
    if (rank == 0) c->solver->snapshot_prefix = nowhere;
    listen(&lines);
    ok(crema_solver_solve(c->solver));
    stop_listening();
    c->solver->snapshot_prefix = prefix;
    /* Iterations 0 to 2, three lines each; after the last one the loss; and four tests. */
    assert_int_equal(count_lines(&lines, "Iteration "), rank == 1 ? 2 * 3 + 1 + 4 : 0);
    assert_int_equal(count_lines(&lines, "Train net output"), rank == 1 ? 3 : 0);
    assert_int_equal(count_lines(&lines, "Test loss: "), rank == 1 ? 4 : 0);
    assert_int_equal(count_lines(&lines, "Test net output"), rank == 1 ? 8 : 0);
    assert_int_equal(count_lines(&lines, "Snapshotting to"), rank == 1 ? 1 : 0);
    assert_int_equal(c->solver->snapshot_iteration, 3);
    assert_int_equal(access(case_path(c, "s_iter_3.solverstate", path), F_OK) == 0, rank == 1);
  }
}

static void refuse(solver_case *c, int rank, int count, crema_status code, const char *words) {
  c->options.process_rank = rank;
  c->options.process_count = count;
  case_refuse(c, "lr_policy: 'fixed'", code, words);
}

PARALLEL_TEST(places_that_make_no_sense_are_refused) {
  solver_case *c = *state;
  refuse(c, 2, 2, CREMA_E_RANGE, "rank 2 of 2 processes");
  refuse(c, -1, 2, CREMA_E_RANGE, "rank -1 of 2 processes");
  refuse(c, 1, 1, CREMA_E_RANGE, "rank 1 of 1 processes");
  refuse(c, 1, 0, CREMA_E_RANGE, "rank 1 of 0 processes");
  refuse(c, 0, -1, CREMA_E_RANGE, "rank 0 of -1 processes");
  c->options.exchange = CREMA_EXCHANGE_REDUCE;
  refuse(c, 0, 2, CREMA_E_ARGUMENT, "processes that a program has started exchange by nccl");
  c->options.exchange = CREMA_EXCHANGE_NCCL;
  load(c, 0, 2, "lr_policy: 'fixed'");
  c->options.exchange = CREMA_EXCHANGE_AUTO;
  c->options.with_processes = true;
  refuse(c, 0, 2, CREMA_E_ARGUMENT, "it is not for processes that mpirun starts");
  c->options.with_processes = false;
  use_devices(c, 2, CREMA_EXCHANGE_AUTO);
  refuse(c, 0, 2, CREMA_E_ARGUMENT, "one of 2 processes that a program has started");
  assert_error_has("it has several");
  use_devices(c, 1, CREMA_EXCHANGE_AUTO);
  load(c, 1, 2, "lr_policy: 'fixed'");
  assert_ptr_equal(c->solver->device, sim_test_device(0));
}

/* ---- joining ---- */

CASE_TEST(what_is_asked_of_the_library) {
  solver_case *c = *state;
  crema_group_id id;
  for (size_t i = 0; i < sizeof id.bytes; ++i) id.bytes[i] = (unsigned char)(i * 7 + 1);
  load(c, 1, 3, "lr_policy: 'fixed'");
  assert_int_equal(crema_solver_join(NULL, &id, 1), CREMA_E_ARGUMENT);
  assert_int_equal(crema_solver_join(c->solver, NULL, 1), CREMA_E_ARGUMENT);
  static const cr_collectives library = {
      .find = find, .join = note_join, .progress = stay_busy, .abort = note_abort,
      .finalize = refuse_aborted, .leave = forget};
  crema_device *device = c->solver->device;
  const cr_backend *usual = device->backend;
  cr_backend backend = *usual;
  backend.collectives = &library;
  joins = 0;
  aborts = 0;
  assert_fails(crema_solver_join(c->solver, &id, 1), CREMA_E_UNSUPPORTED,
               "cannot train together here (several devices of one process");
  device->backend = &backend;
  found = CREMA_OK;
  assert_fails(crema_solver_join(c->solver, &id, -1), CREMA_E_RANGE, "a patience of -1 s");
  assert_fails(crema_solver_join(c->solver, &id, NAN), CREMA_E_RANGE, "a patience of ");
  assert_int_equal(joins, 0);
  for (int k = 0; k < 2; ++k) {
    assert_fails(crema_solver_join(c->solver, &id, k == 0 ? 2.5 : 0), CREMA_E_IO,
                 k == 0 ? "waited for 2.5 s for" : "waited for 600 s for");
    assert_int_equal(joins, k + 1);
    assert_int_equal(aborts, k + 1);
    assert_memory_equal(asked.id, id.bytes, sizeof asked.id);
    assert_int_equal(asked.rank, 1);
    assert_int_equal(asked.ranks, 3);
    assert_ptr_equal(asked.device, device);
  }
  assert_null(c->solver->world);
  /* Who is alone has nobody to join. */
  load(c, 0, 1, "lr_policy: 'fixed'");
  ok(crema_solver_join(c->solver, &id, 1));
  assert_int_equal(joins, 2);
  /* Nor does one join twice. */
  load(c, 0, 2, "lr_policy: 'fixed'");
  c->solver->world = (cr_world *)(void *)&asked; /* nobody looks into it */
  assert_fails(crema_solver_join(c->solver, &id, 1), CREMA_E_STATE, "has joined other processes");
  c->solver->world = NULL;
  device->backend = usual;
}

/* Weights that the program has set are the first rank's; one process alone is its own first. */
CASE_TEST(broadcasts_begin_averages) {
  solver_case *c = *state;
  float *weight;
  const float *average;
  load(c, 0, 1, "lr_policy: 'fixed' ema_decay: 0.5");
  assert_int_equal(crema_solver_broadcast(NULL), CREMA_E_ARGUMENT);
  ok(crema_blob_mutable_cpu_data(c->solver->net->learnable[0], &weight));
  for (int i = 0; i < 6; ++i) weight[i] = (float)i;
  ok(crema_solver_broadcast(c->solver));
  ok(crema_blob_cpu_data(cr_average_of(c->solver->replica[0].average, 0), &average));
  for (int i = 0; i < 6; ++i) assert_true(average[i] == (float)i);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
