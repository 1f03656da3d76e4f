/* The model of what an exchange costs. */
#include <math.h>

#include "check.h"
#include "parallel/cost.h"

static void expect_near(double value, double expected) {
  if (fabs(value - expected) > 1e-9 * fabs(expected)) fail_msg("%g, not %g", value, expected);
}

TEST(test_transfer) {
  expect_near(cr_cost_transfer((cr_speed){1e-6, 1e9}, 1e6), 1.001e-3);
  expect_near(cr_cost_transfer((cr_speed){1e-6, 0}, 1e6), 1e-6);
}

/* 2 ceil(log2 N) transfers of everything. */
TEST(test_tree) {
  static const int levels[] = {0, 0, 1, 2, 2, 3, 3, 3, 3, 4};
  for (int n = 1; n <= 9; ++n) {
    const cr_speed link = {2e-6, 1e9};
    expect_near(cr_cost_tree(n, link, 1e6), 2 * levels[n] * 1.002e-3);
  }
}

/* 2 (N - 1) transfers of 1 / N of it. */
TEST(test_ring) {
  cr_cost_ranks ranks = {1, 1, {1e-6, 1e9}, {1, 1}};
  expect_near(cr_cost_ring(&ranks, 4e6), 0);
  ranks.each = 2;
  expect_near(cr_cost_ring(&ranks, 4e6), 2 * (1e-6 + 2e-3));
  ranks.each = 5;
  expect_near(cr_cost_ring(&ranks, 5e6), 8 * (1e-6 + 1e-3));
}

/* Between hosts all bytes go over each host's link, however many ranks share it. */
TEST(test_hosts) {
  const cr_cost_ranks ranks = {4, 8, {1e-6, 300e9}, {5e-6, 12e9}};
  const cr_cost_ranks one = {4, 1, {0, 0}, {5e-6, 12e9}};
  const cr_cost_ranks inside = {1, 8, {1e-6, 300e9}, {0, 0}};
  expect_near(cr_cost_ring(&one, 1e8), 6 * (5e-6 + 25e6 / 12e9));
  expect_near(cr_cost_ring(&ranks, 1e8), cr_cost_ring(&one, 1e8) + cr_cost_ring(&inside, 1e8));
}

/* A fit finds the link again from what the model says of it. */
TEST(test_fit) {
  const cr_speed link = {3e-6, 5e9};
  const double bytes[] = {4096, 8e6};
  double seconds[2];
  for (int i = 0; i < 2; ++i) seconds[i] = cr_cost_transfer(link, bytes[i]);
  cr_speed found = cr_cost_fit(1, 1, bytes, seconds);
  expect_near(found.latency, link.latency);
  expect_near(found.bandwidth, link.bandwidth);
  const cr_cost_ranks ranks = {.hosts = 1, .each = 6, .within = link};
  for (int i = 0; i < 2; ++i) seconds[i] = cr_cost_ring(&ranks, bytes[i]);
  found = cr_cost_fit(10, 1.0 / 6, bytes, seconds);
  expect_near(found.latency, link.latency);
  expect_near(found.bandwidth, link.bandwidth);
}

/* Times that noise has spoilt give no negative speed. */
TEST(test_fit_of_noise) {
  const double bytes[] = {4096, 8e6};
  const cr_speed no_slower = cr_cost_fit(1, 1, bytes, (double[]){2e-3, 1e-3});
  expect_near(no_slower.latency, 2e-3);
  assert_true(no_slower.bandwidth == 0);
  const cr_speed at_once = cr_cost_fit(1, 1, bytes, (double[]){1e-9, 1});
  assert_true(at_once.latency == 0);
  assert_true(at_once.bandwidth > 0);
}

/* A bucket waits for its gradients and for the bucket before it. */
TEST(test_overlap) {
  const cr_cost_ranks ranks = {.hosts = 1, .each = 2, .within = {0, 1e9}};
  const cr_cost_bucket early[] = {{1, 1e9, 0}, {5, 2e9, 0.5}, {6, 1e9, 0}};
  expect_near(cr_cost_overlapped(early, 1, &ranks), 2);
  expect_near(cr_cost_overlapped(early, 2, &ranks), 7.5);
  expect_near(cr_cost_overlapped(early, 3, &ranks), 8.5);
  assert_true(cr_cost_overlapped(early, 0, &ranks) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_transfer), cmocka_unit_test(test_tree),
      cmocka_unit_test(test_ring),     cmocka_unit_test(test_hosts),
      cmocka_unit_test(test_fit),      cmocka_unit_test(test_fit_of_noise),
      cmocka_unit_test(test_overlap),
  };
  return run_each_of(tests, NULL, NULL);
}
