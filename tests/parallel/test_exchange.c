/* Exchanges between simulated devices: what they compute, which copies and additions that takes,
 * and that the same bits come out whatever the ranks' speeds. */
#include "parallel/ranks.h"

static const char *const way_names[WAYS] = {"tree", "tree by arrival", "reduce"};

/* Whole numbers of which sixteen terms have an exact sum in all types (bfloat16 has 8 bits). */
static double small_integer(rank *r, int64_t i) {
  return (double)((i * 7 + r->number * 3) % 9 - 4);
}

static crema_status sum_all(rank *r) {
  for (int s = 0; s < r->all->spans; ++s) CR_TRY(cr_exchange_sum(r->end, r->context, s));
  return crema_context_finish(r->context);
}

static crema_status broadcast_all(rank *r) {
  for (int s = 0; s < r->all->spans; ++s) CR_TRY(cr_exchange_broadcast(r->end, r->context, s));
  return crema_context_finish(r->context);
}

static void check_sums(ranks *all, way which) {
  const int holders = which == REDUCE ? all->count : 1;
  for (int n = 0; n < holders; ++n) {
    for (int s = 0; s < all->spans; ++s) {
      const cr_exchange_span *span = &all->rank[n].span[s];
      void *host = read_span(&all->rank[n], s);
      for (int64_t i = 0; i < span->count; ++i) {
        double sum = 0;
        for (int k = 0; k < all->count; ++k) sum += small_integer(&all->rank[k], i);
        if (get_value(span->type, host, i) == sum) continue;
        fail_msg("%s, %d ranks, %s: value %d of rank %d is %g, not %g", way_names[which],
                 all->count, crema_dtype_name(span->type), (int)i, n,
                 get_value(span->type, host, i), sum);
      }
      free(host);
    }
  }
}

static void check_all_as_root(ranks *all) {
  for (int s = 0; s < all->spans; ++s) {
    const cr_exchange_span *span = &all->rank[0].span[s];
    const size_t bytes = (size_t)span->count * crema_dtype_size(span->type);
    void *root = read_span(&all->rank[0], s);
    for (int k = 1; k < all->count; ++k) {
      void *other = read_span(&all->rank[k], s);
      assert_memory_equal(root, other, bytes);
      free(other);
    }
    free(root);
  }
}

static const crema_dtype types[] = {CREMA_F64, CREMA_F32, CREMA_F16, CREMA_BF16};
static const int64_t small[] = {0, 1, 63, 1000, -1}, large[] = {1000003, -1};
static const int counts_of_ranks[] = {1, 2, 3, 4, 5, 8, 16};

/* Spans of all types with each of these numbers of values, ended by -1. */
static void exchange_once(way which, int count, const int64_t *values, const char *options_text) {
  cr_sim_options options = ranks_options(count);
  ok(cr_sim_parse(options_text, &options));
  sim_begin(&options);
  ranks all;
  ranks_open(&all, count);
  for (; *values >= 0; ++values) {
    for (size_t t = 0; t < sizeof types / sizeof types[0]; ++t) {
      ranks_add_span(&all, types[t], *values);
      for (int i = 0; i < count; ++i) fill_span(&all.rank[i], all.spans - 1, small_integer);
    }
  }
  ok(create_exchange(&all, which));
  ranks_prepare(&all);
  ranks_run(&all, sum_all);
  check_sums(&all, which);
  ranks_run(&all, broadcast_all);
  check_all_as_root(&all);
  ranks_close(&all);
  sim_end();
}

/* S3-20: exact sums for all types and numbers of ranks; all ranks as the root afterwards. */
TEST(s3_20_sums_are_exact) {
  for (int w = 0; w < WAYS; ++w) {
    for (size_t n = 0; n < sizeof counts_of_ranks / sizeof counts_of_ranks[0]; ++n) {
      exchange_once((way)w, counts_of_ranks[n], small, "");
    }
  }
}

/* Spans of many pieces, the last of them odd. */
TEST(s3_20_large_spans_go_in_pieces) {
  exchange_once(TREE, 5, large, "");
  exchange_once(TREE_BY_ARRIVAL, 4, large, "");
  exchange_once(REDUCE, 2, large, "");
  exchange_once(REDUCE, 3, large, "");
}

TEST(s3_34_sums_by_way_of_the_host) {
  for (int w = 0; w < WAYS; ++w) {
    exchange_once((way)w, 5, small, "peers=none");
    exchange_once((way)w, 8, small, "peers=islands:4");
  }
  exchange_once(TREE, 3, large, "peers=none");
  exchange_once(REDUCE, 3, large, "peers=none");
}

/* ---- which operations that takes ---- */

static const int64_t thousand[] = {1000, -1};

/* One span of float32, summed and broadcast once, counted from then on. */
static void open_counted(ranks *all, int count, way which, const char *options_text) {
  cr_sim_options options = ranks_options(count);
  ok(cr_sim_parse(options_text, &options));
  sim_begin(&options);
  ranks_open(all, count);
  ranks_add_span(all, CREMA_F32, thousand[0]);
  for (int i = 0; i < count; ++i) fill_span(&all->rank[i], 0, small_integer);
  ok(create_exchange(all, which));
  ranks_prepare(all);
  cr_sim_reset_counts();
}

static void close_counted(ranks *all) {
  ranks_close(all);
  sim_end();
}

/* Device to device and nothing by way of the host; each device adds what its children sent. */
TEST(s3_20_operations_of_a_sum) {
  static const uint64_t additions[] = {2, 0, 1, 0};
  ranks all;
  open_counted(&all, 4, TREE, "");
  ranks_run(&all, sum_all);
  for (int i = 0; i < 4; ++i) {
    assert_int_equal(cr_sim_count(CR_SIM_KERNEL, i), additions[i]);
    assert_int_equal(cr_sim_count(CR_SIM_PEER, i), i == 0 ? 0 : 1);
    assert_int_equal(cr_sim_bytes(CR_SIM_PEER, i), i == 0 ? 0 : 4000);
  }
  assert_int_equal(cr_sim_count(CR_SIM_H2D, -1) + cr_sim_count(CR_SIM_D2H, -1), 0);
  assert_int_equal(cr_sim_count(CR_SIM_D2D, -1), 0);
  close_counted(&all);
}

/* S3-34: down to page-locked memory on the sender, up from there on the receiver. */
TEST(s3_34_operations_without_peers) {
  ranks all;
  open_counted(&all, 4, TREE, "peers=none");
  ranks_run(&all, sum_all);
  for (int i = 1; i < 4; ++i) assert_int_equal(cr_sim_bytes(CR_SIM_D2H, i), 4000);
  assert_int_equal(cr_sim_bytes(CR_SIM_H2D, 0), 8000);
  assert_int_equal(cr_sim_bytes(CR_SIM_H2D, 2), 4000);
  assert_int_equal(cr_sim_count(CR_SIM_D2H, -1), 3);
  assert_int_equal(cr_sim_count(CR_SIM_PEER, -1), 0);
  close_counted(&all);
}

/* S3-19: the child with the most descendants is served first. */
TEST(s3_19_the_last_child_is_served_first) {
  static const int order[] = {4, 2, 1};
  ranks all;
  open_counted(&all, 8, TREE, "");
  ranks_run(&all, broadcast_all);
  const cr_sim_record *log = NULL;
  const size_t size = cr_sim_log(&log);
  int served = 0;
  for (size_t i = 0; i < size; ++i) {
    if (log[i].op != CR_SIM_PEER || log[i].device != 0) continue;
    assert_in_range(served, 0, 2);
    assert_int_equal(log[i].dst, all.rank[order[served++]].span[0].memory.address);
  }
  assert_int_equal(served, 3);
  assert_int_equal(cr_sim_count(CR_SIM_PEER, -1), 7);
  close_counted(&all);
}

/* Each link of the ring carries 2 (N - 1) / N of the bytes: here 7 shares of 128 values twice, of
 * which one share of each device's has 104. */
TEST(traffic_of_the_ring) {
  ranks all;
  open_counted(&all, 8, REDUCE, "");
  ranks_run(&all, sum_all);
  for (int i = 0; i < 8; ++i) {
    assert_int_equal(cr_sim_count(CR_SIM_PEER, i), 14);
    assert_in_range(cr_sim_bytes(CR_SIM_PEER, i), 2 * (1000 - 128) * 4, 2 * 7 * 128 * 4);
  }
  assert_int_equal(cr_sim_bytes(CR_SIM_PEER, -1), 14 * 4000);
  close_counted(&all);
}

/* S3-13: what a child sends is received in memory of its parent's device. */
TEST(s3_13_s3_14_memory_to_receive_in) {
  static const size_t children[] = {2, 0, 1, 0};
  cr_sim_options options = ranks_options(4);
  sim_begin(&options);
  ranks all;
  size_t before[4];
  ranks_open(&all, 4);
  ranks_add_span(&all, CREMA_F32, 1 << 18);
  for (int i = 0; i < 4; ++i) before[i] = cr_sim_live_bytes(i);
  ok(create_exchange(&all, TREE));
  ranks_prepare(&all);
  for (int i = 0; i < 4; ++i) {
    assert_int_equal(cr_sim_live_bytes(i) - before[i], children[i] << 20);
  }
  assert_int_equal(cr_sim_pinned_blocks(), 0);
  ranks_close(&all);
  sim_end();
}

/* ---- order ---- */

/* Of very different sizes, so that the order of the terms shows in the bits. */
static double wild(rank *r, int64_t i) {
  (void)i;
  const double value = (double)cr_mt19937_next(&r->rng) - 0x1p31;
  return ldexp(value, -(int)cr_mt19937_below(&r->rng, 40));
}

static crema_status sum_with_delays(rank *r) {
  cr_clock_sleep(cr_mt19937_below(&r->rng, 3) * 1e-3);
  return sum_all(r);
}

/* The root's bits after a sum of the same values as always. */
static float *wild_sum(way which, int count, const char *options_text, work *what) {
  ranks all;
  open_counted(&all, count, which, options_text);
  for (int i = 0; i < count; ++i) {
    fill_span(&all.rank[i], 0, wild);
    cr_mt19937_seed(&all.rank[i].rng, cr_random_seed());
  }
  ranks_run(&all, what);
  float *sum = read_span(&all.rank[0], 0);
  if (which == REDUCE) check_all_as_root(&all);
  close_counted(&all);
  return sum;
}

/* S3-22, S3-34: whatever the speeds and the ways of the bytes. */
TEST(s3_22_s3_34_the_same_bits_in_each_run) {
  static const way ways[] = {TREE, REDUCE};
  for (size_t w = 0; w < 2; ++w) {
    float *first = wild_sum(ways[w], 8, "", sum_all);
    for (int round = 0; round < 6; ++round) {
      float *again = wild_sum(ways[w], 8, round % 3 == 0 ? "peers=none" : "", sum_with_delays);
      assert_memory_equal(first, again, 4000);
      free(again);
    }
    free(first);
  }
}

/* Rank 1 comes when rank 2 has handed everything over. */
static atomic_bool rank_2_is_done;

static double large_small_large(rank *r, int64_t i) {
  static const double value[] = {1e8, 1, -1e8};
  (void)i;
  return value[r->number];
}

static crema_status sum_in_turn(rank *r) {
  while (r->number == 1 && !atomic_load(&rank_2_is_done)) cr_clock_sleep(1e-4);
  CR_TRY(cr_exchange_sum(r->end, r->context, 0));
  if (r->number == 2) atomic_store(&rank_2_is_done, true);
  return crema_context_finish(r->context);
}

TEST(s3_20_s3_22_fixed_order_and_arrival) {
  for (way which = TREE; which <= TREE_BY_ARRIVAL; ++which) {
    ranks all;
    atomic_store(&rank_2_is_done, false);
    open_counted(&all, 3, which, "");
    for (int i = 0; i < 3; ++i) fill_span(&all.rank[i], 0, large_small_large);
    ranks_run(&all, sum_in_turn);
    float *sum = read_span(&all.rank[0], 0);
    assert_true(sum[999] == (which == TREE ? 0.0f : 1.0f));
    free(sum);
    close_counted(&all);
  }
}

/* By arrival a child can hand over for the next call before another has for this one. */
static crema_status sum_twice(rank *r) {
  while (r->number == 1 && !atomic_load(&rank_2_is_done)) cr_clock_sleep(1e-4);
  CR_TRY(cr_exchange_sum(r->end, r->context, 0));
  CR_TRY(cr_exchange_sum(r->end, r->context, 1));
  if (r->number == 2) atomic_store(&rank_2_is_done, true);
  return crema_context_finish(r->context);
}

TEST(s3_20_s3_21_arrival_ahead_of_the_call) {
  ranks all;
  cr_sim_options options = ranks_options(3);
  sim_begin(&options);
  ranks_open(&all, 3);
  /* Two slots per link: the first span takes one of them. */
  ranks_add_span(&all, CREMA_F32, 1000);
  ranks_add_span(&all, CREMA_F32, (1 << 18) + 1);
  for (int i = 0; i < 3; ++i) {
    fill_span(&all.rank[i], 0, small_integer);
    fill_span(&all.rank[i], 1, small_integer);
  }
  ok(create_exchange(&all, TREE_BY_ARRIVAL));
  ranks_prepare(&all);
  atomic_store(&rank_2_is_done, true);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3; ++i) {
      fill_span(&all.rank[i], 0, small_integer);
      fill_span(&all.rank[i], 1, small_integer);
    }
    ranks_run(&all, sum_twice);
    check_sums(&all, TREE_BY_ARRIVAL);
  }
  ranks_close(&all);
  sim_end();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(s3_20_sums_are_exact),
                                     cmocka_unit_test(s3_20_large_spans_go_in_pieces),
                                     cmocka_unit_test(s3_34_sums_by_way_of_the_host),
                                     cmocka_unit_test(s3_20_operations_of_a_sum),
                                     cmocka_unit_test(s3_34_operations_without_peers),
                                     cmocka_unit_test(s3_19_the_last_child_is_served_first),
                                     cmocka_unit_test(traffic_of_the_ring),
                                     cmocka_unit_test(s3_13_s3_14_memory_to_receive_in),
                                     cmocka_unit_test(s3_22_s3_34_the_same_bits_in_each_run),
                                     cmocka_unit_test(s3_20_s3_22_fixed_order_and_arrival),
                                     cmocka_unit_test(s3_20_s3_21_arrival_ahead_of_the_call)};
  return run_each_of(tests, NULL, NULL);
}
