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
      const cr_span *span = &all->rank[n].span[s];
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
    const cr_span *span = &all->rank[0].span[s];
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

/* S3-20, S3-27: exact sums for all types and numbers of ranks; all ranks as the root afterwards. */
TEST(test_sums) {
  for (int w = 0; w < WAYS; ++w) {
    for (size_t n = 0; n < sizeof counts_of_ranks / sizeof counts_of_ranks[0]; ++n) {
      exchange_once((way)w, counts_of_ranks[n], small, "");
    }
  }
}

/* Spans of many pieces, the last of them odd. */
TEST(test_large_spans) {
  exchange_once(TREE, 5, large, "");
  exchange_once(TREE_BY_ARRIVAL, 4, large, "");
  exchange_once(REDUCE, 2, large, "");
  exchange_once(REDUCE, 3, large, "");
}

TEST(test_by_way_of_the_host) {
  for (int w = 0; w < WAYS; ++w) {
    exchange_once((way)w, 5, small, "peers=none");
    exchange_once((way)w, 8, small, "peers=islands:4");
  }
  exchange_once(TREE, 3, large, "peers=none");
  exchange_once(REDUCE, 3, large, "peers=none");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums),
                                     cmocka_unit_test(test_large_spans),
                                     cmocka_unit_test(test_by_way_of_the_host)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
