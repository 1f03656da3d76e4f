/* SequenceAccuracy: how well sequences of labels agree with those that are right. It has no
 * gradient.
 *
 * Formula: accuracy = share of the sequences that are right. Distances: means over the sequences of
 * the edit distance, the number of right labels and the number of found labels. Characters: mean of
 * the labels that agree on the cheapest way to edit. Of equal ways, one that skips right labels
 * comes first, then one that skips found labels.
 * Shapes: found (N, P), labels (N, L), each ending before its first negative label -> accuracy (a
 * scalar) and, optionally, distances (3) and characters (a scalar).
 * Fields: none.
 * Caffe: as in hzli-ucas/caffe. Axes after the second must have the extent 1, as in the sequences
 * of CTCGreedyDecoder.
 * Example, text 2 12, label 2 4:
 *   layer { name: "accuracy" type: "SequenceAccuracy" bottom: "text" bottom: "label"
 *     top: "accuracy" top: "distance" } */
#include "core/buffer.h"
#include "core/fail.h"
#include "layers/common/layer_ctc.h"
#include "layers/common/layer_noop.h"

typedef struct agreement_state {
  cr_buffer memory; /* int32_t: (P + 1) x (L + 1) distances */
} agreement_state;

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const crema_shape scalar = cr_shape(0, NULL), three = cr_shape_1(3);
  char text[2][128];
  for (int i = 0; i < 2; ++i) {
    const crema_shape *shape = &bottom[i]->shape;
    if (shape->axes >= 2 && shape->dim[0] == bottom[0]->shape.dim[0] &&
        crema_shape_count(shape, 2, shape->axes) == 1) {
      continue;
    }
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the bottoms must have shapes N P and N L, found %s and %s",
                         crema_shape_text(&bottom[0]->shape, text[0], sizeof text[0]),
                         crema_shape_text(&bottom[1]->shape, text[1], sizeof text[1]));
  }
  for (int i = 0; i < layer->tops; ++i) {
    CR_TRY(crema_blob_reshape(top[i], i == 1 ? &three : &scalar));
  }
  return CREMA_OK;
}

/* A sequence: its values until the first negative one. */
typedef struct sequence {
  const cr_host_values *from;
  int64_t first, count;
} sequence;

static sequence sequence_of(const cr_ctc_rows *rows, int64_t n) {
  sequence s = {.from = &rows->from, .first = n * rows->length};
  while (s.count < rows->length && cr_host_get(s.from, s.first + s.count) >= 0) ++s.count;
  return s;
}

static bool agree(const sequence *a, int64_t i, const sequence *b, int64_t k) {
  return cr_host_get(a->from, a->first + i) == cr_host_get(b->from, b->first + k);
}

/* cell[i * (label count + 1) + k]: the edits that make the first k labels of the first i found. */
static int32_t fill_cells(const sequence *found, const sequence *label, int32_t *cell) {
  const int64_t width = label->count + 1;
  for (int64_t i = 0; i <= found->count; ++i) {
    for (int64_t k = 0; k <= label->count; ++k) {
      int32_t *to = &cell[i * width + k];
      if (i == 0 || k == 0) {
        *to = (int32_t)(i + k);
        continue;
      }
      const int32_t above = to[-width] + 1, left = to[-1] + 1;
      const int32_t both = to[-width - 1] + !agree(found, i - 1, label, k - 1);
      *to = above < left ? above : left;
      if (both < *to) *to = both;
    }
  }
  return cell[found->count * width + label->count];
}

static int64_t count_agreeing(const sequence *found, const sequence *label, const int32_t *cell) {
  const int64_t width = label->count + 1;
  int64_t i = found->count, k = label->count, agreeing = 0;
  while (i > 0 && k > 0) {
    const int32_t *at = &cell[i * width + k];
    const int32_t above = at[-width] + 1, left = at[-1] + 1;
    if (*at < above && *at < left) {
      agreeing += agree(found, --i, label, --k);
    } else if (left <= above) {
      --k;
    } else {
      --i;
    }
  }
  return agreeing;
}

/* A sequence that begins another agrees with it in all its labels. */
static bool begins(const sequence *a, const sequence *b) {
  for (int64_t i = 0; i < a->count && i < b->count; ++i) {
    if (!agree(a, i, b, i)) return false;
  }
  return true;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  agreement_state *s = layer->state;
  cr_ctc_rows found, label;
  double sum[5] = {0}; /* right sequences, edits, labels, found labels, agreeing labels */
  (void)context;
  CR_TRY(cr_ctc_read_rows(layer, "bottom 0", bottom[0], true, &found));
  CR_TRY(cr_ctc_read_rows(layer, "bottom 1", bottom[1], true, &label));
  CR_TRY(cr_buffer_reserve(
      &s->memory, (size_t)(found.length + 1) * (size_t)(label.length + 1) * sizeof(int32_t)));
  int32_t *cell = (int32_t *)(void *)s->memory.data;
  for (int64_t n = 0; n < found.sequences; ++n) {
    const sequence a = sequence_of(&found, n), b = sequence_of(&label, n);
    const int32_t edits = fill_cells(&a, &b, cell);
    const int64_t shorter = a.count < b.count ? a.count : b.count;
    sum[0] += edits == 0;
    sum[1] += edits;
    sum[2] += (double)b.count;
    sum[3] += (double)a.count;
    sum[4] += (double)(begins(&a, &b) ? shorter : count_agreeing(&a, &b, cell));
  }
  for (int i = 0, at = 0; i < layer->tops; ++i) {
    cr_host_results to;
    CR_TRY(cr_host_write(top[i]->data, &to));
    for (int k = 0; k < (i == 1 ? 3 : 1); ++k, ++at) {
      cr_host_put(&to, k, found.sequences > 0 ? sum[at] / (double)found.sequences : 0);
    }
  }
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  agreement_state *s = layer->state;
  cr_buffer_free(&s->memory);
}

const cr_layer_class cr_layer_sequence_accuracy = {
    CR_LAYER_HOST("SequenceAccuracy", sizeof(agreement_state), cr_layer_noop, reshape, forward,
                  destroy),
    .bottoms = {2, 2},
    .tops = {1, 3},
    .graph.integer_bottoms = CR_ALL_BOTTOMS,
};
