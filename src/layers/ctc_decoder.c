/* CTCGreedyDecoder: the labels of the best path through scores that CTCLoss trains. It has no
 * gradient.
 *
 * Formula: the class with the highest score in each step; of repetitions one is kept unless
 * ctc_merge_repeated is false, and blanks are omitted.
 * Shapes: scores (T, N, C), indicators (T, N), optionally labels (L, N) -> sequences (N, T, 1, 1),
 * filled up with -1. A further top is, with labels, the accuracy (1, 1, 1, 1) and, without labels,
 * minus the sum of the best scores (N, 1, 1, 1). Three tops: sequences, sums, accuracy. A sequence
 * ends before its second indicator 0, its labels before the first negative one. The accuracy is 1 -
 * the mean of edit distance / length of the longer sequence.
 * Fields: ctc_decoder_param.
 * Caffe: as in Wick's fork.
 * Example, scores 12 2 6, cont 12 2:
 *   layer { name: "text" type: "CTCGreedyDecoder" bottom: "scores" bottom: "cont" top: "text"
 *     ctc_decoder_param { blank_index: 0 } } */
#include "core/buffer.h"
#include "core/fail.h"
#include "layers/common/layer_ctc.h"
#include "layers/common/layer_noop.h"

typedef struct decoder_state {
  cr_buffer memory; /* int32_t: a path, its labels, and a row of distances */
} decoder_state;

static const Caffe__CTCDecoderParameter *param_of(const cr_layer *layer) {
  static const Caffe__CTCDecoderParameter defaults = CAFFE__CTCDECODER_PARAMETER__INIT;
  return layer->param->ctc_decoder_param ? layer->param->ctc_decoder_param : &defaults;
}

/* Which top has the sums, and which the accuracy; 0: none. */
static int top_of_sums(const cr_layer *layer) {
  return layer->tops > 2 || (layer->tops == 2 && layer->bottoms == 2) ? 1 : 0;
}

static int top_of_accuracy(const cr_layer *layer) {
  return layer->bottoms > 2 ? layer->tops - 1 : 0;
}

static crema_status check_bottoms(const cr_layer *layer, crema_blob *const *bottom) {
  const crema_shape *scores = &bottom[0]->shape;
  int64_t blank = 0;
  char text[128];
  if (scores->axes < 3 || crema_shape_count(scores, 3, scores->axes) != 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must have shape T N C, found %s",
                         crema_shape_text(scores, text, sizeof text));
  }
  for (int i = 1; i < layer->bottoms; ++i) {
    const crema_shape *shape = &bottom[i]->shape;
    if (shape->axes >= 2 && shape->dim[1] == scores->dim[1] &&
        (i > 1 || shape->dim[0] == scores->dim[0]) &&
        crema_shape_count(shape, 2, shape->axes) == 1) {
      continue;
    }
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "bottom %d must have a column for each of %lld "
                         "sequences, found shape %s",
                         i, (long long)scores->dim[1], crema_shape_text(shape, text, sizeof text));
  }
  return cr_ctc_blank(layer, param_of(layer)->blank_index, scores->dim[2], &blank);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const crema_shape *scores = &bottom[0]->shape;
  CR_TRY(check_bottoms(layer, bottom));
  const crema_shape sequences = cr_shape_4(scores->dim[1], scores->dim[0], 1, 1);
  const crema_shape sums = cr_shape_4(scores->dim[1], 1, 1, 1), one = cr_shape_4(1, 1, 1, 1);
  if (layer->tops > layer->bottoms) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "the accuracy needs labels as bottom 2");
  }
  CR_TRY(crema_blob_reshape(top[0], &sequences));
  if (top_of_sums(layer) > 0) CR_TRY(crema_blob_reshape(top[top_of_sums(layer)], &sums));
  if (top_of_accuracy(layer) == 0) return CREMA_OK;
  return crema_blob_reshape(top[top_of_accuracy(layer)], &one);
}

/* How many insertions, deletions and substitutions make `b` of `a`. `row`: b_count + 1 numbers. */
static int32_t edit_distance(const int32_t *a, int64_t a_count, const int32_t *b, int64_t b_count,
                             int32_t *row) {
  for (int64_t k = 0; k <= b_count; ++k) row[k] = (int32_t)k;
  for (int64_t i = 0; i < a_count; ++i) {
    int32_t corner = row[0];
    row[0] = (int32_t)i + 1;
    for (int64_t k = 0; k < b_count; ++k) {
      const int32_t above = row[k + 1], left = row[k], least = above < left ? above : left;
      const int32_t changed = corner + (a[i] != b[k]);
      row[k + 1] = changed <= least ? changed : least + 1;
      corner = above;
    }
  }
  return row[b_count];
}

/* The share of sequence n that is wrong. `label` has room for its labels and a row of distances. */
static crema_status compare(const cr_layer *layer, const cr_ctc_rows *labels, int64_t classes,
                            int64_t n, const int32_t *path, int64_t count, int32_t *label,
                            double *lost) {
  int64_t wanted = 0;
  CR_TRY(cr_ctc_labels(layer, labels, n, classes, -1, label, &wanted));
  const int64_t longer = wanted > count ? wanted : count;
  const int32_t edits = edit_distance(path, count, label, wanted, label + labels->length);
  *lost = longer > 0 ? (double)edits / (double)longer : 0;
  return CREMA_OK;
}

static crema_status decode_all(const cr_layer *layer, const cr_ctc_scores *scores,
                               const cr_ctc_rows *indicators, const cr_ctc_rows *labels,
                               cr_host_results to[3]) {
  const Caffe__CTCDecoderParameter *param = param_of(layer);
  decoder_state *s = layer->state;
  const int64_t steps = scores->rows.length, sequences = scores->rows.sequences;
  int32_t *path = (int32_t *)(void *)s->memory.data;
  int64_t blank = 0;
  double all_lost = 0;
  CR_TRY(cr_ctc_blank(layer, param->blank_index, scores->classes, &blank));
  for (int64_t n = 0; n < sequences; ++n) {
    double sum = 0, lost = 0;
    const int64_t count = cr_ctc_decode(scores, n, cr_ctc_steps(indicators, n, steps), blank,
                                        param->ctc_merge_repeated, path, &sum);
    for (int64_t t = 0; t < steps; ++t)
      cr_host_put(&to[0], n * steps + t, t < count ? path[t] : -1);
    if (top_of_sums(layer) > 0) cr_host_put(&to[top_of_sums(layer)], n, sum);
    if (top_of_accuracy(layer) == 0) continue;
    CR_TRY(compare(layer, labels, scores->classes, n, path, count, path + steps, &lost));
    all_lost += lost;
  }
  if (top_of_accuracy(layer) > 0) {
    cr_host_put(&to[top_of_accuracy(layer)], 0,
                1 - (sequences > 0 ? all_lost / (double)sequences : 0));
  }
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  decoder_state *s = layer->state;
  cr_ctc_rows indicators, labels = {0};
  cr_ctc_scores scores;
  cr_host_results to[3];
  (void)context;
  CR_TRY(cr_ctc_read_scores(layer, bottom[0], false, &scores));
  CR_TRY(cr_ctc_read_rows(layer, "bottom 1", bottom[1], false, &indicators));
  if (layer->bottoms > 2) {
    CR_TRY(cr_ctc_read_rows(layer, "bottom 2", bottom[2], false, &labels));
  }
  const size_t numbers = (size_t)(scores.rows.length + 2 * labels.length + 1);
  CR_TRY(cr_buffer_reserve(&s->memory, (numbers + (size_t)labels.length) * sizeof(int32_t)));
  for (int t = 0; t < layer->tops; ++t) CR_TRY(cr_host_write(top[t]->data, &to[t]));
  return decode_all(layer, &scores, &indicators, &labels, to);
}

static void destroy(cr_layer *layer) {
  decoder_state *s = layer->state;
  cr_buffer_free(&s->memory);
}

const cr_layer_class cr_layer_ctc_decoder = {
    CR_LAYER_HOST("CTCGreedyDecoder", sizeof(decoder_state), cr_layer_noop, reshape, forward,
                  destroy),
    .bottoms = {2, 3},
    .tops = {1, 3},
    .graph.integer_bottoms = 1u << 2,
};
