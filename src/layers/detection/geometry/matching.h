/* Which prior box learns which object, and which boxes without an object count (Liu et al., "SSD",
 * 2016). */
#ifndef CR_LAYERS_DETECTION_MATCHING_H
#define CR_LAYERS_DETECTION_MATCHING_H

#include "layers/common/layer_host.h"
#include "layers/detection/geometry/boxes.h"

/* Instead of the index of an object. CR_CLOSE: unmatched, but overlaps an object by neg_overlap or
 * more, so that it is no example of the background. */
enum { CR_UNMATCHED = -1, CR_LEFT_OUT = -2, CR_CLOSE = -3 };

/* What one image's boxes are matched with. */
typedef struct cr_matching {
  const Caffe__MultiBoxLossParameter *param;
  int64_t priors;
  const float *prior;     /* the blob */
  cr_box_columns columns; /* the same boxes, by cr_matching_columns */
  const cr_truth *truth;  /* the image's objects, `truths` of them */
  size_t truths;
} cr_matching;

/* Sets `columns` from `prior`, in `memory`, which stays the caller's. */
crema_status cr_matching_columns(cr_matching *of, cr_buffer *memory) CREMA_MUST_USE;

/* Scratchpads of one thread. Zero-initialise. */
typedef struct cr_matcher {
  cr_buffer decoded; /* columns: the boxes that the net predicts */
  cr_buffer pair; /* float: overlaps of objects and boxes; of each box the best, and its object */
  cr_buffer object;
  cr_buffer key;       /* uint32_t of each prior: its loss, as a number that sorts like it */
  cr_buffer candidate; /* cr_ranked */
  cr_buffer box, kept; /* cr_box of each prior, and columns of those that overlap no better one */
} cr_matcher;

void cr_matcher_free(cr_matcher *matcher);

/* Makes room for images with up to this number of objects. */
crema_status cr_matcher_reserve(cr_matcher *matcher, int64_t priors, size_t truths) CREMA_MUST_USE;

/* Matches the priors with the objects of class `label`, or with -1 all objects. With `loc`
 * (locations of `loc_classes` classes for each prior), matches the boxes that the net predicts for
 * class `loc_class` instead. Writes to match[priors] the index of an object, CR_UNMATCHED, CR_CLOSE
 * or CR_LEFT_OUT. */
crema_status cr_match(cr_matcher *matcher, const cr_matching *of, const float *loc,
                      int64_t loc_classes, int64_t loc_class, int64_t label,
                      int32_t *match) CREMA_MUST_USE;

/* Chooses by loss[priors] as mining_type says: negative[priors] becomes 1 for boxes that count
 * without an object; matches that do not count are undone. `loc`: of the image. */
crema_status cr_mine(cr_matcher *matcher, const cr_matching *of, const float *loc,
                     const float *loss, int32_t *match, int32_t *negative) CREMA_MUST_USE;

#endif
