/* Scratch memory while work that uses it is queued, and the list of contexts that order it: row
 * S4-22, and S1-42. Streams run step by step, so that each order is tried as it is written here. */
#include "device/memory/device_memory.h"
#include "device/memory/scratchpad.h"
#include "memory/sim_fixture.h"

#include "core/thread.h"
#include "device/memory/pool.h"

enum { SMALL = 1000, LARGE = 50000 };

typedef struct fixture {
  crema_device *device;
  crema_context *context, *other;
} fixture;

static fixture begin(void) {
  cr_sim_options options = sim_test_options(1);
  options.stepped = true;
  sim_begin(&options);
  crema_device *device = sim_test_device(0);
  return (fixture){device, sim_test_context(device), sim_test_context(device)};
}

static void end(fixture *f) {
  crema_context_destroy(f->other);
  crema_context_destroy(f->context);
  sim_end();
}

/* Takes scratchpad and queues work that writes it. */
static crema_status use_scratchpad(crema_context *context, size_t bytes, crema_devptr *out) {
  crema_status status = cr_context_workspace(context, bytes, out);
  return status == CREMA_OK ? context->device->backend->zero(context, *out, bytes) : status;
}

/* New memory of the same size for another user, who writes it at once. */
static uintptr_t take_and_fill(fixture *f, size_t bytes) {
  crema_devptr memory = {0};
  ok(cr_device_alloc_for(f->other, bytes, &memory));
  ok(f->device->backend->zero(f->other, memory, bytes));
  cr_device_free_after(f->device, memory, f->other->id);
  return memory.address;
}

/* When scratch memory grows, others get its old block only when the work queued on it is done. */
TEST(s4_22_growing_waits_for_queued_work) {
  fixture f = begin();
  crema_devptr before = {0}, after = {0};
  ok(use_scratchpad(f.context, SMALL, &before));
  ok(use_scratchpad(f.context, LARGE, &after));
  assert_int_not_equal(before.address, after.address);
  assert_int_not_equal(take_and_fill(&f, SMALL), before.address);
  assert_int_equal(cr_sim_races(NULL, 0), 0);
  /* When it is done, it is there for others. */
  ok(crema_context_finish(f.context));
  ok(crema_context_finish(f.other));
  crema_devptr memory[2] = {{0}};
  bool found = false;
  for (int i = 0; i < 2; ++i) {
    ok(cr_device_alloc_for(f.other, SMALL, &memory[i]));
    found = found || memory[i].address == before.address;
  }
  assert_true(found);
  for (int i = 0; i < 2; ++i) cr_device_free(f.device, memory[i]);
  end(&f);
}

/* Grown by a second context of the thread while the first one's work is queued. */
TEST(s4_22_growing_by_another_context) {
  fixture f = begin();
  crema_context *third = sim_test_context(f.device);
  crema_devptr before = {0}, after = {0};
  ok(use_scratchpad(f.context, SMALL, &before));
  ok(use_scratchpad(third, LARGE, &after));
  assert_int_not_equal(take_and_fill(&f, SMALL), before.address);
  /* Back on the first context: its work comes after what the third one has queued. */
  ok(use_scratchpad(f.context, LARGE, &after));
  while (cr_sim_step(f.context)) {
  }
  assert_true(cr_sim_pending(f.context) > 0);
  ok(crema_context_finish(f.context));
  assert_int_equal(cr_sim_pending(third), 0);
  crema_context_destroy(third);
  end(&f);
}

typedef struct turn {
  crema_context *context;
  crema_devptr memory;
  size_t bytes_together;
} turn;

static crema_status take_turn(void *arg) {
  turn *t = arg;
  crema_status status = use_scratchpad(t->context, LARGE, &t->memory);
  t->bytes_together = cr_device_scratchpad_bytes(t->context->device);
  return status;
}

static turn run_on_thread(crema_context *context) {
  turn t = {.context = context};
  cr_thread *thread = NULL;
  ok(cr_thread_start(&thread, "turn", take_turn, &t));
  ok(cr_thread_join(&thread));
  return t;
}

/* Two threads take turns with one context: it leaves the scratchpad of one for that of the other,
 * and others get the memory only when its work is done. */
TEST(s4_22_one_context_on_two_threads) {
  fixture f = begin();
  crema_devptr mine = {0}, again = {0};
  ok(use_scratchpad(f.context, SMALL, &mine));
  turn t = run_on_thread(f.context);
  assert_int_not_equal(t.memory.address, mine.address);
  /* Nobody of this thread holds its scratchpad any more. */
  assert_int_equal(t.bytes_together, LARGE);
  assert_int_not_equal(take_and_fill(&f, SMALL), mine.address);
  ok(crema_context_finish(f.context));
  ok(crema_context_finish(f.other));
  /* With a second context of this thread its scratchpad stays. */
  ok(use_scratchpad(f.other, SMALL, &mine));
  ok(use_scratchpad(f.context, SMALL, &again));
  assert_int_equal(again.address, mine.address);
  assert_int_equal(cr_device_scratchpad_bytes(f.device), SMALL);
  t = run_on_thread(f.context);
  assert_int_equal(t.bytes_together, SMALL + LARGE);
  ok(cr_context_workspace(f.other, 0, &again));
  assert_int_equal(again.address, mine.address);
  ok(crema_context_finish(f.context));
  ok(crema_context_finish(f.other));
  crema_context_destroy(f.context);
  assert_int_equal(cr_device_scratchpad_bytes(f.device), SMALL);
  crema_context_destroy(f.other);
  assert_int_equal(cr_device_scratchpad_bytes(f.device), 0);
  f.context = f.other = NULL;
  end(&f);
}

/* ---- the device's list of contexts ---- */

/* The list must hold exactly the contexts of `here`, linked in both directions. */
static void expect_list(const crema_device *device, crema_context *const *here, int count) {
  int found = 0;
  const crema_context *before = NULL;
  for (const crema_context *c = device->contexts; c != NULL; c = c->next) {
    bool known = false;
    for (int i = 0; i < count; ++i) known = known || here[i] == c;
    assert_true(known);
    assert_ptr_equal(c->before, before);
    before = c;
    ++found;
  }
  assert_int_equal(found, count);
}

TEST(s1_42_contexts_end_in_any_order) {
  sim_begin_devices(1);
  crema_device *device = sim_test_device(0);
  static const int order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (int o = 0; o < 6; ++o) {
    crema_context *context[3];
    for (int i = 0; i < 3; ++i) context[i] = sim_test_context(device);
    expect_list(device, context, 3);
    for (int i = 0; i < 3; ++i) {
      crema_context *left[2];
      int count = 0;
      crema_context_destroy(context[order[o][i]]);
      for (int k = i + 1; k < 3; ++k) left[count++] = context[order[o][k]];
      expect_list(device, left, count);
    }
  }
  sim_end();
}

/* Memory that an idle context frees is free at once: no event is recorded. */
TEST(s4_17_an_idle_context_leaves_no_mark) {
  fixture f = begin();
  crema_devptr memory = {0}, again = {0};
  ok(cr_device_alloc_for(f.context, SMALL, &memory));
  ok(f.device->backend->zero(f.context, memory, SMALL));
  ok(crema_context_finish(f.context));
  cr_device_free_after(f.device, memory, f.context->id);
  assert_int_equal(cr_sim_count(CR_SIM_EVENT_RECORD, -1), 0);
  ok(cr_device_alloc_for(f.other, SMALL, &again));
  assert_int_equal(again.address, memory.address);
  cr_device_free(f.device, again);
  end(&f);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
