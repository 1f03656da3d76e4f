/* Signals and threads that compute. A host program that knows nothing of crema's threads: its
 * handlers run on the stack of whatever thread they interrupt. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "check.h"
#include "core/clock.h"
#include "core/queue.h"
#include "core/signals.h"
#include "core/thread.h"
#include "crema/crema.h"
#include "data/db/db.h"

/* Convolutions large enough for generated kernels on two threads. */
static const char net_text[] =
    "layer { name: 'd' type: 'DummyData' top: 'd' top: 'l' dummy_data_param {"
    "  shape { dim: 16 dim: 1 dim: 28 dim: 28 } shape { dim: 16 }"
    "  data_filler { type: 'gaussian' } data_filler { value: 3 } } }"
    "layer { name: 'c1' type: 'Convolution' bottom: 'd' top: 'c1' convolution_param {"
    "  num_output: 20 kernel_size: 5 weight_filler { type: 'xavier' } } }"
    "layer { name: 'p1' type: 'Pooling' bottom: 'c1' top: 'p1'"
    "  pooling_param { kernel_size: 2 stride: 2 } }"
    "layer { name: 'c2' type: 'Convolution' bottom: 'p1' top: 'c2' convolution_param {"
    "  num_output: 50 kernel_size: 5 weight_filler { type: 'xavier' } } }"
    "layer { name: 'r' type: 'ReLU' bottom: 'c2' top: 'c2' }"
    "layer { name: 'i' type: 'InnerProduct' bottom: 'c2' top: 'i' inner_product_param {"
    "  num_output: 10 weight_filler { type: 'xavier' } } }"
    "layer { name: 's' type: 'SoftmaxWithLoss' bottom: 'i' bottom: 'l' top: 's' }";

/* The layers before the one whose description begins with `end`; NULL: all. */
static crema_net *make_net(const char *end) {
  crema_net *net = NULL;
  crema_net_options options;
  crema_net_options_init(&options);
  options.phase = CREMA_TRAIN;
  size_t size = end == NULL ? strlen(net_text) : (size_t)(strstr(net_text, end) - net_text);
  ok(crema_net_parse(net_text, size, "net", &options, &net));
  return net;
}

static void pass(crema_net *net) {
  double loss;
  crema_net_clear_param_diffs(net);
  ok(crema_net_forward(net, &loss));
  ok(crema_net_backward(net));
}

/* ---- holding ---- */

static atomic_int came;

static void note(int number) {
  (void)number;
  atomic_fetch_add(&came, 1);
}

static void catch (int number, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  assert_int_equal(sigaction(number, &action, NULL), 0);
}

TEST(held_signals_come_afterwards) {
  sigset_t before, after;
  catch (SIGUSR1, note);
  pthread_sigmask(SIG_BLOCK, NULL, &before);
  came = 0;
  double start = cr_clock_seconds();
  cr_signals_hold();
  pthread_kill(pthread_self(), SIGUSR1);
  assert_int_equal(came, 0);
  cr_signals_hold();
  cr_signals_release();
  /* On a machine that is not too busy. */
  int seen = came;
  if (cr_clock_seconds() - start < 0.01) assert_int_equal(seen, 0);
  cr_signals_release();
  assert_int_equal(came, 1);
  pthread_sigmask(SIG_BLOCK, NULL, &after);
  for (int i = 1; i < 32; ++i) assert_int_equal(sigismember(&before, i), sigismember(&after, i));
}

/* Whoever waits lets signals in and then no more of them: that changes nothing for a thread that
 * holds none. */
TEST(nothing_is_held_by_waiting) {
  sigset_t before, after;
  catch (SIGUSR1, note);
  came = 0;
  pthread_sigmask(SIG_BLOCK, NULL, &before);
  cr_signals_let_in();
  cr_signals_let_no_more_in();
  pthread_sigmask(SIG_BLOCK, NULL, &after);
  for (int i = 1; i < 32; ++i) assert_int_equal(sigismember(&before, i), sigismember(&after, i));
  pthread_kill(pthread_self(), SIGUSR1);
  assert_int_equal(came, 1);
  /* One that holds them holds them again. */
  cr_signals_hold();
  cr_signals_let_in();
  pthread_kill(pthread_self(), SIGUSR1);
  assert_int_equal(came, 2);
  cr_signals_let_no_more_in();
  pthread_kill(pthread_self(), SIGUSR1);
  assert_int_equal(came, 2);
  cr_signals_release();
  assert_int_equal(came, 3);
}

static crema_status hold_once(void *arg) {
  unsigned *number = arg;
  cr_signals_hold();
  *number = cr_signals_hold_number();
  cr_signals_release();
  return CREMA_OK;
}

/* Only threads that may get signals have a number. */
TEST(crema_threads_have_nothing_to_hold) {
  unsigned number = 7, before = cr_signals_hold_number();
  cr_thread *thread = NULL;
  ok(cr_thread_start(&thread, "holds", hold_once, &number));
  ok(cr_thread_join(&thread));
  assert_int_equal(number, 0);
  cr_signals_hold();
  assert_int_not_equal(cr_signals_hold_number(), before);
  cr_signals_release();
}

/* Between the layers of a pass that takes long. */
TEST(what_came_long_ago_is_let_in) {
  catch (SIGUSR1, note);
  came = 0;
  cr_signals_hold();
  pthread_kill(pthread_self(), SIGUSR1);
  cr_clock_sleep(0.03);
  assert_int_equal(came, 0);
  cr_signals_hold();
  assert_int_equal(came, 1);
  pthread_kill(pthread_self(), SIGUSR1);
  cr_signals_release();
  assert_int_equal(came, 1);
  cr_signals_release();
  assert_int_equal(came, 2);
}

typedef struct caller {
  pthread_t whom;
  cr_queue *queue;
} caller;

/* Pushes when the signal was taken, or after ten seconds. */
static crema_status call_then_push(void *arg) {
  caller *c = arg;
  for (int i = 0; i < 10000 && came == 0; ++i) {
    pthread_kill(c->whom, SIGUSR1);
    cr_clock_sleep(0.001);
  }
  return cr_queue_push(c->queue, c);
}

/* A pass waits for data: whoever is to end the program must not have to wait, too. */
TEST(a_thread_that_waits_gets_its_signals) {
  caller c = {.whom = pthread_self()};
  cr_thread *thread = NULL;
  void *out = NULL;
  int seen;
  catch (SIGUSR1, note);
  came = 0;
  ok(cr_queue_create(1, &c.queue));
  cr_signals_hold();
  ok(cr_thread_start(&thread, "calls", call_then_push, &c));
  double start = cr_clock_seconds();
  ok(cr_queue_pop(c.queue, NULL, &out));
  seen = came;
  ok(cr_thread_join(&thread));
  assert_true(seen > 0);
  assert_true(cr_clock_seconds() - start < 9);
  /* And is safe from them afterwards. */
  seen = came;
  pthread_kill(pthread_self(), SIGUSR1);
  assert_int_equal(came, seen);
  cr_signals_release();
  assert_int_equal(came, seen + 1);
  cr_queue_destroy(c.queue);
}

/* ---- the thread that calls ---- */

enum { SIGNALS = 2000, STACK_MOST = 8 << 20 };

static uintptr_t stack_top;
static atomic_int taken, strayed;

/* Never on the heap. */
static void look_where(int number) {
  (void)number;
  char here = 0;
  uintptr_t address = (uintptr_t)(void *)&here;
  if (address > stack_top || stack_top - address > STACK_MOST) atomic_fetch_add(&strayed, 1);
  atomic_fetch_add(&taken, 1);
}

typedef struct storm {
  pthread_t whom;
  atomic_bool over;
} storm;

static crema_status send_signals(void *arg) {
  storm *s = arg;
  const int kinds[] = {SIGUSR1, SIGUSR2, SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPROF, SIGRTMIN};
  for (int i = 0; i < SIGNALS; ++i) {
    pthread_kill(s->whom, kinds[i % (int)(sizeof kinds / sizeof *kinds)]);
    cr_clock_sleep(0.00005);
  }
  atomic_store(&s->over, true);
  return CREMA_OK;
}

TEST(handlers_never_run_in_the_middle_of_a_kernel) {
  char here = 0;
  const int kinds[] = {SIGUSR1, SIGUSR2, SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPROF, SIGRTMIN};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) catch (kinds[i], look_where);
  /* The test's own frame is not the lowest address that a handler may see, nor the highest. */
  stack_top = (uintptr_t)(void *)&here + 4096;
  taken = strayed = 0;
  crema_net *net = make_net(NULL);
  storm s = {.whom = pthread_self()};
  cr_thread *thread = NULL;
  ok(cr_thread_start(&thread, "storm", send_signals, &s));
  while (!atomic_load(&s.over)) {
    pass(net);
    assert_int_equal(strayed, 0);
  }
  ok(cr_thread_join(&thread));
  assert_true(taken > 0);
  assert_int_equal(strayed, 0);
  crema_net_destroy(net);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) signal(kinds[i], SIG_DFL);
}

/* ---- other threads ---- */

/* The blocked signals of a thread of this process; false when it is gone. */
static bool blocked_in(const char *task, uint64_t *out) {
  char path[300], line[200];
  snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
  FILE *file = fopen(path, "r");
  if (file == NULL) return false;
  bool found = false;
  while (!found && fgets(line, sizeof line, file) != NULL) {
    unsigned long long mask;
    found = sscanf(line, "SigBlk: %llx", &mask) == 1;
    if (found) *out = mask;
  }
  fclose(file);
  return found;
}

/* Fails if a thread other than the first can get one of these signals. Returns how many threads
 * there are besides the first. */
static int expect_blocked(const char *when) {
  const int kinds[] = {SIGUSR1, SIGUSR2, SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPROF, SIGCHLD};
  DIR *folder = opendir("/proc/self/task");
  int threads = 0;
  /* The signal masks of other threads can be read nowhere but in /proc. */
  if (folder == NULL) skip();
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    uint64_t mask = 0;
    if (entry->d_name[0] == '.' || strtol(entry->d_name, NULL, 10) == (long)getpid()) continue;
    if (!blocked_in(entry->d_name, &mask)) continue;
    ++threads;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
      if ((mask >> (kinds[i] - 1) & 1) == 0) {
        fail_msg("%s: thread %s can get signal %d", when, entry->d_name, kinds[i]);
      }
    }
  }
  closedir(folder);
  return threads;
}

#ifdef _OPENMP
/* Makes the calling thread's OpenMP threads, as a host that uses OpenMP itself does. */
static void use_openmp(int threads) {
  atomic_int sum = 0;
#pragma omp parallel num_threads(threads)
  atomic_fetch_add(&sum, 1);
  assert_int_equal(atomic_load(&sum), threads);
}

TEST(openmp_threads_get_no_signals) {
  int before = omp_get_max_threads();
  omp_set_dynamic(0);
  omp_set_num_threads(2);
  crema_net *net = make_net(NULL);
  pass(net);
  assert_true(expect_blocked("made by crema") >= 1);
  use_openmp(2);
  pass(net);
  expect_blocked("made by crema, used by the host");
  /* Fewer OpenMP threads end some, more make new ones. */
  use_openmp(4);
  omp_set_num_threads(4);
  pass(net);
  assert_true(expect_blocked("made by the host") >= 1);
  crema_net_destroy(net);
  /* All of its ops are worth four threads: none is ended or made by crema. */
  net = make_net("layer { name: 'c2'");
  for (int i = 0; i < 3; ++i) {
    use_openmp(2);
    use_openmp(4);
    ok(crema_net_forward(net, NULL));
    assert_true(expect_blocked("made again by the host") >= 3);
  }
  crema_net_destroy(net);
  omp_set_num_threads(before);
}
#endif

static void remove_files(const char *path) {
  DIR *folder = opendir(path);
  if (folder == NULL) return;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    char name[400];
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    unlink(name);
  }
  closedir(folder);
  rmdir(path);
}

/* LevelDB merges tables in a thread of its own, which each opening of a database with enough of
 * them starts. The last test, as the thread stays. */
TEST(leveldb_gets_no_signals) {
  enum { OPENINGS = 8 };
  char folder[] = "/tmp/crema-signals-XXXXXX", path[64];
  int threads = 0;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/db", folder);
  for (int i = 0; i < OPENINGS; ++i) {
    cr_db *db = NULL;
    cr_db_txn *txn = NULL;
    char key[16];
    snprintf(key, sizeof key, "%08d", i);
    cr_db_bytes bytes = {(const uint8_t *)key, strlen(key)};
    ok(cr_db_open("leveldb", path, CR_DB_WRITE, &db));
    ok(cr_db_txn_begin(db, &txn));
    ok(cr_db_put(txn, bytes, bytes));
    ok(cr_db_commit(txn));
    threads = expect_blocked("LevelDB's");
    cr_db_close(db);
  }
  remove_files(path);
  remove_files(folder);
  assert_true(threads > 0);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
