/* Batches that are copied to a device ahead: their memory and the work that is queued on it.
 * Streams of the simulation run step by step here, so the work on a batch is still to be done when
 * its memory is given back; the checker of the simulation sees who writes to it too early. */
#include "memory/sim_fixture.h"

#include <stdlib.h>

#include "core/fail.h"
#include "data/pipeline/pipeline.h"
#include "device/memory/device_memory.h"
#include "fixture.h"
#include "memory/blob.h"

enum { DEPTH = 1, VALUES = 1000 };

/* Batch k has (k + 1) * VALUES values; loading batch number `broken` fails. */
typedef struct growing {
  int loaded, broken;
} growing;

static crema_status load_growing(void *user, cr_load *load) {
  growing *g = user;
  if (g->loaded == g->broken) return cr_fail(CREMA_E_IO, "no batch %d", g->loaded);
  const crema_shape shape = cr_shape_2(1, (int64_t)++g->loaded * VALUES);
  return cr_batch_reserve(load->batch, 0, &shape, NULL);
}

static const cr_source growing_source = {.load = load_growing};

typedef struct device_fixture {
  crema_device *device;
  crema_context *user, *other;
  cr_pipeline *pipeline;
  growing source;
  float *read, *written; /* what the user reads batches into; what somebody else writes */
} device_fixture;

static void make(device_fixture *p, int broken) {
  cr_sim_options options = sim_test_options(1);
  options.stepped = true;
  sim_begin(&options);
  *p = (device_fixture){.device = sim_test_device(0), .source = {.broken = broken}};
  p->user = sim_test_context(p->device);
  p->other = sim_test_context(p->device);
  p->written = calloc(10 * VALUES, sizeof(float));
  p->read = calloc(10 * VALUES, sizeof(float));
  assert_true(p->written != NULL && p->read != NULL);
  const crema_shape shape = cr_shape_2(1, VALUES);
  const cr_pipeline_options growth = {.name = "growing",
                                      .source = &growing_source,
                                      .user = &p->source,
                                      .tops = 1,
                                      .items = 1,
                                      .depth = DEPTH,
                                      .threads = 1,
                                      .device = p->device,
                                      .shape = &shape};
  ok(cr_pipeline_create(&growth, &p->pipeline));
}

/* Takes a batch and queues work that reads its memory. */
static cr_batch *take_and_read(device_fixture *p) {
  cr_batch *batch = NULL;
  const cr_backend *backend = p->device->backend;
  if (cr_pipeline_take(p->pipeline, 0, p->user, &batch) != CREMA_OK) {
    fail_msg("%s", crema_error_text());
  }
  ok(backend->copy(p->user, CR_COPY_DEVICE_TO_HOST, (uintptr_t)p->read,
                   batch->top[0].memory.address, VALUES * sizeof(float)));
  assert_true(cr_sim_pending(p->user) > 0);
  return batch;
}

/* Somebody else takes memory of that size and writes to it, on a stream that nobody waits for. */
static void write_elsewhere(device_fixture *p, crema_devptr *memory) {
  const cr_backend *backend = p->device->backend;
  ok(cr_device_alloc_for(p->other, VALUES * sizeof(float), memory));
  ok(backend->copy(p->other, CR_COPY_HOST_TO_DEVICE, memory->address, (uintptr_t)p->written,
                   VALUES * sizeof(float)));
  ok(crema_context_finish(p->other));
}

static void end(device_fixture *p, crema_devptr memory) {
  ok(crema_context_finish(p->user));
  cr_device_free_after(p->device, memory, p->other->id);
  cr_pipeline_destroy(p->pipeline);
  crema_context_destroy(p->other);
  crema_context_destroy(p->user);
  free(p->read);
  free(p->written);
  sim_end();
}

/* A batch that grows gets other memory; what it had may still be read by work that is queued. The
 * copy into the larger memory fails here: so nobody waits for that work in between. */
TEST(s2_20_grown_batches_leave_their_memory_in_order) {
  device_fixture p;
  crema_devptr memory = {0};
  make(&p, 2);
  cr_sim_fail(CR_SIM_H2D, 2, CREMA_E_DEVICE, false);
  ok(cr_pipeline_start(p.pipeline, 0));
  cr_batch *batch = take_and_read(&p);
  uintptr_t before = batch->top[0].memory.address;
  ok(cr_pipeline_give_back(p.pipeline, 0, p.user, batch));
  assert_int_equal(cr_pipeline_take(p.pipeline, 0, p.user, &batch), CREMA_E_DEVICE);
  write_elsewhere(&p, &memory);
  assert_true(cr_sim_pending(p.user) > 0);
  assert_true(memory.address != before);
  cr_sim_clear_faults();
  end(&p, memory);
}

/* The same when the pipeline ends while the consumer has a batch. */
TEST(s2_20_memory_of_held_batches_is_freed_in_order) {
  device_fixture p;
  crema_devptr memory = {0};
  make(&p, 1);
  ok(cr_pipeline_start(p.pipeline, 0));
  const cr_batch *batch = take_and_read(&p);
  uintptr_t before = batch->top[0].memory.address;
  cr_pipeline_destroy(p.pipeline);
  p.pipeline = NULL;
  write_elsewhere(&p, &memory);
  assert_true(cr_sim_pending(p.user) > 0);
  assert_true(memory.address != before);
  end(&p, memory);
}

TEST(starting_twice_is_an_error) {
  device_fixture p;
  make(&p, 3);
  ok(cr_pipeline_start(p.pipeline, 0));
  assert_fails(cr_pipeline_start(p.pipeline, 0), CREMA_E_STATE, "already");
  for (int run = 0; run < 2; ++run) {
    cr_batch *batch = take_and_read(&p);
    ok(cr_pipeline_give_back(p.pipeline, 0, p.user, batch));
    cr_pipeline_stop(p.pipeline);
    p.source.loaded = 0;
    ok(cr_pipeline_start(p.pipeline, 0));
  }
  end(&p, (crema_devptr){0});
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
