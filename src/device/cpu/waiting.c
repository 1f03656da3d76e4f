#include "device/cpu/waiting.h"

#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/queue.h"
#include "core/thread.h"

/* Seconds between two looks, that a planned op keeps threads calm, and that preemption does. */
static const double INTERVAL = 0.05, AFTER_PLAN = 0.02, AFTER_PREEMPTION = 2.0;

/* Preemptions a second from which the processors are taken to be contended. An idle machine shows
 * less than ten; one other busy program, some hundred. */
static const double CONTENDED = 60;

typedef enum policy { UNKNOWN, ADAPTIVE, LEFT_ALONE } policy;

static struct {
  pthread_mutex_t lock;
  _Atomic int policy;
  _Atomic double next_look, calm_until; /* by cr_clock_seconds */
  double last_look;
  long preempted;     /* preemptions until last_look */
  cr_thread *sleeper; /* NULL: threads spin */
  cr_queue *never;    /* what it waits on */
  _Atomic bool calm;
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_adaptive(void) {
  int found = atomic_load_explicit(&waiting.policy, memory_order_relaxed);
  if (found == UNKNOWN) {
    bool chosen = getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL;
    found = chosen || omp_get_num_procs() < 2 ? LEFT_ALONE : ADAPTIVE;
    atomic_store_explicit(&waiting.policy, found, memory_order_relaxed);
  }
  return found == ADAPTIVE && omp_get_max_threads() > 1;
}

/* The team lives as long as the thread that made it. */
static crema_status sleep_with_team(void *arg) {
  int members = omp_get_num_procs() - *(const int *)arg + 2;
  void *item = NULL;
  free(arg);
#pragma omp parallel num_threads(members < 2 ? 2 : members)
  { __asm__ volatile("" ::: "memory"); /* an empty region would be optimised away */ }
  return cr_queue_pop(waiting.never, NULL, &item);
}

/* Failing to become calm costs time, nothing else. */
static void become_calm(void) {
  int *working = malloc(sizeof *working);
  if (working == NULL) return;
  *working = omp_get_max_threads();
  if ((waiting.never == NULL && cr_queue_create(1, &waiting.never) != CREMA_OK) ||
      cr_thread_start(&waiting.sleeper, "crema-calm", sleep_with_team, working) != CREMA_OK) {
    free(working);
    return;
  }
  atomic_store_explicit(&waiting.calm, true, memory_order_relaxed);
}

static void become_lively(void) {
  crema_status ended = cr_thread_stop(&waiting.sleeper);
  (void)ended;
  atomic_store_explicit(&waiting.calm, false, memory_order_relaxed);
}

static void decide(double now) {
  bool calm = now < atomic_load_explicit(&waiting.calm_until, memory_order_relaxed);
  if (calm && waiting.sleeper == NULL) become_calm();
  if (!calm && waiting.sleeper != NULL) become_lively();
}

static void stay_calm(double until) {
  if (until > atomic_load_explicit(&waiting.calm_until, memory_order_relaxed)) {
    atomic_store_explicit(&waiting.calm_until, until, memory_order_relaxed);
  }
}

void cr_cpu_waiting_planned(void) {
  if (!is_adaptive()) return;
  double now = cr_clock_seconds();
  stay_calm(now + AFTER_PLAN);
  if (cr_cpu_waiting_is_calm() || pthread_mutex_trylock(&waiting.lock) != 0) return;
  decide(now);
  pthread_mutex_unlock(&waiting.lock);
}

static void look(double now) {
  struct rusage use;
  if (getrusage(RUSAGE_SELF, &use) == 0) {
    double rate = (double)(use.ru_nivcsw - waiting.preempted) / (now - waiting.last_look);
    if (rate > CONTENDED) stay_calm(now + AFTER_PREEMPTION);
    waiting.preempted = use.ru_nivcsw;
  }
  waiting.last_look = now;
  decide(now);
}

void cr_cpu_waiting_look(void) {
  if (!is_adaptive()) return;
  double now = cr_clock_seconds();
  if (now < atomic_load_explicit(&waiting.next_look, memory_order_relaxed)) return;
  if (pthread_mutex_trylock(&waiting.lock) != 0) return;
  if (now >= atomic_load_explicit(&waiting.next_look, memory_order_relaxed)) {
    atomic_store_explicit(&waiting.next_look, now + INTERVAL, memory_order_relaxed);
    look(now);
  }
  pthread_mutex_unlock(&waiting.lock);
}

bool cr_cpu_waiting_is_calm(void) {
  return atomic_load_explicit(&waiting.calm, memory_order_relaxed);
}

#else

void cr_cpu_waiting_planned(void) {}

void cr_cpu_waiting_look(void) {}

bool cr_cpu_waiting_is_calm(void) {
  return false;
}

#endif
