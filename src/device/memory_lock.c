#include "device/memory_lock.h"

#include <pthread.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

void cr_memory_lock_shared(void) {
  pthread_rwlock_rdlock(&lock);
}

void cr_memory_unlock_shared(void) {
  pthread_rwlock_unlock(&lock);
}

void cr_collective_begin(void) {
  pthread_rwlock_wrlock(&lock);
}

void cr_collective_end(void) {
  pthread_rwlock_unlock(&lock);
}
