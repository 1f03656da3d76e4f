/* Anchors of region proposals (Ren et al., "Faster R-CNN", 2015), offsets of boxes from them, and
 * the objects that they match. Boxes are in pixels and include their last pixel: a blob's
 * (xmin, xmax) is the cr_box (xmin, xmax + 1). */
#ifndef CR_LAYERS_DETECTION_ANCHORS_H
#define CR_LAYERS_DETECTION_ANCHORS_H

#include "layers/common/layer.h"
#include "layers/detection/geometry/boxes.h"

enum { CR_ANCHORS_MOST = 1024 };

typedef struct cr_anchors {
  int64_t count, stride;
  cr_box box[CR_ANCHORS_MOST]; /* around the first cell */
} cr_anchors;

/* The fields that define anchors. */
typedef struct cr_anchor_fields {
  int64_t stride, base;
  const float *ratio, *scale;
  size_t ratios, scales; /* 0: 0.5, 1, 2 and 8, 16, 32 */
} cr_anchor_fields;

/* Makes the anchors of each ratio and scale, by ratio; sides are rounded as in the paper's own
 * code. The param_str of a layer of type Python overrides the fields: feat_stride, scales, ratios
 * (PVANet) and, if `border` is not NULL, allowed_border. Errors: CREMA_E_ARGUMENT, CREMA_E_RANGE,
 * errors of cr_python_fields. */
crema_status cr_anchors_make(const cr_layer *layer, const cr_anchor_fields *fields, double *border,
                             cr_anchors *out) CREMA_MUST_USE;

/* Anchor `anchor` of cell `cell` of a map that is `width` cells wide. */
cr_box cr_anchor_at(const cr_anchors *anchors, int64_t anchor, int64_t cell, int64_t width);

/* The offsets from one box to another: between the centres, in shares of the sides of `from`, and
 * the logarithms of the ratios of sides. */
void cr_box_offset(cr_box from, cr_box to, double out[4]);

/* Draws `wanted` of `count` indices at random, without repetition, and moves them to the front. */
void cr_draw_some(uint64_t key, uint64_t counter, int32_t *index, size_t count, size_t wanted);

/* For each box, the object that it overlaps most. Zero-initialise. */
typedef struct cr_matches {
  cr_box_columns box;
  float *overlap;   /* the best overlap */
  int32_t *truth;   /* the first object with it; 0 if the box overlaps none */
  int32_t *is_best; /* whether no box overlaps some object more */
  float *row;       /* overlaps with one object */
  cr_buffer columns, memory;
} cr_matches;

/* No boxes yet, with room for `most`. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_matches_begin(cr_matches *matches, size_t most) CREMA_MUST_USE;
/* Call after all boxes were added to matches->box. */
void cr_matches_find(cr_matches *matches, const cr_truths *truths);
void cr_matches_free(cr_matches *matches);

#endif
