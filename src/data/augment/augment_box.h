/* Boxes of objects: patches around them (batch_sampler), and their coordinates after expanding,
 * cropping, resizing or mirroring the image. For the layer AnnotatedData.
 *
 * Coordinates are fractions of the image's sides, 0 at the left and the top. */
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

/* Measures: */

/* The area; 0 if a side is negative. */
float cr_box_size(cr_box box);
/* Intersection over union (Jaccard). */
float cr_box_overlap(cr_box a, cr_box b);
/* The share of `a` that `b` covers. */
float cr_box_coverage(cr_box a, cr_box b);
/* The part within 0..1. */
cr_box cr_box_clip(cr_box box);

/* Patches: */

/* Rejects senseless scales and aspect ratios, and more than 1,000,000 trials. Errors:
 * CREMA_E_ARGUMENT, CREMA_E_RANGE. */
crema_status cr_batch_sampler_check(const Caffe__BatchSampler *sampler) CREMA_MUST_USE;

/* Draws a patch for a sample. Each of the `count` samplers tries up to max_trials patches and keeps
 * up to max_sample for which one of the `boxes` objects meets all constraints. One of all kept
 * patches is chosen uniformly. Returns false, with *out the whole image, if none is kept. The
 * choice depends only on key and sample. A patch of width w and height h has w h = scale^2, w / h =
 * aspect ratio, clipped to the image. */
bool cr_sample_patch(const Caffe__BatchSampler *const *sampler, size_t count, const cr_box *box,
                     size_t boxes, uint64_t key, uint64_t sample, cr_box *out);

/* Crops the image to the patch, in place; corners are rounded down to whole pixels, at least one.
 */
void cr_image_crop(cr_image *image, cr_box patch);

/* The positions of boxes after a transformation: */

/* Converts *box to coordinates of `window` (a patch, a crop, an expanded canvas) and clips it.
 * False if the box is outside. */
bool cr_box_project(cr_box window, cr_box *box);

/* Whether a box counts in a crop: by its centre, or by its covered share. `constraint` NULL: every
 * box counts. */
bool cr_box_emits(const Caffe__EmitConstraint *constraint, cr_box window, cr_box box);

/* After resize_param, from an image of height x width pixels; `resize` may be NULL. */
cr_box cr_box_resize(const Caffe__ResizeParameter *resize, int height, int width, cr_box box);

/* Left and right exchanged. */
cr_box cr_box_mirror(cr_box box);

#endif
