/* What goes wrong in an exchange reaches all ranks with the message of the one that failed; nobody
 * waits for ever and nothing is lost (S3-31). */
#include <stdatomic.h>

#include "device/device.h"
#include "parallel/ranks.h"

/* Pieces of a megabyte and more. */
enum { COUNT = 4, VALUES = 600000 };

static double number_of(rank *r, int64_t i) {
  (void)i;
  return r->number;
}

static void open_ranks(ranks *all, way which, const char *options_text) {
  cr_sim_options options = ranks_options(COUNT);
  ok(cr_sim_parse(options_text, &options));
  sim_begin(&options);
  ranks_open(all, COUNT);
  ranks_add_span(all, CREMA_F32, VALUES);
  ranks_add_span(all, CREMA_F32, 10);
  for (int i = 0; i < COUNT; ++i) fill_span(&all->rank[i], 0, number_of);
  ok(create_exchange(all, which));
}

static void close_ranks(ranks *all) {
  ranks_close(all);
  sim_end();
}

/* All but `failed` fail with what it said. */
static void check_all_failed(const ranks *all, int failed, crema_status code, const char *text) {
  char wanted[256];
  snprintf(wanted, sizeof wanted, "rank %d: %s", failed, text);
  for (int i = 0; i < all->count; ++i) {
    const rank *r = &all->rank[i];
    if (r->status != code || strstr(r->text, i == failed ? text : wanted) == NULL) {
      fail_msg("rank %d: %s: \"%s\" instead of %s: \"%s\"", i, crema_status_name(r->status),
               r->text, crema_status_name(code), wanted);
    }
  }
}

/* ---- in prepare ---- */

static crema_status use_it(rank *r) {
  CR_TRY(cr_exchange_broadcast(r->end, r->context, 0));
  CR_TRY(cr_exchange_sum(r->end, r->context, 0));
  return crema_context_finish(r->context);
}

/* The `nth` operation of a kind fails while a rank prepares; false: it does not do so many. */
static bool fail_in_prepare(way which, const char *options, int failed, cr_sim_op op, int nth) {
  ranks all;
  open_ranks(&all, which, options);
  crema_status status = CREMA_OK;
  for (int i = 0; i < COUNT && status == CREMA_OK; ++i) {
    rank *r = &all.rank[i];
    if (i == failed) cr_sim_fail(op, nth, CREMA_E_NO_MEMORY, false);
    status = cr_exchange_prepare(r->end, r->span, all.spans);
    cr_sim_clear_faults();
    assert_true(status == CREMA_OK || i == failed);
  }
  const bool hit = status != CREMA_OK;
  if (hit) {
    assert_int_equal(status, CREMA_E_NO_MEMORY);
    assert_error_has("simulated failure");
    for (int i = 0; i < COUNT; ++i) {
      rank *r = &all.rank[i];
      const crema_status code = r->end->prepared ? CREMA_E_NO_MEMORY : CREMA_E_STATE;
      char text[64];
      snprintf(text, sizeof text, r->end->prepared ? "rank %d: " : "before it is prepared", failed);
      assert_fails(cr_exchange_sum(r->end, r->context, 0), code, text);
    }
  }
  close_ranks(&all);
  return hit;
}

TEST(s3_31_memory_that_runs_out_in_prepare) {
  static const struct {
    way which;
    const char *options;
    cr_sim_op op;
    int least; /* of each operation that rank 0 does */
  } rows[] = {{TREE, "", CR_SIM_ALLOC, 1},
              {TREE, "", CR_SIM_STREAM_OPEN, 1},
              {REDUCE, "", CR_SIM_ALLOC, 1},
              {REDUCE, "", CR_SIM_STREAM_OPEN, 1},
              {TREE, "peers=none", CR_SIM_HOST_ALLOC, 2}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    for (int failed = 0; failed < COUNT; failed += 2) {
      int hits = 0;
      while (fail_in_prepare(rows[i].which, rows[i].options, failed, rows[i].op, hits + 1)) ++hits;
      assert_in_range(hits, 1, 100);
      if (failed == 0) assert_in_range(hits, rows[i].least, 100);
    }
  }
}

/* Peer access that cannot be enabled costs speed only. */
TEST(s3_13_no_peer_access) {
  ranks all;
  open_ranks(&all, TREE, "");
  cr_sim_fail(CR_SIM_ENABLE_PEER, 1, CREMA_E_DEVICE, false);
  ranks_prepare(&all);
  ranks_run(&all, use_it);
  assert_true(cr_sim_count(CR_SIM_H2D, -1) > 0);
  close_ranks(&all);
}

/* ---- in an iteration ---- */

static int failing_rank, failing_phase;

/* Training, one of whose ranks fails in one of the phases, by itself or by a copy. */
static crema_status train(rank *r) {
  for (int i = 0;; ++i) {
    const bool fails = r->number == failing_rank && i == 2;
    for (int phase = 0; phase < 4; ++phase) {
      if (fails && phase == failing_phase) {
        cr_exchange_fail(r->end, cr_fail(CREMA_E_RANGE, "label 12 is out of range"));
        return CREMA_E_RANGE;
      }
      if (phase == 0) CR_TRY(cr_exchange_broadcast(r->end, r->context, 0));
      if (phase == 1) CR_TRY(crema_context_finish(r->context));
      if (phase == 2) CR_TRY(cr_exchange_sum(r->end, r->context, 0));
      if (phase == 3) CR_TRY(cr_exchange_sum(r->end, r->context, 1));
    }
  }
}

TEST(s3_31_each_rank_in_each_phase) {
  for (int w = 0; w < WAYS; ++w) {
    for (failing_rank = 0; failing_rank < COUNT; ++failing_rank) {
      failing_phase = (w + failing_rank) % 4;
      ranks all;
      open_ranks(&all, (way)w, "");
      ranks_prepare(&all);
      ranks_run_any(&all, train);
      check_all_failed(&all, failing_rank, CREMA_E_RANGE, "label 12 is out of range");
      close_ranks(&all);
    }
  }
}

/* A copy that fails when it is queued, and one that fails when it is done. Only the failing rank is
 * in its call meanwhile. */
static atomic_bool armed;
static bool fails_late;

static crema_status train_with_fault(rank *r) {
  if (r->number == failing_rank) {
    cr_sim_fail(CR_SIM_PEER, 1, CREMA_E_DEVICE, fails_late);
    crema_status status = cr_exchange_sum(r->end, r->context, 0);
    if (status == CREMA_OK) status = cr_exchange_finish(r->end);
    atomic_store(&armed, true);
    CR_TRY(status);
  }
  while (!atomic_load(&armed)) cr_clock_sleep(1e-4);
  for (;;) {
    CR_TRY(cr_exchange_sum(r->end, r->context, 0));
    CR_TRY(crema_context_finish(r->context));
    CR_TRY(cr_exchange_broadcast(r->end, r->context, 0));
  }
}

TEST(s3_31_copies_that_fail) {
  for (int late = 0; late < 2; ++late) {
    ranks all;
    failing_rank = 3; /* without children, so that it needs nobody for its part of the sum */
    fails_late = late == 1;
    atomic_store(&armed, false);
    open_ranks(&all, TREE, "");
    ranks_prepare(&all);
    ranks_run_any(&all, train_with_fault);
    check_all_failed(&all, 3, CREMA_E_DEVICE, "simulated failure");
    close_ranks(&all);
  }
}

/* A failure of queued work that nobody asks for is that of a later call. */
static crema_status send_and_send_again(rank *r) {
  cr_sim_fail(CR_SIM_PEER, 1, CREMA_E_DEVICE, true);
  CR_TRY(cr_exchange_sum(r->end, r->context, 1));
  CR_TRY(crema_context_finish(r->context));
  return cr_exchange_sum(r->end, r->context, 1);
}

TEST(s3_31_a_failure_that_nobody_asked_for) {
  ranks all;
  open_ranks(&all, TREE, "");
  ranks_prepare(&all);
  rank *leaf = &all.rank[3];
  assert_fails(send_and_send_again(leaf), CREMA_E_DEVICE, "while the work was done on sim:3");
  assert_fails(cr_exchange_sum(all.rank[0].end, all.rank[0].context, 0), CREMA_E_DEVICE,
               "rank 3: simulated failure");
  close_ranks(&all);
}

/* Another thread says that a rank has failed, while all of the others wait for it. */
static crema_status all_but_one(rank *r) {
  while (r->number != 1) CR_TRY(use_it(r));
  return CREMA_OK;
}

static crema_status fail_from_elsewhere(void *arg) {
  cr_clock_sleep(0.02);
  cr_exchange_fail(arg, cr_fail(CREMA_E_INTERRUPTED, "a signal"));
  cr_exchange_fail(arg, cr_fail(CREMA_E_RANGE, "a second failure"));
  return CREMA_OK;
}

TEST(s3_31_another_thread_fails) {
  for (int w = 0; w < WAYS; ++w) {
    ranks all;
    cr_thread *thread = NULL;
    open_ranks(&all, (way)w, "");
    ranks_prepare(&all);
    ok(cr_thread_start(&thread, "fail", fail_from_elsewhere, all.rank[1].end));
    ranks_run_any(&all, all_but_one);
    ok(cr_thread_join(&thread));
    assert_fails(cr_exchange_sum(all.rank[1].end, all.rank[1].context, 0), CREMA_E_INTERRUPTED,
                 "rank 1: a signal");
    for (int i = 0; i < COUNT; ++i) {
      if (i == 1) continue;
      assert_int_equal(all.rank[i].status, CREMA_E_INTERRUPTED);
      assert_non_null(strstr(all.rank[i].text, "rank 1: a signal"));
    }
    close_ranks(&all);
  }
}

/* ---- misuse ---- */

static crema_status different_things(rank *r) {
  return r->number == 1 ? cr_exchange_sum(r->end, r->context, 1)
                        : cr_exchange_sum(r->end, r->context, 0);
}

TEST(s3_21_ranks_that_differ_are_noticed) {
  for (int w = 0; w < WAYS; ++w) {
    ranks all;
    open_ranks(&all, (way)w, "");
    ranks_prepare(&all);
    ranks_run_any(&all, different_things);
    int failures = 0;
    for (int i = 0; i < COUNT; ++i) failures += all.rank[i].status == CREMA_E_STATE;
    assert_true(failures >= 1);
    assert_non_null(strstr(all.rank[0].text, "ranks exchange different things"));
    close_ranks(&all);
  }
}

TEST(calls_out_of_order_are_refused) {
  ranks all;
  open_ranks(&all, REDUCE, "");
  rank *r = all.rank;
  assert_fails(cr_exchange_sum(r[0].end, r[0].context, 0), CREMA_E_STATE, "before it is prepared");
  close_ranks(&all);

  open_ranks(&all, REDUCE, "");
  ok(cr_exchange_prepare(r[0].end, r[0].span, 2));
  assert_fails(cr_exchange_prepare(r[0].end, r[0].span, 2), CREMA_E_STATE, "prepared twice");
  close_ranks(&all);

  open_ranks(&all, REDUCE, "");
  ok(cr_exchange_prepare(r[0].end, r[0].span, 2));
  assert_fails(cr_exchange_sum(r[0].end, r[0].context, 0), CREMA_E_STATE, "1 of its 4 ranks");
  close_ranks(&all);

  open_ranks(&all, REDUCE, "");
  ok(cr_exchange_prepare(r[0].end, r[0].span, 2));
  assert_fails(cr_exchange_prepare(r[1].end, r[1].span, 1), CREMA_E_SHAPE,
               "rank 1 exchanges 1 spans, another rank 2");
  close_ranks(&all);

  open_ranks(&all, REDUCE, "");
  ok(cr_exchange_prepare(r[0].end, r[0].span, 2));
  r[1].span[1].count = 9;
  assert_fails(cr_exchange_prepare(r[1].end, r[1].span, 2), CREMA_E_SHAPE,
               "span 1 has 9 values of type");
  close_ranks(&all);

  open_ranks(&all, REDUCE, "");
  ranks_prepare(&all);
  assert_fails(cr_exchange_sum(r[0].end, r[0].context, 2), CREMA_E_RANGE, "span 2 of an exchange");
  close_ranks(&all);

  open_ranks(&all, TREE, "");
  ranks_prepare(&all);
  assert_fails(cr_exchange_broadcast(r[0].end, r[1].context, 0), CREMA_E_ARGUMENT,
               "by a context of sim:1");
  close_ranks(&all);
}

TEST(spans_that_cannot_be_exchanged) {
  ranks all;
  const cr_exchange_span labels = {.memory = {64}, .count = 1, .type = CREMA_I32};
  const cr_exchange_span nowhere = {.count = 1, .type = CREMA_F32};
  open_ranks(&all, TREE, "");
  assert_fails(cr_exchange_prepare(all.rank[0].end, &labels, 1), CREMA_E_TYPE,
               "cannot be exchanged");
  assert_fails(cr_exchange_prepare(all.rank[1].end, &nowhere, 1), CREMA_E_ARGUMENT,
               "has no memory");
  assert_fails(cr_exchange_prepare(all.rank[2].end, NULL, -1), CREMA_E_ARGUMENT, "-1 spans");
  close_ranks(&all);
}

TEST(s3_01_devices_that_cannot_exchange) {
  sim_begin_devices(2);
  crema_device *device[3] = {sim_test_device(0), sim_test_device(1), sim_test_device(0)};
  crema_device *const mixed[2] = {device[0], cr_cpu_device()};
  cr_exchange *end[3] = {NULL};
  assert_fails(cr_exchange_create_tree(device, 3, CR_EXCHANGE_FIXED, end), CREMA_E_ARGUMENT,
               "sim:0 is named twice");
  assert_fails(cr_exchange_create_reduce(mixed, 2, end), CREMA_E_ARGUMENT, "sim and of cpu");
  assert_fails(cr_exchange_create_reduce(device, 0, end), CREMA_E_ARGUMENT, "0 devices");
  cr_exchange_destroy(NULL);
  sim_end();
}

/* One rank on the CPU has nothing to exchange. */
TEST(one_rank_exchanges_nothing) {
  crema_device *const cpu = cr_cpu_device();
  float value = 3;
  const cr_exchange_span span = {.memory = {(uintptr_t)&value}, .count = 1, .type = CREMA_F32};
  for (int which = 0; which < 2; ++which) {
    cr_exchange *end = NULL;
    ok(which == 0 ? cr_exchange_create_tree(&cpu, 1, CR_EXCHANGE_FIXED, &end)
                  : cr_exchange_create_reduce(&cpu, 1, &end));
    ok(cr_exchange_prepare(end, &span, 1));
    ok(cr_exchange_broadcast(end, cr_host_context(), 0));
    ok(cr_exchange_sum(end, cr_host_context(), 0));
    ok(cr_exchange_finish(end));
    assert_true(value == 3);
    cr_exchange_destroy(end);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(s3_31_memory_that_runs_out_in_prepare),
                                     cmocka_unit_test(s3_13_no_peer_access),
                                     cmocka_unit_test(s3_31_each_rank_in_each_phase),
                                     cmocka_unit_test(s3_31_copies_that_fail),
                                     cmocka_unit_test(s3_31_a_failure_that_nobody_asked_for),
                                     cmocka_unit_test(s3_31_another_thread_fails),
                                     cmocka_unit_test(s3_21_ranks_that_differ_are_noticed),
                                     cmocka_unit_test(calls_out_of_order_are_refused),
                                     cmocka_unit_test(spans_that_cannot_be_exchanged),
                                     cmocka_unit_test(s3_01_devices_that_cannot_exchange),
                                     cmocka_unit_test(one_rank_exchanges_nothing)};
  return run_each_of(tests, NULL, NULL);
}
