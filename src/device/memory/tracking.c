#include "device/memory/tracking.h"

#include <pthread.h>
#include <stdatomic.h>

#include "core/fail.h"
#include "core/log.h"

#define REPORT_GROWTH ((size_t)128 << 20)

static struct {
  atomic_bool on;
  pthread_mutex_t lock;
  cr_tracking_totals device[CR_DEVICE_TYPES][CR_MAX_DEVICES];
  cr_tracking_totals all;
  size_t reported;
  unsigned reports;
} tracking = {.lock = PTHREAD_MUTEX_INITIALIZER};

static cr_tracking_totals *totals_of(const crema_device *device) {
  int type = (int)device->backend->type;
  if (type < 0 || type >= CR_DEVICE_TYPES || device->index < 0 || device->index >= CR_MAX_DEVICES) return NULL;
  return &tracking.device[type][device->index];
}

void cr_tracking_enable(bool on) {
  pthread_mutex_lock(&tracking.lock);
  if (!on) {
    for (int t = 0; t < CR_DEVICE_TYPES; ++t) {
      for (int d = 0; d < CR_MAX_DEVICES; ++d) tracking.device[t][d] = (cr_tracking_totals){0};
    }
    tracking.all = (cr_tracking_totals){0};
    tracking.reported = 0;
    tracking.reports = 0;
  }
  atomic_store(&tracking.on, on);
  pthread_mutex_unlock(&tracking.lock);
}

bool cr_tracking_enabled(void) {
  return atomic_load_explicit(&tracking.on, memory_order_relaxed);
}

static void grow(cr_tracking_totals *totals, size_t bytes) {
  totals->current += bytes;
  if (totals->current > totals->highest) totals->highest = totals->current;
}

/* A block may have been counted before counting was turned off and on again. */
static void shrink(cr_tracking_totals *totals, size_t bytes) {
  totals->current -= bytes < totals->current ? bytes : totals->current;
}

bool cr_tracking_add(const crema_device *device, size_t bytes) {
  if (!cr_tracking_enabled()) return false;
  bool report = false;
  size_t total = 0;
  pthread_mutex_lock(&tracking.lock);
  cr_tracking_totals *totals = totals_of(device);
  bool counted = totals != NULL;
  if (counted) {
    grow(totals, bytes);
    grow(&tracking.all, bytes);
    total = tracking.all.current;
    report = total > tracking.reported + REPORT_GROWTH;
    if (report) {
      tracking.reported = total;
      ++tracking.reports;
    }
  }
  pthread_mutex_unlock(&tracking.lock);
  if (report) cr_log_info("device memory in use: %zu MiB", total >> 20);
  return counted;
}

void cr_tracking_remove(const crema_device *device, size_t bytes, bool counted) {
  if (!counted) return;
  pthread_mutex_lock(&tracking.lock);
  cr_tracking_totals *totals = totals_of(device);
  if (totals != NULL) {
    shrink(totals, bytes);
    shrink(&tracking.all, bytes);
  }
  pthread_mutex_unlock(&tracking.lock);
}

crema_status cr_tracking_read(const crema_device *device, cr_tracking_totals *out) {
  if (!cr_tracking_enabled()) return cr_fail(CREMA_E_STATE, "memory tracking is off");
  pthread_mutex_lock(&tracking.lock);
  const cr_tracking_totals *totals = device == NULL ? &tracking.all : totals_of(device);
  if (totals != NULL) *out = *totals;
  pthread_mutex_unlock(&tracking.lock);
  return totals != NULL ? CREMA_OK : cr_fail(CREMA_E_RANGE, "no totals are kept for the device");
}

unsigned cr_tracking_reports(void) {
  pthread_mutex_lock(&tracking.lock);
  unsigned reports = tracking.reports;
  pthread_mutex_unlock(&tracking.lock);
  return reports;
}
