/* A context with 16 bytes of memory on a simulated device, for one test. */
#ifndef CR_TESTS_DEVICE_STREAM_FIXTURE_H
#define CR_TESTS_DEVICE_STREAM_FIXTURE_H

#include "device/memory/device_memory.h"
#include "memory/sim_fixture.h"

typedef struct stream_fixture {
  crema_device *device;
  crema_context *context;
  crema_devptr memory;
} stream_fixture;

static inline stream_fixture stream_begin(bool stepped) {
  stream_fixture f = {0};
  cr_sim_options options = sim_test_options(1);
  options.stepped = stepped;
  sim_begin(&options);
  f.device = sim_test_device(0);
  f.context = sim_test_context(f.device);
  ok(cr_device_alloc(f.device, 16, &f.memory));
  return f;
}

static inline void stream_queue(const stream_fixture *f) {
  ok(f->device->backend->zero(f->context, f->memory, 16));
}

/* Queues work that fails when it runs. */
static inline void stream_queue_failure(const stream_fixture *f) {
  cr_sim_fail(CR_SIM_ZERO, 1, CREMA_E_DEVICE, true);
  stream_queue(f);
}

static inline void stream_end(stream_fixture *f) {
  cr_device_free(f->device, f->memory);
  crema_context_destroy(f->context);
  sim_end();
}

#endif
