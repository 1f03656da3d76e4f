/* Anchors of region proposals (Ren et al., "Faster R-CNN", 2015), and offsets of boxes from them.
 * Boxes are in pixels; the last pixel is part of them, so that a width is xmax - xmin + 1. */
#ifndef CR_LAYERS_DETECTION_ANCHORS_H
#define CR_LAYERS_DETECTION_ANCHORS_H

#include "layers/common/layer.h"
#include "layers/detection/geometry/boxes.h"

enum { CR_ANCHORS_MOST = 1024 };

typedef struct cr_anchors {
  int64_t count, stride;
  cr_box box[CR_ANCHORS_MOST]; /* around the first cell */
} cr_anchors;

/* What anchors are made of. */
typedef struct cr_anchor_fields {
  int64_t stride, base;
  const float *ratio, *scale;
  size_t ratios, scales; /* 0: 0.5, 1, 2 and 8, 16, 32 */
} cr_anchor_fields;

/* The anchors of each ratio and scale, scales side by side; their sides are rounded as in the
 * paper's own code. For a layer of type Python, its param_str goes before the fields: feat_stride,
 * scales, ratios (PVANet) and, where `border` is not NULL, allowed_border. Errors:
 * CREMA_E_ARGUMENT, CREMA_E_RANGE, those of cr_python_fields. */
crema_status cr_anchors_make(const cr_layer *layer, const cr_anchor_fields *fields, double *border,
                             cr_anchors *out) CREMA_MUST_USE;

/* A box in double precision: xmin, ymin, xmax, ymax. */
typedef struct cr_pixel_box {
  double at[4];
} cr_pixel_box;

/* Anchor `anchor` of cell `cell` of a map that is `width` cells wide. */
cr_pixel_box cr_anchor_at(const cr_anchors *anchors, int64_t anchor, int64_t cell, int64_t width);

/* The offsets that make `to` of `from`: of the centre in shares of its sides, and logarithms of the
 * ratios of sides. */
void cr_pixel_offset(const cr_pixel_box *from, const cr_pixel_box *to, double out[4]);

/* Moves `wanted` of `count` indices, drawn at random without putting back, to the front. */
void cr_draw_some(uint64_t key, uint64_t counter, int32_t *index, size_t count, size_t wanted);

/* An object of a bottom of shape (objects, 5): its box and its class. */
typedef struct cr_pixel_truth {
  cr_pixel_box box;
  double label;
} cr_pixel_truth;

/* Boxes, and for each of them the object that it overlaps most: the overlap (area common to both
 * over the area of either), the object (of equal ones the first; -1: it meets none), and whether it
 * is one of those that overlap some object most. Zero-initialise. */
typedef struct cr_pixel_matches {
  size_t count;
  double *at[4], *area; /* coordinates and areas */
  double *overlap;
  int32_t *truth, *is_best;
  double *row; /* overlaps with one object */
  cr_buffer memory;
} cr_pixel_matches;

/* No boxes yet, with room for `most`. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_pixel_matches_begin(cr_pixel_matches *matches, size_t most) CREMA_MUST_USE;
/* Adds a box, for which there must be room. */
void cr_pixel_matches_add(cr_pixel_matches *matches, const cr_pixel_box *box);
/* With all boxes added. */
void cr_pixel_matches_find(cr_pixel_matches *matches, const cr_pixel_truth *truth, size_t truths);
/* Box `i`. */
cr_pixel_box cr_pixel_matches_box(const cr_pixel_matches *matches, size_t i);
void cr_pixel_matches_free(cr_pixel_matches *matches);

/* Appends the objects of such a bottom. Errors: CREMA_E_SHAPE, CREMA_E_RANGE for numbers that are
 * no box. */
crema_status cr_read_pixel_truth(const cr_layer *layer, const crema_blob *blob,
                                 cr_buffer *out) CREMA_MUST_USE;

#endif
