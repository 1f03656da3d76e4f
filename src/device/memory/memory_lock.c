#include "device/memory/memory_lock.h"

#include <pthread.h>

/* A waiting collective holds the gate; otherwise threads that keep allocating could delay it for
 * ever. */
static struct {
  pthread_mutex_t gate;
  pthread_rwlock_t lock;
} memory_lock = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_RWLOCK_INITIALIZER};

void cr_memory_lock_shared(void) {
  pthread_mutex_lock(&memory_lock.gate);
  pthread_mutex_unlock(&memory_lock.gate);
  pthread_rwlock_rdlock(&memory_lock.lock);
}

void cr_memory_unlock_shared(void) {
  pthread_rwlock_unlock(&memory_lock.lock);
}

void cr_collective_begin(void) {
  pthread_mutex_lock(&memory_lock.gate);
  pthread_rwlock_wrlock(&memory_lock.lock);
  pthread_mutex_unlock(&memory_lock.gate);
}

void cr_collective_end(void) {
  pthread_rwlock_unlock(&memory_lock.lock);
}
