#include "device/memory_lock.h"

#include <pthread.h>

static pthread_rwlock_t memory_lock = PTHREAD_RWLOCK_INITIALIZER;

void cr_memory_lock_shared(void) {
  pthread_rwlock_rdlock(&memory_lock);
}

void cr_memory_unlock_shared(void) {
  pthread_rwlock_unlock(&memory_lock);
}

void cr_collective_begin(void) {
  pthread_rwlock_wrlock(&memory_lock);
}

void cr_collective_end(void) {
  pthread_rwlock_unlock(&memory_lock);
}
