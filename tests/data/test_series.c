/* A series of numbers of any length: means of equal stretches, which are merged when all points are
 * in use. */

#include "check.h"
#include "data/pipeline/series.h"

/* After `count` numbers 0, 1, 2 and so on: that many points of `stretch` numbers each. */
static void check(uint64_t count, int points, uint64_t stretch) {
  cr_series series = {0};
  for (uint64_t i = 0; i < count; ++i) cr_series_add(&series, (double)i);
  assert_int_equal(series.points, points);
  assert_int_equal(series.stretch, stretch);
  assert_int_equal(series.count, count);
  assert_int_equal(series.pending, count - (uint64_t)points * stretch);
  for (int p = 0; p < points; ++p) {
    const double first = (double)p * (double)stretch, last = first + (double)stretch - 1;
    assert_true(cr_series_point(&series, p) == (first + last) / 2);
  }
  assert_true(cr_series_mean(&series) == (double)(count - 1) / 2);
}

TEST(stretches) {
  check(1, 1, 1);
  check(31, 31, 1);
  check(32, 16, 2);
  check(33, 16, 2);
  check(34, 17, 2);
  check(63, 31, 2);
  check(64, 16, 4);
  check(67, 16, 4);
  check(1000, 31, 32);
  check(1024, 16, 64);
}

TEST(nothing) {
  const cr_series series = {0};
  assert_true(cr_series_mean(&series) == 0);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
