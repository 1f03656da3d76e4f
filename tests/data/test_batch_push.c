/* Batches that are copied to a device ahead: their memory and the work that is queued on it.
 * Streams of the simulation run step by step here, so the work on a batch is still to be done when
 * its memory is given back; the checker of the simulation sees who writes to it too early. */
#include "device/memory/device_memory.h"
#include "memory/sim_fixture.h"

#include <stdlib.h>

#include "core/fail.h"
#include "data/pipeline/batch_push.h"
#include "fixture.h"

enum { DEPTH = 1, VALUES = 1000 };

/* Batch k has (k + 1) * VALUES values; taking batch number `broken` fails. */
typedef struct source {
  float *values;
  int taken, broken;
} source;

static crema_status source_take(void *user, void **batch) {
  source *s = user;
  if (s->taken == s->broken) return cr_fail(CREMA_E_IO, "no batch %d", s->taken);
  ++s->taken;
  *batch = s;
  return CREMA_OK;
}

static crema_status source_give_back(void *user, void *batch) {
  assert_ptr_equal(user, batch);
  return CREMA_OK;
}

static void source_tops(const void *batch, cr_push_top top[CR_PUSH_TOPS]) {
  const source *s = batch;
  top[0].values = s->values;
  top[0].bytes = (size_t)s->taken * VALUES * sizeof(float);
}

static void source_stats(void *user, cr_input_stats *out) {
  (void)user;
  *out = (cr_input_stats){0};
}

static const cr_push_source calls = {source_take, source_give_back, source_tops, source_stats};

typedef struct push_fixture {
  crema_device *device;
  crema_context *user, *other;
  cr_batch_push *push;
  source source;
  float *read; /* what the user reads batches into */
} push_fixture;

static void make(push_fixture *p, int broken) {
  cr_sim_options options = sim_test_options(1);
  options.stepped = true;
  sim_begin(&options);
  *p = (push_fixture){.device = sim_test_device(0), .source = {.broken = broken}};
  p->user = sim_test_context(p->device);
  p->other = sim_test_context(p->device);
  p->source.values = calloc(10 * VALUES, sizeof(float));
  p->read = calloc(10 * VALUES, sizeof(float));
  assert_true(p->source.values != NULL && p->read != NULL);
  const cr_push_options push = {.source = &calls,
                                .user = &p->source,
                                .device = p->device,
                                .depth = DEPTH,
                                .tops = 1,
                                .bytes = {VALUES * sizeof(float)}};
  assert_int_equal(cr_batch_push_create(&push, &p->push), CREMA_OK);
}

/* Takes a batch and queues work that reads its memory. */
static cr_pushed_batch *take_and_read(push_fixture *p) {
  cr_pushed_batch *pushed = NULL;
  const cr_backend *backend = p->device->backend;
  if (cr_batch_push_take(p->push, p->user, &pushed) != CREMA_OK) {
    fail_msg("%s", crema_error_text());
  }
  assert_int_equal(backend->copy(p->user, CR_COPY_DEVICE_TO_HOST, (uintptr_t)p->read,
                                 pushed->memory[0].address, VALUES * sizeof(float)),
                   CREMA_OK);
  assert_true(cr_sim_pending(p->user) > 0);
  return pushed;
}

/* Somebody else takes memory of that size and writes to it, on a stream that nobody waits for. */
static void write_elsewhere(push_fixture *p, crema_devptr *memory) {
  const cr_backend *backend = p->device->backend;
  assert_int_equal(cr_device_alloc_for(p->other, VALUES * sizeof(float), memory), CREMA_OK);
  assert_int_equal(backend->copy(p->other, CR_COPY_HOST_TO_DEVICE, memory->address,
                                 (uintptr_t)p->source.values, VALUES * sizeof(float)),
                   CREMA_OK);
  assert_int_equal(crema_context_finish(p->other), CREMA_OK);
}

static void end(push_fixture *p, crema_devptr memory) {
  assert_int_equal(crema_context_finish(p->user), CREMA_OK);
  cr_device_free_after(p->device, memory, p->other->id);
  cr_batch_push_destroy(p->push);
  crema_context_destroy(p->other);
  crema_context_destroy(p->user);
  free(p->read);
  free(p->source.values);
  sim_end();
}

/* A batch that grows gets other memory; what it had may still be read by work that is queued. The
 * copy into the larger memory fails here: so nobody waits for that work in between. */
static void s2_20_grown_batches_leave_their_memory_in_order(void **state) {
  push_fixture p;
  crema_devptr memory = {0};
  (void)state;
  make(&p, 2);
  cr_sim_fail(CR_SIM_H2D, 2, CREMA_E_DEVICE, false);
  assert_int_equal(cr_batch_push_start(p.push), CREMA_OK);
  cr_pushed_batch *pushed = take_and_read(&p);
  uintptr_t before = pushed->memory[0].address;
  assert_int_equal(cr_batch_push_give_back(p.push, pushed, p.user), CREMA_OK);
  assert_int_equal(cr_batch_push_take(p.push, p.user, &pushed), CREMA_E_DEVICE);
  write_elsewhere(&p, &memory);
  assert_true(cr_sim_pending(p.user) > 0);
  assert_true(memory.address != before);
  cr_sim_clear_faults();
  end(&p, memory);
}

/* The same when the pusher ends while the consumer has a batch. */
static void s2_20_memory_of_held_batches_is_freed_in_order(void **state) {
  push_fixture p;
  crema_devptr memory = {0};
  (void)state;
  make(&p, 1);
  assert_int_equal(cr_batch_push_start(p.push), CREMA_OK);
  const cr_pushed_batch *pushed = take_and_read(&p);
  uintptr_t before = pushed->memory[0].address;
  cr_batch_push_destroy(p.push);
  p.push = NULL;
  write_elsewhere(&p, &memory);
  assert_true(cr_sim_pending(p.user) > 0);
  assert_true(memory.address != before);
  end(&p, memory);
}

static void starting_twice_is_an_error(void **state) {
  push_fixture p;
  (void)state;
  make(&p, 3);
  assert_int_equal(cr_batch_push_start(p.push), CREMA_OK);
  assert_int_equal(cr_batch_push_start(p.push), CREMA_E_STATE);
  assert_non_null(strstr(crema_error_text(), "already"));
  for (int run = 0; run < 2; ++run) {
    cr_pushed_batch *pushed = take_and_read(&p);
    assert_int_equal(cr_batch_push_give_back(p.push, pushed, p.user), CREMA_OK);
    cr_batch_push_stop(p.push);
    p.source.taken = 0;
    assert_int_equal(cr_batch_push_start(p.push), CREMA_OK);
  }
  end(&p, (crema_devptr){0});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(s2_20_grown_batches_leave_their_memory_in_order),
      cmocka_unit_test(s2_20_memory_of_held_batches_is_freed_in_order),
      cmocka_unit_test(starting_twice_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
