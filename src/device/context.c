#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/signals.h"
#include "device/device.h"

/* ---- the device's list of contexts ---- */

static uint64_t next_id(void) {
  static _Atomic uint64_t ids;
  return atomic_fetch_add(&ids, 1) + 1;
}

static void list_context(crema_context *context) {
  crema_device *device = context->device;
  if (device->backend->host_memory) return;
  pthread_mutex_lock(&device->lock);
  context->next = device->contexts;
  if (context->next != NULL) context->next->before = context;
  device->contexts = context;
  pthread_mutex_unlock(&device->lock);
}

static void unlist_context(crema_context *context) {
  crema_device *device = context->device;
  if (device->backend->host_memory) return;
  pthread_mutex_lock(&device->lock);
  if (context->next != NULL) context->next->before = context->before;
  if (context->before != NULL) {
    context->before->next = context->next;
  } else {
    device->contexts = context->next;
  }
  pthread_mutex_unlock(&device->lock);
}

/* With the device's lock held; NULL when the context is gone. */
static crema_context *find_context(crema_device *device, uint64_t id) {
  crema_context *context = device->contexts;
  while (context != NULL && context->id != id) context = context->next;
  return context;
}

/* ---- scratchpad ---- */

struct cr_scratchpad {
  cr_scratchpad *next;
  pthread_t thread; /* the only one that uses it */
  int contexts;     /* that hold it */
  crema_devptr memory;
  size_t bytes;
  uint64_t user; /* id of the context that was given it last */
};

/* With the device's lock held. The thread of an entry may have ended and another one got its name:
 * the other one may have it, as nobody else uses it. */
static cr_scratchpad **find_scratchpad(crema_device *device, pthread_t thread) {
  cr_scratchpad **link = &device->scratchpads;
  while (*link != NULL && !pthread_equal((*link)->thread, thread)) link = &(*link)->next;
  return link;
}

static void leave_scratchpad(crema_context *context) {
  crema_device *device = context->device;
  cr_scratchpad *scratchpad = context->scratchpad;
  if (scratchpad == NULL) return;
  context->scratchpad = NULL;
  pthread_mutex_lock(&device->lock);
  bool last = --scratchpad->contexts == 0;
  if (last) {
    cr_scratchpad **link = &device->scratchpads;
    while (*link != scratchpad) link = &(*link)->next;
    *link = scratchpad->next;
  }
  pthread_mutex_unlock(&device->lock);
  if (!last) return;
  cr_device_free_after(device, scratchpad->memory, scratchpad->user);
  free(scratchpad);
}

/* Lets the context hold the calling thread's scratchpad. */
static crema_status concat_scratchpad(crema_context *context) {
  crema_device *device = context->device;
  pthread_t self = pthread_self();
  if (context->scratchpad != NULL && pthread_equal(context->scratchpad->thread, self))
    return CREMA_OK;
  cr_scratchpad *fresh = calloc(1, sizeof *fresh);
  if (fresh == NULL) return cr_fail_memory(sizeof *fresh, "a scratchpad");
  leave_scratchpad(context);
  pthread_mutex_lock(&device->lock);
  cr_scratchpad **link = find_scratchpad(device, self);
  if (*link == NULL) {
    fresh->thread = self;
    *link = fresh;
    fresh = NULL;
  }
  context->scratchpad = *link;
  ++context->scratchpad->contexts;
  pthread_mutex_unlock(&device->lock);
  free(fresh);
  return CREMA_OK;
}

crema_status cr_context_workspace(crema_context *context, size_t bytes, crema_devptr *out) {
  CR_TRY(concat_scratchpad(context));
  cr_scratchpad *scratchpad = context->scratchpad;
  if (bytes > scratchpad->bytes) {
    crema_devptr memory = {0};
    /* The new block comes before the old one goes, so that a failure leaves the old one. Queued
     * work may still use the old one. */
    CR_TRY(cr_device_alloc_for(context, bytes, &memory));
    cr_device_free_after(context->device, scratchpad->memory, scratchpad->user);
    pthread_mutex_lock(&context->device->lock);
    scratchpad->memory = memory;
    scratchpad->bytes = bytes;
    pthread_mutex_unlock(&context->device->lock);
  } else {
    CR_TRY(cr_context_follow(context, scratchpad->user));
  }
  scratchpad->user = context->id;
  *out = scratchpad->memory;
  return CREMA_OK;
}

size_t cr_device_scratchpad_bytes(crema_device *device) {
  size_t bytes = 0;
  pthread_mutex_lock(&device->lock);
  for (const cr_scratchpad *s = device->scratchpads; s != NULL; s = s->next) bytes += s->bytes;
  pthread_mutex_unlock(&device->lock);
  return bytes;
}

/* ---- life ---- */

static crema_status open_context(crema_context *context, crema_device *device, uint64_t seed) {
  context->device = device;
  context->id = next_id();
  if (seed == CREMA_SEED_ANY) seed = cr_random_seed();
  cr_mt19937_seed(&context->rng, (uint32_t)(seed ^ (seed >> 32)));
  cr_device_guard guard;
  CR_TRY(cr_device_enter(device, &guard));
  cr_signals_hold(); /* a driver's threads shall be born without */
  crema_status status = device->backend->context_open(context);
  cr_signals_release();
  cr_device_leave(guard);
  if (status == CREMA_OK) list_context(context);
  return status;
}

static void close_context(crema_context *context) {
  crema_device *device = context->device;
  const cr_backend *backend = device->backend;
  cr_device_guard guard;
  crema_status status = cr_device_enter(device, &guard);
  if (status == CREMA_OK) status = backend->finish(context);
  /* Not before: a context that is not listed is taken to be done. */
  unlist_context(context);
  if (status != CREMA_OK && status != CREMA_E_CLOSED) {
    cr_log_warning("while a context was closed: %s", crema_error_text());
  }
  if (context->order != NULL) backend->event_destroy(context->order);
  leave_scratchpad(context);
  backend->context_close(context);
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

crema_device *crema_context_device(const crema_context *context) {
  if (context == NULL) return NULL;
  return context->device;
}

crema_status crema_context_finish(crema_context *context) {
  CR_REQUIRE(context);
  return context->device->backend->finish(context);
}

crema_status cr_context_busy(crema_context *context, bool *out) {
  *out = false;
  const cr_backend *backend = context->device->backend;
  return backend->busy == NULL ? CREMA_OK : backend->busy(context, out);
}

/* ---- order between contexts ---- */

static crema_status follow_locked(crema_context *context, uint64_t id) {
  const cr_backend *backend = context->device->backend;
  crema_context *other = find_context(context->device, id);
  if (other == NULL) return CREMA_OK; /* it was finished when it was destroyed */
  if (other->order == NULL) CR_TRY(backend->event_create(context->device, &other->order));
  CR_TRY(backend->event_record(other, other->order));
  return backend->event_wait(context, other->order);
}

crema_status cr_context_follow(crema_context *context, uint64_t id) {
  crema_device *device = context->device;
  if (id == 0 || id == context->id || device->backend->host_memory) return CREMA_OK;
  cr_device_guard guard;
  CR_TRY(cr_device_enter(device, &guard));
  pthread_mutex_lock(&device->lock);
  crema_status status = follow_locked(context, id);
  pthread_mutex_unlock(&device->lock);
  cr_device_leave(guard);
  return status;
}

static crema_status mark_locked(crema_device *device, uint64_t id, cr_native_event **event,
                                bool *busy) {
  crema_context *context = find_context(device, id);
  if (context == NULL) return CREMA_OK;
  CR_TRY(device->backend->busy(context, busy));
  if (!*busy) return CREMA_OK;
  if (*event == NULL) CR_TRY(device->backend->event_create(device, event));
  return device->backend->event_record(context, *event);
}

crema_status cr_context_mark(crema_device *device, uint64_t id, cr_native_event **event,
                             bool *busy) {
  *busy = false;
  if (id == 0 || device->backend->host_memory) return CREMA_OK;
  cr_device_guard guard;
  CR_TRY(cr_device_enter(device, &guard));
  pthread_mutex_lock(&device->lock);
  crema_status status = mark_locked(device, id, event, busy);
  pthread_mutex_unlock(&device->lock);
  cr_device_leave(guard);
  return status;
}

/* ---- the thread's own contexts ---- */

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
    /* The CPU's context needs nothing that could fail. */
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
  /* All have been asked in vain: the next in turn, and the one after it the next time. */
  if (busy) CR_TRY(cr_thread_context(device, (int)(turn++ % STREAMS), &context));
  *out = context;
  return CREMA_OK;
}
