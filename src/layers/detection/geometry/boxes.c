#include "layers/detection/geometry/boxes.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"

cr_prior cr_prior_at(const float *blob, int64_t priors, int64_t index) {
  const float *box = blob + 4 * index, *variance = blob + 4 * (priors + index);
  return (cr_prior){{box[0], box[1], box[2], box[3]},
                    {variance[0], variance[1], variance[2], variance[3]}};
}

cr_box cr_box_decode(cr_box_code code, bool learned, const cr_prior *prior, const float *offset) {
  const cr_box p = prior->box;
  const float width = p.xmax - p.xmin, height = p.ymax - p.ymin;
  float d[4];
  for (int k = 0; k < 4; ++k) d[k] = learned ? offset[k] : prior->variance[k] * offset[k];
  if (code == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CORNER) {
    return (cr_box){p.xmin + d[0], p.ymin + d[1], p.xmax + d[2], p.ymax + d[3]};
  }
  if (code == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CORNER_SIZE) {
    return (cr_box){p.xmin + d[0] * width, p.ymin + d[1] * height, p.xmax + d[2] * width,
                    p.ymax + d[3] * height};
  }
  const float x = d[0] * width + (p.xmin + p.xmax) / 2, y = d[1] * height + (p.ymin + p.ymax) / 2;
  const float w = expf(d[2]) * width, h = expf(d[3]) * height;
  return (cr_box){x - w / 2, y - h / 2, x + w / 2, y + h / 2};
}

void cr_box_pairs_put(cr_box_pairs *pairs, int at, const float *blob, int64_t priors, int64_t index,
                      cr_box box) {
  const float *prior = blob + 4 * index, *variance = prior + 4 * priors;
  const float sides[4] = {box.xmin, box.ymin, box.xmax, box.ymax};
  for (int k = 0; k < 4; ++k) {
    pairs->prior[k][at] = (double)prior[k];
    pairs->variance[k][at] = (double)variance[k];
    pairs->box[k][at] = (double)sides[k];
  }
}

/* The offsets without variances; for CENTER_SIZE, powers of those of the sizes. */
CR_CLONES static void differences(cr_box_code code, cr_box_pairs *pairs) {
  const bool corners = code == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CORNER;
  const bool centres = code == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CENTER_SIZE;
  for (int axis = 0; axis < 2; ++axis) {
    const double *low = pairs->prior[axis], *high = pairs->prior[axis + 2];
    const double *b_low = pairs->box[axis], *b_high = pairs->box[axis + 2];
    double *first = pairs->offset[axis], *second = pairs->offset[axis + 2];
#pragma omp simd
    for (int i = 0; i < CR_BOX_PAIRS; ++i) {
      const double size = corners ? 1 : high[i] - low[i];
      const double centre = (b_low[i] + b_high[i] - low[i] - high[i]) / 2;
      first[i] = (centres ? centre : b_low[i] - low[i]) / size;
      second[i] = (b_high[i] - (centres ? b_low[i] : high[i])) / size;
    }
  }
}

CR_CLONES static void divide_by_variances(cr_box_pairs *pairs) {
  for (int k = 0; k < 4; ++k) {
#pragma omp simd
    for (int i = 0; i < CR_BOX_PAIRS; ++i) pairs->offset[k][i] /= pairs->variance[k][i];
  }
}

void cr_box_encode(cr_box_code code, bool learned, cr_box_pairs *pairs, int count) {
  differences(code, pairs);
  for (int k = 2; k < 4 && code == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CENTER_SIZE; ++k) {
    for (int i = 0; i < count; ++i) pairs->offset[k][i] = log(pairs->offset[k][i]);
  }
  if (!learned) divide_by_variances(pairs);
}

crema_status cr_four_numbers(const cr_layer *layer, const char *name, const float *given,
                             size_t count, const double usual[4], double out[4]) {
  if (count != 0 && count != 4) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "%s has %zu numbers, needs 4 or none", name,
                         count);
  }
  for (int k = 0; k < 4; ++k) out[k] = count ? (double)given[k] : usual[k];
  return CREMA_OK;
}

bool cr_box_crosses(cr_box b) {
  return b.xmin < 0 || b.xmin > 1 || b.ymin < 0 || b.ymin > 1 || b.xmax < 0 || b.xmax > 1 ||
         b.ymax < 0 || b.ymax > 1;
}

/* ---- ranks --------------------------------------------------------------- */

static bool comes_before(const cr_ranked *a, const cr_ranked *b) {
  if (a->score > b->score) return true;
  if (a->score < b->score) return false;
  if (isnan(a->score) != isnan(b->score)) return isnan(b->score);
  return a->label != b->label ? a->label < b->label : a->index < b->index;
}

/* Sorts those that are `gap` apart. */
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

enum { FEWEST = 10 /* from here on it matters that they move far at first */ };

/* Shell's sort, which needs no memory. */
static void rank_few(cr_ranked *candidate, size_t count) {
  static const size_t gaps[] = {44842, 19930, 8858, 3937, 1750, 701, 301, 132, 57, 23, 10, 4};
  for (size_t g = 0; count >= FEWEST && g < sizeof gaps / sizeof gaps[0]; ++g) {
    insert_each(candidate, count, gaps[g]);
  }
  insert_each(candidate, count, 1);
}

enum { BINS = 1024 };

/* Scores in equal steps from the lowest to the highest; nan is with the lowest. */
typedef struct bins {
  float low, steps; /* steps: bins in a distance of 1 */
} bins;

static int bin_of(bins b, float score) {
  const float at = (score - b.low) * b.steps;
  return at > 0 ? (at < BINS - 1 ? (int)at : BINS - 1) : 0;
}

/* False where the scores do not lie in bins: all are the same, or one is infinite. */
static bool make_bins(const cr_ranked *candidate, size_t count, bins *out) {
  float low = FLT_MAX, high = -FLT_MAX;
  for (size_t i = 0; i < count; ++i) {
    low = candidate[i].score < low ? candidate[i].score : low;
    high = candidate[i].score > high ? candidate[i].score : high;
  }
  *out = (bins){low, (float)BINS / (high - low)};
  return high > low && isfinite(out->steps) && out->steps > 0;
}

/* Puts each candidate where its bin belongs, by exchanging it with the one that lies there, and
 * sorts each bin. */
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

/* Fewer are sorted faster without bins. */
enum { FEW = 512 };

void cr_rank(cr_ranked *candidate, size_t count) {
  bins b;
  if (count > FEW && make_bins(candidate, count, &b)) rank_by_bins(b, candidate, count);
  else rank_few(candidate, count);
}

/* Moves the candidates of bins from `first` on to the front; returns how many they are. */
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

/* Puts the first `best` of the sorted candidates in front, in any order. The bins that hold them
 * come first; only the last of these has others, too. */
static size_t select_best(cr_ranked *candidate, size_t count, size_t best) {
  uint32_t in_bin[BINS] = {0};
  size_t above = 0;
  int last = BINS;
  bins b;
  if (best >= count || best == 0) return best == 0 ? 0 : count;
  if (!make_bins(candidate, count, &b)) {
    cr_rank(candidate, count);
    return best;
  }
  for (size_t i = 0; i < count; ++i) ++in_bin[bin_of(b, candidate[i].score)];
  while (above < best) above += in_bin[--last];
  count = move_bins(b, last, candidate, count);
  above = move_bins(b, last + 1, candidate, count);
  cr_rank(candidate + above, count - above);
  return best;
}

size_t cr_rank_best(cr_ranked *candidate, size_t count, size_t best) {
  count = select_best(candidate, count, best);
  cr_rank(candidate, count);
  return count;
}

/* ---- many boxes ---------------------------------------------------------- */

crema_status cr_box_columns_make(cr_buffer *memory, size_t most, cr_box_columns *out) {
  if (most > SIZE_MAX / (5 * sizeof(float))) return cr_fail_memory(SIZE_MAX, "boxes");
  CR_TRY(cr_buffer_reserve(memory, 5 * most * sizeof(float)));
  float *at = (float *)(void *)memory->data;
  *out = (cr_box_columns){at, at + most, at + 2 * most, at + 3 * most, at + 4 * most, 0};
  return CREMA_OK;
}

void cr_box_columns_add(cr_box_columns *columns, cr_box box) {
  const size_t i = columns->count++;
  columns->xmin[i] = box.xmin;
  columns->ymin[i] = box.ymin;
  columns->xmax[i] = box.xmax;
  columns->ymax[i] = box.ymax;
  columns->size[i] = cr_box_size(box);
}

/* What two boxes have in common. */
CR_INLINE float shared_by(float xmin, float ymin, float xmax, float ymax, cr_box box) {
  const float left = xmin > box.xmin ? xmin : box.xmin, top = ymin > box.ymin ? ymin : box.ymin;
  const float right = xmax < box.xmax ? xmax : box.xmax, bottom = ymax < box.ymax ? ymax : box.ymax;
  const float width = right > left ? right - left : 0, height = bottom > top ? bottom - top : 0;
  return width * height;
}

/* What `count` boxes from `first` on share with `box`, of size `own`: as cr_box_overlap, without
 * branches. A box with a nan overlaps nothing. */
CR_INLINE void overlap_some(const cr_box_columns *of, size_t first, size_t count, cr_box box,
                            float own, float *out) {
  const float *xmin = of->xmin + first, *ymin = of->ymin + first, *xmax = of->xmax + first,
              *ymax = of->ymax + first, *size = of->size + first;
#pragma omp simd
  for (size_t k = 0; k < count; ++k) {
    const float shared = shared_by(xmin[k], ymin[k], xmax[k], ymax[k], box);
    const float share = shared / (own + size[k] - shared);
    out[k] = shared > 0 ? share : 0;
  }
}

CR_INLINE float match_with(const cr_box_columns *of, cr_box box, float own, float least,
                           int32_t number, bool first, float *out, float *most, int32_t *best) {
  float top = 0;
  const float *xmin = of->xmin, *ymin = of->ymin, *xmax = of->xmax, *ymax = of->ymax,
              *size = of->size;
#pragma omp simd reduction(max : top)
  for (size_t k = 0; k < of->count; ++k) {
    const float shared = shared_by(xmin[k], ymin[k], xmax[k], ymax[k], box);
    const float share = shared / (own + size[k] - shared);
    const float found = share > least ? share : 0; /* not where nothing is shared, either */
    const float before = first ? 0 : most[k];
    const int32_t of_before = first ? number : best[k];
    out[k] = found;
    most[k] = found > before ? found : before;
    best[k] = found > before ? number : of_before;
    top = found > top ? found : top;
  }
  return top;
}

CR_CLONES static float match_all(const cr_box_columns *of, cr_box box, float own, float least,
                                 int32_t number, bool first, float *out, float *most,
                                 int32_t *best) {
  return first ? match_with(of, box, own, least, number, true, out, most, best)
               : match_with(of, box, own, least, number, false, out, most, best);
}

float cr_box_columns_match(const cr_box_columns *columns, cr_box box, float least, int32_t number,
                           bool first, float *out, float *most, int32_t *best) {
  return match_all(columns, box, cr_box_size(box), least, number, first, out, most, best);
}

enum { BLOCK = 32 };

/* Whether one of BLOCK boxes from `first` on may overlap `box` by more than `threshold`: whether
 * what they share is at least this part of what they cover. If the quotient is more when it is
 * rounded, it is more before that, and then this product is no more than what they share after it
 * is rounded. A division takes as long as all the rest. */
CR_INLINE bool may_overlap(const cr_box_columns *of, size_t first, cr_box box, float own,
                           float threshold) {
  const float *xmin = of->xmin + first, *ymin = of->ymin + first, *xmax = of->xmax + first,
              *ymax = of->ymax + first, *size = of->size + first;
  int found = 0;
#pragma omp simd reduction(| : found)
  for (size_t k = 0; k < BLOCK; ++k) {
    const float shared = shared_by(xmin[k], ymin[k], xmax[k], ymax[k], box);
    found |= (shared > 0) & (shared >= threshold * (own + size[k] - shared));
  }
  return found != 0;
}

/* Whether `box` overlaps one of the boxes, whose last block is filled up, by more than `threshold`.
 */
CR_CLONES static bool overlaps_one(const cr_box_columns *kept, cr_box box, float own,
                                   float threshold) {
  float overlap[BLOCK];
  for (size_t i = 0; i < kept->count; i += BLOCK) {
    int found = 0;
    if (!may_overlap(kept, i, box, own, threshold)) continue;
    overlap_some(kept, i, BLOCK, box, own, overlap);
    for (size_t k = 0; k < BLOCK; ++k) found |= overlap[k] > threshold;
    if (found) return true;
  }
  return false;
}

/* Adds a box; where it is the first of a block, the others become boxes that share nothing. */
static void keep(cr_box_columns *kept, cr_box box) {
  for (size_t i = kept->count; kept->count % BLOCK == 0 && i < kept->count + BLOCK; ++i) {
    kept->xmin[i] = kept->ymin[i] = kept->size[i] = 0;
    kept->xmax[i] = kept->ymax[i] = -1;
  }
  cr_box_columns_add(kept, box);
}

crema_status cr_suppress(const cr_box *box, cr_ranked *candidate, size_t *count, float threshold,
                         float eta, int64_t most, cr_buffer *memory) {
  cr_box_columns kept;
  const size_t end = most >= 0 && (uint64_t)most < *count ? (size_t)most : *count;
  CR_TRY(cr_box_columns_make(memory, (end + BLOCK - 1) / BLOCK * BLOCK, &kept));
  for (size_t i = 0; i < *count && kept.count < end; ++i) {
    const cr_box one = box[candidate[i].index];
    if (overlaps_one(&kept, one, cr_box_size(one), threshold < 0 ? 0 : threshold)) continue;
    candidate[kept.count] = candidate[i];
    keep(&kept, one);
    if (eta < 1 && threshold > 0.5f) threshold *= eta;
  }
  *count = kept.count;
  return CREMA_OK;
}

/* ---- objects ------------------------------------------------------------- */

crema_status cr_check_rows(const cr_layer *layer, const char *what, const crema_shape *shape,
                           int64_t width) {
  char text[128];
  if (shape->axes == 4 && shape->dim[0] == 1 && shape->dim[1] == 1 && shape->dim[3] == width) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_SHAPE, "%s must have shape 1 1 rows %lld, found %s", what,
                       (long long)width, crema_shape_text(shape, text, sizeof text));
}

/* Moves the last object in front of those of higher items. */
static void sort_last(cr_buffer *buffer) {
  cr_truth *all = (cr_truth *)(void *)buffer->data;
  size_t at = buffer->size / sizeof *all - 1;
  const cr_truth last = all[at];
  for (; at > 0 && all[at - 1].item > last.item; --at) all[at] = all[at - 1];
  all[at] = last;
}

crema_status cr_read_truth(const cr_layer *layer, const float *row, int64_t rows, int64_t classes,
                           int64_t background, bool difficult, cr_buffer *out) {
  cr_buffer_clear(out);
  for (int64_t i = 0; i < rows; ++i, row += 8) {
    if (row[0] == -1 || (row[7] != 0 && !difficult)) continue;
    if (!(row[0] >= 0 && row[0] < 1e9f)) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "object %lld is of item %g", (long long)i,
                           (double)row[0]);
    }
    if (!(row[1] >= 0 && row[1] < (float)classes) || (int64_t)row[1] == background) {
      return cr_layer_fail(layer, CREMA_E_RANGE,
                           "object %lld has label %g, which is not one of %lld classes or is the "
                           "background, %lld",
                           (long long)i, (double)row[1], (long long)classes, (long long)background);
    }
    const cr_truth truth = {
        (int32_t)row[0], (int32_t)row[1], row[7] != 0, {row[3], row[4], row[5], row[6]}};
    CR_TRY(cr_buffer_append(out, &truth, sizeof truth));
    sort_last(out);
  }
  return CREMA_OK;
}
