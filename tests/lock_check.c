/* Linked into every test program: the library releases only locks that it holds, waits for a
 * condition only with its lock held, and destroys only locks and conditions that it has made. On
 * Linux most such mistakes show only as a rare race. Locks of other libraries do not count. */
#include "lock_check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose.h"

static _Noreturn void end_with(const char *what) {
  static const char begin[] = "[  LOCKS   ] ";
  if (write(2, begin, sizeof begin - 1) < 0 || write(2, what, strlen(what)) < 0) abort();
  abort();
}

/* ---- locks that the thread holds ---- */

enum { MOST_HELD = 64 };

static _Thread_local struct {
  const void *lock[MOST_HELD];
  int count;
} held;

static int find_held(const void *lock) {
  int i = held.count - 1;
  while (i >= 0 && held.lock[i] != lock) --i;
  return i;
}

static int note_taken(const void *lock, int failed) {
  if (failed != 0) return failed;
  if (held.count == MOST_HELD) end_with("a thread holds too many locks\n");
  held.lock[held.count++] = lock;
  return 0;
}

/* `own`: the program's own code releases the lock. */
static void note_released(const void *lock, bool own) {
  const int i = find_held(lock);
  if (i >= 0) held.lock[i] = held.lock[--held.count];
  else if (own) end_with("a lock is released that the thread does not hold\n");
}

/* ---- what was made and has not ended ---- */

enum { SLOTS = 1 << 20, ENDED = 1 };

static _Atomic uintptr_t made[SLOTS];
static atomic_long alive;

long locks_alive(void) {
  return atomic_load(&alive);
}

static void note_made(const void *what) {
  atomic_fetch_add(&alive, 1);
  for (unsigned i = 0, at = (unsigned)((uintptr_t)what / 8); i < SLOTS; ++i, ++at) {
    uintptr_t found = atomic_load(&made[at % SLOTS]);
    if (found <= ENDED &&
        atomic_compare_exchange_strong(&made[at % SLOTS], &found, (uintptr_t)what)) {
      return;
    }
  }
  end_with("too many locks\n");
}

static void note_ended(const void *what) {
  atomic_fetch_sub(&alive, 1);
  for (unsigned i = 0, at = (unsigned)((uintptr_t)what / 8); i < SLOTS; ++i, ++at) {
    uintptr_t found = atomic_load(&made[at % SLOTS]);
    if (found == (uintptr_t)what) {
      atomic_store(&made[at % SLOTS], ENDED);
      return;
    }
    if (found == 0) break;
  }
  end_with("a lock or condition ends that was never made\n");
}

static long at_begin;

int locks_begin(void **state) {
  (void)state;
  at_begin = locks_alive();
  return 0;
}

int locks_end(void **state) {
  (void)state;
  return locks_alive() == at_begin ? 0 : -1;
}

/* ---- the functions ---- */

INTERPOSED int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes) {
  if (from_program()) note_made(mutex);
  return REAL(pthread_mutex_init)(mutex, attributes);
}

INTERPOSED int pthread_mutex_destroy(pthread_mutex_t *mutex) {
  if (from_program()) note_ended(mutex);
  return REAL(pthread_mutex_destroy)(mutex);
}

INTERPOSED int pthread_mutex_lock(pthread_mutex_t *mutex) {
  const bool noted = from_program();
  const int failed = REAL(pthread_mutex_lock)(mutex);
  return noted ? note_taken(mutex, failed) : failed;
}

INTERPOSED int pthread_mutex_trylock(pthread_mutex_t *mutex) {
  const bool noted = from_program();
  const int failed = REAL(pthread_mutex_trylock)(mutex);
  return noted ? note_taken(mutex, failed) : failed;
}

INTERPOSED int pthread_mutex_unlock(pthread_mutex_t *mutex) {
  note_released(mutex, from_program());
  return REAL(pthread_mutex_unlock)(mutex);
}

INTERPOSED int pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes) {
  if (from_program()) note_made(condition);
  return REAL(pthread_cond_init)(condition, attributes);
}

INTERPOSED int pthread_cond_destroy(pthread_cond_t *condition) {
  if (from_program()) note_ended(condition);
  return REAL(pthread_cond_destroy)(condition);
}

INTERPOSED int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  if (from_program() && find_held(mutex) < 0) {
    end_with("a condition is waited for without its lock\n");
  }
  return REAL(pthread_cond_wait)(condition, mutex);
}

INTERPOSED int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
  const bool noted = from_program();
  const int failed = REAL(pthread_rwlock_rdlock)(lock);
  return noted ? note_taken(lock, failed) : failed;
}

INTERPOSED int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
  const bool noted = from_program();
  const int failed = REAL(pthread_rwlock_wrlock)(lock);
  return noted ? note_taken(lock, failed) : failed;
}

INTERPOSED int pthread_rwlock_unlock(pthread_rwlock_t *lock) {
  note_released(lock, from_program());
  return REAL(pthread_rwlock_unlock)(lock);
}
