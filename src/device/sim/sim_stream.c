/* Streams, queues of work that run on separate threads or step by step; events. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/timeline.h"
#include "device/sim/sim_world.h"

enum { FIRST_CAPACITY = 64, SPINS = 1000 };

/* A waiting thread spins while its patience lasts: a spin in vain takes one off, a spin that was
 * answered gives one back, up to PATIENCE. Without patience it spins only every TRY_EVERY times. */
enum { PATIENCE = 4, TRY_EVERY = 8 };

sim_stream *cr_sim_stream(const crema_context *context) {
  return context->state;
}

static void join_clock(sim_clock *into, const sim_clock *other) {
  for (int i = 0; i < SIM_CLOCKS; ++i) {
    if (other->done[i] > into->done[i]) into->done[i] = other->done[i];
  }
}

static void set_clock(sim_clock *clock, const sim_stream *stream, uint64_t number) {
  if (stream->index < SIM_CLOCKS && clock->done[stream->index] < number) {
    clock->done[stream->index] = number;
  }
}

/* With the lock held: the oldest task when it can run now. */
static sim_task *runnable(sim_stream *stream) {
  if (atomic_load(&stream->count) == 0 || stream->running) return NULL;
  sim_task *task = &stream->ring[stream->first % stream->capacity];
  if (task->kind == SIM_TASK_WAIT &&
      atomic_load(&task->u.wait.stream->done) < task->u.wait.number) {
    return NULL;
  }
  return task;
}

/* The span of a task on the stream's track. `queued` tasks follow it. */
static void trace_task(const sim_stream *stream, const sim_task *task, double begin) {
  switch (task->kind) {
    case SIM_TASK_KERNEL:
      cr_timeline_span(stream->context, "kernel", cr_sim_kernel_name(&task->u.kernel), begin, "%s",
                       "");
      break;
    case SIM_TASK_CONVERT:
      cr_timeline_span(stream->context, "convert", "convert", begin, "%s", "");
      break;
    case SIM_TASK_COPY:
      cr_timeline_span(stream->context, "copy", "copy", begin, "\"bytes\":%zu", task->u.copy.bytes);
      break;
    case SIM_TASK_WAIT:
      cr_timeline_span(stream->context, "event", "after stream", begin, "\"stream\":%llu",
                       (unsigned long long)task->u.wait.stream->context);
      break;
    case SIM_TASK_ZERO:
    case SIM_TASK_RECORD: break;
  }
}

/* Runs the oldest task of the stream. With the lock held, which is released meanwhile. */
static void run_task(sim_stream *stream, const sim_task *oldest) {
  sim_task task = *oldest;
  const double traced = cr_timeline_now();
  stream->running = true;
  crema_status status = task.fault;
  if (status != CREMA_OK) {
    cr_fail(status, "simulated failure while the work was done on sim:%d", stream->device->index);
  } else if (task.run != NULL) {
    sim_unlock();
    status = task.run(stream, &task);
    sim_lock();
  }
  if (status != CREMA_OK && stream->failure == CREMA_OK) {
    stream->failure = status;
    stream->failure_number = task.number;
    snprintf(stream->failure_text, sizeof stream->failure_text, "%s", crema_error_text());
  }
  if (traced > 0) trace_task(stream, &task, traced);
  if (task.kind == SIM_TASK_KERNEL) cr_sim_free_call(&task.u.kernel);
  stream->running = false;
  ++stream->first;
  atomic_fetch_sub(&stream->count, 1);
  atomic_store(&stream->done, task.number);
  if (task.number < stream->awaited) return;
  stream->awaited = UINT64_MAX;
  pthread_cond_broadcast(&stream->progress);
}

/* Sleeps until the stream has done its task `number`, or earlier: there are many streams and tasks,
 * so a waiter is woken only for its own. With the lock held, which is released meanwhile. */
static void sleep_until(sim_stream *stream, uint64_t number) {
  if (number < stream->awaited) stream->awaited = number;
  pthread_cond_wait(&stream->progress, &cr_sim_world.lock);
}

/* Until the task that is next is done. */
static void sleep_until_next(sim_stream *stream) {
  sleep_until(stream, atomic_load(&stream->done) + 1);
}

static void pause_shortly(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/* A host that queues small tasks one by one returns within microseconds. One that does not is not
 * waited for: the processors have other streams to run. Without the lock. */
static void spin_while_empty(sim_stream *stream) {
  if (stream->patience == 0 && ++stream->spins_skipped % TRY_EVERY != 0) return;
  for (int i = 0; i < SPINS; ++i) {
    if (atomic_load(&stream->count) > 0) {
      if (stream->patience < PATIENCE) ++stream->patience;
      return;
    }
    pause_shortly();
  }
  if (stream->patience > 0) --stream->patience;
}

static crema_status work(void *arg) {
  sim_stream *stream = arg;
  sim_lock();
  while (!stream->stop || atomic_load(&stream->count) > 0) {
    sim_task *task = runnable(stream);
    if (task != NULL) {
      run_task(stream, task);
    } else if (atomic_load(&stream->count) > 0) {
      /* The oldest task is another thread's, or waits for another stream. */
      const sim_task *oldest = &stream->ring[stream->first % stream->capacity];
      if (stream->running) sleep_until_next(stream);
      else sleep_until(oldest->u.wait.stream, oldest->u.wait.number);
    } else {
      sim_unlock();
      spin_while_empty(stream);
      sim_lock();
      if (atomic_load(&stream->count) == 0 && !stream->stop) {
        pthread_cond_wait(&stream->arrived, &cr_sim_world.lock);
      }
    }
  }
  sim_unlock();
  return CREMA_OK;
}

/* Stepped streams: runs one task, on any stream, that lets `stream` advance. */
static void push_forward(sim_stream *stream) {
  sim_task *task = runnable(stream);
  for (size_t depth = 0; task == NULL && depth <= cr_sim_world.streams; ++depth) {
    if (atomic_load(&stream->count) == 0 || stream->running) break;
    /* The oldest task waits for the event of another stream. */
    stream = stream->ring[stream->first % stream->capacity].u.wait.stream;
    task = runnable(stream);
  }
  if (task != NULL) {
    run_task(stream, task);
  } else {
    sleep_until_next(stream); /* another thread is stepping */
  }
}

/* A waiting host does the next copy or fill itself if it has not begun, which saves waking the
 * stream's thread. Kernels are left to that thread, whose helpers are warm. With the lock held. */
static bool help(sim_stream *stream) {
  sim_task *task = runnable(stream);
  if (task == NULL || task->kind == SIM_TASK_KERNEL || task->kind == SIM_TASK_CONVERT) return false;
  run_task(stream, task);
  return true;
}

void cr_sim_wait_for(sim_stream *stream, uint64_t number) {
  if (!cr_sim_world.options.stepped) {
    while (atomic_load(&stream->done) < number && help(stream)) {
    }
    sim_unlock();
    for (int i = 0; i < SPINS && atomic_load(&stream->done) < number; ++i) pause_shortly();
    sim_lock();
  }
  while (atomic_load(&stream->done) < number) {
    if (cr_sim_world.options.stepped) {
      push_forward(stream);
    } else if (!help(stream)) {
      sleep_until_next(stream);
    }
  }
}

static bool step(sim_stream *stream) {
  sim_task *task = runnable(stream);
  if (task != NULL) run_task(stream, task);
  return task != NULL;
}

bool cr_sim_step(crema_context *context) {
  sim_lock();
  bool done = step(cr_sim_stream(context));
  sim_unlock();
  return done;
}

bool cr_sim_step_any(uint32_t choice) {
  sim_world *w = &cr_sim_world;
  sim_lock();
  bool done = false;
  for (size_t i = 0; i < w->streams && !done; ++i) {
    done = step(w->stream[(choice + i) % w->streams]);
  }
  sim_unlock();
  return done;
}

size_t cr_sim_pending(crema_context *context) {
  return atomic_load(&cr_sim_stream(context)->count);
}

size_t cr_sim_live_streams(void) {
  sim_lock();
  size_t streams = cr_sim_world.open_streams;
  sim_unlock();
  return streams;
}

static crema_status grow(sim_stream *stream) {
  size_t capacity = stream->capacity > 0 ? 2 * stream->capacity : FIRST_CAPACITY;
  sim_task *ring = calloc(capacity, sizeof *ring);
  if (ring == NULL) return cr_fail_memory(capacity * sizeof *ring, "a simulated stream");
  for (size_t i = 0; i < atomic_load(&stream->count); ++i) {
    uint64_t number = stream->first + i;
    ring[number % capacity] = stream->ring[number % stream->capacity];
  }
  free(stream->ring);
  stream->ring = ring;
  stream->capacity = capacity;
  return CREMA_OK;
}

crema_status cr_sim_submit(sim_stream *stream, sim_task *task) {
  size_t count = atomic_load(&stream->count);
  if (count == stream->capacity) CR_TRY(grow(stream));
  task->number = stream->first + count;
  stream->ring[task->number % stream->capacity] = *task;
  /* Work that the host knows to be done has happened before the task. */
  join_clock(&stream->clock, &cr_sim_world.host);
  atomic_fetch_add(&stream->count, 1);
  if (count == 0) pthread_cond_signal(&stream->arrived);
  return CREMA_OK;
}

static crema_status make_stream(sim_stream **out) {
  sim_world *w = &cr_sim_world;
  sim_stream **list = realloc(w->stream, (w->streams + 1) * sizeof(sim_stream *));
  if (list == NULL) return cr_fail_memory((w->streams + 1) * sizeof *list, "the simulation");
  w->stream = list;
  sim_stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) return cr_fail_memory(sizeof *stream, "a simulated stream");
  stream->index = (int)w->streams;
  stream->first = 1;
  stream->cpu.device = cr_cpu_device();
  stream->awaited = UINT64_MAX;
  stream->patience = PATIENCE;
  pthread_cond_init(&stream->arrived, NULL);
  pthread_cond_init(&stream->progress, NULL);
  crema_status status;
  CR_TRY_GOTO(grow(stream), fail);
  if (!w->options.stepped) {
    CR_TRY_GOTO(cr_thread_start(&stream->worker, "crema-sim", work, stream), fail);
  }
  w->stream[w->streams++] = stream;
  *out = stream;
  return CREMA_OK;
fail:
  free(stream->ring);
  pthread_cond_destroy(&stream->progress);
  pthread_cond_destroy(&stream->arrived);
  free(stream);
  return status;
}

/* Closed streams are reused: the numbers of their tasks continue, so that events that point to them
 * stay done. */
static crema_status open_stream(sim_device *device, uint64_t context, sim_stream **out) {
  sim_world *w = &cr_sim_world;
  sim_stream *stream = NULL;
  for (size_t i = 0; i < w->streams && stream == NULL; ++i) {
    if (!w->stream[i]->open) stream = w->stream[i];
  }
  if (stream == NULL) CR_TRY(make_stream(&stream));
  stream->open = true;
  stream->device = device;
  stream->context = context;
  stream->failure = CREMA_OK;
  ++w->open_streams;
  *out = stream;
  return CREMA_OK;
}

crema_status cr_sim_need_handle(sim_stream *stream) {
  static _Atomic uint64_t numbers;
  if (stream->handle.number != 0) return CREMA_OK;
  CR_TRY(cr_sim_note_on(stream, CR_SIM_HANDLE_OPEN, NULL));
  stream->handle = (cr_sim_handle){.number = atomic_fetch_add(&numbers, 1) + 1,
                                   .stream = stream->context,
                                   .host_pointers = true};
  return CREMA_OK;
}

bool cr_sim_handle_of(crema_context *context, cr_sim_handle *out) {
  sim_lock();
  *out = cr_sim_stream(context)->handle;
  sim_unlock();
  return out->number != 0;
}

static void close_handle(sim_stream *stream) {
  if (stream->handle.number == 0) return;
  (void)cr_sim_note_on(stream, CR_SIM_HANDLE_CLOSE, NULL);
  stream->handle = (cr_sim_handle){0};
}

crema_status cr_sim_context_open(crema_context *context) {
  sim_device *device = cr_sim_device(context->device);
  sim_stream *stream = NULL;
  sim_lock();
  crema_status status =
      cr_sim_note(&(cr_sim_record){.op = CR_SIM_STREAM_OPEN, .device = device->index}, NULL);
  if (status == CREMA_OK) status = open_stream(device, context->id, &stream);
  sim_unlock();
  context->state = stream;
  return status;
}

void cr_sim_context_close(crema_context *context) {
  sim_stream *stream = cr_sim_stream(context);
  sim_lock();
  cr_sim_wait_for(stream, stream->first + atomic_load(&stream->count) - 1);
  close_handle(stream);
  (void)cr_sim_note_on(stream, CR_SIM_STREAM_CLOSE, NULL);
  set_clock(&cr_sim_world.host, stream, atomic_load(&stream->done));
  stream->open = false;
  --cr_sim_world.open_streams;
  sim_unlock();
}

void cr_sim_end_streams(void) {
  sim_world *w = &cr_sim_world;
  for (size_t i = 0; i < w->streams; ++i) {
    sim_stream *stream = w->stream[i];
    sim_lock();
    stream->stop = true;
    pthread_cond_signal(&stream->arrived);
    sim_unlock();
    (void)cr_thread_join(&stream->worker); /* its work never fails as a whole */
    free(stream->ring);
    pthread_cond_destroy(&stream->progress);
    pthread_cond_destroy(&stream->arrived);
    free(stream);
  }
  free(w->stream);
  w->stream = NULL;
  w->streams = 0;
}

static crema_status take_failure(sim_stream *stream) {
  crema_status status = stream->failure;
  stream->failure = CREMA_OK;
  return status == CREMA_OK ? CREMA_OK : cr_fail_text(status, stream->failure_text);
}

crema_status cr_sim_finish(crema_context *context) {
  sim_stream *stream = cr_sim_stream(context);
  sim_lock();
  size_t count = atomic_load(&stream->count);
  uint64_t newest = stream->first + count - 1;
  crema_status status = cr_sim_note_on(stream, CR_SIM_FINISH, NULL);
  cr_sim_wait_for(stream, newest);
  set_clock(&cr_sim_world.host, stream, newest);
  join_clock(&cr_sim_world.host, &stream->clock);
  if (status == CREMA_OK) status = take_failure(stream);
  sim_unlock();
  return status;
}

crema_status cr_sim_failure(crema_context *context) {
  sim_lock();
  crema_status status = take_failure(cr_sim_stream(context));
  sim_unlock();
  return status;
}

crema_status cr_sim_busy(crema_context *context, bool *out) {
  sim_stream *stream = cr_sim_stream(context);
  sim_lock();
  if (cr_sim_world.unloading) {
    sim_unlock();
    return cr_fail(CREMA_E_CLOSED, "the simulated driver has been unloaded");
  }
  *out = atomic_load(&stream->count) > 0;
  if (!*out) {
    /* "Not busy" means to the host that all work is done. */
    set_clock(&cr_sim_world.host, stream, atomic_load(&stream->done));
    join_clock(&cr_sim_world.host, &stream->clock);
  }
  sim_unlock();
  return CREMA_OK;
}

crema_status cr_sim_event_create(crema_device *device, cr_native_event **out) {
  (void)device;
  cr_native_event *event = calloc(1, sizeof *event);
  if (event == NULL) return cr_fail_memory(sizeof *event, "an event");
  sim_lock();
  ++cr_sim_world.events;
  sim_unlock();
  *out = event;
  return CREMA_OK;
}

void cr_sim_event_destroy(cr_native_event *event) {
  if (event == NULL) return;
  sim_lock();
  --cr_sim_world.events;
  sim_unlock();
  free(event);
}

crema_status cr_sim_event_record(crema_context *context, cr_native_event *event) {
  sim_stream *stream = cr_sim_stream(context);
  sim_task task = {.kind = SIM_TASK_RECORD, .op = CR_SIM_EVENT_RECORD};
  sim_lock();
  crema_status status = cr_sim_note_on(stream, CR_SIM_EVENT_RECORD, &task.fault);
  if (status == CREMA_OK) status = cr_sim_submit(stream, &task);
  if (status == CREMA_OK) {
    event->stream = stream;
    event->number = task.number;
    event->clock = stream->clock;
    set_clock(&event->clock, stream, task.number);
  }
  sim_unlock();
  return status;
}

crema_status cr_sim_event_wait(crema_context *context, cr_native_event *event) {
  sim_stream *stream = cr_sim_stream(context);
  sim_task task = {.kind = SIM_TASK_WAIT, .op = CR_SIM_EVENT_WAIT};
  sim_lock();
  crema_status status = cr_sim_note_on(stream, CR_SIM_EVENT_WAIT, &task.fault);
  bool waits = event->stream != NULL && cr_sim_world.mistake != CR_SIM_LOSES_WAITS;
  if (status == CREMA_OK && waits) {
    task.u.wait.stream = event->stream;
    task.u.wait.number = event->number;
    status = cr_sim_submit(stream, &task);
    if (status == CREMA_OK) join_clock(&stream->clock, &event->clock);
  }
  sim_unlock();
  return status;
}

/* The failure of work before the event; it stays pending for the context. */
static crema_status failure_before(const cr_native_event *event) {
  const sim_stream *stream = event->stream;
  if (stream->failure == CREMA_OK || stream->failure_number > event->number) return CREMA_OK;
  return cr_fail_text(stream->failure, stream->failure_text);
}

crema_status cr_sim_event_query(cr_native_event *event, bool *done) {
  crema_status status = CREMA_OK;
  sim_lock();
  *done = event->stream == NULL || atomic_load(&event->stream->done) >= event->number;
  if (cr_sim_world.mistake == CR_SIM_EVENTS_EARLY) {
    *done = true; /* without the race checker's knowledge */
  } else if (*done && event->stream != NULL) {
    join_clock(&cr_sim_world.host, &event->clock);
    status = failure_before(event);
  }
  sim_unlock();
  return status;
}

crema_status cr_sim_event_finish(cr_native_event *event) {
  crema_status status = CREMA_OK;
  sim_lock();
  if (event->stream != NULL) {
    cr_sim_wait_for(event->stream, event->number);
    join_clock(&cr_sim_world.host, &event->clock);
    status = failure_before(event);
  }
  sim_unlock();
  return status;
}
