#include "core/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/signals.h"
#include "core/thread_private.h"
#include "core/timeline.h"

enum { NAME_MAX_BYTES = 16 };

struct cr_thread {
  pthread_t handle;
  char name[NAME_MAX_BYTES];
  cr_thread_fn fn;
  void *arg;
  atomic_bool stop;
  /* Guards waits_on: the queue must exist while another thread wakes its waiters. */
  pthread_mutex_t lock;
  cr_queue *waits_on;
  crema_status status;
  cr_error *error; /* NULL when fn succeeded or memory was short */
};

static _Thread_local cr_thread *current;

bool cr_thread_must_stop(void) {
  return current != NULL && atomic_load_explicit(&current->stop, memory_order_acquire);
}

void cr_thread_waits_on(cr_queue *queue) {
  if (current == NULL) return;
  pthread_mutex_lock(&current->lock);
  current->waits_on = queue;
  pthread_mutex_unlock(&current->lock);
}

static void set_system_name(const char *name) {
#ifdef __linux__
  /* /proc/self/task is the portable way below glibc's extensions; a failure costs only the name. */
  FILE *file = fopen("/proc/thread-self/comm", "w");
  if (file == NULL) return;
  fputs(name, file);
  fclose(file);
#else
  (void)name;
#endif
}

static void *run_thread(void *arg) {
  cr_thread *thread = arg;
  current = thread;
  cr_signals_always_held();
  set_system_name(thread->name);
  cr_timeline_name_thread(thread->name);
  thread->status = thread->fn(thread->arg);
  if (thread->status != CREMA_OK) thread->error = cr_error_keep();
  /* The destructors of thread-local values still run, and must not be stopped. */
  current = NULL;
  return NULL;
}

crema_status cr_thread_start(cr_thread **thread, const char *name, cr_thread_fn fn, void *arg) {
  if (*thread != NULL) {
    return cr_fail(CREMA_E_STATE, "thread %s was started already", (*thread)->name);
  }
  cr_thread *fresh = calloc(1, sizeof *fresh);
  if (fresh == NULL) return cr_fail_memory(sizeof *fresh, "a thread");
  snprintf(fresh->name, sizeof fresh->name, "%s", name);
  fresh->fn = fn;
  fresh->arg = arg;
  pthread_mutex_init(&fresh->lock, NULL);
  /* Set before the thread runs, because it may look at *thread. */
  *thread = fresh;
  cr_signals_hold();
  int failed = pthread_create(&fresh->handle, NULL, run_thread, fresh);
  cr_signals_release();
  if (failed != 0) {
    *thread = NULL;
    pthread_mutex_destroy(&fresh->lock);
    free(fresh);
    crema_status said = cr_fail_errno(failed, "cannot start thread %s", name);
    (void)said;
    return CREMA_E_NO_MEMORY;
  }
  return CREMA_OK;
}

void cr_thread_request_stop(cr_thread *thread) {
  if (thread == NULL) return;
  atomic_store_explicit(&thread->stop, true, memory_order_release);
  pthread_mutex_lock(&thread->lock);
  if (thread->waits_on != NULL) cr_queue_wake(thread->waits_on);
  pthread_mutex_unlock(&thread->lock);
}

/* Joins. With `stopping` the usual ends of a stopped thread count as success and keep the caller's
 * error text: threads are often stopped while another failure is passed on. */
static crema_status finish(cr_thread **thread, bool stopping) {
  cr_thread *t = *thread;
  if (t == NULL) return CREMA_OK;
  pthread_join(t->handle, NULL);
  crema_status status = t->status;
  const bool stopped = status == CREMA_E_INTERRUPTED || status == CREMA_E_CLOSED;
  if (stopping && stopped) status = CREMA_OK;
  if (status != CREMA_OK) cr_error_again(status, t->error);
  free(t->error);
  pthread_mutex_destroy(&t->lock);
  free(t);
  *thread = NULL;
  return status;
}

crema_status cr_thread_join(cr_thread **thread) {
  return finish(thread, false);
}

crema_status cr_thread_stop(cr_thread **thread) {
  cr_thread_request_stop(*thread);
  return finish(thread, true);
}
