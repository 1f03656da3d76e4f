/* To be preloaded: no more than FEW_THREADS threads are alive at once beside the first, as under a
 * limit on processes, which does not hold for the superuser. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

typedef struct call {
  void *(*fn)(void *);
  void *arg;
} call;

static atomic_int alive;

static void gone(void *unused) {
  (void)unused;
  atomic_fetch_sub(&alive, 1);
}

static void *run(void *arg) {
  call c = *(call *)arg;
  free(arg);
  void *result = NULL;
  pthread_cleanup_push(gone, NULL);
  result = c.fn(c.arg);
  pthread_cleanup_pop(1);
  return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg) {
  create_fn *real = NULL;
  *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
  if (atomic_fetch_add(&alive, 1) >= atoi(getenv("FEW_THREADS"))) {
    atomic_fetch_sub(&alive, 1);
    return EAGAIN;
  }
  call *c = malloc(sizeof *c);
  if (c == NULL) abort();
  *c = (call){fn, arg};
  int failed = real(thread, attr, run, c);
  if (failed != 0) {
    gone(NULL);
    free(c);
  }
  return failed;
}
