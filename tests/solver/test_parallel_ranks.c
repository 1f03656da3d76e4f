/* The replicas of a training: which device each has, which threads work for them, what they begin
 * with, and that gradients are summed while others are still being computed. */
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/thread.h"
#include "interpose.h"
#include "parallel_case.h"

enum { DEVICES = 4 };

/* ---- devices ---- */

/* The first one is the root's, whatever its number. */
PARALLEL_TEST(s3_01_devices_keep_their_order) {
  solver_case *c = *state;
  static const int order[DEVICES] = {2, 0, 3, 1};
  crema_device *device[DEVICES];
  for (int i = 0; i < DEVICES; ++i) device[i] = sim_test_device(order[i]);
  for (int way = 0; way < EXCHANGE_WAYS; ++way) {
    use_devices(c, DEVICES, exchange_ways[way]);
    c->options.devices = device;
    case_load_fed(c, TWO_PRODUCTS, "lr_policy: 'fixed'");
    assert_int_equal(c->solver->replicas, DEVICES);
    assert_ptr_equal(c->solver->device, device[0]);
    for (int i = 0; i < DEVICES; ++i) {
      const cr_replica *replica = &c->solver->replica[i];
      assert_ptr_equal(replica->context->device, device[i]);
      assert_int_equal(replica->rank, i);
    }
    ok(crema_solver_step(c->solver, 1));
  }
}

PARALLEL_TEST(s3_01_devices_that_make_no_sense_are_refused) {
  solver_case *c = *state;
  crema_device *device[DEVICES];
  for (int way = 0; way < EXCHANGE_WAYS; ++way) {
    for (int i = 0; i < DEVICES; ++i) device[i] = sim_test_device(i);
    use_devices(c, DEVICES, exchange_ways[way]);
    c->options.devices = device;
    device[3] = device[1];
    case_refuse(c, "lr_policy: 'fixed'", CREMA_E_ARGUMENT, "sim:1 is named twice");
    device[3] = cr_cpu_device();
    case_refuse(c, "lr_policy: 'fixed'", CREMA_E_ARGUMENT, "devices of sim and of cpu");
    device[3] = NULL;
    case_refuse(c, "lr_policy: 'fixed'", CREMA_E_ARGUMENT, "device 3 of 4 is NULL");
  }
}

PARALLEL_TEST(ways_that_devices_do_not_have_are_refused) {
  solver_case *c = *state;
  use_devices(c, 2, CREMA_EXCHANGE_MPI);
  case_refuse(c, "lr_policy: 'fixed'", CREMA_E_ARGUMENT,
              "mpi exchanges between processes, and this one was not started by mpirun");
  use_devices(c, 2, CREMA_EXCHANGE_NCCL);
  case_refuse(c, "lr_policy: 'fixed'", CREMA_E_UNSUPPORTED, "NCCL");
  /* One device exchanges nothing. */
  use_devices(c, 1, CREMA_EXCHANGE_MPI);
  case_load_fed(c, TWO_PRODUCTS, "lr_policy: 'fixed'");
  ok(crema_solver_step(c->solver, 1));
  assert_null(c->solver->replica[0].exchange);
}

/* As many as there is room for. */
CASE_TEST(devices_have_a_limit) {
  solver_case *c = *state;
  crema_device *device[CR_MAX_DEVICES + 1];
  cr_sim_options options = sim_test_options(CR_MAX_DEVICES);
  options.memory = (size_t)8 << 20;
  options.keep_log = false;
  sim_begin(&options);
  for (int i = 0; i <= CR_MAX_DEVICES; ++i) device[i] = sim_test_device(i % CR_MAX_DEVICES);
  c->options.devices = device;
  c->options.exchange = CREMA_EXCHANGE_REDUCE;
  c->options.device_count = CR_MAX_DEVICES + 1;
  case_refuse(c, "lr_policy: 'fixed'", CREMA_E_RANGE,
              "17 devices, but at most 16 can train together");
  c->options.device_count = CR_MAX_DEVICES;
  case_load_fed(c, TWO_PRODUCTS, "lr_policy: 'fixed'");
  assert_int_equal(c->solver->replicas, CR_MAX_DEVICES);
  ok(crema_solver_step(c->solver, 1));
  assert_replicas_agree(c);
  crema_solver_destroy(c->solver);
  c->solver = NULL;
  c->options.devices = NULL;
  assert_fails(case_try_load(c, TWO_PRODUCTS, "lr_policy: 'fixed'"), CREMA_E_ARGUMENT,
               "16 devices without their list");
  sim_end();
}

/* ---- threads ---- */

typedef struct threads {
  pthread_t of_replica[DEVICES];
  atomic_int fed;
} threads;

static crema_status feed_and_note(void *user, crema_net *net, int64_t pass) {
  threads *t = user;
  t->of_replica[pass % DEVICES] = pthread_self();
  atomic_fetch_add(&t->fed, 1);
  return case_feed(NULL, net, pass);
}

enum { MOST_THREADS = 256 };

static int list_threads(long id[MOST_THREADS]) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  assert_non_null(tasks);
  for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    assert_true(count < MOST_THREADS);
    id[count++] = strtol(entry->d_name, NULL, 10);
  }
  assert_int_equal(closedir(tasks), 0);
  return count;
}

/* The number of threads that are listed, and not in `known`. */
static int count_others(const long *known, int knowns) {
  long id[MOST_THREADS];
  const int count = list_threads(id);
  int others = count;
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < knowns; ++k) {
      if (id[i] == known[k]) --others;
    }
  }
  return others;
}

/* A thread that was joined may still be listed for a moment. */
static void expect_no_others(const long *known, int knowns) {
  for (int i = 0; i < 1000 && count_others(known, knowns) > 0; ++i) cr_clock_sleep(0.01);
  assert_int_equal(count_others(known, knowns), 0);
}

/* The root works in the thread of the caller, each other replica in one of its own, and none is
 * left when the solver has gone. */
PARALLEL_TEST(s3_16_each_replica_has_a_thread) {
  solver_case *c = *state;
  static threads t;
  c->options.feed = feed_and_note;
  c->options.user = &t;
  for (int turn = 0; turn < 2 * EXCHANGE_WAYS; ++turn) {
    long known[MOST_THREADS];
    const int knowns = list_threads(known);
    atomic_store(&t.fed, 0);
    use_devices(c, DEVICES, exchange_ways[turn % EXCHANGE_WAYS]);
    case_load(c, TWO_PRODUCTS, "lr_policy: 'fixed'");
    assert_true(count_others(known, knowns) >= DEVICES - 1);
    ok(crema_solver_step(c->solver, 2));
    assert_int_equal(atomic_load(&t.fed), 2 * DEVICES);
    assert_true(pthread_equal(t.of_replica[0], pthread_self()));
    for (int i = 0; i < DEVICES; ++i) {
      for (int k = 0; k < i; ++k) {
        assert_false(pthread_equal(t.of_replica[i], t.of_replica[k]));
      }
    }
    crema_solver_destroy(c->solver);
    c->solver = NULL;
    /* The first turn may have started threads that compute, which stay. */
    if (turn >= EXCHANGE_WAYS) expect_no_others(known, knowns);
  }
}

/* The thread that cannot be started; 0: all can. */
static int start_that_fails, starts;

INTERPOSED int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                              void *(*run)(void *), void *arg) {
  if (from_program() && start_that_fails > 0 && ++starts == start_that_fails) return EAGAIN;
  return REAL(pthread_create)(thread, attributes, run, arg);
}

/* Whichever thread cannot be started, loading fails and those that were started end. */
PARALLEL_TEST(threads_that_do_not_start_leave_none) {
  solver_case *c = *state;
  for (int way = 0; way < EXCHANGE_WAYS; ++way) {
    int failures = 0;
    use_devices(c, DEVICES, exchange_ways[way]);
    case_load_fed(c, TWO_PRODUCTS, "lr_policy: 'fixed'");
    crema_solver_destroy(c->solver);
    c->solver = NULL;
    long known[MOST_THREADS];
    const int knowns = list_threads(known);
    for (;; ++failures) {
      starts = 0;
      start_that_fails = failures + 1;
      const crema_status status = case_try_load(c, TWO_PRODUCTS, "lr_policy: 'fixed'");
      if (status == CREMA_OK) break;
      start_that_fails = 0;
      assert_fails(status, CREMA_E_NO_MEMORY, "cannot start thread ");
      expect_no_others(known, knowns);
    }
    start_that_fails = 0;
    assert_true(failures >= DEVICES - 1);
    ok(crema_solver_step(c->solver, 1));
  }
}

/* ---- calls within an iteration ---- */

typedef struct points {
  pthread_mutex_t lock;
  char text[256];
} points;

static crema_status note(void *user, const char *word) {
  points *p = user;
  pthread_mutex_lock(&p->lock);
  strncat(p->text, word, sizeof p->text - strlen(p->text) - 1);
  pthread_mutex_unlock(&p->lock);
  return CREMA_OK;
}

static crema_status at_start(void *user) {
  return note(user, "s");
}

static crema_status at_ready(void *user) {
  return note(user, "r ");
}

static crema_status feed_and_tell(void *user, crema_net *net, int64_t pass) {
  CR_TRY(note(user, "f"));
  return case_feed(NULL, net, pass);
}

/* Once each for all replicas: before any of them computes, and when all of them have. */
PARALLEL_TEST(s3_33_a_program_is_called_before_and_after_all) {
  solver_case *c = *state;
  for (int way = 0; way < EXCHANGE_WAYS; ++way) {
    static points p = {.lock = PTHREAD_MUTEX_INITIALIZER};
    p.text[0] = '\0';
    c->options.user = &p;
    c->options.feed = feed_and_tell;
    c->options.iteration_start = at_start;
    c->options.gradients_ready = at_ready;
    use_devices(c, 3, exchange_ways[way]);
    case_load(c, TWO_PRODUCTS, "lr_policy: 'fixed' iter_size: 2");
    ok(crema_solver_step(c->solver, 3));
    assert_string_equal(p.text, "sffffffr sffffffr sffffffr ");
  }
}

/* ---- what a program changes then ---- */

/* Each iteration sets a weight before it, and a gradient and a weight behind its gradients. */
typedef struct changer {
  solver_case *c;
  int starts, ends;
  bool same; /* all replicas had the weight of the start when they computed */
} changer;

static float *first_of(crema_net *net, bool gradient) {
  float *value = NULL;
  ok(gradient ? crema_blob_mutable_cpu_diff(net->learnable[0], &value)
              : crema_blob_mutable_cpu_data(net->learnable[0], &value));
  return value;
}

static crema_status change_at_start(void *user) {
  changer *change = user;
  first_of(change->c->solver->net, false)[0] = (float)++change->starts;
  return CREMA_OK;
}

static crema_status change_when_ready(void *user) {
  changer *change = user;
  for (int i = 0; i < change->c->solver->replicas; ++i) {
    const float *value = first_of(change->c->solver->replica[i].net, false);
    change->same = change->same && value[0] == (float)change->starts;
  }
  first_of(change->c->solver->net, true)[1] = 100;
  first_of(change->c->solver->net, false)[1] = 7;
  ++change->ends;
  return CREMA_OK;
}

/* What is changed on the first device counts for all, and no device has updated before. */
PARALLEL_TEST(s3_33_what_a_program_changes_reaches_all_devices) {
  solver_case *c = *state;
  for (int way = 0; way < EXCHANGE_WAYS; ++way) {
    weights root, other;
    changer change = {.c = c, .same = true};
    c->options.feed = case_feed;
    c->options.user = NULL;
    use_devices(c, 3, exchange_ways[way]);
    case_load(c, TWO_PRODUCTS, "lr_policy: 'fixed' base_lr: 0.25 momentum: 0");
    c->solver->options.user = &change;
    ok(crema_solver_set_calls(c->solver, change_at_start, change_when_ready));
    ok(crema_solver_step(c->solver, 3));
    assert_int_equal(change.starts, 3);
    assert_int_equal(change.ends, 3);
    assert_true(change.same);
    read_weights(c->solver->net, &root);
    /* Gradients are sums over the devices. */
    assert_true(fabsf(root.value[1] - (7 - 0.25f * 100 / 3)) < 1e-5f);
    for (int i = 0; i < 3 && exchange_ways[way] != CREMA_EXCHANGE_TREE; ++i) {
      read_weights(c->solver->replica[i].net, &other);
      assert_same_weights(&root, &other);
    }
    /* Without functions nothing more is copied. */
    ok(crema_solver_set_calls(c->solver, NULL, NULL));
    ok(crema_solver_step(c->solver, 1));
    assert_int_equal(change.starts, 3);
  }
}

/* ---- weights at the start ---- */

static void add_to_weights(crema_net *net, float what) {
  float *value = NULL;
  ok(crema_blob_mutable_cpu_data(net->learnable[0], &value));
  value[0] += what;
}

typedef struct meddler {
  int64_t pass; /* in which replica 1 changes its weights */
} meddler;

static crema_status feed_and_meddle(void *user, crema_net *net, int64_t pass) {
  const meddler *m = user;
  if (pass == m->pass) add_to_weights(net, 1);
  return case_feed(NULL, net, pass);
}

/* All begin with the first rank's weights, each time that training begins; from then on each
 * updates its own, and nobody looks at the others'. */
PARALLEL_TEST(s4_53_all_begin_with_the_weights_of_the_first) {
  solver_case *c = *state;
  weights root, other;
  static meddler m = {.pass = -1};
  c->options.feed = feed_and_meddle;
  c->options.user = &m;
  use_devices(c, DEVICES, CREMA_EXCHANGE_REDUCE);
  case_load(c, TWO_PRODUCTS,
            "lr_policy: 'fixed' base_lr: 0 test_iter: 1 test_interval: 1000 test_initialization: "
            "false");
  for (int turn = 0; turn < 2; ++turn) {
    for (int i = 0; i < DEVICES; ++i) add_to_weights(c->solver->replica[i].net, (float)(i + 1));
    read_weights(c->solver->net, &root);
    ok(crema_solver_step(c->solver, 1));
    for (int i = 0; i < DEVICES; ++i) {
      read_weights(c->solver->replica[i].net, &other);
      assert_same_weights(&root, &other);
    }
  }
  m.pass = 3 * DEVICES + 1;
  ok(crema_solver_step(c->solver, 3));
  read_weights(c->solver->replica[1].net, &other);
  assert_true(other.value[0] == root.value[0] + 1);
  /* For a test they get the root's statistics, and no weights. */
  ok(cr_solver_test_all(c->solver));
  read_weights(c->solver->replica[1].net, &other);
  assert_true(other.value[0] == root.value[0] + 1);
  ok(crema_solver_step(c->solver, 1));
  read_weights(c->solver->replica[1].net, &other);
  assert_same_weights(&root, &other);
}

/* So do the factors of their gradients. */
PARALLEL_TEST(all_begin_with_the_factor_of_the_first) {
  solver_case *c = *state;
  for (int way = 0; way < EXCHANGE_WAYS; ++way) {
    use_devices(c, DEVICES, exchange_ways[way]);
    case_load_fed(c, TWO_PRODUCTS, "lr_policy: 'fixed'");
    cr_net_set_grad_scale(c->solver->net, 8);
    ok(crema_solver_step(c->solver, 0));
    for (int i = 0; i < DEVICES; ++i) assert_true(c->solver->replica[i].net->grad_scale == 8);
  }
}

/* ---- sums beside the backward pass ---- */

/* Of what is copied from now on only sums are counted: the weights were copied when the first
 * iteration began. */
static void count_from_now(void *user, const crema_solver_progress *progress) {
  solver_case *c = user;
  (void)progress;
  ok(cr_solver_finish(c->solver));
  cr_sim_reset_counts();
}

/* In layer 1, the last one in backward that has parameters. */
static crema_status await_a_copy(void *user, crema_net *net, int layer) {
  const int device = *(const int *)user;
  const double end = cr_clock_seconds() + 30;
  (void)net;
  if (layer != 1) return CREMA_OK;
  while (cr_sim_count(CR_SIM_PEER, device) == 0) {
    if (cr_clock_seconds() > end) {
      return cr_fail(CREMA_E_STATE, "device %d sends nothing during backward", device);
    }
    cr_clock_sleep(1e-4);
  }
  return CREMA_OK;
}

/* No replica goes on with the last layer of backward until gradients of layers above travel. */
PARALLEL_TEST(s4_48_sums_go_on_during_backward) {
  solver_case *c = *state;
  int number[DEVICES];
  c->options.feed = case_feed;
  c->options.user = c;
  c->options.progress = count_from_now;
  use_devices(c, DEVICES, CREMA_EXCHANGE_REDUCE);
  case_load(c, TWO_PRODUCTS, "lr_policy: 'fixed'");
  for (int i = 0; i < DEVICES; ++i) {
    const crema_net_hooks hooks = {.before_backward = await_a_copy, .user = &number[i]};
    number[i] = i;
    ok(crema_net_set_hooks(c->solver->replica[i].net, &hooks));
  }
  ok(crema_solver_step(c->solver, 3));
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
