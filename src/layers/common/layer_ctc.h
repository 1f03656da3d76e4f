/* Sequences of classes for the layers of connectionist temporal classification. They have scores of
 * each class in each step, labels that are shorter, and a class that stands for no label. */
#ifndef CR_LAYERS_LAYER_CTC_H
#define CR_LAYERS_LAYER_CTC_H

#include "layers/common/layer_host.h"

/* Values of `sequences` sequences, `apart` elements from one to the next, `step` from one value of
 * a sequence to the next; `length` values at most. */
typedef struct cr_ctc_rows {
  cr_host_values from;
  int64_t sequences, apart, step, length;
} cr_ctc_rows;

/* Shape (length, N, ...) or, with `by_sequence`, (N, length, ...). */
crema_status cr_ctc_read_rows(const cr_layer *layer, const char *what, crema_blob *blob,
                              bool by_sequence, cr_ctc_rows *out) CREMA_MUST_USE;

/* Scores of each class in each step. */
typedef struct cr_ctc_scores {
  cr_ctc_rows rows; /* of `classes` values each */
  int64_t classes, class_step;
} cr_ctc_scores;

crema_status cr_ctc_read_scores(const cr_layer *layer, crema_blob *blob, bool by_sequence,
                                cr_ctc_scores *out) CREMA_MUST_USE;

/* The axes of sequences, classes and steps that ctc_param of the layer gives, without indicators:
 * nct_axis or 0, 1 and the only other axis whose extent is not 1. Errors: CREMA_E_SHAPE. */
typedef struct cr_ctc_axes {
  int sequences, classes, steps;
} cr_ctc_axes;

crema_status cr_ctc_find_axes(const cr_layer *layer, const crema_shape *scores,
                              cr_ctc_axes *out) CREMA_MUST_USE;
crema_status cr_ctc_read_axes(crema_blob *blob, const cr_ctc_axes *axes,
                              cr_ctc_scores *out) CREMA_MUST_USE;
double cr_ctc_score(const cr_ctc_scores *scores, int64_t sequence, int64_t step, int64_t class);

/* How many steps sequence `n` has: up to the second 0 of its indicators; all without indicators. */
int64_t cr_ctc_steps(const cr_ctc_rows *indicators, int64_t n, int64_t most);

/* The labels of sequence `n`: without those that equal `blank`, and only up to the first negative
 * one. Errors: CREMA_E_RANGE for a label that is no class. */
crema_status cr_ctc_labels(const cr_layer *layer, const cr_ctc_rows *labels, int64_t n,
                           int64_t classes, int64_t blank, int32_t *to,
                           int64_t *count) CREMA_MUST_USE;

/* The best path of sequence `n` over `steps` steps, without blanks and, with `merge`, without the
 * repetitions of a class. *score, unless NULL: minus the sum of the best scores. Returns its
 * length.
 */
int64_t cr_ctc_decode(const cr_ctc_scores *scores, int64_t n, int64_t steps, int64_t blank,
                      bool merge, int32_t *to, double *score);

/* How many insertions, deletions and substitutions make `b` of `a`. `row`: b_count + 1 numbers. */
int32_t cr_ctc_edit_distance(const int32_t *a, int64_t a_count, const int32_t *b, int64_t b_count,
                             int32_t *row);

/* `given` where it names a class, also from the end (-1: the last). Errors: CREMA_E_RANGE. */
crema_status cr_ctc_blank(const cr_layer *layer, int64_t given, int64_t classes,
                          int64_t *out) CREMA_MUST_USE;

#endif
