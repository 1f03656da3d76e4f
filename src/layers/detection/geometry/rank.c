#include "layers/detection/geometry/rank.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

static bool comes_before(const cr_ranked *a, const cr_ranked *b) {
  if (a->score > b->score) return true;
  if (a->score < b->score) return false;
  if (isnan(a->score) != isnan(b->score)) return isnan(b->score);
  return a->label != b->label ? a->label < b->label : a->index < b->index;
}

/* Sorts each sequence of candidates that are `gap` apart. */
static void insert_each(cr_ranked *candidate, size_t count, size_t gap) {
  for (size_t i = gap; i < count; ++i) {
    const cr_ranked held = candidate[i];
    size_t k = i;
    for (; k >= gap && comes_before(&held, &candidate[k - gap]); k -= gap) {
      candidate[k] = candidate[k - gap];
    }
    candidate[k] = held;
  }
}

enum { FEWEST = 10 /* with more candidates, larger gaps move them faster */ };

/* Shell's sort, which needs no memory. */
static void rank_few(cr_ranked *candidate, size_t count) {
  static const size_t gaps[] = {44842, 19930, 8858, 3937, 1750, 701, 301, 132, 57, 23, 10, 4};
  for (size_t g = 0; count >= FEWEST && g < sizeof gaps / sizeof gaps[0]; ++g) {
    insert_each(candidate, count, gaps[g]);
  }
  insert_each(candidate, count, 1);
}

enum { BINS = 1024 };

/* Equal ranges of scores from the lowest to the highest. NaN is in the lowest bin. */
typedef struct bins {
  float low, steps; /* bins per unit of score */
} bins;

static int bin_of(bins b, float score) {
  const float at = (score - b.low) * b.steps;
  return at > 0 ? (at < BINS - 1 ? (int)at : BINS - 1) : 0;
}

/* False if bins do not help: all scores are equal, or one is infinite. */
static bool make_bins(const cr_ranked *candidate, size_t count, bins *out) {
  float low = FLT_MAX, high = -FLT_MAX;
  for (size_t i = 0; i < count; ++i) {
    low = candidate[i].score < low ? candidate[i].score : low;
    high = candidate[i].score > high ? candidate[i].score : high;
  }
  *out = (bins){low, (float)BINS / (high - low)};
  return high > low && isfinite(out->steps) && out->steps > 0;
}

/* Swaps each candidate into its bin, then sorts each bin. */
static void rank_by_bins(bins b, cr_ranked *candidate, size_t count) {
  size_t next[BINS], end[BINS] = {0}, sum = 0;
  for (size_t i = 0; i < count; ++i) ++end[bin_of(b, candidate[i].score)];
  for (int k = BINS - 1; k >= 0; --k) {
    next[k] = sum;
    end[k] = sum += end[k];
  }
  for (int k = BINS - 1; k >= 0; --k) {
    const size_t begin = k + 1 < BINS ? end[k + 1] : 0;
    while (next[k] < end[k]) {
      cr_ranked *here = &candidate[next[k]];
      cr_ranked *there = &candidate[next[bin_of(b, here->score)]++];
      const cr_ranked held = *here;
      *here = *there;
      *there = held;
    }
    rank_few(candidate + begin, end[k] - begin);
  }
}

enum { FEW = 512 /* up to here, sorting without bins is faster */ };

void cr_rank(cr_ranked *candidate, size_t count) {
  bins b;
  if (count > FEW && make_bins(candidate, count, &b)) rank_by_bins(b, candidate, count);
  else rank_few(candidate, count);
}

/* Moves the candidates of bin `first` and above to the front; returns their number. */
static size_t move_bins(bins b, int first, cr_ranked *candidate, size_t count) {
  size_t moved = 0;
  for (size_t i = 0; i < count; ++i) {
    const cr_ranked one = candidate[i];
    if (bin_of(b, one.score) < first) continue;
    candidate[i] = candidate[moved];
    candidate[moved++] = one;
  }
  return moved;
}

/* The bins with the best candidates come first. Only the last of these bins also has other
 * candidates. */
size_t cr_rank_best(cr_ranked *candidate, size_t count, size_t best) {
  uint32_t in_bin[BINS] = {0};
  size_t above = 0;
  int last = BINS;
  bins b;
  if (best == 0) return 0;
  if (best < count && make_bins(candidate, count, &b)) {
    for (size_t i = 0; i < count; ++i) ++in_bin[bin_of(b, candidate[i].score)];
    while (above < best) above += in_bin[--last];
    count = move_bins(b, last, candidate, count);
    above = move_bins(b, last + 1, candidate, count);
    cr_rank(candidate + above, count - above);
    count = best;
  }
  cr_rank(candidate, count);
  return best < count ? best : count;
}
