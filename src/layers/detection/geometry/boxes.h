/* Boxes as SSD has them (Liu et al., "SSD: single shot multibox detector", 2016): prior boxes and
 * what a net makes of them, the objects of a batch, and non-maximum suppression. Coordinates are
 * those of data/augment/augment_box.h. */
#ifndef CR_LAYERS_DETECTION_BOXES_H
#define CR_LAYERS_DETECTION_BOXES_H

#include "core/buffer.h"
#include "data/augment/augment_box.h"
#include "layers/common/layer.h"

typedef Caffe__PriorBoxParameter__CodeType cr_box_code;

/* A prior box with the variances of its four coordinates. */
typedef struct cr_prior {
  cr_box box;
  float variance[4];
} cr_prior;

/* Prior `index` of a blob (1, 2, 4 priors): boxes, then variances. */
cr_prior cr_prior_at(const float *blob, int64_t priors, int64_t index);

/* The box that `offset` makes of a prior. `learned`: the variances are part of what is learnt. */
cr_box cr_box_decode(cr_box_code code, bool learned, const cr_prior *prior, const float *offset);

enum { CR_BOX_PAIRS = 8 };

/* Prior boxes and the boxes that offsets are to make of them, a coordinate after the other. */
typedef struct cr_box_pairs {
  double prior[4][CR_BOX_PAIRS], variance[4][CR_BOX_PAIRS], box[4][CR_BOX_PAIRS];
  double offset[4][CR_BOX_PAIRS];
} cr_box_pairs;

/* Pair `at` becomes that of prior `index` of a blob (1, 2, 4 priors) and `box`. */
void cr_box_pairs_put(cr_box_pairs *pairs, int at, const float *blob, int64_t priors, int64_t index,
                      cr_box box);
/* Finds the offsets of the first `count` pairs; the others may hold any numbers. */
void cr_box_encode(cr_box_code code, bool learned, cr_box_pairs *pairs, int count);

/* A repeated field with one number for each offset of a box: those given, or `usual` where none is.
 * Errors: CREMA_E_ARGUMENT for another number of them. */
crema_status cr_four_numbers(const cr_layer *layer, const char *name, const float *given,
                             size_t count, const double usual[4], double out[4]) CREMA_MUST_USE;

/* Whether a corner is outside of the image. */
bool cr_box_crosses(cr_box box);

/* A candidate: candidates are sorted by score, of equal scores the lower index first; nan last. */
typedef struct cr_ranked {
  float score;
  int32_t label, index;
} cr_ranked;

void cr_rank(cr_ranked *candidate, size_t count);
/* Sorts only the best: the first `best` of the sorted candidates, which may be more than there are,
 * are then in front; what follows them is undefined. Returns how many they are. */
size_t cr_rank_best(cr_ranked *candidate, size_t count, size_t best);

/* Boxes, a coordinate after the other, so that many are compared at once. */
typedef struct cr_box_columns {
  float *xmin, *ymin, *xmax, *ymax, *size;
  size_t count;
} cr_box_columns;

/* None yet, with room for `most`, in `memory`, which stays the caller's. Errors: CREMA_E_NO_MEMORY.
 */
crema_status cr_box_columns_make(cr_buffer *memory, size_t most,
                                 cr_box_columns *out) CREMA_MUST_USE;
/* Adds a box, for which there must be room. */
void cr_box_columns_add(cr_box_columns *columns, cr_box box);
/* out[count]: cr_box_overlap of each with `box`, where it is above `least`, 0 or more, else 0; a
 * box with a nan overlaps nothing. most[count], best[count]: of each the best overlap so far and
 * the number of the box that it is with, of equal ones the first; `first`: there was none so far.
 * Returns the largest of `out`. */
float cr_box_columns_match(const cr_box_columns *columns, cr_box box, float least, int32_t number,
                           bool first, float *out, float *most, int32_t *best);

/* Of *count candidates, best first, keeps those that overlap no better one by more than
 * `threshold`, in place; box[candidate.index] is a candidate's box. Below 1, the threshold is
 * multiplied by `eta` after each that is kept as long as it is above 0.5. *count becomes how many
 * are kept, `most` at most (below 0: any number). `memory` is a scratchpad. Errors:
 * CREMA_E_NO_MEMORY. */
crema_status cr_suppress(const cr_box *box, cr_ranked *candidate, size_t *count, float threshold,
                         float eta, int64_t most, cr_buffer *memory) CREMA_MUST_USE;

/* An object of a batch: a row of AnnotatedData's label. */
typedef struct cr_truth {
  int32_t item, label;
  bool difficult;
  cr_box box;
} cr_truth;

/* Checks that a bottom has rows of `width` numbers: (1, 1, rows, width). */
crema_status cr_check_rows(const cr_layer *layer, const char *what, const crema_shape *shape,
                           int64_t width) CREMA_MUST_USE;

/* Appends the objects (cr_truth) of `rows` rows of 8 numbers, those of item -1 left out, and
 * without `difficult` those that are; sorted by item, else in their order. Errors: CREMA_E_RANGE
 * for a label that is no class of `classes` or is the background. */
crema_status cr_read_truth(const cr_layer *layer, const float *row, int64_t rows, int64_t classes,
                           int64_t background, bool difficult, cr_buffer *out) CREMA_MUST_USE;

#endif
