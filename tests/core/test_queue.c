/* Queues and queue pairs: rows S2-01 to S2-07. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/large_requests.h"
#include "core/queue.h"
#include "core/thread.h"
#include "crema/log.h"
#include "lock_check.h"
#include "log_lines.h"

static void *item(uintptr_t value) {
  return (void *)value;
}

TEST(fifo_and_sizes) {
  cr_queue *queue = NULL;
  ok(cr_queue_create(0, &queue));
  void *out = NULL;
  assert_false(cr_queue_try_pop(queue, &out));
  assert_false(cr_queue_try_peek(queue, &out));
  /* Pops between the pushes make the ring wrap before it grows. */
  uintptr_t next = 1, expected = 1;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 7; ++i) ok(cr_queue_push(queue, item(next++)));
    for (int i = 0; i < 5; ++i) {
      ok(cr_queue_peek(queue, &out));
      assert_ptr_equal(out, item(expected));
      ok(cr_queue_pop(queue, NULL, &out));
      assert_ptr_equal(out, item(expected++));
    }
  }
  assert_int_equal(cr_queue_size(queue), 200);
  while (cr_queue_try_pop(queue, &out)) assert_ptr_equal(out, item(expected++));
  assert_int_equal(expected, next);
  cr_queue_destroy(queue);
}

TEST(bounded_queue_refuses_what_does_not_fit) {
  cr_queue *queue = NULL;
  ok(cr_queue_create(2, &queue));
  assert_true(cr_queue_try_push(queue, item(1)));
  assert_true(cr_queue_try_push(queue, item(2)));
  assert_false(cr_queue_try_push(queue, item(3)));
  assert_int_equal(cr_queue_size(queue), 2);
  cr_queue_destroy(queue);
}

typedef struct sleeper {
  cr_queue *queue;
  int count;
} sleeper;

/* Pops so many items, which must be 1, 2, 3... */
static crema_status pop_in_order(void *arg) {
  sleeper *s = arg;
  for (int i = 1; i <= s->count; ++i) {
    void *out = NULL;
    CR_TRY(cr_queue_pop(s->queue, NULL, &out));
    if (out != item((uintptr_t)i)) return cr_fail(CREMA_E_INTERNAL, "item %d is another one", i);
  }
  return CREMA_OK;
}

/* More than the queue holds: the pusher waits in between; the popper sleeps at the beginning. */
TEST(many_are_pushed_at_once) {
  enum { COUNT = 100 };
  void *all[COUNT];
  for (int i = 0; i < COUNT; ++i) all[i] = item((uintptr_t)i + 1);
  for (size_t bound = 0; bound < COUNT + 50; bound += 7) {
    sleeper s = {.count = COUNT};
    cr_thread *thread = NULL;
    ok(cr_queue_create(bound, &s.queue));
    ok(cr_thread_start(&thread, "popper", pop_in_order, &s));
    if (bound % 2 == 0) cr_clock_sleep(0.002);
    ok(cr_queue_push_all(s.queue, all, 0));
    ok(cr_queue_push_all(s.queue, all, COUNT));
    ok(cr_thread_join(&thread));
    assert_int_equal(cr_queue_size(s.queue), 0);
    cr_queue_fail(s.queue, CREMA_E_CLOSED, "the queue is closed");
    assert_int_equal(cr_queue_push_all(s.queue, all, 2), CREMA_E_CLOSED);
    cr_queue_destroy(s.queue);
  }
}

TEST(close_drains_then_reports) {
  cr_queue *queue = NULL;
  void *out = NULL;
  ok(cr_queue_create(4, &queue));
  ok(cr_queue_push(queue, item(1)));
  cr_queue_fail(queue, CREMA_E_CLOSED, "the queue is closed");
  cr_queue_fail(queue, CREMA_E_IO, "too late");
  assert_int_equal(cr_queue_push(queue, item(2)), CREMA_E_CLOSED);
  assert_false(cr_queue_try_push(queue, item(2)));
  assert_int_equal(cr_queue_size(queue), 1);
  ok(cr_queue_pop(queue, NULL, &out));
  assert_ptr_equal(out, item(1));
  assert_int_equal(cr_queue_pop(queue, NULL, &out), CREMA_E_CLOSED);
  assert_int_equal(cr_queue_peek(queue, &out), CREMA_E_CLOSED);
  cr_queue_destroy(queue);
  ok(cr_queue_create(4, &queue));
  ok(cr_queue_push(queue, item(3)));
  cr_queue_fail(queue, CREMA_E_CORRUPT, "record 7 is broken");
  ok(cr_queue_pop(queue, NULL, &out));
  assert_int_equal(cr_queue_pop(queue, NULL, &out), CREMA_E_CORRUPT);
  assert_string_equal(crema_error_text(), "record 7 is broken");
  cr_queue_destroy(queue);
}

/* ---- S2-01 ---- */

enum { PRODUCERS = 4, CONSUMERS = 3, PER_PRODUCER = 20000 };

typedef struct stress {
  cr_queue *queue;
  atomic_int next_producer;
  atomic_int next_consumer;
  /* By consumer: the last number seen of each producer. */
  uintptr_t last[CONSUMERS][PRODUCERS];
  atomic_long popped;
} stress;

static crema_status produce(void *arg) {
  stress *s = arg;
  uintptr_t me = (uintptr_t)atomic_fetch_add(&s->next_producer, 1);
  for (uintptr_t i = 1; i <= PER_PRODUCER; ++i) {
    CR_TRY(cr_queue_push(s->queue, item(me * 1000000 + i)));
  }
  return CREMA_OK;
}

static crema_status consume(void *arg) {
  stress *s = arg;
  int me = atomic_fetch_add(&s->next_consumer, 1);
  for (;;) {
    void *out = NULL;
    crema_status status = cr_queue_pop(s->queue, "stress", &out);
    if (status == CREMA_E_CLOSED) return CREMA_OK;
    CR_TRY(status);
    uintptr_t producer = (uintptr_t)out / 1000000, number = (uintptr_t)out % 1000000;
    if (number <= s->last[me][producer]) return cr_fail(CREMA_E_INTERNAL, "out of order");
    s->last[me][producer] = number;
    atomic_fetch_add(&s->popped, 1);
  }
}

static void run_stress(size_t capacity) {
  stress s = {0};
  cr_thread *producer[PRODUCERS] = {0}, *consumer[CONSUMERS] = {0};
  ok(cr_queue_create(capacity, &s.queue));
  for (int i = 0; i < CONSUMERS; ++i) {
    ok(cr_thread_start(&consumer[i], "consumer", consume, &s));
  }
  for (int i = 0; i < PRODUCERS; ++i) {
    ok(cr_thread_start(&producer[i], "producer", produce, &s));
  }
  for (int i = 0; i < PRODUCERS; ++i) ok(cr_thread_join(&producer[i]));
  cr_queue_fail(s.queue, CREMA_E_CLOSED, "the queue is closed");
  for (int i = 0; i < CONSUMERS; ++i) ok(cr_thread_join(&consumer[i]));
  assert_int_equal(atomic_load(&s.popped), PRODUCERS * PER_PRODUCER);
  cr_queue_destroy(s.queue);
}

TEST(s2_01_many_producers_and_consumers) {
  run_stress(0);
  run_stress(1);
  run_stress(5);
}

/* ---- S2-02, S2-03 ---- */

static crema_status pop_one(void *arg) {
  void *out = NULL;
  return cr_queue_pop(arg, "an item that never comes", &out);
}

static crema_status peek_one(void *arg) {
  void *out = NULL;
  return cr_queue_peek(arg, &out);
}

static crema_status push_one(void *arg) {
  return cr_queue_push(arg, item(9));
}

typedef struct waiter {
  cr_queue *queue;
  atomic_bool done;
} waiter;

static crema_status push_and_say(void *arg) {
  waiter *w = arg;
  crema_status status = cr_queue_push(w->queue, item(9));
  atomic_store(&w->done, true);
  return status;
}

static crema_status pop_and_say(void *arg) {
  waiter *w = arg;
  void *out = NULL;
  crema_status status = cr_queue_pop(w->queue, NULL, &out);
  atomic_store(&w->done, true);
  return status;
}

/* Gives them time to end by themselves; those who sleep on are stopped. */
static crema_status end_of(cr_thread **thread, waiter *w) {
  for (int i = 0; i < 5000 && !atomic_load(&w->done); ++i) cr_clock_sleep(0.001);
  bool slept_on = !atomic_load(&w->done);
  if (slept_on) cr_thread_request_stop(*thread);
  crema_status status = cr_thread_join(thread);
  return slept_on ? CREMA_E_INTERNAL : status;
}

TEST(closing_wakes_those_who_push) {
  enum { PUSHERS = 3 };
  waiter w[PUSHERS] = {0};
  cr_thread *thread[PUSHERS] = {0};
  cr_queue *queue = NULL;
  ok(cr_queue_create(1, &queue));
  assert_true(cr_queue_try_push(queue, item(1)));
  for (int i = 0; i < PUSHERS; ++i) {
    w[i].queue = queue;
    ok(cr_thread_start(&thread[i], "pusher", push_and_say, &w[i]));
  }
  cr_clock_sleep(0.02); /* now they sleep */
  cr_queue_fail(queue, CREMA_E_CLOSED, "the queue is closed");
  for (int i = 0; i < PUSHERS; ++i) assert_int_equal(end_of(&thread[i], &w[i]), CREMA_E_CLOSED);
  assert_int_equal(cr_queue_size(queue), 1);
  cr_queue_destroy(queue);
}

static crema_status push_when_stopped(void *arg) {
  while (!cr_thread_must_stop()) cr_clock_sleep(0.0001);
  return cr_queue_push(arg, item(1));
}

TEST(s2_02_a_stopped_thread_does_not_push) {
  cr_queue *queue = NULL;
  cr_thread *thread = NULL;
  ok(cr_queue_create(0, &queue));
  ok(cr_thread_start(&thread, "stopped", push_when_stopped, queue));
  cr_thread_request_stop(thread);
  assert_int_equal(cr_thread_join(&thread), CREMA_E_INTERRUPTED);
  assert_int_equal(cr_queue_size(queue), 0);
  cr_queue_destroy(queue);
}

TEST(s2_02_a_waiting_thread_can_be_stopped) {
  cr_thread_fn waits[] = {pop_one, peek_one, push_one};
  for (int i = 0; i < 3; ++i) {
    cr_queue *queue = NULL;
    ok(cr_queue_create(1, &queue));
    if (waits[i] == push_one) assert_true(cr_queue_try_push(queue, item(1)));
    cr_thread *thread = NULL;
    ok(cr_thread_start(&thread, "waits", waits[i], queue));
    cr_clock_sleep(0.01);
    cr_thread_request_stop(thread);
    assert_int_equal(cr_thread_join(&thread), CREMA_E_INTERRUPTED);
    cr_queue_destroy(queue);
  }
}

/* Hands over one item for each one asked for, late enough for the popper to wait. */
typedef struct late_giver {
  cr_queue *asked, *given;
} late_giver;

static crema_status give_late(void *arg) {
  late_giver *g = arg;
  for (;;) {
    void *out = NULL;
    CR_TRY(cr_queue_pop(g->asked, NULL, &out));
    cr_clock_sleep(0.00002);
    CR_TRY(cr_queue_push(g->given, out));
  }
}

TEST(s2_02_every_1000th_wait_is_logged) {
  late_giver g = {0};
  cr_thread *thread = NULL;
  static log_lines lines;
  ok(cr_queue_create(0, &g.asked));
  ok(cr_queue_create(0, &g.given));
  ok(cr_thread_start(&thread, "late", give_late, &g));
  listen_to(&lines, CREMA_LOG_DEBUG);
  uint64_t waits = 0;
  while (waits < 2100) {
    void *out = NULL;
    ok(cr_queue_push(g.asked, item(1)));
    ok(cr_queue_pop(g.given, "a batch that is late", &out));
    /* A pop that found its item at once counts as no wait. */
    waits = cr_queue_pop_stalls(g.given).count;
    assert_int_equal(count_lines(&lines, "a batch that is late\n"), waits / 1000);
  }
  stop_listening();
  assert_int_equal(lines.level, CREMA_LOG_DEBUG);
  ok(cr_thread_stop(&thread));
  cr_queue_destroy(g.given);
  cr_queue_destroy(g.asked);
}

TEST(s2_03_peeks_leave_the_item) {
  cr_queue *queue = NULL;
  void *out = NULL;
  ok(cr_queue_create(2, &queue));
  for (uintptr_t i = 1; i <= 2; ++i) assert_true(cr_queue_try_push(queue, item(i)));
  for (uintptr_t i = 1; i <= 2; ++i) {
    for (int times = 0; times < 3; ++times) {
      out = NULL;
      assert_true(cr_queue_try_peek(queue, &out));
      assert_ptr_equal(out, item(i));
    }
    assert_int_equal(cr_queue_size(queue), 3 - i);
    assert_true(cr_queue_try_pop(queue, &out));
    assert_ptr_equal(out, item(i));
  }
  assert_false(cr_queue_try_peek(queue, &out));
  assert_ptr_equal(out, item(2));
  cr_queue_destroy(queue);
}

TEST(s2_03_one_push_ends_a_peek_and_a_pop) {
  for (int round = 0; round < 200; ++round) {
    cr_queue *queue = NULL;
    cr_thread *peek = NULL, *pop = NULL;
    ok(cr_queue_create(0, &queue));
    ok(cr_thread_start(&peek, "peek", peek_one, queue));
    ok(cr_thread_start(&pop, "pop", pop_one, queue));
    if (round % 2 == 0) cr_clock_sleep(0.0005);
    ok(cr_queue_push(queue, item(1)));
    ok(cr_thread_join(&pop));
    /* The pop may have been first, so that the peek needs an item of its own. */
    ok(cr_queue_push(queue, item(2)));
    ok(cr_thread_join(&peek));
    cr_queue_destroy(queue);
  }
}

/* ---- S2-06, S2-07 ---- */

typedef struct pipeline {
  cr_queue_pair pair;
  int items;
} pipeline;

static crema_status fill(void *arg) {
  pipeline *p = arg;
  for (int i = 0; i < p->items; ++i) {
    void *element = NULL;
    CR_TRY(cr_queue_pop(p->pair.free, NULL, &element));
    *(int *)element = i;
    CR_TRY(cr_queue_push(p->pair.full, element));
  }
  return CREMA_OK;
}

static void run_pipeline(size_t elements, int items) {
  int value[4];
  void *element[4] = {&value[0], &value[1], &value[2], &value[3]};
  pipeline p = {.items = items};
  cr_thread *thread = NULL;
  ok(cr_queue_pair_init(&p.pair, element, elements));
  ok(cr_thread_start(&thread, "fill", fill, &p));
  for (int i = 0; i < items; ++i) {
    void *got = NULL;
    ok(cr_queue_pop(p.pair.full, NULL, &got));
    assert_int_equal(*(int *)got, i);
    ok(cr_queue_push(p.pair.free, got));
  }
  ok(cr_thread_join(&thread));
  assert_int_equal(cr_queue_size(p.pair.free), elements);
  assert_int_equal(cr_queue_size(p.pair.full), 0);
  cr_queue_pair_free(&p.pair, NULL);
}

TEST(s2_07_a_pipeline_works_with_one_element) {
  run_pipeline(1, 100000);
  run_pipeline(4, 100000);
}

static int live;

static void count_free(void *element) {
  free(element);
  --live;
}

TEST(s2_06_torn_down_at_any_point_frees_each_element_once) {
  for (int full = 0; full <= 3; ++full) {
    void *element[3];
    for (int i = 0; i < 3; ++i) element[i] = malloc(8);
    live = 3;
    cr_queue_pair pair;
    ok(cr_queue_pair_init(&pair, element, 3));
    for (int i = 0; i < full; ++i) {
      void *out = NULL;
      ok(cr_queue_pop(pair.free, NULL, &out));
      ok(cr_queue_push(pair.full, out));
      assert_int_equal(cr_queue_size(pair.free) + cr_queue_size(pair.full), 3);
    }
    cr_queue_pair_free(&pair, count_free);
    assert_int_equal(live, 0);
  }
  cr_queue_pair none = {0};
  cr_queue_pair_free(&none, count_free);
  assert_int_equal(cr_queue_pair_init(&none, NULL, 0), CREMA_E_ARGUMENT);
}

TEST(a_failed_pair_tells_both_sides) {
  int value;
  void *element[1] = {&value}, *out = NULL;
  cr_queue_pair pair;
  ok(cr_queue_pair_init(&pair, element, 1));
  cr_queue_fail(pair.full, CREMA_E_NUMERIC, "loss is nan");
  cr_queue_fail(pair.free, CREMA_E_NUMERIC, "loss is nan");
  assert_int_equal(cr_queue_pop(pair.full, NULL, &out), CREMA_E_NUMERIC);
  assert_string_equal(crema_error_text(), "loss is nan");
  assert_int_equal(cr_queue_push(pair.full, &value), CREMA_E_NUMERIC);
  /* The producer, who takes what is left first and then would wait. */
  ok(cr_queue_pop(pair.free, NULL, &out));
  cr_fail(CREMA_E_IO, "something else");
  assert_int_equal(cr_queue_push(pair.free, out), CREMA_E_NUMERIC);
  assert_true(cr_queue_try_pop(pair.free, &out) == false);
  waiter w = {.queue = pair.free};
  cr_thread *thread = NULL;
  ok(cr_thread_start(&thread, "producer", pop_and_say, &w));
  assert_int_equal(end_of(&thread, &w), CREMA_E_NUMERIC);
  assert_string_equal(crema_error_text(), "loss is nan");
  cr_queue_pair_free(&pair, NULL);
}

/* Both parties sleep when the failure comes. */
TEST(a_failure_wakes_both_sides) {
  int value;
  void *element[1] = {&value}, *out = NULL;
  cr_queue_pair pair;
  waiter w[2] = {0};
  cr_thread *thread[2] = {0};
  ok(cr_queue_pair_init(&pair, element, 1));
  ok(cr_queue_pop(pair.free, NULL, &out));
  w[0].queue = pair.free;
  w[1].queue = pair.full;
  for (int i = 0; i < 2; ++i) {
    ok(cr_thread_start(&thread[i], "party", pop_and_say, &w[i]));
  }
  cr_clock_sleep(0.02);
  cr_fail(CREMA_E_CORRUPT, "record 7 is broken");
  cr_queue_fail(pair.full, CREMA_E_CORRUPT, NULL);
  cr_queue_fail(pair.free, CREMA_E_CORRUPT, NULL);
  for (int i = 0; i < 2; ++i) {
    cr_fail(CREMA_E_IO, "something else");
    assert_int_equal(end_of(&thread[i], &w[i]), CREMA_E_CORRUPT);
    assert_string_equal(crema_error_text(), "record 7 is broken");
  }
  cr_queue_pair_free(&pair, NULL);
}

static crema_status feed_slowly(void *arg) {
  cr_clock_sleep(0.02);
  return cr_queue_push(arg, item(1));
}

TEST(waiting_is_counted) {
  cr_queue *queue = NULL;
  cr_thread *thread = NULL;
  void *out = NULL;
  ok(cr_queue_create(0, &queue));
  ok(cr_thread_start(&thread, "slow", feed_slowly, queue));
  ok(cr_queue_pop(queue, NULL, &out));
  cr_queue_stalls stalls = cr_queue_pop_stalls(queue);
  assert_int_equal(stalls.count, 1);
  assert_true(stalls.seconds > 0.001 && stalls.seconds < 10);
  ok(cr_thread_join(&thread));
  cr_queue_destroy(queue);
}

/* Neither a queue nor its error is left half made. */
TEST(too_large_queues_are_refused) {
  cr_queue *queue = NULL;
  assert_int_equal(cr_queue_create(SIZE_MAX / 16, &queue), CREMA_E_NO_MEMORY);
  assert_string_equal(crema_error_text(), "cannot allocate 9223372036854775800 bytes for a queue");
  assert_null(queue);
  cr_queue_destroy(NULL);
}

/* The first reason stays, with its text or, without one, with what its code means. */
TEST(queues_tell_why_they_are_closed) {
  cr_queue *queue = NULL;
  void *out = NULL;
  ok(cr_queue_create(1, &queue));
  cr_queue_fail(queue, CREMA_E_CLOSED, "the queue is closed");
  cr_fail(CREMA_E_IO, "something else");
  assert_int_equal(cr_queue_pop(queue, NULL, &out), CREMA_E_CLOSED);
  assert_string_equal(crema_error_text(), "the queue is closed");
  cr_queue_fail(queue, CREMA_E_IO, "too late");
  assert_int_equal(cr_queue_push(queue, item(1)), CREMA_E_CLOSED);
  assert_string_equal(crema_error_text(), "the queue is closed");
  cr_queue_destroy(queue);
  ok(cr_queue_create(1, &queue));
  cr_fail(CREMA_E_CORRUPT, "record 3");
  cr_queue_fail(queue, CREMA_E_CORRUPT, NULL);
  cr_fail(CREMA_E_IO, "something else");
  assert_int_equal(cr_queue_push(queue, item(1)), CREMA_E_CORRUPT);
  assert_string_equal(crema_error_text(), "record 3");
  cr_queue_destroy(queue);
}

int main(void) {
  return run_all_tests(locks_begin, locks_end);
}
