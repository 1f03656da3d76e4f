/* Contexts: queues of work on a device, and the contexts that belong to a thread.
 *
 * Each thread has one host context, and on demand one context for each device and stream number.
 * They are destroyed at the end of the thread. The order of work between contexts is in
 * device/backend/order.h. */
#include <pthread.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/signals.h"
#include "core/timeline.h"
#include "device/backend/current.h"
#include "device/backend/order.h"
#include "device/device.h"
#include "device/memory/heap.h"
#include "device/memory/memory_lock.h"
#include "device/memory/result.h"
#include "device/memory/scratchpad.h"
#include "device/watch.h"

/* A context has memory of its device's driver. Without a driver there is no collective to wait
 * for. */
static void lock_memory(const cr_backend *backend) {
  if (!backend->host_memory) cr_memory_lock_shared();
}

static void unlock_memory(const cr_backend *backend) {
  if (!backend->host_memory) cr_memory_unlock_shared();
}

static crema_status open_context(crema_context *context, crema_device *device, uint64_t seed) {
  context->device = device;
  cr_context_number(context);
  if (seed == CREMA_SEED_ANY) seed = cr_random_seed();
  cr_mt19937_seed(&context->rng, (uint32_t)(seed ^ (seed >> 32)));
  cr_device_guard guard;
  CR_TRY(cr_device_enter(device, &guard));
  cr_signals_hold(); /* so that threads that a driver starts receive none */
  lock_memory(device->backend);
  crema_status status = device->backend->context_open(context);
  unlock_memory(device->backend);
  cr_signals_release();
  cr_device_leave(guard);
  if (status == CREMA_OK) cr_context_list(context);
  if (status == CREMA_OK) cr_watch_open(context);
  if (status == CREMA_OK && !device->backend->host_memory) {
    cr_timeline_name_stream(context->id, device->backend->name, device->index);
  }
  return status;
}

static void close_context(crema_context *context) {
  crema_device *device = context->device;
  const cr_backend *backend = device->backend;
  cr_device_guard guard;
  crema_status status = cr_device_enter(device, &guard);
  if (status == CREMA_OK) status = backend->finish(context);
  /* Not before: a context that is not listed is taken to be done. */
  cr_context_unlist(context);
  if (status != CREMA_OK && status != CREMA_E_CLOSED) {
    cr_log_warning("while a context was closed: %s", crema_error_text());
  }
  if (context->order != NULL) backend->event_destroy(context->order);
  cr_scratchpad_leave(context);
  cr_context_result_free(context);
  cr_heap_close(context);
  lock_memory(backend);
  backend->context_close(context);
  unlock_memory(backend);
  cr_device_leave(guard);
}

crema_status crema_context_create(crema_device *device, uint64_t seed, crema_context **out) {
  CR_REQUIRE(out);
  if (device == NULL) device = cr_device_current();
  crema_context *context = calloc(1, sizeof *context);
  if (context == NULL) return cr_fail_memory(sizeof *context, "a context");
  crema_status status = open_context(context, device, seed);
  if (status != CREMA_OK) {
    free(context);
    return cr_fail_in(status, "a context on %s:%d", device->backend->name, device->index);
  }
  *out = context;
  return CREMA_OK;
}

void crema_context_destroy(crema_context *context) {
  if (context == NULL) return;
  close_context(context);
  free(context);
}

void cr_context_set_threads(crema_context *context, int most) {
  context->threads = most;
}

void cr_context_set_math(crema_context *context, crema_math math) {
  const crema_device *device = context->device;
  const bool fast = math == CREMA_MATH_FAST;
  context->fast_math = fast && device->backend->has_fast_math;
  if (fast && !context->fast_math) {
    cr_log_info("math fast has no effect on %s:%d", device->backend->name, device->index);
  }
}

crema_device *crema_context_device(const crema_context *context) {
  if (context == NULL) return NULL;
  return context->device;
}

crema_status crema_context_finish(crema_context *context) {
  CR_REQUIRE(context);
  return context->device->backend->finish(context);
}

typedef struct thread_entry {
  crema_context *context;
  int stream;
} thread_entry;

static _Thread_local crema_context host_context;
static _Thread_local thread_entry *entry;
static _Thread_local size_t entries;

static struct {
  pthread_once_t once;
  pthread_key_t key;
  bool usable;
} thread_exit = {.once = PTHREAD_ONCE_INIT};

void cr_thread_contexts_release(void) {
  for (size_t i = entries; i > 0; --i) crema_context_destroy(entry[i - 1].context);
  free(entry);
  entry = NULL;
  entries = 0;
}

static void end_of_thread(void *unused) {
  (void)unused;
  cr_thread_contexts_release();
  if (host_context.device != NULL) close_context(&host_context);
  host_context.device = NULL;
}

static void make_exit_key(void) {
  thread_exit.usable = pthread_key_create(&thread_exit.key, end_of_thread) == 0;
}

static void note_thread(void) {
  pthread_once(&thread_exit.once, make_exit_key);
  if (thread_exit.usable) pthread_setspecific(thread_exit.key, &host_context);
}

crema_context *cr_host_context(void) {
  crema_context *context = &host_context;
  if (context->device == NULL) {
    /* Creating the CPU's context cannot fail. */
    if (open_context(context, cr_cpu_device(), 1) != CREMA_OK) {
      cr_log_warning("host context: %s", crema_error_text());
    }
    note_thread();
  }
  return context;
}

crema_status cr_thread_context(crema_device *device, int stream, crema_context **out) {
  if (stream < 0) return cr_fail(CREMA_E_RANGE, "there is no stream %d", stream);
  if (device->backend->host_memory) {
    *out = cr_host_context();
    return CREMA_OK;
  }
  for (size_t i = 0; i < entries; ++i) {
    if (entry[i].context->device == device && entry[i].stream == stream) {
      *out = entry[i].context;
      return CREMA_OK;
    }
  }
  thread_entry *more = realloc(entry, (entries + 1) * sizeof *more);
  if (more == NULL) return cr_fail_memory((entries + 1) * sizeof *more, "a thread's contexts");
  entry = more;
  crema_context *context = NULL;
  CR_TRY(crema_context_create(device, CREMA_SEED_ANY, &context));
  entry[entries++] = (thread_entry){.context = context, .stream = stream};
  note_thread();
  *out = context;
  return CREMA_OK;
}

crema_status cr_thread_context_next(crema_device *device, crema_context **out) {
  static _Thread_local unsigned turn;
  enum { STREAMS = 32 };
  crema_context *context = NULL;
  bool busy = true;
  for (unsigned tried = 0; tried < STREAMS && busy; ++tried) {
    CR_TRY(cr_thread_context(device, (int)(turn++ % STREAMS), &context));
    CR_TRY(cr_context_busy(context, &busy));
  }
  /* All are busy: takes them in turn. */
  if (busy) CR_TRY(cr_thread_context(device, (int)(turn++ % STREAMS), &context));
  *out = context;
  return CREMA_OK;
}
