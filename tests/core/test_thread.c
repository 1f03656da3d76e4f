/* Threads: rows S2-04 and S2-05. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/queue.h"
#include "core/thread.h"

static crema_status draw_first(void *arg) {
  uint32_t *seed_then_draw = arg;
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, *seed_then_draw);
  *seed_then_draw = cr_mt19937_next(&rng);
  return CREMA_OK;
}

static uint32_t child_draw(uint32_t parent_seed) {
  cr_mt19937 parent;
  cr_mt19937_seed(&parent, parent_seed);
  uint32_t value = cr_thread_child_seed(&parent);
  cr_thread *thread = NULL;
  assert_int_equal(cr_thread_start(&thread, "child", draw_first, &value), CREMA_OK);
  assert_int_equal(cr_thread_join(&thread), CREMA_OK);
  return value;
}

static void s2_04_child_seed_comes_from_the_parent(void **state) {
  (void)state;
  assert_int_equal(child_draw(9658361), 4244559767u);
  assert_int_equal(child_draw(3435563), 1726478280u);
}

static crema_status until_stopped(void *arg) {
  (void)arg;
  if (cr_thread_current() == NULL) return cr_fail(CREMA_E_INTERNAL, "no thread object");
  while (!cr_thread_must_stop()) cr_clock_sleep(0.0001);
  return CREMA_OK;
}

static void s2_04_start_twice_is_an_error(void **state) {
  (void)state;
  cr_thread *thread = NULL;
  assert_int_equal(cr_thread_start(&thread, "one", until_stopped, NULL), CREMA_OK);
  cr_thread *before = thread;
  assert_int_equal(cr_thread_start(&thread, "two", until_stopped, NULL), CREMA_E_STATE);
  assert_non_null(strstr(crema_error_text(), "one"));
  assert_ptr_equal(thread, before);
  assert_int_equal(cr_thread_stop(&thread), CREMA_OK);
  assert_null(thread);
  assert_int_equal(cr_thread_stop(&thread), CREMA_OK);
  assert_int_equal(cr_thread_join(&thread), CREMA_OK);
  assert_null(cr_thread_current());
  assert_false(cr_thread_must_stop());
}

static crema_status fails(void *arg) {
  (void)arg;
  return cr_fail(CREMA_E_CORRUPT, "record 12 of test.lmdb is broken");
}

static void s2_05_the_joiner_gets_the_error(void **state) {
  (void)state;
  cr_thread *thread = NULL;
  assert_int_equal(cr_thread_start(&thread, "fails", fails, NULL), CREMA_OK);
  cr_fail(CREMA_E_IO, "something else");
  assert_int_equal(cr_thread_stop(&thread), CREMA_E_CORRUPT);
  assert_string_equal(crema_error_text(), "record 12 of test.lmdb is broken");
}

/* Takes from one queue and puts into the next, so that a stop can meet it at either. */
typedef struct relay {
  cr_queue *in;
  cr_queue *out;
} relay;

static crema_status relay_items(void *arg) {
  relay *r = arg;
  for (;;) {
    void *item = NULL;
    CR_TRY(cr_queue_pop(r->in, NULL, &item));
    CR_TRY(cr_queue_push(r->out, item));
  }
}

static void s2_05_stop_at_every_wait_point(void **state) {
  (void)state;
  enum { CYCLES = 10000 };
  relay r = {0};
  assert_int_equal(cr_queue_create(4, &r.in), CREMA_OK);
  assert_int_equal(cr_queue_create(2, &r.out), CREMA_OK);
  for (int cycle = 0; cycle < CYCLES; cycle++) {
    cr_thread *thread = NULL;
    assert_int_equal(cr_thread_start(&thread, "relay", relay_items, &r), CREMA_OK);
    /* 0: starved; 1: busy; 3 and 4: blocked on a full queue. */
    for (int i = 0; i < cycle % 5; i++) (void)cr_queue_try_push(r.in, &r);
    if (cycle % 50 == 0) cr_clock_sleep(0.0002);
    assert_int_equal(cr_thread_stop(&thread), CREMA_OK);
    void *item;
    while (cr_queue_try_pop(r.in, &item) || cr_queue_try_pop(r.out, &item)) {
    }
  }
  cr_queue_destroy(r.out);
  cr_queue_destroy(r.in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(s2_04_child_seed_comes_from_the_parent),
      cmocka_unit_test(s2_04_start_twice_is_an_error),
      cmocka_unit_test(s2_05_the_joiner_gets_the_error),
      cmocka_unit_test(s2_05_stop_at_every_wait_point),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
