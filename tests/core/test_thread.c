/* Threads: rows S2-04 and S2-05. */
#include <errno.h>
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
#include "core/fail.h"
#include "core/processors.h"
#include "core/queue.h"
#include "core/thread.h"
#include "core/thread_private.h"
#include "interpose.h"
#include "lock_check.h"

static crema_status until_stopped(void *arg) {
  (void)arg;
  while (!cr_thread_must_stop()) cr_clock_sleep(0.0001);
  return CREMA_OK;
}

typedef struct look {
  char name[32];
  sigset_t blocked;
} look;

static crema_status look_at_self(void *arg) {
  look *l = arg;
  pthread_sigmask(SIG_BLOCK, NULL, &l->blocked);
  FILE *file = fopen("/proc/thread-self/comm", "r");
  if (file == NULL) return CREMA_OK;
  if (fgets(l->name, sizeof l->name, file) == NULL) l->name[0] = '\0';
  fclose(file);
  return CREMA_OK;
}

/* The signals that an instruction causes are not blocked: a handler may want to report them. */
TEST(a_thread_has_its_name_and_no_signals) {
  static const int caused[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
  sigset_t before, after;
  look l = {0};
  cr_thread *thread = NULL;
  pthread_sigmask(SIG_BLOCK, NULL, &before);
  ok(cr_thread_start(&thread, "crema-look", look_at_self, &l));
  ok(cr_thread_join(&thread));
  pthread_sigmask(SIG_BLOCK, NULL, &after);
  for (int number = 1; number < SIGRTMAX; ++number) {
    assert_int_equal(sigismember(&before, number), sigismember(&after, number));
    bool outside = number < 32 || number >= SIGRTMIN;
    for (size_t i = 0; i < sizeof caused / sizeof *caused; ++i) {
      outside = outside && number != caused[i];
    }
    if (number == SIGKILL || number == SIGSTOP) outside = false;
    if (number < 32 || outside) assert_int_equal(sigismember(&l.blocked, number), outside);
  }
  if (access("/proc/thread-self/comm", R_OK) == 0) assert_string_equal(l.name, "crema-look\n");
}

static pthread_key_t at_end;

typedef struct ending {
  bool stopped, stopped_at_end;
} ending;

static void note_at_end(void *arg) {
  ((ending *)arg)->stopped_at_end = cr_thread_must_stop();
}

static crema_status end_with_destructor(void *arg) {
  ending *e = arg;
  pthread_setspecific(at_end, e);
  while (!cr_thread_must_stop()) cr_clock_sleep(0.0001);
  e->stopped = true;
  return CREMA_OK;
}

/* What a thread gives back when it ends, such as its contexts, may have to wait in queues. */
TEST(the_end_of_a_stopped_thread_is_not_stopped) {
  ending e = {.stopped_at_end = true};
  cr_thread *thread = NULL;
  assert_int_equal(pthread_key_create(&at_end, note_at_end), 0);
  ok(cr_thread_start(&thread, "ends", end_with_destructor, &e));
  ok(cr_thread_stop(&thread));
  assert_true(e.stopped);
  assert_false(e.stopped_at_end);
  pthread_key_delete(at_end);
}

TEST(s2_04_start_twice_is_an_error) {
  cr_thread *thread = NULL;
  ok(cr_thread_start(&thread, "one", until_stopped, NULL));
  cr_thread *before = thread;
  assert_fails(cr_thread_start(&thread, "two", until_stopped, NULL), CREMA_E_STATE, "one");
  assert_ptr_equal(thread, before);
  ok(cr_thread_stop(&thread));
  assert_null(thread);
  ok(cr_thread_stop(&thread));
  ok(cr_thread_join(&thread));
  assert_false(cr_thread_must_stop());
}

static crema_status fails(void *arg) {
  (void)arg;
  return cr_fail(CREMA_E_CORRUPT, "record 12 of test.lmdb is broken");
}

TEST(s2_05_the_joiner_gets_the_error) {
  cr_thread *thread = NULL;
  ok(cr_thread_start(&thread, "fails", fails, NULL));
  cr_fail(CREMA_E_IO, "something else");
  assert_int_equal(cr_thread_stop(&thread), CREMA_E_CORRUPT);
  assert_string_equal(crema_error_text(), "record 12 of test.lmdb is broken");
}

static crema_status pop_forever(void *arg) {
  void *item = NULL;
  for (;;) CR_TRY(cr_queue_pop(arg, NULL, &item));
}

/* Of a thread that is asked to stop; who only joins is told. */
TEST(s2_05_usual_ends_are_no_errors) {
  for (int stopping = 0; stopping < 2; ++stopping) {
    cr_queue *queue = NULL;
    cr_thread *thread = NULL;
    ok(cr_queue_create(1, &queue));
    cr_queue_fail(queue, CREMA_E_CLOSED, "the queue is closed");
    ok(cr_thread_start(&thread, "closed", pop_forever, queue));
    cr_clock_sleep(0.01); /* so that the closed queue is met before the request to stop */
    cr_fail(CREMA_E_IO, "something else");
    if (stopping) {
      ok(cr_thread_stop(&thread));
      assert_string_equal(crema_error_text(), "something else");
    } else {
      assert_int_equal(cr_thread_join(&thread), CREMA_E_CLOSED);
    }
    cr_queue_destroy(queue);
  }
}

/* Takes from one queue and puts into the next, so that a stop can meet it at either. */
typedef struct relay {
  cr_queue *in;
  cr_queue *out;
} relay;

static crema_status relay_items(void *arg) {
  relay *r = arg;
  for (;;) {
    void *item = NULL;
    CR_TRY(cr_queue_pop(r->in, NULL, &item));
    CR_TRY(cr_queue_push(r->out, item));
  }
}

TEST(s2_05_stop_at_every_wait_point) {
  enum { CYCLES = 10000 };
  relay r = {0};
  ok(cr_queue_create(4, &r.in));
  ok(cr_queue_create(2, &r.out));
  for (int cycle = 0; cycle < CYCLES; ++cycle) {
    cr_thread *thread = NULL;
    ok(cr_thread_start(&thread, "relay", relay_items, &r));
    /* 0: starved; 1: busy; 3 and 4: blocked on a full queue. */
    for (int i = 0; i < cycle % 5; ++i) (void)cr_queue_try_push(r.in, &r);
    if (cycle % 50 == 0) cr_clock_sleep(0.0002);
    ok(cr_thread_stop(&thread));
    void *item;
    while (cr_queue_try_pop(r.in, &item) || cr_queue_try_pop(r.out, &item)) {
    }
  }
  cr_queue_destroy(r.out);
  cr_queue_destroy(r.in);
}

/* ---- no thread to be had ---- */

static bool no_thread;

INTERPOSED int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                              void *(*fn)(void *), void *arg) {
  return from_program() && no_thread ? EAGAIN : REAL(pthread_create)(thread, attributes, fn, arg);
}

TEST(a_thread_that_cannot_be_started_leaves_nothing) {
  sigset_t before, after;
  look l = {0};
  cr_thread *thread = NULL;
  long locks = locks_alive();
  pthread_sigmask(SIG_BLOCK, NULL, &before);
  no_thread = true;
  assert_int_equal(cr_thread_start(&thread, "crema-none", look_at_self, &l), CREMA_E_NO_MEMORY);
  no_thread = false;
  assert_non_null(strstr(crema_error_text(), "cannot start thread crema-none"));
  assert_non_null(strstr(crema_error_text(), strerror(EAGAIN)));
  assert_null(thread);
  assert_int_equal(locks_alive(), locks);
  pthread_sigmask(SIG_BLOCK, NULL, &after);
  for (int number = 1; number < 32; ++number) {
    assert_int_equal(sigismember(&before, number), sigismember(&after, number));
  }
  assert_int_equal(cr_thread_join(&thread), CREMA_OK);
  assert_int_equal(cr_thread_start(&thread, "crema-one", look_at_self, &l), CREMA_OK);
  assert_int_equal(cr_thread_join(&thread), CREMA_OK);
}

/* ---- queues that a thread no longer waits on ---- */

static atomic_int wakes;

INTERPOSED int pthread_cond_broadcast(pthread_cond_t *condition) {
  ++wakes;
  return REAL(pthread_cond_broadcast)(condition);
}

typedef struct wait_once {
  cr_queue *queue;
  atomic_bool began, done;
} wait_once;

static crema_status wait_then_run(void *arg) {
  wait_once *w = arg;
  void *item = NULL;
  w->began = true;
  crema_status status = cr_queue_pop(w->queue, NULL, &item);
  w->done = true;
  while (!cr_thread_must_stop()) cr_clock_sleep(0.0001);
  return status;
}

/* By the time that a thread is asked to stop, a queue that it waited on once may be gone. */
TEST(nobody_wakes_who_does_not_wait) {
  wait_once w = {0};
  cr_thread *thread = NULL;
  ok(cr_queue_create(1, &w.queue));
  ok(cr_thread_start(&thread, "crema-once", wait_then_run, &w));
  while (!w.began) cr_clock_sleep(0.0001);
  cr_clock_sleep(0.02); /* it spins for a while before it waits */
  ok(cr_queue_push(w.queue, &w));
  while (!w.done) cr_clock_sleep(0.0001);
  cr_queue_destroy(w.queue);
  wakes = 0;
  cr_thread_request_stop(thread);
  assert_int_equal(wakes, 0);
  ok(cr_thread_join(&thread));
}

/* ---- processors ---- */

#ifdef _OPENMP

/* How many threads a parallel region has that might have `before`, after sharing the host with
 * other processes. */
static int share(int before, int processes) {
  omp_set_num_threads(before);
  cr_processors_share(processes);
  return omp_get_max_threads();
}

TEST(parallel_regions_are_limited) {
  const int usual = omp_get_max_threads();
  omp_set_num_threads(4);
  cr_processors_limit(5);
  assert_int_equal(omp_get_max_threads(), 4);
  cr_processors_limit(3);
  assert_int_equal(omp_get_max_threads(), 3);
  cr_processors_limit(0);
  assert_int_equal(omp_get_max_threads(), 1);
  omp_set_num_threads(usual);
}

TEST(processes_share_the_processors) {
  const int usual = omp_get_max_threads(), own = omp_get_num_procs(), many = own + 7;
  const char *given = getenv("OMP_NUM_THREADS");
  char text[32];
  snprintf(text, sizeof text, "%s", given == NULL ? "" : given);
  setenv("OMP_NUM_THREADS", "9", 1);
  assert_int_equal(share(many, 2), many);
  unsetenv("OMP_NUM_THREADS");
  assert_int_equal(share(many, 1), many);
  /* This process may be bound to some processors. */
  const bool all = own == (int)sysconf(_SC_NPROCESSORS_ONLN);
  assert_int_equal(share(many, 2), !all ? many : own < 2 ? 1 : own / 2);
  assert_int_equal(share(many, 2 * own), all ? 1 : many);
  if (given != NULL) setenv("OMP_NUM_THREADS", text, 1);
  omp_set_num_threads(usual);
}

#endif

int main(void) {
  return run_all_tests(locks_begin, locks_end);
}
