/* The log of operations, and the injected faults. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "device/sim/sim_world.h"

sim_world cr_sim_world = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The device that the calling thread set; -1: none. */
static _Thread_local int current_index = -1;

static const char *const op_names[CR_SIM_OPS] = {
    "counting devices",    "asking a device",  "allocation",       "release",
    "host allocation",     "host release",     "memory query",     "copy to device",
    "copy to host",        "copy on device",   "peer copy",        "zero fill",
    "conversion",          "kernel",           "event record",     "event wait",
    "wait for the stream", "device switch",    "opening a stream", "closing a stream",
    "opening a handle",    "closing a handle", "enabling a peer"};

static void log_record(sim_world *w, const cr_sim_record *record) {
  if (!w->options.keep_log) return;
  if (w->log_size == w->log_capacity) {
    size_t capacity = w->log_capacity > 0 ? 2 * w->log_capacity : 1024;
    cr_sim_record *log = realloc(w->log, capacity * sizeof *log);
    if (log == NULL) return; /* only an aid for tests, which notice the gap */
    w->log = log;
    w->log_capacity = capacity;
  }
  w->log[w->log_size] = *record;
  w->log[w->log_size++].current_device = current_index;
}

static crema_status hit_fault(sim_world *w, const cr_sim_record *record, crema_status *late) {
  for (int i = 0; i < w->faults; ++i) {
    sim_fault *fault = &w->fault[i];
    if (fault->op != CR_SIM_ANY && fault->op != record->op) continue;
    if (--fault->nth > 0) continue;
    sim_fault hit = *fault;
    w->fault[i] = w->fault[--w->faults];
    if (hit.late && late != NULL) {
      *late = hit.code;
      return CREMA_OK;
    }
    return cr_fail(hit.code, "simulated failure of: %s of %zu bytes on sim:%d",
                   op_names[record->op], record->bytes, record->device);
  }
  return CREMA_OK;
}

crema_status cr_sim_note(const cr_sim_record *record, crema_status *late) {
  sim_world *w = &cr_sim_world;
  ++w->count[record->op][record->device];
  w->byte_count[record->op][record->device] += record->bytes;
  log_record(w, record);
  if (w->unloading) return cr_fail(CREMA_E_CLOSED, "the simulated driver has been unloaded");
  return w->faults > 0 ? hit_fault(w, record, late) : CREMA_OK;
}

crema_status cr_sim_note_on(const sim_stream *stream, cr_sim_op op, crema_status *late) {
  const cr_sim_record record = {
      .op = op, .device = stream->device->index, .stream = stream->context};
  return cr_sim_note(&record, late);
}

static crema_status choose_device(int index) {
  const int before = current_index;
  current_index = index;
  sim_lock();
  crema_status status =
      cr_sim_note(&(cr_sim_record){.op = CR_SIM_SET_DEVICE, .device = index}, NULL);
  sim_unlock();
  if (status != CREMA_OK) current_index = before;
  return status;
}

crema_status cr_sim_set_current(crema_device *device) {
  return choose_device(device->index);
}

crema_status cr_sim_enter_device(const crema_device *device, int *before) {
  *before = -1;
  if (current_index == device->index) return CREMA_OK;
  const int own = current_index;
  CR_TRY(choose_device(device->index));
  *before = own;
  return CREMA_OK;
}

/* If none was ever set, as under CUDA, there is nothing to restore. */
void cr_sim_leave_device(int before) {
  crema_status status = before < 0 ? CREMA_OK : choose_device(before);
  if (status != CREMA_OK && status != CREMA_E_CLOSED) {
    cr_log_warning("cannot return to device sim:%d: %s", before, crema_error_text());
  }
}

void cr_sim_fail(cr_sim_op op, int nth, crema_status code, bool late) {
  sim_lock();
  if (cr_sim_world.faults < SIM_FAULTS) {
    cr_sim_world.fault[cr_sim_world.faults++] =
        (sim_fault){.op = op, .nth = nth, .code = code, .late = late};
  }
  sim_unlock();
}

void cr_sim_break(cr_sim_mistake mistake) {
  sim_lock();
  cr_sim_world.mistake = mistake;
  sim_unlock();
}

void cr_sim_set_unloading(bool on) {
  sim_lock();
  cr_sim_world.unloading = on;
  sim_unlock();
}

void cr_sim_clear_faults(void) {
  sim_lock();
  cr_sim_world.faults = 0;
  sim_unlock();
}

static uint64_t sum_over(uint64_t counts[CR_SIM_MAX_DEVICES], int device) {
  uint64_t sum = 0;
  for (int d = 0; d < CR_SIM_MAX_DEVICES; ++d) sum += device < 0 || d == device ? counts[d] : 0;
  return sum;
}

uint64_t cr_sim_count(cr_sim_op op, int device) {
  sim_lock();
  uint64_t count = sum_over(cr_sim_world.count[op], device);
  sim_unlock();
  return count;
}

uint64_t cr_sim_bytes(cr_sim_op op, int device) {
  sim_lock();
  uint64_t bytes = sum_over(cr_sim_world.byte_count[op], device);
  sim_unlock();
  return bytes;
}

void cr_sim_reset_counts(void) {
  sim_lock();
  memset(cr_sim_world.count, 0, sizeof cr_sim_world.count);
  memset(cr_sim_world.byte_count, 0, sizeof cr_sim_world.byte_count);
  cr_sim_world.log_size = 0;
  sim_unlock();
}

size_t cr_sim_log(const cr_sim_record **out) {
  sim_lock();
  size_t size = cr_sim_world.log_size;
  *out = cr_sim_world.log;
  sim_unlock();
  return size;
}
