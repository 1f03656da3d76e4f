/* Boxes of objects: patches sampled around them (batch_sampler), and where boxes go when the image
 * is expanded, cropped, resized or mirrored. For the layer AnnotatedData.
 *
 * Coordinates are fractions of the image's sides, 0 at the left and the top, 1 at the right and
 * the bottom. */
#ifndef CR_DATA_AUGMENT_BOX_H
#define CR_DATA_AUGMENT_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/image/image.h"
#include "proto/proto.h"

typedef struct cr_box {
  float xmin, ymin, xmax, ymax;
} cr_box;

/* ---- measures ------------------------------------------------------------ */

/* Area; 0 when a side is negative. */
float cr_box_size(cr_box box);
/* Area common to both over the area of either (Jaccard); 0 when they do not meet. */
float cr_box_overlap(cr_box a, cr_box b);
/* The share of `a` that `b` covers. */
float cr_box_coverage(cr_box a, cr_box b);
/* The part within 0..1. */
cr_box cr_box_clip(cr_box box);

/* ---- patches ------------------------------------------------------------- */

/* Refuses scales and aspect ratios that make no sense, and more than 1,000,000 trials. Errors:
 * CREMA_E_ARGUMENT, CREMA_E_RANGE. */
crema_status cr_batch_sampler_check(const Caffe__BatchSampler *sampler) CREMA_MUST_USE;

/* Draws one patch for a sample: each of the `count` samplers tries up to max_trials patches and
 * keeps those for which one of the `boxes` objects meets all constraints, until it has max_sample
 * of them; one of all that were kept is chosen, all equally likely. Returns false, with *out the
 * whole image, when none was kept. The choice depends on key and sample alone. With width w and
 * height h of the patch: w h = scale^2, w / h = aspect ratio, clipped to what fits into the
 * image. */
bool cr_sample_patch(const Caffe__BatchSampler *const *sampler, size_t count, const cr_box *box,
                     size_t boxes, uint64_t key, uint64_t sample, cr_box *out);

/* Cuts the patch out of the image, in place; its corners are rounded down to whole pixels, one at
 * least. */
void cr_image_crop(cr_image *image, cr_box patch);

/* ---- where boxes go ------------------------------------------------------ */

/* *box in coordinates of `window` (a patch, a crop, an expanded canvas), clipped to it. Returns
 * false when nothing of the box is left. */
bool cr_box_project(cr_box window, cr_box *box);

/* Whether a box counts in a crop: by its centre, or by the share of it that the crop covers.
 * `constraint` may be NULL: every box counts. */
bool cr_box_emits(const Caffe__EmitConstraint *constraint, cr_box window, cr_box box);

/* After resize_param, from an image of height x width pixels; `resize` may be NULL. */
cr_box cr_box_resize(const Caffe__ResizeParameter *resize, int height, int width, cr_box box);

/* Left and right exchanged. */
cr_box cr_box_mirror(cr_box box);

#endif
