/* Boxes of detectors: prior boxes (Liu et al., "SSD: single shot multibox detector", 2016), objects
 * of a batch, overlaps and non-maximum suppression.
 *
 * All boxes are cr_box (data/augment/augment_box.h) and compared by cr_box_overlap. Their unit is
 * the image, or the pixel for layers of Faster R-CNN. */
#ifndef CR_LAYERS_DETECTION_BOXES_H
#define CR_LAYERS_DETECTION_BOXES_H

#include "core/buffer.h"
#include "data/augment/augment_box.h"
#include "layers/common/layer.h"
#include "layers/common/layer_host.h"
#include "layers/detection/geometry/rank.h"

/* Conversions: */

/* From the centre and the extents. */
cr_box cr_box_around(double x, double y, double width, double height);
/* From the first and the last pixel: left, top, right, bottom. The last pixel is part of the box.
 */
cr_box cr_box_of_pixels(const cr_host_values *pixel, int64_t first);
/* Whether a corner is outside 0..1. */
bool cr_box_crosses(cr_box box);

/* Prior boxes: */

typedef Caffe__PriorBoxParameter__CodeType cr_box_code;

/* A prior box with the variances of its four coordinates. */
typedef struct cr_prior {
  cr_box box;
  float variance[4];
} cr_prior;

/* Prior `index` of a blob (1, 2, 4 priors): boxes, then variances. */
cr_prior cr_prior_at(const float *blob, int64_t priors, int64_t index);

/* Checks the shapes of locations (N, 4 priors of `loc_classes`), scores (N, priors of `classes`)
 * and prior boxes (1, 2, 4 priors), bottoms 0 to 2. Errors: CREMA_E_SHAPE. */
crema_status cr_priors_check(const cr_layer *layer, crema_blob *const *bottom, int64_t classes,
                             int64_t loc_classes, int64_t *images, int64_t *priors) CREMA_MUST_USE;

/* Applies `offset` to a prior. `learned`: the offsets include the variances. */
cr_box cr_box_decode(cr_box_code code, bool learned, const cr_prior *prior, const float *offset);

enum { CR_BOX_PAIRS = 8 };

/* Prior boxes, the boxes to learn from them, and the offsets between both, by coordinate. */
typedef struct cr_box_pairs {
  double prior[4][CR_BOX_PAIRS], variance[4][CR_BOX_PAIRS], box[4][CR_BOX_PAIRS];
  double offset[4][CR_BOX_PAIRS];
} cr_box_pairs;

/* Sets pair `at` to prior `index` of a blob (1, 2, 4 priors) and `box`. */
void cr_box_pairs_put(cr_box_pairs *pairs, int at, const float *blob, int64_t priors, int64_t index,
                      cr_box box);
/* Computes the offsets of the first `count` pairs; the other pairs may hold any numbers. */
void cr_box_encode(cr_box_code code, bool learned, cr_box_pairs *pairs, int count);

/* Reads a repeated field with one number per offset of a box, or `usual` if it is empty. Errors:
 * CREMA_E_ARGUMENT unless there are 4 numbers or none. */
crema_status cr_four_numbers(const cr_layer *layer, const char *name, const float *given,
                             size_t count, const double usual[4], double out[4]) CREMA_MUST_USE;

/* Many boxes: */

/* Boxes by coordinate, for comparing many at once. */
typedef struct cr_box_columns {
  float *xmin, *ymin, *xmax, *ymax, *size;
  size_t count;
} cr_box_columns;

/* Makes room for `most` boxes in `memory`, which the caller owns. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_box_columns_make(cr_buffer *memory, size_t most,
                                 cr_box_columns *out) CREMA_MUST_USE;
/* Adds a box; there must be room. */
void cr_box_columns_add(cr_box_columns *columns, cr_box box);
cr_box cr_box_columns_at(const cr_box_columns *columns, size_t index);
/* Computes out[k] = cr_box_overlap of box k with `box` if it is above `least` (0 or more), else 0.
 * A box with NaN has no overlap. Updates most[k], the best overlap of box k so far, and best[k],
 * the `number` of the first box with it; `first`: both are not set yet. Returns the maximum of
 * `out`. */
float cr_box_columns_match(const cr_box_columns *columns, cr_box box, float least, int32_t number,
                           bool first, float *out, float *most, int32_t *best);

/* Non-maximum suppression of *count candidates, best first, in place. Keeps a candidate unless it
 * overlaps a kept one by more than `threshold`; keeps `most` at most (below 0: all). The number of
 * kept candidates is stored in *count; box[candidate.index] is a candidate's box. `eta` below 1:
 * each kept candidate multiplies a threshold above 0.5 by it. `memory` is scratch. Errors:
 * CREMA_E_NO_MEMORY. */
crema_status cr_suppress(const cr_box *box, cr_ranked *candidate, size_t *count, float threshold,
                         float eta, int64_t most, cr_buffer *memory) CREMA_MUST_USE;

/* Detections: */

/* Writes rows of image, class, score and box, 7 floats each, to a top (1, 1, rows, 7). Without any
 * there becomes one row for each image, with -1 after its number; `row` gets these rows too. */
crema_status cr_write_detections(cr_buffer *row, int64_t images, crema_blob *top) CREMA_MUST_USE;

/* Objects: */

/* An object of a batch. */
typedef struct cr_truth {
  int32_t item, label;
  int32_t row; /* of the bottom */
  bool difficult;
  cr_box box;
} cr_truth;

/* The objects of a batch, by item, then by row. Zero-initialise. */
typedef struct cr_truths {
  cr_buffer memory;
  cr_truth *at;
  size_t count;
} cr_truths;

/* Which rows are objects. */
typedef struct cr_truth_rule {
  int64_t items, classes, background; /* items and classes are below these */
  bool omits_difficult, omits_empty;  /* difficult objects; boxes without an area */
} cr_truth_rule;

/* Checks that a bottom has rows of `width` numbers: (1, 1, rows, width). */
crema_status cr_check_rows(const cr_layer *layer, const char *what, const crema_shape *shape,
                           int64_t width) CREMA_MUST_USE;

/* Reads rows of 8 numbers as AnnotatedData gives them: item, label, instance, xmin, ymin, xmax,
 * ymax, difficult. Omits rows with item -1. Errors: CREMA_E_RANGE for an item or a label that the
 * rule does not allow. */
crema_status cr_truths_read(const cr_layer *layer, const cr_host_values *from, int64_t rows,
                            const cr_truth_rule *rule, cr_truths *out) CREMA_MUST_USE;
/* Reads the pixel boxes of a bottom (objects, 5) of Faster R-CNN: left, top, right, bottom, label.
 * `classes` 0: labels are not read. Errors: CREMA_E_SHAPE, CREMA_E_RANGE. */
crema_status cr_truths_read_pixels(const cr_layer *layer, const crema_blob *blob, int64_t classes,
                                   cr_truths *out) CREMA_MUST_USE;
/* The number of objects of an item, from *first on. Ask for items in ascending order, with *first
 * 0 at first; the caller adds the result to *first or leaves it. */
size_t cr_truths_of(const cr_truths *truths, int64_t item, size_t *first);

#endif
