/* One block of memory on the first of two simulated devices, for one test. */
#ifndef CR_TESTS_MEMORY_BLOCK_FIXTURE_H
#define CR_TESTS_MEMORY_BLOCK_FIXTURE_H

#include "memory/sim_fixture.h"
#include "memory/syncedmem.h"

enum { SIZE = 1000 };

typedef struct fixture {
  crema_device *device;
  crema_context *context;
  crema_syncedmem *memory;
} fixture;

static inline fixture begin_with(const cr_sim_options *options) {
  fixture f = {0};
  sim_begin(options);
  f.device = sim_test_device(0);
  f.context = sim_test_context(f.device);
  ok(crema_syncedmem_create(f.device, SIZE, &f.memory));
  cr_sim_reset_counts();
  return f;
}

static inline fixture begin(void) {
  cr_sim_options options = sim_test_options(2);
  return begin_with(&options);
}

static inline fixture begin_stepped(void) {
  cr_sim_options options = sim_stepped_options();
  return begin_with(&options);
}

static inline void end(fixture *f) {
  crema_syncedmem_destroy(f->memory);
  crema_context_destroy(f->context);
  sim_end();
}

static inline const unsigned char *cpu(crema_syncedmem *memory) {
  const void *data = NULL;
  ok(crema_syncedmem_cpu_data(memory, &data));
  return data;
}

static inline unsigned char *mutable_cpu(crema_syncedmem *memory) {
  void *data = NULL;
  ok(crema_syncedmem_mutable_cpu_data(memory, true, &data));
  return data;
}

static inline crema_devptr gpu(fixture *f) {
  crema_devptr data = {0};
  ok(crema_syncedmem_gpu_data(f->memory, f->context, &data));
  return data;
}

static inline crema_devptr mutable_gpu(fixture *f) {
  crema_devptr data = {0};
  ok(crema_syncedmem_mutable_gpu_data(f->memory, f->context, true, &data));
  return data;
}

static inline void finish(fixture *f) {
  ok(crema_context_finish(f->context));
}

/* Fills the device side by way of a second block. */
static inline void fill_gpu(fixture *f, crema_devptr data, unsigned char value) {
  unsigned char bytes[SIZE];
  memset(bytes, value, sizeof bytes);
  ok(f->context->device->backend->copy(f->context, CR_COPY_HOST_TO_DEVICE, data.address,
                                       (uintptr_t)bytes, SIZE));
  finish(f);
}

static inline void expect_bytes(const unsigned char *data, unsigned char value) {
  for (int i = 0; i < SIZE; ++i) assert_int_equal(data[i], value);
}

static inline void expect_gpu_bytes(crema_devptr data, unsigned char value) {
  unsigned char bytes[SIZE];
  assert_true(cr_sim_peek(data, bytes, SIZE));
  expect_bytes(bytes, value);
}

static inline uint64_t h2d(void) {
  return cr_sim_count(CR_SIM_H2D, -1);
}
static inline uint64_t d2h(void) {
  return cr_sim_count(CR_SIM_D2H, -1);
}

#endif
