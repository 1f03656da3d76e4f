/* What goes wrong on one device ends the training of all with its message (S3-31); stops and
 * snapshots at any moment leave what training goes on from (S3-30). Nobody waits for ever. */
#include <stdatomic.h>

#include "core/rng.h"
#include "parallel_case.h"

enum { DEVICES = 3 };

/* ---- what is done about a failure ---- */

/* Once all replicas have done what they were asked for, and one failed: which contexts are waited
 * for, and which fails then, too (linked with --wrap). */
static bool watches;
static atomic_bool failed_together; /* which threads that copy batches read, too */
static const crema_context *awaited[2 * DEVICES];
static int waits;

crema_status __real_cr_replica_threads_run(cr_replica_threads *team, cr_replica_work *work,
                                           void *user);
crema_status __wrap_cr_replica_threads_run(cr_replica_threads *team, cr_replica_work *work,
                                           void *user);
crema_status __wrap_cr_replica_threads_run(cr_replica_threads *team, cr_replica_work *work,
                                           void *user) {
  const crema_status status = __real_cr_replica_threads_run(team, work, user);
  failed_together = watches && status != CREMA_OK;
  return status;
}

crema_status __real_crema_context_finish(crema_context *context);
crema_status __wrap_crema_context_finish(crema_context *context);
crema_status __wrap_crema_context_finish(crema_context *context) {
  const crema_status status = __real_crema_context_finish(context);
  if (!failed_together || waits == 2 * DEVICES) return status;
  awaited[waits++] = context;
  return cr_fail(CREMA_E_IO, "another failure");
}

/* ---- a replica that fails by itself ---- */

/* Records come one batch at a time, and each replica takes many in an iteration. */
static const char *const read_net =
    "layer { name: 'in' type: 'Data' top: 'data' top: 'label'\n"
    "  data_param { source: 'db' batch_size: 2 backend: LMDB prefetch: 1 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 3 weight_filler { type: 'gaussian' std: 0.01 } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

typedef struct trouble {
  int64_t pass; /* the one that fails */
  bool infinite, reads;
} trouble;

static crema_status feed(void *user, crema_net *net, int64_t pass) {
  const trouble *t = user;
  if (!t->reads) CR_TRY(case_feed(NULL, net, pass));
  if (pass != t->pass) return CREMA_OK;
  if (!t->infinite) return cr_fail(CREMA_E_RANGE, "there is no sample for pass %d", (int)pass);
  float *data = NULL;
  CR_TRY(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  data[5] = NAN;
  return CREMA_OK;
}

/* Each replica fails in each of the first passes. */
static void fail_everywhere(solver_case *c, trouble kind, const char *net, const char *text,
                            int passes) {
  static trouble of_run;
  trouble *t = &of_run;
  *t = kind;
  c->options.feed = feed;
  c->options.user = t;
  for (int way = 0; way < EXCHANGE_WAYS; ++way) {
    for (int64_t pass = 0; pass < DEVICES * passes; ++pass) {
      char words[64];
      t->pass = pass;
      use_devices(c, DEVICES, exchange_ways[way]);
      case_load(c, net, text);
      crema_status status = crema_solver_step(c->solver, 3);
      assert_int_equal(status, t->infinite ? CREMA_E_NUMERIC : CREMA_E_RANGE);
      snprintf(words, sizeof words, "no sample for pass %d", (int)pass);
      assert_error_has(t->infinite ? "the loss is" : words);
      /* Nothing can be exchanged any more. */
      assert_fails(crema_solver_step(c->solver, 1), status, "");
    }
  }
}

PARALLEL_TEST(s3_31_a_failure_to_feed_ends_all) {
  solver_case *c = *state;
  fail_everywhere(c, (trouble){0}, TWO_PRODUCTS, "lr_policy: 'fixed'", 2);
  fail_everywhere(c, (trouble){0}, TWO_PRODUCTS,
                  "lr_policy: 'fixed' iter_size: 2 layer_wise_reduce: false", 3);
}

PARALLEL_TEST(s3_31_replicas_that_wait_for_records_hear_of_a_failure) {
  solver_case *c = *state;
  case_make_database(c, "lmdb", 24, 2, 3);
  fail_everywhere(c, (trouble){.reads = true}, read_net, "lr_policy: 'fixed' iter_size: 40", 2);
}

PARALLEL_TEST(s3_31_a_loss_that_is_not_finite_ends_all) {
  fail_everywhere(*state, (trouble){.infinite = true}, TWO_PRODUCTS, "lr_policy: 'fixed'", 2);
}

/* All devices are waited for, and what they tell then is not what is told. */
PARALLEL_TEST(a_failure_waits_for_the_other_devices) {
  solver_case *c = *state;
  for (int64_t pass = DEVICES; pass < 2 * DEVICES; ++pass) {
    trouble t = {.pass = pass};
    char words[64];
    c->options.feed = feed;
    c->options.user = &t;
    use_devices(c, DEVICES, CREMA_EXCHANGE_REDUCE);
    case_load(c, TWO_PRODUCTS, "lr_policy: 'fixed'");
    waits = 0;
    watches = true;
    const crema_status status = crema_solver_step(c->solver, 3);
    watches = false;
    failed_together = false;
    snprintf(words, sizeof words, "there is no sample for pass %d", (int)pass);
    assert_fails(status, CREMA_E_RANGE, words);
    assert_int_equal(waits, DEVICES);
    for (int i = 0; i < DEVICES; ++i) {
      assert_ptr_equal(awaited[i], c->solver->replica[i].context);
    }
  }
  c->options.user = NULL;
}

/* Where training is to go on, the first replica warns of its own losses, and the others keep quiet.
 */
PARALLEL_TEST(losses_that_are_not_finite_are_warned_of_once) {
  solver_case *c = *state;
  c->options.feed = feed;
  c->options.on_nan = CREMA_SOLVER_NAN_WARN;
  for (int64_t pass = 0; pass < DEVICES; ++pass) {
    static log_lines lines;
    trouble t = {.pass = DEVICES + pass, .infinite = true};
    c->options.user = &t;
    use_devices(c, DEVICES, CREMA_EXCHANGE_REDUCE);
    case_load(c, TWO_PRODUCTS, "lr_policy: 'fixed'");
    listen_to(&lines, CREMA_LOG_WARNING);
    ok(crema_solver_step(c->solver, 2));
    stop_listening();
    assert_int_equal(crema_solver_iteration(c->solver), 2);
    assert_int_equal(count_lines(&lines, "iteration 1: the loss is"), pass == 0);
  }
  c->options.user = NULL;
}

static const cr_exchange_class *usual_class;
static int finishes;

static crema_status count_finish(cr_exchange *end) {
  ++finishes;
  return usual_class->finish != NULL ? usual_class->finish(end) : CREMA_OK;
}

/* No update has begun without the gradients of all. */
PARALLEL_TEST(s3_31_what_was_learned_before_a_failure_is_kept) {
  solver_case *c = *state;
  trouble t = {.pass = 2 * DEVICES + 1};
  c->options.feed = feed;
  c->options.user = &t;
  for (int way = 0; way < EXCHANGE_WAYS; ++way) {
    char path[256];
    weights known, kept;
    use_devices(c, DEVICES, exchange_ways[way]);
    case_load(c, TWO_PRODUCTS, "lr_policy: 'fixed' max_iter: 9 momentum: 0.9");
    ok(crema_solver_step(c->solver, 2));
    read_weights(c->solver->net, &known);
    case_load(c, TWO_PRODUCTS, "lr_policy: 'fixed' max_iter: 9 momentum: 0.9");
    /* The root waits for its exchange when its weights are saved. */
    cr_exchange *end = c->solver->replica[0].exchange;
    usual_class = end->class;
    cr_exchange_class counting = *usual_class;
    counting.finish = count_finish;
    end->class = &counting;
    finishes = 0;
    assert_fails(crema_solver_solve(c->solver), CREMA_E_RANGE, "no sample for pass 7");
    end->class = usual_class;
    assert_int_equal(finishes, 1);
    use_devices(c, 1, CREMA_EXCHANGE_AUTO);
    case_load(c, TWO_PRODUCTS, "lr_policy: 'fixed' momentum: 0.9");
    ok(crema_solver_restore(c->solver, case_path(c, "s_iter_2.solverstate", path)));
    read_weights(c->solver->net, &kept);
    assert_same_weights(&known, &kept);
    assert_int_equal(remove(path), 0);
  }
  c->options.user = NULL;
}

/* ---- a device that fails ---- */

typedef struct fault {
  cr_sim_op op;
  bool late;
} fault;

/* The `nth` operation fails. Returns whether it was reached. */
static bool fail_at(solver_case *c, crema_exchange way, const fault *f, int nth, bool loading) {
  crema_status status;
  c->options.feed = case_feed;
  use_devices(c, DEVICES, way);
  if (!loading) case_load(c, TWO_PRODUCTS, "lr_policy: 'fixed' momentum: 0.9");
  cr_sim_fail(f->op, nth, CREMA_E_NO_MEMORY, f->late);
  status = loading ? case_try_load(c, TWO_PRODUCTS, "lr_policy: 'fixed' momentum: 0.9") : CREMA_OK;
  if (status == CREMA_OK) status = crema_solver_step(c->solver, 2);
  cr_sim_clear_faults();
  if (status == CREMA_OK) return false;
  assert_int_equal(status, CREMA_E_NO_MEMORY);
  assert_error_has("simulated failure");
  char er[512];
  snprintf(er, 512, "%s", crema_error_text());
  crema_solver_destroy(c->solver);
  c->solver = NULL;
  char tt[256];
  if (cr_sim_races(tt, sizeof tt)) {
    print_error("op %d late %d way %d nth %d loading %d: %s\n %s\n", f->op, f->late, way, nth,
                loading, tt, er);
    abort();
  }
  return true;
}

PARALLEL_TEST(s3_31_a_device_that_fails_ends_all) {
  static const fault faults[] = {
      {CR_SIM_ALLOC, false},       {CR_SIM_KERNEL, false},       {CR_SIM_KERNEL, true},
      {CR_SIM_PEER, false},        {CR_SIM_PEER, true},          {CR_SIM_D2D, true},
      {CR_SIM_H2D, true},          {CR_SIM_D2H, true},           {CR_SIM_ZERO, true},
      {CR_SIM_STREAM_OPEN, false}, {CR_SIM_EVENT_RECORD, false}, {CR_SIM_EVENT_WAIT, false}};
  int reached = 0;
  for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
    for (int way = 0; way < EXCHANGE_WAYS; ++way) {
      for (int loading = 0; loading < 2; ++loading) {
        for (int nth = 1; nth < 400; nth += 1 + nth / 2) {
          if (!fail_at(*state, exchange_ways[way], &faults[i], nth, loading == 1)) break;
          ++reached;
        }
      }
    }
  }
  assert_true(reached > 100);
}

/* ---- stops and snapshots ---- */

typedef struct caller {
  cr_mt19937 rng;
  int asked, stop_at, snapshots;
} caller;

static crema_solver_action poll_randomly(void *user) {
  caller *who = user;
  if (++who->asked == who->stop_at) return CREMA_SOLVER_STOP;
  if (who->snapshots > 0 && cr_mt19937_below(&who->rng, 4) == 0) {
    --who->snapshots;
    return CREMA_SOLVER_SNAPSHOT;
  }
  return CREMA_SOLVER_CONTINUE;
}

static const char *const tested_net =
    "layer { name: 'in' type: 'Data' top: 'data' top: 'label'\n"
    "  data_param { source: 'db' batch_size: 2 backend: LMDB prefetch: 1 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 3 weight_filler { type: 'gaussian' std: 0.01 } } }\n"
    "layer { name: 'drop' type: 'Dropout' bottom: 'ip' top: 'ip' }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

static const char *const tested_text =
    "lr_policy: 'fixed' base_lr: 1e-4 momentum: 0.9 max_iter: 8 test_iter: 5 test_interval: 2 "
    "snapshot: 3";

/* Trains to the end in one go, or stopped at random moments and resumed each time. */
static void train_to_the_end(solver_case *c, int devices, crema_exchange way, caller *who,
                             weights *out) {
  for (int stops = who != NULL ? 3 : 0; stops >= 0; --stops) {
    char path[512];
    const bool resumes = c->solver != NULL && who != NULL;
    const int at = resumes ? (int)crema_solver_iteration(c->solver) : 0;
    c->options.poll = stops > 0 ? poll_randomly : NULL;
    c->options.user = who;
    use_devices(c, devices, way);
    case_load(c, tested_net, tested_text);
    snprintf(path, sizeof path, "%s/s_iter_%d.solverstate", c->folder, at);
    if (resumes) ok(crema_solver_restore(c->solver, path));
    if (who != NULL) {
      who->asked = 0;
      who->stop_at = 1 + (int)cr_mt19937_below(&who->rng, 16);
      who->snapshots = 2;
    }
    ok(crema_solver_solve(c->solver));
  }
  assert_int_equal(crema_solver_iteration(c->solver), 8);
  read_weights(crema_solver_net(c->solver), out);
}

/* With masks of its own for each replica (S3-17) and with tests: bit for bit what the uninterrupted
 * run learns (S3-32). */
PARALLEL_TEST(s3_30_s3_17_stopped_anywhere_training_goes_on_exactly) {
  solver_case *c = *state;
  caller who = {.asked = 0};
  cr_mt19937_seed(&who.rng,
                  (uint32_t)atoi(getenv("CREMA_TEST_SEED") ? getenv("CREMA_TEST_SEED") : "1"));
  case_make_database(c, "lmdb", 23, 2, 3);
  for (int devices = 1; devices <= 4; ++devices) {
    for (int way = 0; way < EXCHANGE_WAYS; ++way) {
      weights whole, parts;
      train_to_the_end(c, devices, exchange_ways[way], NULL, &whole);
      for (int i = 0; i < 4; ++i) {
        crema_solver_destroy(c->solver);
        c->solver = NULL;
        train_to_the_end(c, devices, exchange_ways[way], &who, &parts);
        assert_same_weights(&whole, &parts);
      }
    }
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
