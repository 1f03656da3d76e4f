#include "device/cpu/threads/omp_team.h"

#include "core/fail.h"
#include "core/mem_probe.h"

static const size_t OPENMP_RESERVE = (size_t)2 << 20;

crema_status cr_openmp_need_memory(void) {
  return cr_need_memory(OPENMP_RESERVE, "OpenMP");
}

bool cr_openmp_is_ready(void) {
  return !cr_memory_is_limited() || cr_mem_probe(OPENMP_RESERVE);
}

#ifdef _OPENMP
#include <ctype.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "core/log.h"
#include "core/mem_probe.h"
#include "core/signals.h"

/* Memory that must be free in addition to the threads' stacks: for the library's tables, and for
 * the code that unwinds the stack of an ending thread. */
static const size_t RESERVE = (size_t)4 << 20;

/* Address space that glibc reserves for a thread at its first allocation, and twice this amount for
 * a moment. A thread that does not get it retries at each allocation. It could then take memory
 * that other threads rely on. */
static const size_t ARENA = (size_t)64 << 20;

/* The threads that the calling thread works with. */
static _Thread_local struct {
  int tried; /* number of threads started; 0: only the calling thread */
  int most;  /* the largest team that the system allowed; 0: no limit met */
} team;

static struct {
  pthread_mutex_t lock; /* only one thread at a time tests how many threads can be started */
  _Atomic bool warned;
} teams = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The stack size that the environment sets for OpenMP; 0: the system's. Without a unit the number
 * is in kilobytes. */
static size_t stack_bytes(void) {
  const char *text = getenv("OMP_STACKSIZE");
  if (text == NULL) text = getenv("GOMP_STACKSIZE");
  if (text == NULL) return 0;
  char *end = NULL;
  unsigned long long number = strtoull(text, &end, 10);
  while (isspace((unsigned char)*end)) ++end;
  int shift = 10;
  switch (tolower((unsigned char)*end)) {
    case 'b': shift = 0; break;
    case 'm': shift = 20; break;
    case 'g': shift = 30; break;
    default: break;
  }
  return end == text || number > SIZE_MAX >> shift ? 0 : (size_t)number << shift;
}

/* Ends as OpenMP's threads do, so that the code that pthread_exit loads is available to them. */
static void *wait_at_gate(void *gate) {
  pthread_mutex_lock(gate);
  pthread_mutex_unlock(gate);
  pthread_exit(NULL);
}

/* The threads of the process; 0 if the system does not say. */
static long count_threads(void) {
  struct stat task;
  return stat("/proc/self/task", &task) == 0 ? (long)task.st_nlink - 2 : 0;
}

/* A joined thread counts against the limits for a few more microseconds. */
static void wait_until_gone(long before) {
  const struct timespec pause = {.tv_nsec = 20000};
  for (int i = 0; i < 500 && count_threads() > before; ++i) nanosleep(&pause, NULL);
}

/* The number of threads, at most `wanted`, that can exist in addition to the calling thread. */
static int try_threads(int wanted) {
  pthread_t *thread = malloc((size_t)wanted * sizeof *thread);
  if (thread == NULL) return 0;
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  pthread_attr_t attr;
  long before = count_threads();
  int made = 0;
  const size_t arena = cr_address_space_is_limited() ? ARENA : 0;
  bool spare = cr_mem_probe(RESERVE);
  if (pthread_attr_init(&attr) != 0) {
    free(thread);
    return 0;
  }
  size_t bytes = stack_bytes();
  if (bytes > 0)
    (void)pthread_attr_setstacksize(&attr, bytes); /* refused: OpenMP's would also be refused */
  pthread_mutex_lock(&gate);
  while (made < wanted && spare && pthread_create(&thread[made], &attr, wait_at_gate, &gate) == 0) {
    ++made;
    spare = cr_mem_probe(RESERVE + ((size_t)made + 1) * arena);
  }
  pthread_mutex_unlock(&gate);
  for (int i = 0; i < made; ++i) pthread_join(thread[i], NULL);
  pthread_attr_destroy(&attr);
  free(thread);
  if (made > 0) wait_until_gone(before);
  return spare ? made : made > 0 ? made - 1 : 0;
}

/* The library ends threads when a region has fewer threads than the preceding region. It starts new
 * threads for the next region, possibly while the old ones still exist, so twice as many must fit.
 * It never ends one of two threads. */
static int tries_for(int wanted) {
  return wanted > 2 ? 2 * (wanted - 1) : wanted - 1;
}

static int team_for(int made, int wanted) {
  if (made == tries_for(wanted)) return wanted;
  return made > 2 ? made / 2 + 1 : made > 0 ? 2 : 1;
}

static void grow(int wanted) {
  cr_signals_hold(); /* the threads inherit the mask */
  pthread_mutex_lock(&teams.lock);
  int threads = team_for(try_threads(tries_for(wanted)), wanted);
  team.tried = threads;
  if (threads > 1) {
    /* Each thread allocates something, so that its address space is reserved now. */
#pragma omp parallel num_threads(threads)
    {
      void *volatile some = malloc(1);
      free(some);
    }
  }
  pthread_mutex_unlock(&teams.lock);
  cr_signals_release();
  if (threads == wanted) return;
  team.most = threads;
  if (!atomic_exchange(&teams.warned, true)) {
    cr_log_warning("only %d of %d threads can be started; continuing with these", threads, wanted);
  }
}

int cr_cpu_team(int wanted) {
  if (team.most > 0 && wanted > team.most) wanted = team.most;
  /* Inside a parallel region of the caller, no threads can be started. */
  if (wanted > 1 && wanted > team.tried && !omp_in_parallel()) grow(wanted);
  return team.most > 0 && wanted > team.most ? team.most : wanted;
}

#else

int cr_cpu_team(int wanted) {
  return wanted;
}

#endif
