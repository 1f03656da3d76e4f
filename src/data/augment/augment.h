/* Augmentation of the SSD and NVIDIA dialects: what transform_param asks for between decoding and
 * cropping.
 *
 * In this order, each if its field is given: distort_param (colours), expand_param (a larger
 * canvas), img_rand_resize_lower/_upper (shorter side to a random length), resize_param,
 * noise_param. The formulae are those of the OpenCV functions that Caffe-SSD calls, on 8-bit values
 * in the order blue, green, red. Random numbers come from a counter-based generator: they depend on
 * the key, the sample's index and the stage, never on what was augmented before.
 *
 * resize_param is applied with probability `prob`. noise_param is applied always, as Caffe-SSD
 * does, unless its `prob` is given. */
#ifndef CR_DATA_AUGMENT_H
#define CR_DATA_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "data/augment/transformer.h"
#include "data/image/image.h"
#include "proto/proto.h"

typedef struct cr_augment cr_augment;

/* Reads and checks the fields. *out is NULL when `param` is NULL or asks for nothing; every
 * function here takes NULL as "change nothing". `param` is copied. Free with cr_augment_destroy.
 * Errors: CREMA_E_ARGUMENT and CREMA_E_RANGE (values that make no sense), CREMA_E_UNSUPPORTED
 * (noise_param convert_to_lab, resize_param height_scale and width_scale, rand_resize_ratio_*,
 * *_stretch_*, random_aspect_ratio_param, flow, pad, expand_param together with mean_file); all
 * name the field. */
crema_status cr_augment_create(const Caffe__TransformationParameter *param,
                               cr_augment **out) CREMA_MUST_USE;
/* Accepts NULL. */
void cr_augment_destroy(cr_augment *augment);

/* Height and width that sample `sample` of height x width pixels will have. Errors: as for the
 * image itself. */
crema_status cr_augment_extent(const cr_augment *augment, uint64_t key, uint64_t sample,
                               const int in[2], int out[2]) CREMA_MUST_USE;

/* Augments the image in place; any number of threads may call it at once.
 * Errors: CREMA_E_SHAPE (hue, saturation or HSV of an image without three channels, a number of
 * values that does not fit the channels), CREMA_E_RANGE (too large), CREMA_E_NO_MEMORY. The image
 * stays valid, with undefined content. */
crema_status cr_augment_image(const cr_augment *augment, uint64_t key, uint64_t sample,
                              cr_image *inout) CREMA_MUST_USE;

/* The two halves of cr_augment_image: colours and canvas; then sizes and noise. When there are
 * boxes, patches are sampled between them. `expanded`, where not NULL, gets the canvas in
 * coordinates of the old image (0, 0, 1, 1 when nothing was expanded): xmin, ymin, xmax, ymax. */
crema_status cr_augment_canvas(const cr_augment *augment, uint64_t key, uint64_t sample,
                               cr_image *inout, float expanded[4]) CREMA_MUST_USE;
crema_status cr_augment_finish(const cr_augment *augment, uint64_t key, uint64_t sample,
                               cr_image *inout) CREMA_MUST_USE;

/* Whether cr_augment_finish, given in[0] x in[1] pixels, applies resize_param to sample `sample`,
 * and the extents (height, width) that the image has by then: boxes have to follow. */
bool cr_augment_resizes(const cr_augment *augment, uint64_t key, uint64_t sample, const int in[2],
                        int before[2]);

/* Scales `in` to height x width into `out`, another image. LINEAR is cr_image_resize. AREA averages
 * what a pixel covers when both sides shrink, and else is linear between pixels that start at
 * integer positions; CUBIC (a = -0.75, 4 x 4 pixels) and LANCZOS4 (8 x 8) average nothing when
 * shrinking. Weights are floats. Errors: as cr_image_resize. */
crema_status cr_image_resize_with(const cr_image *in, int height, int width,
                                  Caffe__ResizeParameter__InterpMode mode,
                                  cr_image *out) CREMA_MUST_USE;

/* The weights of four neighbours for a place that is `x` behind the second one (Keys, "Cubic
 * convolution interpolation", 1981, with a = -0.75). */
void cr_cubic_weights(float x, float w[4]);

/* cr_augment_image for pixels in any layout. `store` holds the result, and *pixels points into it
 * afterwards; it may be the image that *pixels points into already. Does nothing when `augment`
 * is NULL. Errors: also CREMA_E_TYPE (pixels that are not bytes). */
crema_status cr_augment_pixels(const cr_augment *augment, uint64_t key, uint64_t sample,
                               cr_pixels *pixels, cr_image *store) CREMA_MUST_USE;

#endif
