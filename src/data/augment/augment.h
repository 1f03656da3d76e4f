/* Augmentation of the SSD and NVIDIA dialects: the part of transform_param between decoding and
 * cropping.
 *
 * In this order, each if its field is given: distort_param (colours), expand_param (a larger
 * canvas), img_rand_resize_lower/_upper (shorter side to a random length), resize_param,
 * noise_param. The formulae are OpenCV's, as Caffe-SSD calls it, on 8-bit values in the order blue,
 * green, red. Random numbers depend only on the key, the sample's index and the stage.
 *
 * resize_param is applied with probability `prob`; noise_param always, as in Caffe-SSD, unless its
 * `prob` is given. */
#ifndef CR_DATA_AUGMENT_H
#define CR_DATA_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "data/augment/transformer.h"
#include "data/image/image.h"
#include "proto/proto.h"

typedef struct cr_augment cr_augment;

/* Checks and copies the fields. *out is NULL if `param` is NULL or requires no augmentation; every
 * function here takes NULL as "no change". Free with cr_augment_destroy. Errors, with the field:
 * CREMA_E_ARGUMENT, CREMA_E_RANGE, CREMA_E_UNSUPPORTED (noise_param convert_to_lab, resize_param
 * height_scale and width_scale, rand_resize_ratio_*, *_stretch_*, random_aspect_ratio_param, flow,
 * pad, expand_param with mean_file). */
crema_status cr_augment_create(const Caffe__TransformationParameter *param,
                               cr_augment **out) CREMA_MUST_USE;
/* Accepts NULL. */
void cr_augment_destroy(cr_augment *augment);

/* Height and width of sample `sample` after augmentation. Errors: as cr_augment_image. */
crema_status cr_augment_extent(const cr_augment *augment, uint64_t key, uint64_t sample,
                               const int in[2], int out[2]) CREMA_MUST_USE;

/* Augments the image in place; any number of threads may call it at once.
 * Errors: CREMA_E_SHAPE (hue, saturation or HSV of an image without three channels, a number of
 * values that does not fit the channels), CREMA_E_RANGE (too large), CREMA_E_NO_MEMORY. The image
 * stays valid, with undefined content. */
crema_status cr_augment_image(const cr_augment *augment, uint64_t key, uint64_t sample,
                              cr_image *inout) CREMA_MUST_USE;

/* The two parts of cr_augment_image: colours and canvas; sizes and noise. With boxes, patches are
 * sampled between them. `expanded` (may be NULL): xmin, ymin, xmax, ymax of the canvas in
 * coordinates of the old image (0, 0, 1, 1: not expanded). */
crema_status cr_augment_canvas(const cr_augment *augment, uint64_t key, uint64_t sample,
                               cr_image *inout, float expanded[4]) CREMA_MUST_USE;
crema_status cr_augment_finish(const cr_augment *augment, uint64_t key, uint64_t sample,
                               cr_image *inout) CREMA_MUST_USE;

/* Whether cr_augment_finish applies resize_param to sample `sample` of in[0] x in[1] pixels, and
 * the extents (height, width) of the image at that point, for boxes. */
bool cr_augment_resizes(const cr_augment *augment, uint64_t key, uint64_t sample, const int in[2],
                        int before[2]);

/* Scales `in` to height x width into `out`, another image. LINEAR is cr_image_resize. AREA averages
 * the covered pixels if both sides shrink, and else is linear between pixels that start at integer
 * positions; CUBIC (a = -0.75, 4 x 4 pixels) and LANCZOS4 (8 x 8) do not average. Weights are
 * floats. Errors: as cr_image_resize. */
crema_status cr_image_resize_with(const cr_image *in, int height, int width,
                                  Caffe__ResizeParameter__InterpMode mode,
                                  cr_image *out) CREMA_MUST_USE;

/* Scales both sides by `factor`, CUBIC as above, into `out`, another image. Extents are rounded, but
 * pixels are `factor` apart, as in OpenCV's resize with factors instead of a size. Errors: as
 * cr_image_resize. */
crema_status cr_image_scale_cubic(const cr_image *in, double factor, cr_image *out) CREMA_MUST_USE;

/* The weights of four neighbours for a position `x` after the second (Keys, "Cubic convolution
 * interpolation", 1981, with a = -0.75). */
void cr_cubic_weights(float x, float w[4]);

/* cr_augment_image for pixels in any layout. The result is in `store`, to which *pixels then
 * points; it may already point there. Errors: also CREMA_E_TYPE (pixels that are not bytes). */
crema_status cr_augment_pixels(const cr_augment *augment, uint64_t key, uint64_t sample,
                               cr_pixels *pixels, cr_image *store) CREMA_MUST_USE;

#endif
