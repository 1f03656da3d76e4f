#include "core/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { CR_LOG_LINE_MAX = 4096, CR_LOG_SILENT = 100 };

static struct {
  pthread_mutex_t lock;
  crema_log_fn fn;
  void *user;
  atomic_int level; /* read without the lock, so that silent logging is cheap */
} sink = {PTHREAD_MUTEX_INITIALIZER, NULL, NULL, CR_LOG_SILENT};

void crema_log_set(crema_log_fn fn, void *user, crema_log_level level) {
  pthread_mutex_lock(&sink.lock);
  sink.fn = fn;
  sink.user = user;
  atomic_store(&sink.level, fn == NULL ? CR_LOG_SILENT : (int)level);
  pthread_mutex_unlock(&sink.lock);
}

void cr_log_limit(crema_log_level level) {
  pthread_mutex_lock(&sink.lock);
  if ((int)level > atomic_load(&sink.level)) atomic_store(&sink.level, (int)level);
  pthread_mutex_unlock(&sink.lock);
}

bool cr_log_enabled(crema_log_level level) {
  return (int)level >= atomic_load_explicit(&sink.level, memory_order_relaxed);
}

void cr_log_at(crema_log_level level, const char *file, int line, const char *fmt, ...) {
  if (!cr_log_enabled(level)) return;
  char text[CR_LOG_LINE_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  const char *slash = strrchr(file, '/');
  pthread_mutex_lock(&sink.lock);
  if (sink.fn != NULL) sink.fn(sink.user, level, slash == NULL ? file : slash + 1, line, text);
  pthread_mutex_unlock(&sink.lock);
}
