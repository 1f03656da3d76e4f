/* The part of the CUDA driver that knows which devices are open and what each thread is bound to. A
 * library of its own, so that the fake runtime and the fake libraries share its state. */
#include "fake_driver.h"

#include <pthread.h>
#include <time.h>

enum { DEVICES = 3, KEPT = 4096 };

static struct {
  pthread_mutex_t lock;
  unsigned open; /* one bit per device */
  bool unloaded, unloads;
  void *kept[KEPT]; /* the newest */
  unsigned count;
  int collectives, touched, touched_beside;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int bound = -1;

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  if (fake_unloaded()) return CUDA_ERROR_DEINITIALIZED;
  if (ordinal < 0 || ordinal >= DEVICES) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  if (fake_unloaded()) return CUDA_ERROR_DEINITIALIZED;
  if (device < 0 || device >= DEVICES) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = (int)(fake_open_devices() >> device & 1);
  return CUDA_SUCCESS;
}

unsigned fake_open_devices(void) {
  pthread_mutex_lock(&world.lock);
  const unsigned open = world.open;
  pthread_mutex_unlock(&world.lock);
  return open;
}

void fake_bind(int device) {
  pthread_mutex_lock(&world.lock);
  world.open |= 1u << device;
  pthread_mutex_unlock(&world.lock);
  bound = device;
}

int fake_bound(void) {
  return bound;
}

void fake_unload(void) {
  pthread_mutex_lock(&world.lock);
  world.unloaded = true;
  pthread_mutex_unlock(&world.lock);
}

bool fake_unloaded(void) {
  pthread_mutex_lock(&world.lock);
  const bool unloaded = world.unloaded;
  pthread_mutex_unlock(&world.lock);
  return unloaded;
}

void fake_unload_during_work(void) {
  pthread_mutex_lock(&world.lock);
  world.unloads = true;
  pthread_mutex_unlock(&world.lock);
}

bool fake_works_on(void) {
  pthread_mutex_lock(&world.lock);
  const bool goes = world.unloads;
  if (goes) world.unloaded = true;
  world.unloads = false;
  pthread_mutex_unlock(&world.lock);
  return goes;
}

bool fake_is_idle(void) {
  return getenv("FAKE_CUDA_NO_WORK") != NULL;
}

void fake_load(void) {
  pthread_mutex_lock(&world.lock);
  world.unloaded = world.unloads = false;
  pthread_mutex_unlock(&world.lock);
}

void fake_keep(void *memory) {
  pthread_mutex_lock(&world.lock);
  world.kept[world.count++ % KEPT] = memory;
  pthread_mutex_unlock(&world.lock);
}

void fake_change_collectives(int change) {
  pthread_mutex_lock(&world.lock);
  world.collectives += change;
  pthread_mutex_unlock(&world.lock);
}

void fake_touch_memory(void) {
  pthread_mutex_lock(&world.lock);
  ++world.touched;
  if (world.collectives > 0) ++world.touched_beside;
  pthread_mutex_unlock(&world.lock);
}

void fake_load_code(atomic_bool *loaded) {
  if (atomic_exchange(loaded, true)) return;
  fake_touch_memory();
  if (getenv("FAKE_CUDA_SLOW_CODE") == NULL) return;
  nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
  fake_touch_memory();
}

int fake_touched_beside_collectives(void) {
  pthread_mutex_lock(&world.lock);
  const int touched = world.touched_beside;
  pthread_mutex_unlock(&world.lock);
  return touched;
}

int fake_touched(void) {
  pthread_mutex_lock(&world.lock);
  const int touched = world.touched;
  pthread_mutex_unlock(&world.lock);
  return touched;
}
