/* LabelsequenceAccuracy: how many sequences the best path decodes without a fault. It has no
 * gradient.
 *
 * Formula: accuracy = share of the sequences whose labels are the classes with the highest scores,
 * repetitions merged and blanks omitted.
 * Shapes: scores (N, T, C), labels (N, L), filled up with blanks -> accuracy (a scalar).
 * Fields: labelsequence_accuracy_param.
 * Caffe: as in forks with WarpCTC, with scores (N, T, C) where CtcLoss has (T, N, C).
 * Example, scores 2 12 6, label 2 4:
 *   layer { name: "accuracy" type: "LabelsequenceAccuracy" bottom: "scores" bottom: "label"
 *     top: "accuracy" labelsequence_accuracy_param { blank_label: 0 } } */
#include <string.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "layers/common/layer_ctc.h"
#include "layers/common/layer_noop.h"

typedef struct accuracy_state {
  cr_buffer memory; /* int32_t: a path and its labels */
} accuracy_state;

static int64_t blank_of(const cr_layer *layer) {
  const Caffe__LabelsequenceAccuracyParameter *param = layer->param->labelsequence_accuracy_param;
  return param != NULL ? param->blank_label : 0;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const crema_shape *scores = &bottom[0]->shape, *labels = &bottom[1]->shape;
  const crema_shape scalar = cr_shape(0, NULL);
  int64_t blank = 0;
  char text[2][128];
  if (scores->axes < 3 || crema_shape_count(scores, 3, scores->axes) != 1 || labels->axes < 2 ||
      labels->dim[0] != scores->dim[0] || crema_shape_count(labels, 2, labels->axes) != 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the bottoms must have shapes N T C and N L, found %s and %s",
                         crema_shape_text(scores, text[0], sizeof text[0]),
                         crema_shape_text(labels, text[1], sizeof text[1]));
  }
  CR_TRY(cr_ctc_blank(layer, blank_of(layer), scores->dim[2], &blank));
  return crema_blob_reshape(top[0], &scalar);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  accuracy_state *s = layer->state;
  cr_ctc_scores scores;
  cr_ctc_rows labels;
  cr_host_results to;
  int64_t blank = 0, right = 0;
  (void)context;
  CR_TRY(cr_ctc_read_scores(layer, bottom[0], true, &scores));
  CR_TRY(cr_ctc_read_rows(layer, "bottom 1", bottom[1], true, &labels));
  CR_TRY(cr_ctc_blank(layer, blank_of(layer), scores.classes, &blank));
  const int64_t steps = scores.rows.length, sequences = scores.rows.sequences;
  CR_TRY(cr_buffer_reserve(&s->memory, (size_t)(steps + labels.length + 1) * sizeof(int32_t)));
  int32_t *path = (int32_t *)(void *)s->memory.data;
  for (int64_t n = 0; n < sequences; ++n) {
    int64_t wanted = 0;
    const int64_t count = cr_ctc_decode(&scores, n, steps, blank, true, path, NULL);
    CR_TRY(cr_ctc_labels(layer, &labels, n, scores.classes, blank, path + steps, &wanted));
    right += count == wanted && memcmp(path, path + steps, (size_t)count * sizeof *path) == 0;
  }
  CR_TRY(cr_host_write(top[0]->data, &to));
  cr_host_put(&to, 0, sequences > 0 ? (double)right / (double)sequences : 0);
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  accuracy_state *s = layer->state;
  cr_buffer_free(&s->memory);
}

const cr_layer_class cr_layer_label_sequence_accuracy = {
    CR_LAYER_HOST("LabelsequenceAccuracy", sizeof(accuracy_state), cr_layer_noop, reshape, forward,
                  destroy),
    .bottoms = {2, 2},
    .tops = {1, 1},
    .graph.integer_bottoms = 1u << 1,
};
