/* The pipeline: batches go by their number whatever the threads do, faults come in their order,
 * items are passed over, several consumers, stopping at any moment. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/rng.h"
#include "core/thread.h"
#include "data/pipeline/pipeline_private.h"
#include "fixture.h"
#include "memory/blob.h"

enum { ITEMS = 5, WIDTH = 3 };

/* A source of numbers: item n of the stream has the values 10 n, 10 n + 1, 10 n + 2 and the label
 * n. With `skip`, numbers that are divisible by 7 or 11 fail and are passed over. */
typedef struct numbers {
  uint64_t next;     /* number that begins next; batches take them in their order */
  uint64_t fail_at;  /* this one fails, whatever happens */
  uint64_t begin_at; /* beginning of this one fails */
  bool skip, slow;
  atomic_int inside, most; /* loads at this moment; the most there were */
} numbers;

typedef struct number_item {
  uint64_t number;
  char *text; /* owned, as a real source's buffers are */
} number_item;

static atomic_int texts; /* not freed yet */

static bool is_bad(uint64_t number) {
  return number % 7 == 3 || number % 11 == 0;
}

static crema_status take_number(void *user, cr_batch *batch, int i) {
  numbers *n = user;
  number_item *item = cr_batch_item(batch, i);
  if (!n->skip) assert_int_equal(n->next, batch->number * ITEMS + (uint64_t)i);
  if (n->next == n->begin_at) return cr_fail(CREMA_E_IO, "no number %d", (int)n->next);
  if (item->text == NULL) {
    item->text = malloc(32);
    ++texts;
  }
  item->number = n->next++;
  snprintf(item->text, 32, "number %d", (int)item->number);
  return CREMA_OK;
}

/* Sleeps for a time that depends on nothing but chance. */
static void dawdle(uint64_t number) {
  uint32_t draw[4];
  cr_philox((uint64_t)(cr_clock_seconds() * 1e9), 0, number, draw);
  if (draw[0] % 3 == 0) cr_clock_sleep(1e-6 * (draw[1] % 300));
}

static crema_status load_number(void *user, cr_load *job) {
  numbers *n = user;
  const number_item *item = cr_batch_item(job->batch, job->item);
  int inside = atomic_fetch_add(&n->inside, 1) + 1;
  for (int most = n->most;
       inside > most && !atomic_compare_exchange_weak(&n->most, &most, inside);) {
  }
  if (n->slow) dawdle(item->number);
  crema_status status = CREMA_OK;
  if (item->number == n->fail_at) status = cr_fail(CREMA_E_IO, "%s is lost", item->text);
  if (n->skip && is_bad(item->number)) status = cr_fail(CREMA_E_CORRUPT, "%s is bad", item->text);
  if (status == CREMA_OK && job->item == 0) {
    const crema_shape shape = cr_shape_2(ITEMS, WIDTH);
    status = cr_batch_reserve(job->batch, 0, &shape, NULL);
  }
  for (int k = 0; k < WIDTH && status == CREMA_OK; ++k) {
    job->batch->top[0].values[job->item * WIDTH + k] = (float)(10 * item->number) + (float)k;
  }
  job->batch->top[1].values[job->item] = (float)item->number;
  job->decode_seconds = 0.5;
  atomic_fetch_sub(&n->inside, 1);
  return status;
}

static bool pass_over(void *user, cr_batch *batch, int item, crema_status status, uint64_t row) {
  const number_item *failed = cr_batch_item(batch, item);
  (void)user;
  assert_error_has(failed->text);
  return status == CREMA_E_CORRUPT && row < 6;
}

static crema_status finish(void *user, cr_batch *batch) {
  const number_item *last = cr_batch_item(batch, ITEMS - 1);
  (void)user;
  return cr_buffer_print(&batch->cursor, "%d", (int)last->number);
}

static void free_item(void *item) {
  char *text = ((number_item *)item)->text;
  texts -= text != NULL;
  free(text);
}

static int all_is_freed(void **state) {
  (void)state;
  return texts;
}

static const cr_source plain = {
    .take = take_number, .load = load_number, .finish = finish, .free_item = free_item};
static const cr_source skipping = {.take = take_number,
                                   .load = load_number,
                                   .pass_over = pass_over,
                                   .finish = finish,
                                   .free_item = free_item};

static cr_pipeline *make(numbers *n, int threads, int depth, int consumers) {
  const crema_shape shape[2] = {cr_shape_2(ITEMS, WIDTH), cr_shape_1(ITEMS)};
  cr_pipeline *pipeline = NULL;
  const cr_pipeline_options options = {.name = "numbers",
                                       .source = n->skip ? &skipping : &plain,
                                       .user = n,
                                       .tops = 2,
                                       .items = ITEMS,
                                       .depth = depth,
                                       .threads = threads,
                                       .consumers = consumers,
                                       .item_size = sizeof(number_item),
                                       .shape = shape};
  ok(cr_pipeline_create(&options, &pipeline));
  return pipeline;
}

static numbers fresh(void) {
  numbers n = {.fail_at = UINT64_MAX, .begin_at = UINT64_MAX};
  return n;
}

static void start(cr_pipeline *pipeline, numbers *n, uint64_t first) {
  n->next = first * ITEMS;
  ok(cr_pipeline_start(pipeline, first));
}

static void assert_batch(const cr_batch *batch, const uint64_t *number) {
  for (int i = 0; i < ITEMS; ++i) {
    assert_true(batch->top[1].values[i] == (float)number[i]);
    for (int k = 0; k < WIDTH; ++k) {
      assert_true(batch->top[0].values[i * WIDTH + k] == (float)(10 * number[i]) + (float)k);
    }
  }
  char cursor[16];
  snprintf(cursor, sizeof cursor, "%d", (int)number[ITEMS - 1]);
  assert_string_equal(batch->cursor.data, cursor);
}

/* ---- batches ------------------------------------------------------------- */

TEST(s2_28_batches_do_not_depend_on_the_threads) {
  static const int threads[] = {1, 2, 8};
  for (int skips = 0; skips < 2; ++skips) {
    for (size_t t = 0; t < sizeof threads / sizeof *threads; ++t) {
      numbers n = fresh();
      n.slow = true;
      n.skip = skips == 1;
      cr_pipeline *pipeline = make(&n, threads[t], 3, 1);
      start(pipeline, &n, 0);
      uint64_t wanted = 0;
      for (uint64_t k = 0; k < 60; ++k) {
        cr_batch *batch = NULL;
        uint64_t number[ITEMS];
        for (int i = 0; i < ITEMS; ++i, ++wanted) {
          while (n.skip && is_bad(wanted)) ++wanted;
          number[i] = wanted;
        }
        ok(cr_pipeline_take(pipeline, 0, NULL, &batch));
        assert_int_equal(batch->number, k);
        assert_batch(batch, number);
        ok(cr_pipeline_give_back(pipeline, 0, NULL, batch));
      }
      /* One thread never meets another one, several do. */
      if (threads[t] == 1) assert_int_equal(n.most, 1);
      else assert_true(n.most > 1 && n.most <= threads[t]);
      cr_pipeline_destroy(pipeline);
    }
  }
}

TEST(test_starts_anywhere_again_and_again) {
  numbers n = fresh();
  cr_batch *batch = NULL;
  cr_pipeline *pipeline = make(&n, 3, 2, 1);
  for (uint64_t first = 0; first < 40; first += 7) {
    start(pipeline, &n, first);
    assert_int_equal(cr_pipeline_start(pipeline, first), CREMA_E_STATE);
    for (uint64_t k = 0; k < 3; ++k) {
      uint64_t number[ITEMS];
      for (uint64_t i = 0; i < ITEMS; ++i) number[i] = (first + k) * ITEMS + i;
      ok(cr_pipeline_take(pipeline, 0, NULL, &batch));
      assert_int_equal(batch->number, first + k);
      assert_batch(batch, number);
      if (k < 2) ok(cr_pipeline_give_back(pipeline, 0, NULL, batch));
    }
    cr_pipeline_stop(pipeline);
  }
  cr_pipeline_destroy(pipeline);
}

TEST(test_statistics) {
  numbers n = fresh();
  cr_batch *batch = NULL;
  cr_input_stats stats = {0};
  cr_pipeline *pipeline = make(&n, 2, 2, 1);
  start(pipeline, &n, 0);
  for (int k = 0; k < 4; ++k) {
    ok(cr_pipeline_take(pipeline, 0, NULL, &batch));
    ok(cr_pipeline_give_back(pipeline, 0, NULL, batch));
  }
  cr_pipeline_stop(pipeline);
  cr_pipeline_get_stats(pipeline, 0, &stats);
  assert_true(stats.pipeline.samples >= 4 * ITEMS && stats.pipeline.batches == 4);
  assert_true(stats.pipeline.threads == 2 && stats.pipeline.depth == 2);
  assert_true(stats.pipeline.decode_seconds > 0.499 * (double)stats.pipeline.samples);
  assert_int_equal(stats.pipeline.fill.count, 3);
  cr_pipeline_destroy(pipeline);
}

/* A consumer that keeps its batches makes the input wait, which is told also after the end. */
TEST(test_waiting_for_the_consumer_is_counted) {
  numbers n = fresh();
  cr_batch *batch = NULL;
  cr_input_stats stats = {0};
  cr_pipeline *pipeline = make(&n, 1, 1, 1);
  for (int run = 0; run < 2; ++run) {
    const cr_queue_stalls before = stats.pipeline.idle;
    start(pipeline, &n, 0);
    const double begin = cr_clock_seconds();
    while (stats.pipeline.idle.count == before.count && cr_clock_seconds() < begin + 10) {
      ok(cr_pipeline_take(pipeline, 0, NULL, &batch));
      cr_clock_sleep(1e-3);
      ok(cr_pipeline_give_back(pipeline, 0, NULL, batch));
      cr_pipeline_get_stats(pipeline, 0, &stats);
    }
    const cr_queue_stalls running = stats.pipeline.idle;
    assert_true(running.count > before.count && running.seconds > before.seconds);
    cr_pipeline_stop(pipeline);
    cr_pipeline_get_stats(pipeline, 0, &stats);
    assert_true(stats.pipeline.idle.count >= running.count);
    assert_true(stats.pipeline.idle.seconds >= running.seconds);
  }
  cr_pipeline_destroy(pipeline);
}

/* ---- faults -------------------------------------------------------------- */

/* Item 14 of batch 2 fails, or beginning 12 does; with many threads later items fail or are done
 * before. */
TEST(test_a_failure_comes_in_order) {
  static const int threads[] = {1, 2, 8};
  for (int kind = 0; kind < 2; ++kind) {
    for (size_t t = 0; t < sizeof threads / sizeof *threads; ++t) {
      numbers n = fresh();
      cr_batch *batch = NULL;
      n.slow = true;
      if (kind == 0) n.fail_at = 13;
      else n.begin_at = 12;
      cr_pipeline *pipeline = make(&n, threads[t], 4, 1);
      start(pipeline, &n, 0);
      for (int k = 0; k < 2; ++k) {
        ok(cr_pipeline_take(pipeline, 0, NULL, &batch));
        assert_int_equal(batch->number, k);
      }
      for (int k = 0; k < 3; ++k) {
        assert_int_equal(cr_pipeline_take(pipeline, 0, NULL, &batch), CREMA_E_IO);
        assert_string_equal(crema_error_text(), kind == 0 ? "number 13 is lost" : "no number 12");
      }
      cr_pipeline_destroy(pipeline);
    }
  }
}

/* The same where items are passed over: all batches before it are whole, though later ones were
 * begun in vain and recalled. 30 of the numbers below 40 are good. */
TEST(a_failure_waits_for_recalled_items) {
  static const int threads[] = {1, 2, 8};
  for (size_t t = 0; t < 3; ++t) {
    numbers n = fresh();
    cr_batch *batch = NULL;
    uint64_t wanted = 0;
    n.slow = n.skip = true;
    n.begin_at = 40;
    cr_pipeline *pipeline = make(&n, threads[t], 4, 1);
    start(pipeline, &n, 0);
    for (uint64_t k = 0; k < 6; ++k) {
      uint64_t number[ITEMS];
      for (int i = 0; i < ITEMS; ++i, ++wanted) {
        while (is_bad(wanted)) ++wanted;
        number[i] = wanted;
      }
      ok(cr_pipeline_take(pipeline, 0, NULL, &batch));
      assert_int_equal(batch->number, k);
      assert_batch(batch, number);
      ok(cr_pipeline_give_back(pipeline, 0, NULL, batch));
    }
    for (int k = 0; k < 3; ++k) {
      assert_int_equal(cr_pipeline_take(pipeline, 0, NULL, &batch), CREMA_E_IO);
      assert_string_equal(crema_error_text(), "no number 40");
    }
    cr_pipeline_destroy(pipeline);
  }
}

/* Of several failures in a batch the first one in order is reported, whichever thread was first. */
static crema_status fail_backwards(void *user, cr_load *job) {
  (void)user;
  if (job->item == 0 || job->batch->number == 0) return CREMA_OK;
  cr_clock_sleep(2e-3 * (ITEMS - job->item));
  return cr_fail(CREMA_E_CORRUPT, "item %d", job->item);
}

TEST(test_the_first_failure_in_order_is_told) {
  static const cr_source source = {.load = fail_backwards};
  const crema_shape shape[2] = {cr_shape_2(ITEMS, WIDTH), cr_shape_1(ITEMS)};
  cr_pipeline *pipeline = NULL;
  cr_batch *batch = NULL;
  const cr_pipeline_options options = {
      .source = &source, .tops = 2, .items = ITEMS, .depth = 2, .threads = 8, .shape = shape};
  ok(cr_pipeline_create(&options, &pipeline));
  ok(cr_pipeline_start(pipeline, 0));
  ok(cr_pipeline_take(pipeline, 0, NULL, &batch));
  assert_int_equal(cr_pipeline_take(pipeline, 0, NULL, &batch), CREMA_E_CORRUPT);
  assert_string_equal(crema_error_text(), "item 1");
  cr_pipeline_destroy(pipeline);
}

/* From batch 1 on nothing is good. */
static crema_status always_bad(void *user, cr_load *job) {
  (void)user;
  return job->batch->number == 0
             ? CREMA_OK
             : cr_fail(CREMA_E_CORRUPT, "%s is bad",
                       ((number_item *)cr_batch_item(job->batch, job->item))->text);
}

TEST(test_gives_up_when_everything_is_bad) {
  static const cr_source source = {.take = take_number,
                                   .load = always_bad,
                                   .pass_over = pass_over,
                                   .finish = finish,
                                   .free_item = free_item};
  const crema_shape shape[2] = {cr_shape_2(ITEMS, WIDTH), cr_shape_1(ITEMS)};
  for (int threads = 1; threads < 4; threads += 2) {
    numbers n = fresh();
    cr_pipeline *pipeline = NULL;
    cr_batch *batch = NULL;
    n.skip = true;
    const cr_pipeline_options options = {.name = "numbers",
                                         .source = &source,
                                         .user = &n,
                                         .tops = 2,
                                         .items = ITEMS,
                                         .depth = 2,
                                         .threads = threads,
                                         .item_size = sizeof(number_item),
                                         .shape = shape};
    ok(cr_pipeline_create(&options, &pipeline));
    start(pipeline, &n, 0);
    ok(cr_pipeline_take(pipeline, 0, NULL, &batch));
    assert_int_equal(cr_pipeline_take(pipeline, 0, NULL, &batch), CREMA_E_CORRUPT);
    /* Five were passed over: numbers 5 to 9. */
    assert_string_equal(crema_error_text(), "number 10 is bad");
    cr_pipeline_destroy(pipeline);
  }
}

TEST(test_options_that_make_no_sense) {
  static const cr_source source = {.load = load_number};
  const crema_shape shape[2] = {cr_shape_2(ITEMS, WIDTH), cr_shape_1(ITEMS)};
  const cr_pipeline_options good = {
      .source = &source, .tops = 2, .items = ITEMS, .depth = 1, .threads = 1, .shape = shape};
  cr_pipeline *pipeline = NULL;
  int threads = 0;
  for (int k = 0; k < 4; ++k) {
    cr_pipeline_options options = good;
    if (k == 0) options.depth = -1;
    if (k == 1) options.items = 0;
    if (k == 2) options.tops = CR_BATCH_TOPS + 1;
    if (k == 3) options.threads = CR_PIPELINE_MAX_THREADS + 1;
    assert_int_equal(cr_pipeline_create(&options, &pipeline), CREMA_E_ARGUMENT);
    assert_null(pipeline);
  }
  assert_int_equal(cr_pipeline_threads(CR_PIPELINE_MAX_THREADS + 1, &threads), CREMA_E_RANGE);
  ok(cr_pipeline_threads(7, &threads));
  assert_int_equal(threads, 7);
  ok(cr_pipeline_threads(0, &threads));
  assert_true(threads >= 1 && threads <= 3);
}

/* ---- several consumers --------------------------------------------------- */

typedef struct eater {
  cr_pipeline *pipeline;
  int consumer, consumers;
  uint64_t steps;
  bool failed;
} eater;

static crema_status eat(void *arg) {
  eater *e = arg;
  for (uint64_t k = 0; k < e->steps; ++k) {
    cr_batch *batch = NULL;
    uint64_t number = k * (uint64_t)e->consumers + (uint64_t)e->consumer;
    if (k % 3 == (uint64_t)e->consumer % 3) dawdle(k);
    if (k % 2 == 0) CR_TRY(cr_pipeline_await(e->pipeline, e->consumer));
    CR_TRY(cr_pipeline_take(e->pipeline, e->consumer, NULL, &batch));
    if (batch->number != number || batch->top[1].values[0] != (float)(number * ITEMS)) {
      e->failed = true;
    }
    CR_TRY(cr_pipeline_give_back(e->pipeline, e->consumer, NULL, batch));
  }
  return CREMA_OK;
}

TEST(s2_26_batches_go_by_step_and_not_by_arrival) {
  static const int counts[] = {1, 3, 8};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c) {
    numbers n = fresh();
    eater e[8];
    cr_thread *thread[8] = {NULL};
    cr_pipeline *pipeline = make(&n, 3, 2, counts[c]);
    start(pipeline, &n, 0);
    for (int i = 0; i < counts[c]; ++i) {
      e[i] = (eater){.pipeline = pipeline, .consumer = i, .consumers = counts[c], .steps = 40};
      ok(cr_thread_start(&thread[i], "eater", eat, &e[i]));
    }
    for (int i = 0; i < counts[c]; ++i) {
      ok(cr_thread_join(&thread[i]));
      assert_false(e[i].failed);
    }
    cr_pipeline_destroy(pipeline);
  }
}

/* ---- stopping ------------------------------------------------------------ */

static void stop_often(int threads, int consumers, bool slow) {
  cr_mt19937 rng;
  numbers n = fresh();
  int cycles = fixture_cycles(300);
  cr_mt19937_seed(&rng, 11);
  n.slow = slow;
  cr_pipeline *pipeline = make(&n, threads, 2, consumers);
  for (int i = 0; i < cycles; ++i) {
    start(pipeline, &n, (uint64_t)i);
    uint32_t batches = cr_mt19937_below(&rng, 5);
    for (uint32_t k = 0; k < batches; ++k) {
      cr_batch *batch = NULL;
      int consumer = (int)k % consumers;
      ok(cr_pipeline_take(pipeline, consumer, NULL, &batch));
      assert_int_equal(batch->number, (uint64_t)i + k);
      /* Some are still held when everything stops. */
      if (k + 1 < batches) ok(cr_pipeline_give_back(pipeline, consumer, NULL, batch));
    }
    /* Time to run until all batches are full and everybody sleeps. */
    if (cr_mt19937_below(&rng, 4) == 0) cr_clock_sleep(slow ? 3e-3 : 3e-5);
    cr_pipeline_stop(pipeline);
  }
  cr_pipeline_destroy(pipeline);
}

TEST(s2_05_stops_at_any_moment) {
  stop_often(1, 1, false);
  stop_often(3, 1, false);
  stop_often(2, 3, true);
}

/* A consumer that waits for a batch is woken when its thread is asked to stop, wherever it waits.
 */
static crema_status eat_for_ever(void *arg) {
  eater *e = arg;
  for (;;) {
    cr_batch *batch = NULL;
    CR_TRY(cr_pipeline_await(e->pipeline, e->consumer));
    CR_TRY(cr_pipeline_take(e->pipeline, e->consumer, NULL, &batch));
    CR_TRY(cr_pipeline_give_back(e->pipeline, e->consumer, NULL, batch));
  }
}

TEST(s2_05_waiting_consumers_can_be_stopped) {
  int cycles = fixture_cycles(100);
  numbers n = fresh();
  n.slow = true;
  cr_pipeline *pipeline = make(&n, 2, 1, 2);
  for (int i = 0; i < cycles; ++i) {
    /* The second consumer never eats, so that the first one waits in the end. */
    eater e = {.pipeline = pipeline};
    cr_thread *thread = NULL;
    start(pipeline, &n, 0);
    ok(cr_thread_start(&thread, "eater", eat_for_ever, &e));
    if (i % 3 == 0) cr_clock_sleep(1e-3);
    ok(cr_thread_stop(&thread));
    cr_pipeline_stop(pipeline);
  }
  cr_pipeline_destroy(pipeline);
}

/* For any size of batches. */
TEST(test_batches_in_the_making) {
  cr_pipeline_options options = {
      .source = &plain, .items = 1, .depth = 9, .threads = 3, .consumers = 1};
  assert_int_equal(cr_pipeline_window(&options), 6);
  options.items = INT32_MAX;
  assert_int_equal(cr_pipeline_window(&options), 2);
  options.threads = 1;
  assert_int_equal(cr_pipeline_window(&options), 1);
}

int main(void) {
  return run_all_tests(NULL, all_is_freed);
}
