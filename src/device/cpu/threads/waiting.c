#include "device/cpu/threads/waiting.h"

#ifdef _OPENMP
#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/mem_probe.h"
#include "core/queue.h"
#include "core/thread.h"
#include "device/cpu/threads/omp_team.h"

/* Seconds between two looks by one thread, and seconds without spinning: after an op was planned,
 * and after other programs needed the processors. */
static const double INTERVAL = 0.1, AFTER_PLAN = 0.02, AFTER_CONTENTION = 1.0;

/* The processors count as contended if a thread waits for one for more than this share of its time.
 * The share is below 0.03 on an idle machine, crema's own threads included, and 0.1 to 0.3
 * alongside one busy program on four processors. */
static const double CONTENDED = 0.07;

typedef enum policy { UNKNOWN, ADAPTIVE, LEFT_ALONE } policy;

static struct {
  pthread_mutex_t lock;
  _Atomic int policy;
  _Atomic double calm_until; /* by cr_clock_seconds */
  cr_thread *sleeper;        /* NULL: threads spin */
  cr_queue *never;           /* the condition it waits for */
  _Atomic bool calm;
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A thread that left its last op longer ago than this, in seconds, did other work in between. */
static const double PAUSE = 0.02;

/* The calling thread's last look; 0: none. */
static _Thread_local struct {
  double time;   /* by cr_clock_seconds */
  double waited; /* seconds spent waiting for a processor, until then */
  bool inside;   /* it is in an op before which it looked */
  double left;   /* when it left the last such op */
} last;

static bool is_adaptive(void) {
  int found = atomic_load_explicit(&waiting.policy, memory_order_relaxed);
  if (found == UNKNOWN) {
    bool chosen = getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL;
    found = chosen || omp_get_num_procs() < 2 ? LEFT_ALONE : ADAPTIVE;
    atomic_store_explicit(&waiting.policy, found, memory_order_relaxed);
  }
  return found == ADAPTIVE && omp_get_max_threads() > 1;
}

/* OpenMP's threads live as long as the thread that started them. */
static crema_status sleep_with_team(void *arg) {
  int members = *(const int *)arg;
  void *item = NULL;
  free(arg);
  (void)cr_cpu_team(members); /* with fewer, the remaining threads spin */
  return cr_queue_pop(waiting.never, NULL, &item);
}

/* If this fails, only time is lost. It does nothing if more threads would sleep than work, or if
 * memory is limited, because the stacks would take it. */
static void become_calm(void) {
  /* With the caller's team and the sleeping thread, one more than there are processors. */
  int sleepers = omp_get_num_procs() - omp_get_max_threads() + 2;
  if (sleepers < 2) sleepers = 2;
  if (sleepers > omp_get_max_threads() || cr_memory_is_limited()) return;
  int *members = malloc(sizeof *members);
  if (members == NULL) return;
  *members = sleepers;
  if ((waiting.never == NULL && cr_queue_create(1, &waiting.never) != CREMA_OK) ||
      cr_thread_start(&waiting.sleeper, "crema-calm", sleep_with_team, members) != CREMA_OK) {
    free(members);
    return;
  }
  atomic_store_explicit(&waiting.calm, true, memory_order_relaxed);
}

static void decide(double now) {
  bool calm = now < atomic_load_explicit(&waiting.calm_until, memory_order_relaxed);
  if (calm && waiting.sleeper == NULL) become_calm();
  if (calm || waiting.sleeper == NULL) return;
  crema_status ended = cr_thread_stop(&waiting.sleeper);
  (void)ended;
  atomic_store_explicit(&waiting.calm, false, memory_order_relaxed);
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

/* Seconds for which the calling thread was ready to run but had no processor; 0 if the system does
 * not count them. */
static double waited_for_processor(void) {
  char text[96];
  unsigned long long ran = 0, waited = 0; /* ns */
  int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  text[length > 0 ? length : 0] = '\0';
  return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? (double)waited * 1e-9 : 0;
}

void cr_cpu_waiting_look(void) {
  if (!is_adaptive()) return;
  double now = cr_clock_seconds();
  bool elsewhere = !last.inside && now - last.left > PAUSE;
  last.inside = true;
  if (!elsewhere && now - last.time < INTERVAL) return;
  double waited = waited_for_processor();
  if (!elsewhere && waited - last.waited > CONTENDED * (now - last.time)) {
    stay_calm(now + AFTER_CONTENTION);
  }
  last.time = now;
  last.waited = waited;
  if (pthread_mutex_trylock(&waiting.lock) != 0) return;
  decide(now);
  pthread_mutex_unlock(&waiting.lock);
}

void cr_cpu_waiting_leave(void) {
  if (!last.inside) return;
  last.inside = false;
  last.left = cr_clock_seconds();
}

bool cr_cpu_waiting_is_calm(void) {
  return atomic_load_explicit(&waiting.calm, memory_order_relaxed);
}

#else

void cr_cpu_waiting_planned(void) {}

void cr_cpu_waiting_look(void) {}

void cr_cpu_waiting_leave(void) {}

bool cr_cpu_waiting_is_calm(void) {
  return false;
}

#endif
